//! Demangling with the symbol's version kept.

/// The name for people. A version (`@@GLIBC_2.34`) stays behind it, unlike in [`crate::demangle`].
pub fn demangle(name: &str) -> String {
    let at = name.find('@').unwrap_or(name.len());
    let (plain, version) = name.split_at(at);
    let is_mangled = plain.starts_with("_Z") || plain.starts_with("_R") || plain.starts_with("_GLOBAL_");
    if !is_mangled {
        return name.to_owned();
    }
    let plain = if is_rust(plain) { without_suffix(plain) } else { plain };
    format!("{}{version}", crate::demangle(plain))
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
