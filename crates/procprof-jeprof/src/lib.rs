//! Reads, names, cuts, sums and prints profiles as jeprof does.
//!
//! This is `procprof jeprof`, a drop-in for the tool of that name, row by row. It shares no code with the other reports
//! because its rules differ: estimates stay fractions, frames are cut by a fixed list of names, names are shortened,
//! and lines that cannot be read are skipped. Where jeprof's own output has the order of a hash table, it is by name
//! here.
//!
//! [`Typed`] and [`Request`] are the command line. [`Unnamed::read`] reads the profiles of a request and adds them up,
//! [`Unnamed::named`] names their addresses by the files of the memory map, and [`print_view`] prints a [`View`] of the
//! [`Loaded`] stacks. Of `procprof-symbolize` it uses only [`procprof_symbolize::binutils`] and its images.
//!
//! The crate only reads files: the caller is responsible for profiles of processes, the keyboard, standard output and
//! the log, which it passes as an [`Environment`].

mod command_line;
mod environment;
mod error;
mod formats;
mod load;
mod naming;
mod pieces;
mod print;
mod read;
mod settings;
mod stacks;
mod symbols;
mod view;

pub use command_line::{ELSEWHERE, MODES, Output, Refusal, Request, Threads, Typed, USAGE};
pub use environment::Environment;
pub use error::{Error, Result};
pub use formats::{Drawn, Graph, Instruction, Procedure};
pub use load::{Files, Loaded, Unnamed, brings_names};
pub use pieces::{Border, Pieces};
pub use print::{print_code, print_symbols, print_view};
pub use read::{HeapDump, Names, Piece, PieceReader, ReadError, Reading, read, symbolized_header};
pub use settings::{DebugCopies, Delay, Granularity, HeapIndex, ProfileKind, Settings};
pub use stacks::{Negative, PcId, Pcs, Stacks};
pub use symbols::{Symbol, Symbols, short_function_name};
pub use view::View;
