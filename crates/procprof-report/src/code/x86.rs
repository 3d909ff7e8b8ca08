//! x86 as text.

use std::collections::BTreeMap;

use iced_x86::{
    Decoder, DecoderOptions, Formatter, FormatterOptions, GasFormatter, Instruction as Decoded, IntelFormatter, MemorySizeOptions, OpKind,
};
use procprof_profile::SymbolAddr;

use super::{Instruction, Syntax, target};

/// Where operands begin.
const OPERANDS_AT: u32 = 7;

pub(super) fn disassemble(bits: u32, start: u64, bytes: &[u8], syntax: Syntax, targets: &BTreeMap<u64, String>) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(bits, bytes, start, DecoderOptions::NONE);
    let mut formatter = formatter(syntax);
    let mut instructions = Vec::new();
    while decoder.can_decode() {
        let decoded = decoder.decode();
        instructions.push(Instruction {
            address: SymbolAddr(decoded.ip()),
            size: decoded.len(),
            text: text(&decoded, formatter.as_mut(), targets),
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

fn text(decoded: &Decoded, formatter: &mut dyn Formatter, targets: &BTreeMap<u64, String>) -> String {
    if decoded.is_invalid() {
        return "(bad)".to_owned();
    }
    let mut text = String::new();
    if is_near_branch(decoded) {
        formatter.format_mnemonic(decoded, &mut text);
        let width = OPERANDS_AT as usize - 1;
        return format!("{text:<width$} {}", target(decoded.near_branch_target(), targets));
    }
    formatter.format(decoded, &mut text);
    if decoded.is_ip_rel_memory_operand() {
        text.push_str("        # ");
        text.push_str(&target(decoded.ip_rel_memory_address(), targets));
    }
    text
}

fn is_near_branch(decoded: &Decoded) -> bool {
    decoded.op_count() == 1 && matches!(decoded.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64)
}
