//! Names of addresses, and how jeprof shortens them and keeps them distinct.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use crate::stacks::{PcId, Pcs};

/// One function at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The name without arguments, template arguments and leading type.
    pub short: Arc<str>,
    /// `FILE:LINE`, or the tool's replacement.
    pub place: Arc<str>,
    /// The whole name; one of a symbol table ends in the symbol's address: `name<00001234>`.
    pub full: Arc<str>,
}

/// The functions at each address, outermost first; inlined ones follow.
#[derive(Debug, Default)]
pub struct Symbols {
    by_pc: Vec<Option<Vec<Symbol>>>,
}

impl Symbols {
    /// Adds the functions of each address of `pcs`; missing addresses stay unchanged.
    pub fn new(pcs: &Pcs, mut by_address: HashMap<u64, Vec<Symbol>>) -> Symbols {
        let by_pc =
            pcs.addresses().iter().map(|address| by_address.remove(address).filter(|symbols| !symbols.is_empty()));
        Symbols { by_pc: by_pc.collect() }
    }

    /// The whole names at each address that has any, outermost first, by address.
    pub fn by_address<'a>(&'a self, pcs: &Pcs) -> std::collections::BTreeMap<u64, Vec<&'a str>> {
        let named = pcs.addresses().iter().zip(&self.by_pc);
        named
            .filter_map(|(address, symbols)| {
                Some((*address, symbols.as_ref()?.iter().map(|symbol| &*symbol.full).collect()))
            })
            .collect()
    }

    pub(crate) fn at(&self, pc: PcId) -> Option<&[Symbol]> {
        self.by_pc.get(pc.index())?.as_deref()
    }

    /// The outermost function.
    pub(crate) fn outermost(&self, pc: PcId) -> Option<&Symbol> {
        self.at(pc)?.first()
    }

    fn all_outermost(&self) -> impl Iterator<Item = &Symbol> {
        self.by_pc.iter().flatten().filter_map(|symbols| symbols.first())
    }

    /// By whole name, the short names of functions that share theirs with a function at another
    /// address: `name@1234`.
    pub(crate) fn distinct_names(&self) -> HashMap<Arc<str>, Arc<str>> {
        let mut seen: HashMap<&str, &str> = HashMap::default();
        let mut repeated: HashSet<&str> = HashSet::default();
        for symbol in self.all_outermost().filter(|symbol| tag(&symbol.full).is_some()) {
            let known = *seen.entry(&symbol.short).or_insert(&symbol.full);
            if known != &*symbol.full {
                repeated.insert(&symbol.short);
            }
        }
        let shared = self.all_outermost().filter(|symbol| repeated.contains(&*symbol.short));
        let named = shared.filter_map(|symbol| {
            let address = tag(&symbol.full)?.trim_start_matches('0');
            Some((symbol.full.clone(), format!("{}@{address}", symbol.short).into()))
        });
        named.collect()
    }
}

/// The hexadecimal digits between `<` and `>` at the end of a name.
fn tag(name: &str) -> Option<&str> {
    let inside = name.strip_suffix('>')?;
    let (_, digits) = inside.rsplit_once('<')?;
    let is_hex = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then_some(digits)
}

/// Removes argument lists, template arguments and the leading type from a name.
pub fn short_function_name(name: &str) -> String {
    let mut short = name.to_owned();
    if short.contains('(') {
        short = without_arguments(short);
    }
    if short.contains('<') {
        short = without_innermost(short, '<', '>');
    }
    without_type(short)
}

/// Removes `(...)` and a `const` behind it, innermost first, as often as there are any.
fn without_arguments(mut name: String) -> String {
    loop {
        let mut changed = false;
        let mut left = String::with_capacity(name.len());
        let mut rest = name.as_str();
        while let Some(close) = rest.find(')') {
            let Some(open) = rest[..close].rfind('(') else {
                left.push_str(&rest[..=close]);
                rest = &rest[close + 1..];
                continue;
            };
            left.push_str(&rest[..open]);
            rest = &rest[close + 1..];
            rest = rest.trim_start_matches(is_blank).strip_prefix("const").unwrap_or(rest);
            changed = true;
        }
        left.push_str(rest);
        name = left;
        if !changed {
            return name;
        }
    }
}

fn without_innermost(mut name: String, open: char, close: char) -> String {
    loop {
        let mut changed = false;
        let mut left = String::with_capacity(name.len());
        let mut rest = name.as_str();
        while let Some(end) = rest.find(close) {
            match rest[..end].rfind(open) {
                Some(start) => {
                    left.push_str(&rest[..start]);
                    changed = true;
                }
                None => left.push_str(&rest[..=end]),
            }
            rest = &rest[end + 1..];
        }
        left.push_str(rest);
        name = left;
        if !changed {
            return name;
        }
    }
}

/// Removes everything before the last word that blanks precede and `::` follows.
fn without_type(name: String) -> String {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let starts_path = |rest: &str| rest.starts_with(is_word) && rest.trim_start_matches(is_word).starts_with("::");
    match name.rmatch_indices(is_blank).find(|(at, blank)| starts_path(&name[at + blank.len()..])) {
        Some((at, blank)) => name[at + blank.len()..].to_owned(),
        None => name,
    }
}

fn is_blank(letter: char) -> bool {
    letter.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_short() {
        for (name, expected) in [
            ("main", "main"),
            ("foo::bar(int, char (*)(long)) const", "foo::bar"),
            ("void foo<std::vector<int> >::bar<3>(int)", "foo::bar"),
            ("<alloc::vec::Vec<T> as core::ops::Drop>::drop", "::drop"),
            ("operator new(unsigned long)", "operator new"),
            ("std::pair<int, int> ns::f(int)", "ns::f"),
            ("(anonymous namespace)::f()", "::f"),
            ("a > b", "a > b"),
            ("f)(int)", "f)"),
            ("name<0000000000001234>", "name"),
        ] {
            assert_eq!(short_function_name(name), expected, "{name}");
        }
    }

    #[test]
    fn only_whole_tags_count() {
        assert_eq!(tag("f<00ab>"), Some("00ab"));
        assert_eq!(tag("f<int>"), None);
        assert_eq!(tag("f"), None);
        assert_eq!(tag("f<>"), None);
    }
}
