//! The two architectures: their DWARF register numbers.
//!
//! Sources: System V ABI AMD64, figure 3.36; "DWARF for the Arm 64-bit Architecture", 4.1.

use crate::rule::Base;

/// The machine whose frames are unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// x86-64: the return address is pushed by the call.
    X86_64,
    /// AArch64: the return address is in the link register, and may carry a signature.
    Aarch64,
}

impl Architecture {
    /// The one this code runs on; `None` for others.
    pub const fn native() -> Option<Self> {
        if cfg!(target_arch = "x86_64") {
            Some(Self::X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(Self::Aarch64)
        } else {
            None
        }
    }

    #[inline]
    pub(crate) const fn frame_pointer(self) -> u64 {
        match self {
            Self::X86_64 => 6,
            Self::Aarch64 => 29,
        }
    }

    pub(crate) const fn stack_pointer(self) -> u64 {
        match self {
            Self::X86_64 => 7,
            Self::Aarch64 => 31,
        }
    }

    /// Whether a function leaves a register as it was, by the ABI.
    pub(crate) const fn is_callee_saved(self, register: u64) -> bool {
        match self {
            Self::X86_64 => matches!(register, 3 | 6 | 12..=15),
            Self::Aarch64 => matches!(register, 19..=29),
        }
    }

    /// A return address without the signature that AArch64 may put into its upper bits.
    #[inline(always)]
    pub(crate) const fn code_address(self, address: u64) -> u64 {
        match self {
            Self::X86_64 => address,
            Self::Aarch64 => address & 0x0000_ffff_ffff_ffff,
        }
    }

    pub(crate) const fn return_address(self) -> u64 {
        match self {
            Self::X86_64 => 16,
            Self::Aarch64 => 30,
        }
    }

    pub(crate) const fn base(self, register: u64) -> Option<Base> {
        if register == self.stack_pointer() {
            Some(Base::Sp)
        } else if register == self.frame_pointer() {
            Some(Base::Fp)
        } else {
            None
        }
    }
}
