//! The state that call frame instructions change, and its rule.

use crate::Architecture;
use crate::entry::Cie;
use crate::expression::Expression;
use crate::rule::{Base, Cfa, Packed, Rule, Saved};

/// The place of the CFA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Definition<'a> {
    Undefined,
    Offset(u64, i64),
    Expression(&'a [u8]),
}

/// The place of a register's value in the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column<'a> {
    /// Not specified; the meaning depends on the architecture.
    Default,
    Undefined,
    Same,
    /// At the CFA plus this many bytes.
    BelowCfa(i64),
    /// The CFA plus this many bytes.
    CfaPlus(i64),
    /// In another register.
    Register(u64),
    /// At the address that this computes.
    At(&'a [u8]),
    /// The value that this computes.
    Value(&'a [u8]),
}

/// The columns of an unwind table that are kept while call frame instructions run.
pub(crate) trait Row<'a>: Copy {
    /// A row in which nothing is specified, of an architecture and with this return address.
    fn new(architecture: Architecture, return_register: u64) -> Self;

    /// The place of the CFA.
    fn cfa_mut(&mut self) -> &mut Definition<'a>;

    /// The column of a register, if it is kept.
    fn column_mut(&mut self, register: u64) -> Option<&mut Column<'a>>;
}

/// One row of an unwind table, of which only what a compact rule has is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State<'a> {
    frame_pointer: u64,
    return_register: u64,
    pub(crate) cfa: Definition<'a>,
    pub(crate) fp: Column<'a>,
    pub(crate) ra: Column<'a>,
}

impl<'a> Row<'a> for State<'a> {
    fn new(architecture: Architecture, return_register: u64) -> Self {
        let frame_pointer = architecture.frame_pointer();
        let (cfa, fp, ra) = (Definition::Undefined, Column::Default, Column::Default);
        Self { frame_pointer, return_register, cfa, fp, ra }
    }

    #[inline]
    fn cfa_mut(&mut self) -> &mut Definition<'a> {
        &mut self.cfa
    }

    #[inline]
    fn column_mut(&mut self, register: u64) -> Option<&mut Column<'a>> {
        if register == self.frame_pointer {
            Some(&mut self.fp)
        } else if register == self.return_register {
            Some(&mut self.ra)
        } else {
            None
        }
    }
}

impl State<'_> {
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
            Architecture::X86_64 if !self.is_x86_64_signal() => Packed::UNSUPPORTED,
            _ => Packed::SIGNAL,
        }
    }

    /// Whether it is the rule of glibc's `__restore_rt` for the frame under it: the layout of the kernel's
    /// `rt_sigframe`, from its stack pointer.
    fn is_x86_64_signal(&self) -> bool {
        let is = |column, sum| matches!(column, Column::At(block) if Expression::parse(block) == sum);
        matches!(self.cfa, Definition::Expression(block) if Expression::parse(block) == Expression::Load(7, 160, 0))
            && is(self.fp, Expression::Sum(7, 120))
            && is(self.ra, Expression::Sum(7, 168))
    }

    fn frame(&self, cie: &Cie<'_>, architecture: Architecture) -> Option<Rule> {
        if cie.return_register != architecture.return_address() {
            return None;
        }
        let fp = match self.fp {
            Column::Default | Column::Same | Column::Undefined => Saved::InRegister,
            Column::BelowCfa(offset) => words(offset)?,
            Column::At(block) if Expression::parse(block) == Expression::Sum(architecture.frame_pointer(), 0) => {
                Saved::AtFramePointer
            }
            Column::At(_) | Column::Value(_) | Column::Register(_) | Column::CfaPlus(_) => return None,
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
        let expression = match self.cfa {
            Definition::Undefined => return None,
            Definition::Offset(register, offset) => Expression::Sum(register, offset),
            Definition::Expression(block) => Expression::parse(block),
        };
        let base = |register| architecture.base(register);
        match expression {
            Expression::Sum(register, offset) => {
                let offset = i32::try_from(offset).ok()?;
                let other = || u8::try_from(register).ok().map(|register| Cfa::Register(register, offset));
                base(register).map(|base| Cfa::Offset(base, offset)).or_else(other)
            }
            Expression::Load(register, offset, plus) => {
                Some(Cfa::Deref(base(register)?, i32::try_from(offset).ok()?, i16::try_from(plus).ok()?))
            }
            Expression::Plt(threshold) => Some(Cfa::Plt(threshold)),
            Expression::Other => None,
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
