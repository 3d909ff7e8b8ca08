//! Symbols of programs compiled here, compared with `addr2line` and `llvm-symbolizer`.

mod debug_files;
mod hostile;
mod oracle;
mod profiles;
mod programs;
mod reference;
