//! Demangling of linker names: Rust (legacy and v0) and C++ (Itanium).

use std::fmt::{self, Write};

use procprof_demangle::limits::{DEMANGLED_BYTES_MAX, MANGLED_BYTES_MAX};
use procprof_demangle::{Demangler, Style};

/// The demangled name; the name itself, without its symbol version (`@@GLIBC_2.34`), if it is not mangled or can't be
/// demangled within the limits.
///
/// C++ names are printed as LLVM prints them.
pub fn demangle(name: &str) -> String {
    Languages::default().demangle(name)
}

/// Demangles one name after the other, of any language.
#[derive(Default)]
pub(crate) struct Languages {
    cpp: Demangler,
}

impl Languages {
    /// As [`demangle`].
    pub(crate) fn demangle(&mut self, name: &str) -> String {
        let plain = without_version(name);
        if plain.len() > MANGLED_BYTES_MAX {
            return plain.to_owned();
        }
        rust(plain).or_else(|| self.cpp(plain, Style::Llvm)).unwrap_or_else(|| plain.to_owned())
    }

    /// The demangled C++ name; `None` if it is not mangled, or beyond a limit.
    pub(crate) fn cpp(&mut self, name: &str, style: Style) -> Option<String> {
        self.cpp.demangle(name, style)
    }
}

fn without_version(name: &str) -> &str {
    match name.find('@') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    }
}

fn rust(name: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut text = Bounded::default();
    // The alternate form omits the hash.
    write!(text, "{demangled:#}").ok()?;
    Some(text.0)
}

/// A text that refuses to grow beyond the limit.
#[derive(Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > DEMANGLED_BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_for_people() {
        for (name, expected) in [
            ("main", "main"),
            ("_ZN3foo3barEi", "foo::bar(int)"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_ZN3foo3barEi.cold", "foo::bar(int) (.cold)"),
            ("__libc_init_first@@GLIBC_2.2.5", "__libc_init_first"),
            (
                "_ZSt4swapIdENSt9enable_ifIXsrSt7is_voidIT_E5valueEvE4typeERS2_",
                "std::enable_if<std::is_void<double>::value, void>::type std::swap<double>(double&)",
            ),
            ("@odd", "@odd"),
            ("_Z", "_Z"),
            ("_ZNotMangled", "_ZNotMangled"),
            ("", ""),
        ] {
            assert_eq!(demangle(name), expected, "{name}");
        }
    }

    #[test]
    fn names_beyond_a_limit_are_left_as_they_are() {
        let long = format!("_Z{}", "x".repeat(MANGLED_BYTES_MAX));
        assert_eq!(demangle(&long), long);
        let nested = format!("_Z1f{}i", "P".repeat(60_000));
        assert_eq!(demangle(&nested), nested);
    }
}
