//! A signal's action and a thread's mask, by the kernel's own calls.

use std::io;

/// The action of SIGPROF, as the kernel keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// A function, `SIG_DFL` or `SIG_IGN`.
    pub handler: usize,
    /// `SA_…`
    pub flags: u64,
    /// Signals that are blocked while the handler runs: signal `n` is bit `n - 1`.
    pub mask: u64,
}

/// Every signal, the C library's own included. The kernel leaves the two out that can't be blocked.
pub(super) const ALL_SIGNALS: u64 = !0;

pub(in crate::cpu) const SIGPROF_ALONE: u64 = 1 << (libc::SIGPROF - 1);

/// The kernel's `struct sigaction`, on x86-64 and AArch64.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Kernel {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// The return address of a handler: has the kernel restore everything. Debuggers and unwinders recognize such a frame
/// by these instructions.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn restorer() {
    std::arch::naked_asm!(".byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00", "syscall")
}

/// x86-64 has no place of its own to return to.
#[cfg(target_arch = "x86_64")]
fn with_restorer(action: Kernel) -> Kernel {
    const SA_RESTORER: u64 = 0x0400_0000;
    Kernel { flags: action.flags | SA_RESTORER, restorer: restorer as *const () as usize, ..action }
}

/// Elsewhere the kernel brings a place to return to.
#[cfg(not(target_arch = "x86_64"))]
fn with_restorer(action: Kernel) -> Kernel {
    action
}

const SET_BYTES: usize = size_of::<u64>();

impl Action {
    pub(super) const DEFAULT: Self = Self { handler: libc::SIG_DFL, flags: 0, mask: 0 };
    pub(super) const IGNORE: Self = Self { handler: libc::SIG_IGN, flags: 0, mask: 0 };

    /// The one that is installed.
    pub(super) fn installed() -> io::Result<Self> {
        let mut found = Kernel::default();
        let nothing = std::ptr::null::<Kernel>();
        // SAFETY: only reads the action; `found` is laid out as the kernel writes it.
        checked(unsafe { libc::syscall(libc::SYS_rt_sigaction, libc::SIGPROF, nothing, &raw mut found, SET_BYTES) })?;
        Ok(Self { handler: found.handler, flags: found.flags, mask: found.mask })
    }

    /// Takes the place of the one that is installed.
    pub(super) fn install(&self) -> io::Result<()> {
        let new = with_restorer(Kernel { handler: self.handler, flags: self.flags, restorer: 0, mask: self.mask });
        let nowhere = std::ptr::null_mut::<Kernel>();
        // SAFETY: the handler is the program's own or this crate's, which is async-signal-safe; both are of the type
        // that their flags require.
        checked(unsafe { libc::syscall(libc::SYS_rt_sigaction, libc::SIGPROF, &raw const new, nowhere, SET_BYTES) })
    }

    /// Whether it is a function.
    pub fn is_handler(&self) -> bool {
        self.handler != libc::SIG_DFL && self.handler != libc::SIG_IGN
    }
}

/// Changes the calling thread's mask; returns the former one. Async-signal-safe.
pub(super) fn change_mask(how: libc::c_int, set: u64) -> u64 {
    let mut former = 0_u64;
    // SAFETY: both are sets of the stated size; it fails for no legal `how`.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const set, &raw mut former, SET_BYTES) };
    former
}

fn checked(code: libc::c_long) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
