//! The registers of a running function, from which its callers can be found.

use procprof_unwind::Frame;

/// The frame this is inlined into.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn here() -> Frame {
    let (pc, sp, fp): (u64, u64, u64);
    // SAFETY: reads three registers.
    unsafe {
        std::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) pc, out(reg) sp, out(reg) fp, options(nomem, nostack, preserves_flags));
    }
    Frame { pc, sp, fp, lr: 0, is_return: false }
}

/// The frame this is inlined into.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn here() -> Frame {
    let (pc, sp, fp): (u64, u64, u64);
    // SAFETY: reads three registers.
    unsafe {
        std::arch::asm!("adr {}, .", "mov {}, sp", "mov {}, x29", out(reg) pc, out(reg) sp, out(reg) fp, options(nomem, nostack, preserves_flags));
    }
    Frame { pc, sp, fp, lr: 0, is_return: false }
}
