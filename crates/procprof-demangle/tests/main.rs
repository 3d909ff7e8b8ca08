//! Names of symbol tables, of programs compiled here and by hand, compared with LLVM's and binutils' demanglers.

#![allow(clippy::disallowed_methods)]
// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

mod binutils;
mod compiled;
mod hostile;
mod oracle;
mod overloads;
mod productions;
mod tables;
