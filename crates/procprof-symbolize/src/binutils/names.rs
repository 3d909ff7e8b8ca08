//! Demangling as `nm -C` and `addr2line -C` do it, with the symbol's version kept.

use procprof_demangle::Style;

use crate::demangle::Languages;

/// The demangled name. A version (`@@GLIBC_2.34`) is kept behind it, unlike in [`crate::demangle`].
pub fn demangle(name: &str) -> String {
    demangle_by(&mut Languages::default(), name)
}

/// As [`demangle`], for one name after the other.
pub(super) fn demangle_by(languages: &mut Languages, name: &str) -> String {
    let at = name.find('@').unwrap_or(name.len());
    let (plain, version) = name.split_at(at);
    let demangled = if is_rust(plain) {
        Some(languages.demangle(without_suffix(plain)))
    } else {
        global(languages, plain).or_else(|| languages.cpp(plain, Style::Gnu))
    };
    match demangled {
        Some(demangled) => format!("{demangled}{version}"),
        None => name.to_owned(),
    }
}

/// The function that constructs or destroys a file's global objects, named after the first of the file's symbols.
fn global(languages: &mut Languages, name: &str) -> Option<String> {
    let rest = name.strip_prefix("_GLOBAL_")?.strip_prefix(['_', '.', '$'])?;
    let (what, rest) = match rest.split_at_checked(2)? {
        ("I_", rest) => ("constructors", rest),
        ("D_", rest) => ("destructors", rest),
        _ => return None,
    };
    let first = languages.cpp(rest, Style::Gnu);
    Some(format!("global {what} keyed to {}", first.as_deref().unwrap_or(rest)))
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

/// The name without suffixes that compilers and linkers append with a dot, such as `.llvm.123`.
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
            ("_GLOBAL__I__ZN3foo3barEi", "global constructors keyed to foo::bar(int)"),
            ("_GLOBAL__D_file", "global destructors keyed to file"),
            ("_GLOBAL__sub_I_file", "_GLOBAL__sub_I_file"),
            ("_Znwm", "operator new(unsigned long)"),
            (
                "_ZSt4swapISt6vectorIS0_IiEEEvRT_S4_",
                "void std::swap<std::vector<std::vector<int> > >(std::vector<std::vector<int> >&, std::vector<std::vector<int> >&)",
            ),
        ] {
            assert_eq!(demangle(name), expected, "{name}");
        }
    }
}
