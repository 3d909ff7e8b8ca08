//! The tables of a profile, as text and in formats of other tools.

pub(crate) mod callgrind;
pub(crate) mod comments;
pub(crate) mod encoded;
pub(crate) mod pprof;
pub(crate) mod raw;
pub(crate) mod symbols;
pub(crate) mod tags;
