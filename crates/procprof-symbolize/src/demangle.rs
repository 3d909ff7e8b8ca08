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
        self.mangled(plain).unwrap_or_else(|| plain.to_owned())
    }

    /// The name of a mangled name, which may have a symbol version; `None` for every other, whatever it contains.
    pub(crate) fn demangled(&mut self, name: &str) -> Option<String> {
        if name.starts_with('_') { self.mangled(without_version(name)) } else { None }
    }

    fn mangled(&mut self, plain: &str) -> Option<String> {
        if plain.len() > MANGLED_BYTES_MAX {
            return None;
        }
        rust(plain).or_else(|| self.cpp(plain, Style::Llvm))
    }

    /// The demangled C++ name; `None` if it is not mangled, or beyond a limit.
    pub(crate) fn cpp(&mut self, name: &str, style: Style) -> Option<String> {
        self.cpp.demangle(name, style)
    }
}

/// A demangled name without parameters, the type that is returned, and what follows the parameters.
pub(crate) fn without_parameters(name: &str) -> String {
    let (mut depth, mut short, mut is_operator) = (0usize, String::new(), false);
    let mut rest = name;
    while let Some(character) = rest.chars().next() {
        let behind = &rest[character.len_utf8()..];
        let is_sign = depth == 0 && ends_with_operator(short.trim_end_matches(['<', '>', '-']));
        match character {
            '(' if depth == 0 && !short.is_empty() && !ends_with_operator(&short) && !rest.starts_with(ANONYMOUS) => {
                let Some(inner) = behind_parameters(rest) else { return short };
                rest = inner;
                continue;
            }
            '<' | '>' if is_sign => {}
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            // What precedes a blank is a type, but for the names of operators.
            ' ' if depth == 0 && !is_operator => {
                short.clear();
                rest = behind;
                continue;
            }
            _ => {}
        }
        short.push(character);
        is_operator |= depth == 0 && ends_with_operator(&short);
        rest = behind;
    }
    short
}

const ANONYMOUS: &str = "(anonymous namespace)";

fn ends_with_operator(name: &str) -> bool {
    name.strip_suffix("operator").is_some_and(|before| before.is_empty() || before.ends_with([':', ' ']))
}

/// The rest behind parameters, if it is a name in the function.
fn behind_parameters(text: &str) -> Option<&str> {
    let mut depth = 0usize;
    let end = text.find(|character| {
        depth = match character {
            '(' => depth + 1,
            ')' => depth - 1,
            _ => depth,
        };
        depth == 0
    })?;
    let rest = &text[end + 1..];
    Some(rest.strip_prefix(" const").unwrap_or(rest)).filter(|rest| rest.starts_with("::"))
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
    fn parameters_are_left_out() {
        for (name, expected) in [
            ("foo::bar(int)", "foo::bar"),
            ("main", "main"),
            ("void foo::bar<int, (a)3>(int, void (*)(char)) const", "foo::bar<int, (a)3>"),
            ("std::map<int, char> f<int>(int&)", "f<int>"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("A::operator()(int) const", "A::operator()"),
            ("bool operator< <int>(A, B)", "operator< <int>"),
            ("std::ostream& operator<<(A)", "operator<<"),
            ("A::operator->() const", "A::operator->"),
            ("A::operator bool() const", "A::operator bool"),
            ("operator new(unsigned long)", "operator new"),
            ("f(int) const::{lambda(char)#1}::operator()(char) const", "f::{lambda(char)#1}::operator()"),
            ("A::operator>>(int)", "A::operator>>"),
            ("f(", "f"),
            ("<example::Cache<u8> as core::ops::Drop>::drop", "<example::Cache<u8> as core::ops::Drop>::drop"),
            ("", ""),
        ] {
            assert_eq!(without_parameters(name), expected, "{name}");
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
