//! Demangling with the symbol's version kept.

use crate::demangle::demangle_without_tail;

/// The name for people. A version (`@@GLIBC_2.34`) stays behind it, unlike in [`crate::demangle`].
pub fn demangle(name: &str) -> String {
    let at = name.find('@').unwrap_or(name.len());
    let (plain, version) = name.split_at(at);
    let is_mangled = plain.starts_with("_Z") || plain.starts_with("_R") || plain.starts_with("_GLOBAL_");
    if !is_mangled {
        return name.to_owned();
    }
    let demangled = if is_rust(plain) { crate::demangle(without_suffix(plain)) } else { cpp(plain) };
    format!("{demangled}{version}")
}

/// As binutils spell it.
fn cpp(name: &str) -> String {
    let text = demangle_without_tail(name);
    let text = match text.strip_prefix("{virtual override thunk({virtual offset(").and_then(|rest| rest.strip_suffix(")}")) {
        Some(rest) => format!("virtual thunk to {}", rest.split_once(")}, ").map_or(rest, |(_, function)| function)),
        None => text,
    };
    let text = match text.strip_prefix("{virtual override thunk({offset(").and_then(|rest| rest.strip_suffix(")}")) {
        Some(rest) => format!("non-virtual thunk to {}", rest.split_once(")}, ").map_or(rest, |(_, function)| function)),
        None => text,
    };
    // Spelled out where it was spelled out, as in templates.
    let streams = ["istream", "ostream", "iostream"].into_iter().filter(|stream| !name.contains(&format!("basic_{stream}")));
    streams.fold(text, with_stream)
}

/// The short name of a stream of characters, but not where its own constructor or destructor follows.
fn with_stream(text: String, stream: &str) -> String {
    let long = format!("std::basic_{stream}<char, std::char_traits<char> >");
    if !text.contains(&long) {
        return text;
    }
    let mut pieces = text.split(long.as_str());
    let mut short = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let own = piece.starts_with(&format!("::basic_{stream}")) || piece.starts_with(&format!("::~basic_{stream}"));
        short.push_str(if own { long.as_str() } else { "std::" });
        if !own {
            short.push_str(stream);
        }
        short.push_str(piece);
    }
    short
}

/// Whether the name ends as Rust's first mangling does, or begins as its second.
fn is_rust(name: &str) -> bool {
    name.starts_with("_R") || without_suffix(name).get(..).is_some_and(ends_in_hash)
}

fn ends_in_hash(name: &str) -> bool {
    const TAIL: usize = "17h0123456789abcdefE".len();
    let tail = name.len().checked_sub(TAIL).and_then(|start| name.get(start..));
    let digits = tail.and_then(|tail| tail.strip_prefix("17h")?.strip_suffix('E'));
    digits.is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// The name less what compilers and linkers hang on with a dot, such as `.llvm.123`.
fn without_suffix(name: &str) -> &str {
    if name.starts_with("_R") {
        return name.split('.').next().unwrap_or(name);
    }
    match name.rfind("E.") {
        Some(end) if ends_in_hash(&name[..=end]) => &name[..=end],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_versions_and_drops_rust_suffixes() {
        for (name, expected) in [
            ("main", "main"),
            ("__libc_init_first@@GLIBC_2.2.5", "__libc_init_first@@GLIBC_2.2.5"),
            ("_ZN3foo3barEv@@FOO_1", "foo::bar()@@FOO_1"),
            ("_ZN4core3fmt5write17h0123456789abcdefE.llvm.42", "core::fmt::write"),
            ("_ZN3foo3barEi.cold", "foo::bar(int) [clone .cold]"),
            ("_RNvC6_123foo3bar.llvm.7", "123foo::bar"),
        ] {
            assert_eq!(demangle(name), expected, "{name}");
        }
    }
}
