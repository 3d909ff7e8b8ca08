//! The rule of a step from a frame to its caller, unpacked and packed into eight bytes.
//!
//! ```text
//! bits  0..4   kind
//! bits  4..32  offset in bytes, signed: what is added to the base of the CFA
//! bits 32..48  frame pointer: 0 unchanged; 0xffff saved where it points to; else saved so many words below the CFA
//! bits 48..64  return address: so many words below the CFA, 0 in the link register (AArch64);
//!              of the kinds that always have it one word below the CFA: what is added after the load, or the register
//! ```
//!
//! The CFA (canonical frame address) is the caller's stack pointer.

use std::fmt;

/// The base of the caller's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// No entry covers the address: only the frame pointer can be used.
    Unknown,
    /// The code has tables, but this part is not compiled yet.
    Pending,
    /// The return address is undefined: the frame is the thread's first.
    Root,
    /// The entry can't be expressed by a few registers and one load, or is broken.
    Unsupported,
    /// The frame the kernel made for a signal handler; the interrupted registers are in it.
    Signal,
    /// An ordinary frame.
    Frame {
        /// The caller's stack pointer.
        cfa: Cfa,
        /// The place of the caller's frame pointer.
        fp: Saved,
        /// The place of the return address.
        ra: Saved,
    },
}

/// A register the CFA is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The stack pointer.
    Sp,
    /// The frame pointer.
    Fp,
}

/// The caller's stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cfa {
    /// `base + offset`.
    Offset(Base, i32),
    /// `[base + offset] + plus`: the old stack pointer was saved (aligned stacks, hand-written crypto).
    Deref(Base, i32, i16),
    /// `register + offset`, by DWARF number; known only in the interrupted frame.
    Register(u8, i32),
    /// `sp + 8`, and 8 more once the low four bits of the program counter have reached this number: a lazy x86-64 PLT
    /// entry.
    Plt(u8),
}

/// The place of a caller's register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// In the register itself.
    InRegister,
    /// So many words of eight bytes below the CFA, at least 1.
    WordsBelowCfa(u16),
    /// At the address in the frame pointer; only the frame pointer is saved so.
    AtFramePointer,
}

/// A rule in eight bytes; [`Rule::Unknown`] by default.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Packed(u64);

/// The first four bits of a packed rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Unknown,
    /// `Offset(Fp, 16)` with the frame pointer two words and the return address one word below: the ordinary x86-64
    /// frame.
    FramePointer,
    Sp,
    Fp,
    DerefSp,
    DerefFp,
    Register,
    Plt,
    Signal,
    Root,
    Unsupported,
    Pending,
}

const FP_AT_FP: u64 = 0xffff;
const MAX_WORDS: u16 = 0xfffe;
const OFFSET_LIMIT: i32 = 1 << 27;

impl Packed {
    pub(crate) const UNKNOWN: Self = Self(Kind::Unknown as u64);
    pub(crate) const SIGNAL: Self = Self(Kind::Signal as u64);
    pub(crate) const ROOT: Self = Self(Kind::Root as u64);
    pub(crate) const UNSUPPORTED: Self = Self(Kind::Unsupported as u64);
    pub(crate) const PENDING: Self = Self(Kind::Pending as u64);

    /// Packs a rule; one that does not fit becomes [`Rule::Unsupported`].
    pub fn new(rule: Rule) -> Self {
        match rule {
            Rule::Unknown => Self::UNKNOWN,
            Rule::Pending => Self::PENDING,
            Rule::Root => Self::ROOT,
            Rule::Unsupported => Self::UNSUPPORTED,
            Rule::Signal => Self::SIGNAL,
            Rule::Frame { cfa, fp, ra } => Self::frame(cfa, fp, ra).unwrap_or(Self::UNSUPPORTED),
        }
    }

    fn frame(cfa: Cfa, fp: Saved, ra: Saved) -> Option<Self> {
        let fp = match fp {
            Saved::InRegister => 0,
            Saved::WordsBelowCfa(words) => u64::from(words_within_limit(words)?),
            Saved::AtFramePointer => FP_AT_FP,
        };
        let ra = match ra {
            Saved::InRegister => 0,
            Saved::WordsBelowCfa(words) => words_within_limit(words)?,
            Saved::AtFramePointer => return None,
        };
        let plain = matches!(cfa, Cfa::Offset(..));
        if !plain && ra != 1 {
            return None;
        }
        let (kind, offset, last) = match cfa {
            Cfa::Offset(Base::Sp, offset) => (Kind::Sp, offset, ra),
            Cfa::Offset(Base::Fp, 16) if (fp, ra) == (2, 1) => (Kind::FramePointer, 16, ra),
            Cfa::Offset(Base::Fp, offset) => (Kind::Fp, offset, ra),
            Cfa::Deref(Base::Sp, offset, plus) => (Kind::DerefSp, offset, plus as u16),
            Cfa::Deref(Base::Fp, offset, plus) => (Kind::DerefFp, offset, plus as u16),
            Cfa::Register(register, offset) => (Kind::Register, offset, u16::from(register)),
            Cfa::Plt(threshold) => (Kind::Plt, i32::from(threshold), ra),
        };
        if !(-OFFSET_LIMIT..OFFSET_LIMIT).contains(&offset) {
            return None;
        }
        let offset = u64::from(offset as u32 & 0x0fff_ffff);
        Some(Self(kind as u64 | offset << 4 | fp << 32 | u64::from(last) << 48))
    }

