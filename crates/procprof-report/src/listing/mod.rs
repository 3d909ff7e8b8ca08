//! Source lines and machine code of functions, with their values.

pub mod code;
pub(crate) mod disasm;
pub(crate) mod list;
pub(crate) mod sources;
pub(crate) mod weblist;
