//! Tables over ranges of addresses.

mod ladder;
pub(crate) mod spans;
mod zone;

pub(crate) use self::ladder::Ladder;
pub(crate) use self::spans::{Span, apart};
pub(crate) use self::zone::Zone;