    /// The rule, unpacked.
    pub fn rule(self) -> Rule {
        let cfa = match self.kind() {
            Kind::Unknown => return Rule::Unknown,
            Kind::Pending => return Rule::Pending,
            Kind::Root => return Rule::Root,
            Kind::Unsupported => return Rule::Unsupported,
            Kind::Signal => return Rule::Signal,
            Kind::FramePointer | Kind::Fp => Cfa::Offset(Base::Fp, self.offset()),
            Kind::Sp => Cfa::Offset(Base::Sp, self.offset()),
            Kind::DerefSp => Cfa::Deref(Base::Sp, self.offset(), self.last() as i16),
            Kind::DerefFp => Cfa::Deref(Base::Fp, self.offset(), self.last() as i16),
            Kind::Register => Cfa::Register(self.last() as u8, self.offset()),
            Kind::Plt => Cfa::Plt(self.offset() as u8),
        };
        let fp = match self.fp_words() {
            0 => Saved::InRegister,
            FP_AT_FP => Saved::AtFramePointer,
            words => Saved::WordsBelowCfa(words as u16),
        };
        let ra = match cfa {
            Cfa::Offset(..) if self.last() == 0 => Saved::InRegister,
            Cfa::Offset(..) => Saved::WordsBelowCfa(self.last()),
            _ => Saved::WordsBelowCfa(1),
        };
        Rule::Frame { cfa, fp, ra }
    }

    /// Whether the caller's frame pointer is saved in the frame.
    pub fn saves_frame_pointer(self) -> bool {
        matches!(self.rule(), Rule::Frame { fp: Saved::WordsBelowCfa(_), .. })
    }

    #[inline(always)]
    pub(crate) fn kind(self) -> Kind {
        match self.0 & 0xf {
            0 => Kind::Unknown,
            1 => Kind::FramePointer,
            2 => Kind::Sp,
            3 => Kind::Fp,
            4 => Kind::DerefSp,
            5 => Kind::DerefFp,
            6 => Kind::Register,
            7 => Kind::Plt,
            8 => Kind::Signal,
            9 => Kind::Root,
            11 => Kind::Pending,
            _ => Kind::Unsupported,
        }
    }

    /// The offset from the base of the CFA, bytes.
    #[inline(always)]
    pub(crate) fn offset(self) -> i32 {
        self.0 as i32 >> 4
    }

    /// The frame pointer's field; see the head of this file.
    #[inline(always)]
    pub(crate) fn fp_words(self) -> u64 {
        self.0 >> 32 & 0xffff
    }

    /// The last field: the return address's, or that of the kind.
    #[inline(always)]
    pub(crate) fn last(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Whether the frame pointer is saved where it points to.
    #[inline(always)]
    pub(crate) fn fp_is_at_fp(self) -> bool {
        self.fp_words() == FP_AT_FP
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

fn words_within_limit(words: u16) -> Option<u16> {
    (1..=MAX_WORDS).contains(&words).then_some(words)
}

impl fmt::Debug for Packed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rule().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let below = Saved::WordsBelowCfa;
        let rules = [
            Rule::Unknown,
            Rule::Pending,
            Rule::Root,
            Rule::Unsupported,
            Rule::Signal,
            Rule::Frame { cfa: Cfa::Offset(Base::Fp, 16), fp: below(2), ra: below(1) },
            Rule::Frame { cfa: Cfa::Offset(Base::Fp, -16), fp: below(2), ra: below(1) },
            Rule::Frame { cfa: Cfa::Offset(Base::Sp, OFFSET_LIMIT - 1), fp: Saved::InRegister, ra: Saved::InRegister },
            Rule::Frame { cfa: Cfa::Offset(Base::Sp, -OFFSET_LIMIT), fp: below(MAX_WORDS), ra: below(MAX_WORDS) },
            Rule::Frame { cfa: Cfa::Deref(Base::Fp, -8, 0), fp: Saved::AtFramePointer, ra: below(1) },
            Rule::Frame { cfa: Cfa::Deref(Base::Sp, 120, -8), fp: Saved::InRegister, ra: below(1) },
            Rule::Frame { cfa: Cfa::Register(10, 0), fp: Saved::InRegister, ra: below(1) },
            Rule::Frame { cfa: Cfa::Plt(11), fp: Saved::InRegister, ra: below(1) },
        ];
        for rule in rules {
            assert_eq!(Packed::new(rule).rule(), rule);
        }
        assert_eq!(Packed::new(rules[5]).kind(), Kind::FramePointer);
    }

    #[test]
    fn what_does_not_fit_is_unsupported() {
        let below = Saved::WordsBelowCfa;
        for (cfa, fp, ra) in [
            (Cfa::Offset(Base::Sp, OFFSET_LIMIT), below(2), below(1)),
            (Cfa::Offset(Base::Sp, 8), below(u16::MAX), below(1)),
            (Cfa::Offset(Base::Sp, 8), below(0), below(1)),
            (Cfa::Deref(Base::Sp, 8, 0), below(2), below(2)),
            (Cfa::Offset(Base::Sp, 8), below(2), Saved::AtFramePointer),
        ] {
            assert_eq!(Packed::new(Rule::Frame { cfa, fp, ra }), Packed::UNSUPPORTED);
        }
    }
}
