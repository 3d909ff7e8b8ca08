//! Unwinding: `.eh_frame` compiled to compact tables, and one pure step from a frame to its caller.
//!
//! Compiling is for a background thread, looking up and stepping for a signal handler: a [`Table`] is filled region by
//! region as look-ups request it, a [`Space`] finds the table of an address, a [`Walker`] walks from the interrupted
//! frame to the thread's root. If no rule is known, the frame pointer is followed if it looks like one.
//!
//! It reads no files, maps nothing and starts no threads: the caller finds modules, passes their sections and decides
//! which memory may be read as stack. Hostile sections and stacks give wrong or missing rules, never a panic or more
//! than the stated work. It does not run exception handlers, restores no registers but the frame pointer, and supports
//! only Linux's signal frames, x86-64 and AArch64, little-endian.
//!
//! ```
//! use procprof_unwind::{Architecture, Cache, Code, Frame, Section, Source, Space, StackCopy, Table, Walker};
//! use std::sync::Arc;
//!
//! // A CIE whose CFA is rsp+8, and a function of 16 bytes at 0x1000 that pushes one word at its second byte.
//! let eh_frame = [
//!     0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x00, 0x0c, 7, 8, 0x90, 1, 0, 0, // the CIE
//!     0x1c, 0, 0, 0, 0x1c, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0x0e, 16, 0, 0, 0, 0, // the FDE
//!     0, 0, 0, 0,
//! ];
//! let source = Source::new(Architecture::X86_64, Section { bytes: &eh_frame, address: 0x4000 }, Section::default());
//! let table = Arc::new(Table::new(0x1000..0x2000));
//! table.compile(&source, 0x1000..0x2000);
//!
//! let space = Space::new(vec![Code { range: 0x1000..0x2000, bias: 0, table: Some(table) }], 1);
//! let stack: Vec<u8> = [7_u64, 0x1001, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
//! let mut addresses = Vec::new();
//! Walker { architecture: Architecture::X86_64, space: &space, cache: &Cache::new() }.walk(
//!     Frame { pc: 0x1008, sp: 0x7000, ..Frame::default() },
//!     |_| None,
//!     &mut StackCopy { start: 0x7000, bytes: &stack },
//!     |address| { addresses.push(address); true },
//! );
//! assert_eq!(addresses, [0x1008, 0x1001]);
//! ```

#![cfg_attr(test, allow(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod architecture;
mod cache;
mod call;
mod entry;
mod evaluate;
mod expression;
mod full;
mod instruction;
mod pointer;
mod reader;
mod region;
mod rule;
mod source;
mod space;
mod stack;
mod state;
mod step;
mod table;
mod walk;

pub use architecture::Architecture;
pub use cache::Cache;
pub use call::{CALL_BYTES, Call, Epilogue, returns_from_signal};
pub use full::{Caller, NoCaller, Registers};
pub use rule::{Base, Cfa, Packed, Rule, Saved};
pub use source::{Section, Source, search_table};
pub use space::{Code, Space};
pub use stack::{Stack, StackCopy};
pub use step::{Frame, Lost, Step, step};
pub use table::{Compiled, MAX_CODE_BYTES, Table};
pub use walk::{End, Walker};
