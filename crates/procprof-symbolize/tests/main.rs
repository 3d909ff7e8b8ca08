//! Symbols of programs compiled here, compared with `addr2line` and `llvm-symbolizer`.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

mod debug_files;
mod hostile;
mod index;
#[path = "../../procprof-files/tests/versions/law.rs"]
mod law;
mod matrix;
mod oracle;
mod profiles;
mod programs;
mod reference;
mod scopes;
mod sources;
mod stripped;
mod versions;
