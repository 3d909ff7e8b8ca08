//! The unwind information of Go's code, in the form of `.eh_frame`, by Go's own table of functions, which stripped
//! files have, too. Its frames also tell where the caller's frame pointer is saved, which Go's `.debug_frame` does not.
//!
//! A few functions of the runtime change the stack, such as `runtime.systemstack`. From 1.21 on, these keep the frame
//! pointer of the stack that they leave, and their frames are told by it. Those without a frame of their own have no
//! caller behind the change. Source: `runtime/asm_amd64.s`, `cmd/internal/obj/x86/obj6.go` of Go.

use std::ops::Range;

use procprof_symbolize::{GoFunction, GoTable};

/// The function by which a signal handler returns.
const SIGNAL_RETURN: &str = "runtime.sigreturn__sigaction";
/// The frame of a signal handler: the first function to Go, but the kernel's frame is behind it.
const SIGNAL_HANDLER: &str = "runtime.sigtramp";
/// It changes the stack, but has the same frame on both.
const CALLBACK: &str = "runtime.cgocallback";
/// It calls what grows the stack of its caller, on another one.
const STACK_GROWTH: &str = "runtime.morestack";

const PUSH_FP: u8 = 0x55;
/// `mov rbp, rsp`.
const SET_FP: [u8; 3] = [0x48, 0x89, 0xe5];
/// `mov [rsp+disp], rbp`, `lea rbp, [rsp+disp]`; the displacement has one byte, or four if the third byte is more by
/// 0x40.
const SAVE_FP: [u8; 4] = [0x48, 0x89, 0x6c, 0x24];
const LOAD_FP: [u8; 4] = [0x48, 0x8d, 0x6c, 0x24];

/// To it C's calls of Go return, behind its beginning, where no call is.
const CALLED_BACK: &str = "runtime.systemstack_switch";
/// It leaves the goroutine, which may go on in another thread.
const PARKING: &str = "runtime.mcall";

/// What a function of Go does with the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StackRole {
    /// The first of a stack.
    Top,
    /// Its caller may be on another stack, at the frame pointer.
    Switch,
    /// The same, but without a caller once it has left its stack, and without a frame pointer.
    Park,
    /// It has left its caller's stack, which is grown.
    Growth,
    /// It stands for the C that has called Go.
    CalledBack,
    /// It has left its caller's stack for good.
    Leaves,
}

/// The code of Go in a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct GoCode {
    /// All of it, by the addresses of the file.
    pub(crate) text: Range<u64>,
    /// Functions that have to do with the change of stacks, by address.
    pub(crate) roles: Vec<(Range<u64>, StackRole)>,
}

impl GoCode {
    pub(super) fn new(table: &GoTable<'_>) -> Self {
        let role = |function: GoFunction<'_>| Some((function.range.clone(), role(&function)?));
        Self { text: table.text(), roles: table.functions().filter_map(role).collect() }
    }
}

fn role(function: &GoFunction<'_>) -> Option<StackRole> {
    match function.name {
        SIGNAL_HANDLER | SIGNAL_RETURN | CALLBACK => None,
        STACK_GROWTH => Some(StackRole::Growth),
        PARKING => Some(StackRole::Park),
        CALLED_BACK => Some(StackRole::CalledBack),
        _ if function.is_top => Some(StackRole::Top),
        _ if function.writes_stack_pointer && has_frame(function) => Some(StackRole::Switch),
        _ if function.writes_stack_pointer => Some(StackRole::Leaves),
        _ => None,
    }
}

fn has_frame(function: &GoFunction<'_>) -> bool {
    function.frame_sizes.iter().any(|(_, size)| *size >= 8)
}

/// Reads the code of a function: its beginning, or as a whole.
type ReadCode<'r> = dyn FnMut(&Range<u64>, bool) -> Option<Vec<u8>> + 'r;

