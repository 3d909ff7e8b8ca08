//! The registers of user code in samples: which are asked for, and which they are to the unwinder.
//!
//! Sources: `arch/x86/include/uapi/asm/perf_regs.h`, `arch/arm64/include/uapi/asm/perf_regs.h` of Linux.

use procprof_profile::perf_event::Registers;
use procprof_unwind::{Architecture, Frame, Registers as AllRegisters};

/// The bits of the registers that samples have.
#[cfg(target_arch = "x86_64")]
pub(crate) const MASK: u64 = 0x1ff | 0xff << 16;
/// The bits of the registers that samples have.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const MASK: u64 = (1 << 33) - 1;

/// The kernel's numbers of x86-64's registers in the order of DWARF's.
const X86_64: [u32; 16] = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
const X86_64_IP: u32 = 8;
const X86_64_FP: u32 = 6;
const X86_64_SP: u32 = 7;

const AARCH64_FP: u32 = 29;
const AARCH64_LR: u32 = 30;
const AARCH64_SP: u32 = 31;
const AARCH64_PC: u32 = 32;

/// The frame pointer where it is not known: neither that of a frame nor the zero of a thread's first one.
pub(crate) const UNKNOWN_FRAME_POINTER: u64 = 1;

/// The kernel's numbers of the registers with the arguments of a system call, in their order.
const X86_64_ARGUMENTS: [u32; 6] = [5, 4, 3, 18, 16, 17];
const AARCH64_ARGUMENTS: [u32; 6] = [0, 1, 2, 3, 4, 5];

/// Mask and values where of a thread in a call of the kernel stack pointer, program counter and arguments are known.
pub(crate) fn of_call(architecture: Architecture, sp: u64, pc: u64, arguments: &[u64]) -> (u64, Vec<[u8; 8]>) {
    let (mut known, numbers) = match architecture {
        Architecture::X86_64 => ([(X86_64_IP, pc), (X86_64_SP, sp)].to_vec(), X86_64_ARGUMENTS),
        Architecture::Aarch64 => ([(AARCH64_LR, 0), (AARCH64_SP, sp), (AARCH64_PC, pc)].to_vec(), AARCH64_ARGUMENTS),
    };
    known.extend(numbers.into_iter().zip(arguments.iter().copied()));
    known.sort_unstable();
    let mask = known.iter().fold(0, |mask, (number, _)| mask | 1 << number);
    (mask, known.into_iter().map(|(_, value)| value.to_le_bytes()).collect())
}

/// All registers that are known of the interrupted frame; `None` if stack pointer or program counter is missing.
pub(crate) fn all(architecture: Architecture, registers: &Registers<'_>) -> Option<AllRegisters> {
    let frame = frame(architecture, registers)?;
    let mut all = AllRegisters::new(frame.pc, false);
    for number in 0..32 {
        all.set(number.into(), by_dwarf_number(architecture, registers, number));
    }
    Some(all)
}

/// The frame that was interrupted; `None` if stack pointer or program counter is missing.
pub(crate) fn frame(architecture: Architecture, registers: &Registers<'_>) -> Option<Frame> {
    let get = |number| registers.get(number);
    Some(match architecture {
        Architecture::X86_64 => Frame {
            pc: get(X86_64_IP)?,
            sp: get(X86_64_SP)?,
            fp: get(X86_64_FP).unwrap_or(UNKNOWN_FRAME_POINTER),
            lr: 0,
            is_return: false,
        },
        Architecture::Aarch64 => Frame {
            pc: get(AARCH64_PC)?,
            sp: get(AARCH64_SP)?,
            fp: get(AARCH64_FP).unwrap_or(UNKNOWN_FRAME_POINTER),
            lr: get(AARCH64_LR)?,
            is_return: false,
        },
    })
}

/// A register by its DWARF number.
pub(crate) fn by_dwarf_number(architecture: Architecture, registers: &Registers<'_>, number: u8) -> Option<u64> {
    match architecture {
        Architecture::X86_64 => registers.get(*X86_64.get(usize::from(number))?),
        Architecture::Aarch64 => registers.get(u32::from(number)),
    }
}
