//! x86 as text, in the format of GNU's objdump.
//!
//! The decoder's own formatter writes what GNU's assembler reads; where objdump differs, [`as_objdump`] follows it.

use std::collections::BTreeMap;

use iced_x86::{
    Decoder, DecoderOptions, Formatter, FormatterOptions, GasFormatter, Instruction as Decoded, IntelFormatter,
    MemorySizeOptions, Mnemonic, OpKind,
};
use procprof_profile::SymbolAddr;

use super::{Instruction, Syntax, target};

/// The column of operands.
const OPERANDS_AT: u32 = 7;

pub(super) fn disassemble(
    bits: u32,
    start: u64,
    bytes: &[u8],
    syntax: Syntax,
    targets: &BTreeMap<u64, String>,
) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(bits, bytes, start, DecoderOptions::NONE);
    let mut formatter = formatter(syntax);
    let mut instructions = Vec::new();
    while decoder.can_decode() {
        let decoded = decoder.decode();
        instructions.push(Instruction {
            address: SymbolAddr(decoded.ip()),
            size: decoded.len(),
            text: text(&decoded, bytes_of(bytes, start, &decoded), (formatter.as_mut(), syntax), targets),
        });
    }
    instructions
}

fn formatter(syntax: Syntax) -> Box<dyn Formatter> {
    let mut formatter: Box<dyn Formatter> = match syntax {
        Syntax::Att => Box::new(GasFormatter::new()),
        Syntax::Intel => Box::new(IntelFormatter::new()),
    };
    let options = formatter.options_mut();
    set_numbers(options);
    options.set_first_operand_char_index(OPERANDS_AT);
    options.set_space_after_operand_separator(false);
    options.set_rip_relative_addresses(true);
    options.set_show_branch_size(false);
    options.set_show_useless_prefixes(true);
    options.set_always_show_scale(true);
    options.set_show_zero_displacements(true);
    options.set_signed_immediate_operands(false);
    if syntax == Syntax::Intel {
        options.set_memory_size_options(MemorySizeOptions::Always);
        options.set_uppercase_keywords(true);
    }
    formatter
}

fn set_numbers(options: &mut FormatterOptions) {
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_add_leading_zero_to_hex_numbers(false);
    options.set_branch_leading_zeros(false);
    options.set_displacement_leading_zeros(false);
}

fn bytes_of<'b>(bytes: &'b [u8], start: u64, decoded: &Decoded) -> &'b [u8] {
    let from = decoded.ip().wrapping_sub(start) as usize;
    bytes.get(from..from + decoded.len()).unwrap_or_default()
}

fn text(
    decoded: &Decoded,
    bytes: &[u8],
    (formatter, syntax): (&mut dyn Formatter, Syntax),
    targets: &BTreeMap<u64, String>,
) -> String {
    if decoded.is_invalid() {
        return "(bad)".to_owned();
    }
    let mut text = String::new();
    if is_near_branch(decoded) {
        formatter.format_mnemonic(decoded, &mut text);
        let text = without_size(text.trim_end());
        let width = OPERANDS_AT as usize - 1;
        return format!("{text:<width$} {}", target(decoded.near_branch_target(), targets));
    }
    formatter.format(decoded, &mut text);
    if syntax == Syntax::Att {
        text = as_objdump(&text, decoded, bytes);
    }
    if decoded.is_ip_rel_memory_operand() {
        text.push_str("        # ");
        text.push_str(&target(decoded.ip_rel_memory_address(), targets));
    }
    text
}

fn is_near_branch(decoded: &Decoded) -> bool {
    decoded.op_count() == 1
        && matches!(decoded.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64)
}