/// The entries of all functions, whose code is read by `code`; `None` if they have more than `bytes_max` bytes.
pub(super) fn as_eh_frame(table: &GoTable<'_>, bytes_max: usize, code: &mut ReadCode<'_>) -> Option<Vec<u8>> {
    let mut entries = Entries::new();
    for function in table.functions() {
        if function.name == SIGNAL_RETURN {
            // It is returned to, so that its frame is looked up by the byte before it.
            entries.signal(function.range.start.saturating_sub(1)..function.range.end);
        } else {
            let code = code(&function.range, role(&function).is_some()).unwrap_or_default();
            entries.function(&function.range, &rows(&function, &code));
        }
        if entries.bytes.len() > bytes_max {
            return None;
        }
    }
    Some(entries.bytes)
}

/// Where the caller's frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// So many bytes above the stack pointer lies the return address; the frame pointer is the caller's, or saved next
    /// to it.
    Size { size: u32, is_fp_saved: bool },
    /// At the frame pointer.
    FramePointer,
    /// Nowhere.
    None,
}

/// The rules of a function, each from an offset on.
fn rows(function: &GoFunction<'_>, code: &[u8]) -> Vec<(u64, Rule)> {
    let role = role(function);
    if role == Some(StackRole::Top) {
        return vec![(0, Rule::None)];
    }
    let saved = saved_fp(function, code);
    let mut rows = Vec::with_capacity(function.frame_sizes.len() + 2);
    let mut from = function.range.start;
    for (end, size) in &function.frame_sizes {
        let (size, until) = (*size, *end - function.range.start);
        let mut row = |offset: u64, rule| {
            if offset < until && rows.last().is_none_or(|(_, last)| *last != rule) {
                rows.push((offset, rule));
            }
        };
        let from_offset = from - function.range.start;
        let size_rule = |is_fp_saved| Rule::Size { size, is_fp_saved };
        match saved {
            Some(Saved { from, set_from }) if size >= 8 => {
                row(from_offset, size_rule(from_offset >= from));
                row(from_offset.max(from), size_rule(true));
                if matches!(role, Some(StackRole::Switch | StackRole::Park)) {
                    row(from_offset.max(set_from), Rule::FramePointer);
                }
            }
            _ => row(from_offset, size_rule(false)),
        }
        from = *end;
    }
    let is_found_by_fp = saved.is_some() && matches!(role, Some(StackRole::Switch | StackRole::Park));
    if role.is_some()
        && !is_found_by_fp
        && let Some(offset) = change_of_stack(code)
    {
        rows.retain(|(start, _)| *start < offset);
        rows.push((offset, Rule::None));
    }
    rows
}

/// Offsets in a function's code from which on the caller's frame pointer is saved below the return address, and from
/// which on the frame pointer points there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Saved {
    from: u64,
    set_from: u64,
}

/// Finds where a function saves the frame pointer, by the instructions where its frame begins.
fn saved_fp(function: &GoFunction<'_>, code: &[u8]) -> Option<Saved> {
    let [before, framed] = function.frame_sizes.get(..2)? else { return None };
    let from = before.0 - function.range.start;
    let (push, rest) = code.split_at_checked(usize::try_from(from).ok()?)?;
    if (before.1, framed.1) == (0, 8) && push.last() == Some(&PUSH_FP) {
        let set = if rest.starts_with(&SET_FP) { SET_FP.len() as u64 } else { 0 };
        return Some(Saved { from, set_from: from + set });
    }
    let (saved, save) = displaced(rest, SAVE_FP)?;
    let after = rest.get(save..)?;
    let set = displaced(after, LOAD_FP).filter(|(place, _)| *place == saved).map_or(0, |(_, length)| length);
    (before.1 == 0 && saved.checked_add(8) == Some(framed.1))
        .then_some(Saved { from: from + save as u64, set_from: from + (save + set) as u64 })
}

/// The displacement of an instruction that begins so, and the instruction's length.
fn displaced(code: &[u8], instruction: [u8; 4]) -> Option<(u32, usize)> {
    let [a, b, form, c] = instruction;
    if let Some(rest) = code.strip_prefix(&instruction) {
        return Some((u32::from(*rest.first()?), 5));
    }
    let rest = code.strip_prefix(&[a, b, form + 0x40, c])?;
    rest.first_chunk().map(|bytes| (u32::from_le_bytes(*bytes), 8))
}

