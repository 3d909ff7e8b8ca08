//! The function that called the C library's as its last action, by a jump, and so has left no frame.
//!
//! A function whose last call unlocks a mutex jumps there, and the return address left is in its caller. The caller's
//! call instruction names the function that it called: where that is not the hooked one, it is the function that
//! jumped. Calls through a register give no such evidence.

use super::got::Hook;
use crate::modules::Modules;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// Bytes before a return address that are looked at: no call instruction that is decoded is longer.
const CALL_BYTES: usize = 6;

/// Bytes of a linkage stub.
const STUB_BYTES: usize = 16;

/// Return addresses that are remembered.
const MAX_KNOWN: usize = 1 << 14;

/// The targets of calls, by return address.
#[derive(Debug)]
pub(super) struct Tails {
    modules: Modules,
    /// Functions that are called without a jump: the hooks, and the C library's own.
    hooked: Vec<u64>,
    known: HashMap<u64, Option<u64>>,
}

impl Tails {
    pub(super) fn from_hooks(hooks: &[Hook]) -> Self {
        let functions = |hook: &Hook| [hook.function as u64, hook.real.load(Ordering::Relaxed) as u64];
        Self {
            modules: Modules::of_this_process(),
            hooked: hooks.iter().flat_map(functions).collect(),
            known: HashMap::new(),
        }
    }

    /// The beginning of the function that jumped to a hooked one, which will return to that address; `None` where the
    /// caller called it itself, or by an address that is not there any more.
    pub(super) fn jumper(&mut self, return_address: u64) -> Option<u64> {
        if let Some(known) = self.known.get(&return_address) {
            return *known;
        }
        let jumper = self.called(return_address).filter(|function| !self.hooked.contains(function));
        let jumper = jumper.filter(|function| self.modules.find(*function).is_some());
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(return_address, jumper);
        jumper
    }

    /// The function that was called where that address is returned to, by itself or by a linkage stub.
    fn called(&self, return_address: u64) -> Option<u64> {
        self.modules.find(return_address.checked_sub(1)?)?;
        let target =
            match target_of_call(return_address, &read::<CALL_BYTES>(return_address.checked_sub(CALL_BYTES as u64)?)?)?
            {
                Target::Function(function) => function,
                Target::In(word) => return number(word),
            };
        match word_of_stub(target, &read::<STUB_BYTES>(target)?) {
            Some(word) => number(word),
            None => Some(target),
        }
    }
}

/// The target of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Function(u64),
    /// To what the word at that address holds.
    #[cfg_attr(
        target_arch = "aarch64",
        allow(dead_code, reason = "`bl` says where it leads to, and other calls go by a register")
    )]
    In(u64),
}

/// Copies memory of this process, which may not be there.
fn read<const BYTES: usize>(address: u64) -> Option<[u8; BYTES]> {
    let mut bytes = [0_u8; BYTES];
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: BYTES };
    let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: BYTES };
    // SAFETY: writes to `bytes` alone; the kernel checks where it reads.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &here, 1, &there, 1, 0) };
    (copied == BYTES as isize).then_some(bytes)
}

fn number(address: u64) -> Option<u64> {
    read(address).map(u64::from_ne_bytes)
}

/// The target of the call instruction that ends before `end`; `bytes` are those before `end`.
#[cfg(target_arch = "x86_64")]
fn target_of_call(end: u64, bytes: &[u8; CALL_BYTES]) -> Option<Target> {
    let [first, second, _, fourth, fifth, sixth] = *bytes;
    let relative = i32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
    let place = end.wrapping_add_signed(relative.into());
    // `call *%rax`, `call *8(%rax)`: the same bytes may end a call with a known target, and then the target is
    // ambiguous.
    let is_by_register = fifth == 0xff && sixth & 0xf8 == 0xd0 || fourth == 0xff && fifth & 0xf8 == 0x50;
    match (first, second) {
        _ if is_by_register => None,
        (0xff, 0x15) => Some(Target::In(place)),
        (_, 0xe8) => Some(Target::Function(place)),
        _ => None,
    }
}

/// The word through which a linkage stub at `address` jumps: `[endbr64] [bnd] jmp *word(%rip)`.
#[cfg(target_arch = "x86_64")]
fn word_of_stub(address: u64, stub: &[u8; STUB_BYTES]) -> Option<u64> {
    let code = stub.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(stub);
    let code = code.strip_prefix(&[0xf2]).unwrap_or(code);
    let [a, b, c, d, ..] = *code.strip_prefix(&[0xff, 0x25])? else { return None };
    let end = address + (STUB_BYTES - code.len()) as u64 + 6;
    Some(end.wrapping_add_signed(i32::from_le_bytes([a, b, c, d]).into()))
}

