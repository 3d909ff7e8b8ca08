//! Demangles linker names of C++ functions and objects: the [Itanium C++
//! ABI](https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling), as GCC and Clang mangle them on Linux and macOS.
//!
//! A name is parsed into an arena of nodes and then printed, in one of two [`Style`]s. A [`Demangler`] keeps its
//! vectors from one name to the next and appends to the caller's text, so a name costs no allocation once they have
//! grown. Names come from untrusted files: each limit is a constant of [`limits`], and a name beyond one is refused
//! like an invalid one.
//!
//! Not for Rust's and D's manglings, and not for Microsoft's.
//!
//! ```
//! use procprof_demangle::{Demangler, Style};
//!
//! let mut demangler = Demangler::default();
//! let mut text = String::new();
//! assert!(demangler.append("_ZN3foo3barIiEEvT_", Style::Llvm, &mut text));
//! assert_eq!(text, "void foo::bar<int>(int)");
//! assert!(!demangler.append("main", Style::Llvm, &mut text));
//! ```

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod float;
pub mod limits;
mod node;
mod operator;
mod parse;
mod print;
mod tree;

use parse::{Parser, Scratch};
use tree::Tree;

/// The style of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As LLVM 19's `llvm-cxxfilt` prints them.
    Llvm,
    /// As GNU binutils 2.40's `c++filt`, `nm -C` and `addr2line -C` print them.
    Gnu,
}

/// Demangles names, one after the other.
#[derive(Debug, Default)]
pub struct Demangler {
    tree: Tree,
    scratch: Scratch,
}

impl Demangler {
    /// Appends the demangled name; leaves the text as it was and returns `false` if it is not a mangled name of C++, or
    /// one beyond a limit.
    pub fn append(&mut self, name: &str, style: Style, text: &mut String) -> bool {
        if !name.starts_with('_') || name.len() > limits::MANGLED_BYTES_MAX {
            return false;
        }
        let mut symbol = Parser::new(name.as_bytes(), style, &mut self.tree, &mut self.scratch).symbol();
        if symbol.is_none() && style == Style::Llvm && name.contains("srN") {
            symbol = Parser::new(name.as_bytes(), style, &mut self.tree, &mut self.scratch).of_gcc().symbol();
        }
        symbol.is_some_and(|symbol| print::append(&self.tree, symbol, name, style, text))
    }

    /// The demangled name; `None` where [`Demangler::append`] returns `false`.
    pub fn demangle(&mut self, name: &str, style: Style) -> Option<String> {
        let mut text = String::new();
        self.append(name, style, &mut text).then_some(text)
    }
}