/// The offset behind the first instruction that loads the stack pointer from memory: `mov rsp, [register]` or
/// `[register+disp8]`.
fn change_of_stack(code: &[u8]) -> Option<u64> {
    code.windows(3).enumerate().find_map(|(offset, bytes)| {
        let [0x48 | 0x49, 0x8b, form] = bytes else { return None };
        let displacement = match (form & 0xf8, form & 7) {
            (_, 4) | (0x20, 5) => return None,
            (0x20, _) => 0,
            (0x60, _) => 1,
            _ => return None,
        };
        Some(offset as u64 + 3 + displacement)
    })
}

/// `.eh_frame` as it is written.
struct Entries {
    bytes: Vec<u8>,
    signal_cie: usize,
}

/// Version 1, no augmentation, offsets in bytes and in words below, return address in column 16; the CFA is 8 bytes
/// above the stack pointer, the return address below it.
const CIE: [u8; 12] = [1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0];
/// The same with augmentation `zS`: all registers are in the kernel's frame of a signal.
const SIGNAL_CIE: [u8; 28] = [
    1, b'z', b'S', 0, 1, 0x78, 16, 0, // no augmentation data
    0x0f, 4, 0x77, 0xa0, 1, 0x06, // the CFA is the stack pointer there
    0x10, 6, 3, 0x77, 0xf8, 0, // the frame pointer
    0x10, 16, 3, 0x77, 0xa8, 1, // the program counter
    0, 0,
];

impl Entries {
    fn new() -> Self {
        let mut entries = Self { bytes: Vec::new(), signal_cie: 0 };
        entries.entry(0, &CIE);
        entries.signal_cie = entries.bytes.len();
        entries.entry(0, &SIGNAL_CIE);
        entries
    }

    fn entry(&mut self, id: u32, body: &[u8]) {
        self.bytes.extend((4 + body.len() as u32).to_le_bytes());
        self.bytes.extend(id.to_le_bytes());
        self.bytes.extend(body);
    }

    fn addressed(&mut self, cie: usize, range: &Range<u64>, rest: &[u8]) {
        let id = (self.bytes.len() + 4 - cie) as u32;
        let addresses = [range.start.to_le_bytes(), (range.end - range.start).to_le_bytes()].concat();
        self.entry(id, &[&addresses, rest].concat());
    }

    fn signal(&mut self, range: Range<u64>) {
        self.addressed(self.signal_cie, &range, &[0]);
    }

    fn function(&mut self, range: &Range<u64>, rows: &[(u64, Rule)]) {
        let mut instructions = Vec::new();
        let mut at = 0;
        let mut last = Rule::Size { size: 0, is_fp_saved: false };
        for (offset, rule) in rows {
            if *offset > at {
                instructions.push(0x04);
                instructions.extend(((*offset - at) as u32).to_le_bytes());
                at = *offset;
            }
            if *rule != last {
                define(*rule, &mut instructions);
            }
            last = *rule;
        }
        self.addressed(0, range, &instructions);
    }
}

/// Adds the instructions that set a rule, whatever was before.
fn define(rule: Rule, instructions: &mut Vec<u8>) {
    const SAVED_FP: [u8; 2] = [0x86, 2];
    const SAME_FP: [u8; 2] = [0x08, 6];
    match rule {
        Rule::Size { size, is_fp_saved } => {
            instructions.extend([0x0c, 7]);
            unsigned(u64::from(size) + 8, instructions);
            instructions.extend(if is_fp_saved { SAVED_FP } else { SAME_FP });
        }
        Rule::FramePointer => {
            instructions.extend([0x0c, 6, 16]);
            instructions.extend(SAVED_FP);
        }
        Rule::None => instructions.extend([0x07, 16]),
    }
}

fn unsigned(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[cfg(test)]
mod tests;
