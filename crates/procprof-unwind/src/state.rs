//! The state that call frame instructions change, and its rule.

use crate::Architecture;
use crate::entry::Cie;
use crate::expression::Expression;
use crate::rule::{Base, Cfa, Packed, Rule, Saved};

/// The place of the CFA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Definition {
    Undefined,
    Offset(u64, i64),
    Expression(Expression),
}

/// The place of a register's value in the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Not specified; the meaning depends on the architecture.
    Default,
    Undefined,
    Same,
    /// At the CFA plus this many bytes.
    BelowCfa(i64),
    /// At the address this computes.
    At(Expression),
    Other,
}

/// One row of an unwind table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) cfa: Definition,
    pub(crate) fp: Column,
    pub(crate) ra: Column,
}

impl Default for State {
    fn default() -> Self {
        Self { cfa: Definition::Undefined, fp: Column::Default, ra: Column::Default }
    }
}

/// The rule of glibc's `__restore_rt` for the frame under it: the layout of the kernel's `rt_sigframe`, from its stack
/// pointer.
const X86_64_SIGNAL: State = State {
    cfa: Definition::Expression(Expression::Load(7, 160, 0)),
    fp: Column::At(Expression::Sum(7, 120)),
    ra: Column::At(Expression::Sum(7, 168)),
};

impl State {
    pub(crate) fn packed(&self, cie: &Cie<'_>, architecture: Architecture) -> Packed {
        if self.ra == Column::Undefined {
            return Packed::ROOT;
        }
        if cie.is_signal {
            return self.signal(architecture);
        }
        self.frame(cie, architecture).map_or(Packed::UNSUPPORTED, Packed::new)
    }

    fn signal(&self, architecture: Architecture) -> Packed {
        match architecture {
            Architecture::X86_64 if *self != X86_64_SIGNAL => Packed::UNSUPPORTED,
            _ => Packed::SIGNAL,
        }
    }

    fn frame(&self, cie: &Cie<'_>, architecture: Architecture) -> Option<Rule> {
        if cie.return_register != architecture.return_address() {
            return None;
        }
        let fp = match self.fp {
            Column::Default | Column::Same | Column::Undefined => Saved::InRegister,
            Column::BelowCfa(offset) => words(offset)?,
            Column::At(Expression::Sum(register, 0)) if register == architecture.frame_pointer() => {
                Saved::AtFramePointer
            }
            Column::At(_) | Column::Other => return None,
        };
        let ra = match self.ra {
            Column::Default | Column::Same if architecture == Architecture::Aarch64 => Saved::InRegister,
            Column::BelowCfa(offset) => words(offset)?,
            _ => return None,
        };
        let cfa = self.cfa(architecture)?;
        let ra = if architecture == Architecture::Aarch64 { unless_popped(ra, cfa) } else { ra };
        Some(Rule::Frame { cfa, fp: unless_popped(fp, cfa), ra })
    }

    fn cfa(&self, architecture: Architecture) -> Option<Cfa> {
        let base = |register| architecture.base(register);
        match self.cfa {
            Definition::Offset(register, offset) | Definition::Expression(Expression::Sum(register, offset)) => {
                let offset = i32::try_from(offset).ok()?;
                let other = || u8::try_from(register).ok().map(|register| Cfa::Register(register, offset));
                base(register).map(|base| Cfa::Offset(base, offset)).or_else(other)
            }
            Definition::Expression(Expression::Load(register, offset, plus)) => {
                Some(Cfa::Deref(base(register)?, i32::try_from(offset).ok()?, i16::try_from(plus).ok()?))
            }
            Definition::Expression(Expression::Plt(threshold)) => Some(Cfa::Plt(threshold)),
            Definition::Undefined | Definition::Expression(Expression::Other) => None,
        }
    }
}

/// A register restored from a place below the stack pointer: in epilogues compilers move the CFA, but often do not emit
/// that the popped register is restored.
fn unless_popped(saved: Saved, cfa: Cfa) -> Saved {
    match (saved, cfa) {
        (Saved::WordsBelowCfa(words), Cfa::Offset(Base::Sp, offset)) if i32::from(words) * 8 > offset => {
            Saved::InRegister
        }
        _ => saved,
    }
}

/// A place whole words below the CFA.
fn words(offset: i64) -> Option<Saved> {
    let below = offset.checked_neg().filter(|below| *below > 0 && below % 8 == 0)?;
    u16::try_from(below / 8).ok().map(Saved::WordsBelowCfa)
}
