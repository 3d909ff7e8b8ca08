//! AArch64 as text.

use std::collections::BTreeMap;

use procprof_profile::SymbolAddr;
use yaxpeax_arch::{Arch, Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{ARMv8, Instruction as Decoded, Operand};

use super::{Instruction, target};

/// Bytes of every instruction.
const SIZE: usize = 4;

pub(super) fn disassemble(start: u64, bytes: &[u8], targets: &BTreeMap<u64, String>) -> Vec<Instruction> {
    let decoder = <ARMv8 as Arch>::Decoder::default();
    let words = bytes.chunks_exact(SIZE).enumerate();
    let instruction = |(index, word): (usize, &[u8])| {
        let address = start.wrapping_add((index * SIZE) as u64);
        let decoded = decoder.decode(&mut U8Reader::new(word));
        let text = decoded.map_or_else(|_| bad(word), |decoded| text(&decoded, address, targets));
        Instruction { address: SymbolAddr(address), size: SIZE, text }
    };
    words.map(instruction).collect()
}

/// Bytes that are no known instruction.
fn bad(word: &[u8]) -> String {
    let number = word.iter().rev().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
    format!(".inst\t{number:#010x}")
}

/// The instruction with distances as the addresses they lead to.
fn text(decoded: &Decoded, address: u64, targets: &BTreeMap<u64, String>) -> String {
    let text = decoded.to_string();
    let text = match text.split_once(' ') {
        Some((mnemonic, operands)) => format!("{mnemonic}\t{operands}"),
        None => text,
    };
    let distance = decoded.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(distance) => Some(*distance),
        _ => None,
    });
    let at = text.rfind("$+").or_else(|| text.rfind("$-"));
    // Distances of `adrp` are between pages.
    let from = if text.starts_with("adrp") { address & !0xfff } else { address };
    match (distance, at) {
        (Some(distance), Some(at)) => format!("{}{}", &text[..at], target(from.wrapping_add_signed(distance), targets)),
        _ => text,
    }
}