/// The target of the call instruction that ends before `end`: `bl`.
#[cfg(target_arch = "aarch64")]
fn target_of_call(end: u64, bytes: &[u8; CALL_BYTES]) -> Option<Target> {
    let instruction = u32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
    let offset = i64::from((instruction << 6) as i32 >> 4);
    (instruction >> 26 == 0b10_0101).then(|| Target::Function((end - 4).wrapping_add_signed(offset)))
}

/// The word through which a linkage stub at `address` jumps: `[bti c] adrp x16, page; ldr x17, [x16, offset]; …`.
#[cfg(target_arch = "aarch64")]
fn word_of_stub(address: u64, stub: &[u8; STUB_BYTES]) -> Option<u64> {
    let word = |index: usize| {
        stub.get(4 * index..4 * index + 4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    let first = usize::from(word(0)? == 0xd503_245f);
    let (adrp, ldr) = (word(first)?, word(first + 1)?);
    if adrp & 0x9f00_001f != 0x9000_0010 || ldr & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let pages = ((adrp >> 5 & 0x7_ffff) << 2 | adrp >> 29 & 3) << 11;
    let page = ((address + 4 * first as u64) & !0xfff).wrapping_add_signed(i64::from(pages as i32 >> 11) << 12);
    Some(page + u64::from(ldr >> 10 & 0xfff) * 8)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn target_of_call(_end: u64, _bytes: &[u8; CALL_BYTES]) -> Option<Target> {
    None
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn word_of_stub(_address: u64, _stub: &[u8; STUB_BYTES]) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn calls_and_stubs_say_where_they_lead_to() {
        let call = |bytes: [u8; CALL_BYTES]| target_of_call(0x1000, &bytes);
        assert_eq!(call([0x90, 0xe8, 0xf0, 0xff, 0xff, 0xff]), Some(Target::Function(0xff0)));
        assert_eq!(call([0xff, 0x15, 0x00, 0x01, 0x00, 0x00]), Some(Target::In(0x1100)));
        assert_eq!(call([0x90, 0xe8, 0x00, 0x00, 0xff, 0xd0]), None, "call *%rax");
        assert_eq!(call([0x90, 0xe8, 0x00, 0xff, 0x50, 0x08]), None, "call *8(%rax)");
        assert_eq!(call([0; CALL_BYTES]), None);
        let stub = |start: &[u8]| {
            let mut bytes = [0; STUB_BYTES];
            bytes[..start.len()].copy_from_slice(start);
            word_of_stub(0x1000, &bytes)
        };
        assert_eq!(stub(&[0xff, 0x25, 0x10, 0, 0, 0]), Some(0x1016));
        assert_eq!(stub(&[0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x10, 0, 0, 0]), Some(0x101a));
        assert_eq!(stub(&[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x10, 0, 0, 0]), Some(0x101b));
        assert_eq!(stub(&[0x55, 0x48, 0x89, 0xe5]), None);
    }

    #[cfg(target_arch = "aarch64")]
    #[test]
    fn calls_and_stubs_say_where_they_lead_to() {
        let call = |instruction: u32| {
            let [a, b, c, d] = instruction.to_le_bytes();
            target_of_call(0x1000, &[0, 0, a, b, c, d])
        };
        assert_eq!(call(0x9400_0004), Some(Target::Function(0xffc + 16)));
        assert_eq!(call(0x97ff_fffe), Some(Target::Function(0xffc - 8)));
        assert_eq!(call(0xd63f_0000), None, "blr x0");
        let stub: Vec<u8> = [0x9000_0090_u32, 0xf947_fe11, 0x913f_e210, 0xd61f_0220]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        assert_eq!(word_of_stub(0x1000, &stub.try_into().unwrap()), Some(0x1000 + (0x10 << 12) + 0xff8));
    }

    /// Returns to where this function was called.
    #[inline(never)]
    fn return_address() -> u64 {
        let frame = crate::here::here();
        let mut found = 0;
        super::super::stack::capture(frame, |stack| found = stack.addresses.first().copied().unwrap_or_default());
        found
    }

    #[test]
    fn the_function_that_was_called_is_found_and_a_hooked_one_is_none() {
        let regions = crate::cpu::regions::Regions::of_this_process(&mut crate::cpu::tables::Tables::default());
        super::super::stack::publish(&regions.space);
        let address = return_address();
        let mut tails = Tails::from_hooks(&[]);
        assert_eq!(tails.jumper(address), Some(return_address as *const () as u64));
        tails.known.clear();
        tails.hooked.push(return_address as *const () as u64);
        assert_eq!(tails.jumper(address), None);
        assert_eq!([0, 7, u64::MAX].map(|address| tails.jumper(address)), [None; 3]);
    }
}
