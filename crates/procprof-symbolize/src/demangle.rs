//! Names for people from the names of linkers: Rust (legacy and v0) and C++ (Itanium).

use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};

/// Longest mangled name that is tried, in bytes.
const MANGLED_BYTES_MAX: usize = 64 << 10;
/// Longest demangled name, in bytes; back references make a short mangled name a very long one.
const DEMANGLED_BYTES_MAX: usize = 256 << 10;
/// Deepest nesting of a C++ name.
const RECURSION_MAX: u32 = 128;

/// The name for people; the name itself, less its symbol version (`@@GLIBC_2.34`), if it is not
/// mangled or can't be demangled within the limits.
pub fn demangle(name: &str) -> String {
    let plain = without_version(name);
    if plain.len() > MANGLED_BYTES_MAX {
        return plain.to_owned();
    }
    rust(plain).or_else(|| cpp(plain)).unwrap_or_else(|| plain.to_owned())
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
    // The alternate form leaves out the hash.
    write!(text, "{demangled:#}").ok()?;
    Some(text.0)
}

fn cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") && !name.starts_with("__Z") && !name.starts_with("_GLOBAL_") {
        return None;
    }
    let parse = ParseOptions::default().recursion_limit(RECURSION_MAX);
    let symbol = BorrowedSymbol::with_tail_and_options(name.as_bytes(), &parse);
    let (symbol, tail) = symbol.ok()?;
    // What follows the mangled name is a compiler's or linker's suffix, such as `.cold`; anything
    // else is a return type and parameters that the parser does not know how to read, without which
    // the name is still the function's.
    let is_suffix = matches!(tail.first(), Some(b'.' | b'$' | b'@' | b' '));
    written(&symbol, if is_suffix { tail } else { b"" })
}

fn written(symbol: &BorrowedSymbol<'_>, suffix: &[u8]) -> Option<String> {
    let options = DemangleOptions::new().recursion_limit(RECURSION_MAX);
    let mut text = Bounded::default();
    symbol.structured_demangle(&mut text, &options).ok()?;
    write!(text, "{}", String::from_utf8_lossy(suffix)).ok()?;
    Some(text.0)
}

/// As [`demangle`] for a name without a version: what is behind it and does not begin with a dot is taken for no part of the name.
pub(crate) fn demangle_without_tail(name: &str) -> String {
    let Ok((symbol, tail)) = BorrowedSymbol::with_tail(name.as_bytes()) else {
        return demangle(name);
    };
    let is_suffix = tail.is_empty() || tail.starts_with(b".");
    let (name, tail) = if is_suffix { (name, tail) } else { (name.get(..name.len() - tail.len()).unwrap_or(name), &b""[..]) };
    if name.len() > MANGLED_BYTES_MAX {
        return name.to_owned();
    }
    rust(name).or_else(|| written(&symbol, tail)).unwrap_or_else(|| name.to_owned())
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
            ("_ZN3foo3barEi.cold", "foo::bar(int) [clone .cold]"),
            ("__libc_init_first@@GLIBC_2.2.5", "__libc_init_first"),
            // The return type is an expression that only some demanglers read.
            ("_ZSt4swapIdENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EEEE5valueEvE4typeERS3_SC_", "std::swap<double>"),
            ("@odd", "@odd"),
            ("_Z", "_Z"),
            ("_ZNotMangled", "_ZNotMangled"),
            ("", ""),
        ] {
            assert_eq!(demangle(name), expected, "{name}");
        }
    }

    #[test]
    fn explosive_names_are_left_as_they_are() {
        // Each template argument doubles the text.
        let mut name = String::from("_Z1fI");
        for _ in 0..60 {
            name.push_str("St4pairIS_S_E");
        }
        assert!(demangle(&name).len() <= DEMANGLED_BYTES_MAX);
        let nested = format!("_Z1f{}i", "P".repeat(60_000));
        assert_eq!(demangle(&nested), nested);
        let long = format!("_Z{}", "x".repeat(MANGLED_BYTES_MAX));
        assert_eq!(demangle(&long), long);
    }
}