/// The text, changed where objdump differs from the assembler's syntax.
fn as_objdump(text: &str, decoded: &Decoded, bytes: &[u8]) -> String {
    let text = text.replace(",)", ")");
    let (mut prefixes, rest) = split_prefixes(&text);
    let (mnemonic, operands) =
        rest.split_once(' ').map_or((rest, ""), |(mnemonic, operands)| (mnemonic, operands.trim_start()));
    let mut operands = operands.to_owned();
    if is_shift_by_one(decoded, bytes) {
        operands = operands.strip_prefix("$0x1,").map_or(operands.clone(), str::to_owned);
    }
    for kind in decoded.op_kinds() {
        operands = match kind {
            OpKind::MemoryESRDI => operands.replace("(%rdi)", "%es:(%rdi)"),
            OpKind::MemorySegRSI => operands.replace("(%rsi)", "%ds:(%rsi)"),
            _ => operands,
        };
    }
    if operands.is_empty() {
        operands = implied_operands(decoded.mnemonic()).to_owned();
    }
    if decoded.mnemonic() == Mnemonic::Imul && decoded.op_count() == 3 && operands.matches(',').count() == 1 {
        let result = operands.rsplit(',').next().unwrap_or_default().to_owned();
        operands = format!("{operands},{result}");
    }
    let unused = unused_prefixes(decoded, bytes);
    if unused.contains("cs ") {
        operands = operands.replace("%cs:", "");
    }
    prefixes.push_str(&unused);
    let head = format!("{prefixes}{}", without_size(mnemonic));
    let width = OPERANDS_AT as usize - 1;
    if operands.is_empty() { head } else { format!("{head:<width$} {operands}") }
}

/// The prefixes that are words of their own, and the rest.
fn split_prefixes(text: &str) -> (String, &str) {
    let (mut prefixes, mut rest) = (String::new(), text);
    while let Some((word, behind)) = rest.split_once(' ') {
        if !matches!(
            word,
            "lock"
                | "rep"
                | "repe"
                | "repne"
                | "repz"
                | "repnz"
                | "bnd"
                | "notrack"
                | "xacquire"
                | "xrelease"
                | "data16"
        ) {
            break;
        }
        let word = match word {
            "repe" => "repz",
            "repne" => "repnz",
            word => word,
        };
        prefixes.push_str(word);
        prefixes.push(' ');
        rest = behind.trim_start();
    }
    (prefixes, rest)
}

/// Operands that may be omitted in assembler syntax.
fn implied_operands(mnemonic: Mnemonic) -> &'static str {
    match mnemonic {
        Mnemonic::Fxch => "%st(1)",
        Mnemonic::Faddp | Mnemonic::Fmulp | Mnemonic::Fsubp | Mnemonic::Fsubrp | Mnemonic::Fdivp | Mnemonic::Fdivrp => {
            "%st,%st(1)"
        }
        _ => "",
    }
}

/// Branches and the stack's instructions have no size but one in 64 bits.
fn without_size(mnemonic: &str) -> &str {
    match mnemonic {
        "callq" | "jmpq" | "pushq" | "popq" | "retq" | "leaveq" | "pushfq" | "popfq" | "calll" | "jmpl" | "retl"
        | "leavel" => &mnemonic[..mnemonic.len() - 1],
        _ => mnemonic,
    }
}

/// Whether the 1 is part of the opcode and no operand of its own.
fn is_shift_by_one(decoded: &Decoded, bytes: &[u8]) -> bool {
    let has_opcode = bytes.iter().any(|byte| matches!(byte, 0xd0 | 0xd1));
    has_opcode
        && matches!(decoded.mnemonic(), Mnemonic::Shl | Mnemonic::Shr | Mnemonic::Sar | Mnemonic::Rol | Mnemonic::Ror)
        && decoded.op_count() == 2
        && decoded.op1_kind() == OpKind::Immediate8
        && !bytes.ends_with(&[1])
}

/// Prefixes in front of an instruction that does nothing: all operand sizes but one, and the segment.
fn unused_prefixes(decoded: &Decoded, bytes: &[u8]) -> String {
    if decoded.mnemonic() != Mnemonic::Nop {
        return String::new();
    }
    let prefixes = bytes.iter().take_while(|byte| matches!(byte, 0x66 | 0x2e));
    let sizes = prefixes.clone().filter(|byte| **byte == 0x66).count();
    let segment = if prefixes.clone().any(|byte| *byte == 0x2e) { "cs " } else { "" };
    format!("{}{segment}", "data16 ".repeat(sizes.saturating_sub(1)))
}
