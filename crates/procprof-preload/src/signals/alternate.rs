//! `sigaltstack`: an alternate stack that is too small for a signal's frame is kept, and one of ours takes its place.
//!
//! `MINSIGSTKSZ` is 2048 in the C headers, and a processor with wide registers has 3 KiB and more to save: the kernel
//! ends a process whose next signal finds no room. A program that never takes a signal there does not notice until it
//! is sampled. A query returns the stack that it has set, and its handlers run with more room than it gave them.

use crate::at_end::AtEnd;
use crate::thread;
use libc::{c_int, c_void, stack_t};

/// Bytes of a handler beside the kernel's frame.
const HANDLER_BYTES: usize = 2 << 10;

/// A stack of ours, below which a page can't be touched.
const BYTES: usize = 32 << 10;
const GUARD_BYTES: usize = 64 << 10;

/// The least size that the kernel accepts.
const LEAST: usize = if cfg!(target_arch = "aarch64") { 5120 } else { 2048 };

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaltstack(new: *const stack_t, old: *mut stack_t) -> c_int {
    let substitute = &thread::current().substitute;
    // SAFETY: null or readable, by the caller's promise.
    let wanted = unsafe { new.as_ref() };
    let (before, pointer, bytes) = (substitute.mapping.get(), substitute.pointer.get(), substitute.bytes.get());
    let replacing = wanted.filter(|wanted| is_too_small(wanted)).and_then(|wanted| {
        let mapping = if before == 0 { map()? } else { before };
        Some((mapping, stack_t { ss_sp: (mapping + GUARD_BYTES) as *mut c_void, ss_size: BYTES, ..*wanted }))
    });
    let given = replacing.as_ref().map_or(new, |(_, stack)| std::ptr::from_ref(stack));
    // SAFETY: all-zero is a valid `stack_t`.
    let mut former: stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: by the caller's promise, or a stack of ours; `former` is a valid place to write to.
    let code = unsafe { libc::syscall(libc::SYS_sigaltstack, given, &raw mut former) } as c_int;
    if code != 0 {
        if let Some((mapping, _)) = replacing.filter(|(mapping, _)| *mapping != before) {
            unmap(mapping);
        }
        return code;
    }
    if before != 0 && former.ss_sp as usize == before + GUARD_BYTES {
        (former.ss_sp, former.ss_size) = (pointer as *mut c_void, bytes);
    }
    if let Some(wanted) = wanted {
        let mapping = replacing.map_or(0, |(mapping, _)| mapping);
        substitute.pointer.set(wanted.ss_sp as usize);
        substitute.bytes.set(wanted.ss_size);
        substitute.mapping.set(mapping);
        if mapping != before {
            // Without a key the mapping stays.
            let _ = TAKEN_AWAY.call_with(mapping);
            if before != 0 {
                unmap(before);
            }
        }
    }
    if !old.is_null() {
        // SAFETY: by the caller's promise.
        unsafe { old.write(former) };
    }
    0
}

/// Whether the kernel would take it, and then not find room.
fn is_too_small(wanted: &stack_t) -> bool {
    let is_off = wanted.ss_flags & libc::SS_DISABLE != 0;
    // SAFETY: reads a word that the kernel has given to the process; 0 where it has not.
    let frame = unsafe { libc::getauxval(AT_MINSIGSTKSZ) } as usize;
    !is_off && (LEAST..frame.max(LEAST) + HANDLER_BYTES).contains(&wanted.ss_size)
}

const AT_MINSIGSTKSZ: libc::c_ulong = 51;

fn map() -> Option<usize> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a fresh mapping that nothing else refers to, whose lower part is made unusable.
    unsafe {
        let mapping = libc::mmap(std::ptr::null_mut(), GUARD_BYTES + BYTES, protection, flags, -1, 0);
        if mapping == libc::MAP_FAILED {
            return None;
        }
        libc::mprotect(mapping, GUARD_BYTES, libc::PROT_NONE);
        Some(mapping as usize)
    }
}

fn unmap(mapping: usize) {
    // SAFETY: mapped by `map`, and no thread's alternate stack any more.
    unsafe { libc::munmap(mapping as *mut c_void, GUARD_BYTES + BYTES) };
}

/// Takes a thread's substitute away.
static TAKEN_AWAY: AtEnd = AtEnd::new(at_end);

extern "C" fn at_end(mapping: *mut c_void) {
    let substitute = &thread::current().substitute;
    if substitute.mapping.get() != mapping as usize {
        return;
    }
    let off = stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: all-zero is a valid `stack_t`; both are valid places.
    let is_off = unsafe {
        let mut now: stack_t = std::mem::zeroed();
        let is_ours = libc::syscall(libc::SYS_sigaltstack, std::ptr::null::<stack_t>(), &raw mut now) == 0
            && now.ss_sp as usize == substitute.mapping.get() + GUARD_BYTES;
        is_ours && libc::syscall(libc::SYS_sigaltstack, &raw const off, std::ptr::null_mut::<stack_t>()) == 0
    };
    if is_off {
        substitute.mapping.set(0);
        unmap(mapping as usize);
    }
}
