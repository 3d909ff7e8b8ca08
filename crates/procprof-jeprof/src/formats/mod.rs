//! The forms a [`View`](crate::View) is printed in, a file for each of jeprof's options.

mod callgrind;
mod collapsed;
mod disassembly;
mod dot;
mod listing;
mod picture;
mod text;

pub use disassembly::{Instruction, Procedure};
pub use dot::Graph;
pub use picture::Drawn;
