//! The protocol of `/pprof/symbol`, as gperftools, brpc and Go implement it.
//!
//! It responds to a POST of `0xADDR+0xADDR+...` with a line for each address. White space separates the address from
//! the name, which may contain spaces; leading zeros are ignored; `num_symbols` and other lines without an address are
//! skipped. `caller--inlined` is a call that was inlined:
//! ```text
//! num_symbols: 1
//! 0x00000000004006bd      hot_70
//! 0x4006f0        main--std::vector<int>::push_back
//! ```

use procprof_profile::Addr;

use crate::{Error, Frame, Result, demangle};

/// Longest name accepted in a response, in bytes; longer ones are left out.
const NAME_BYTES_MAX: usize = 64 << 10;

/// The body to POST for these addresses.
pub fn encode_request(addresses: &[Addr]) -> String {
    let texts: Vec<String> = addresses.iter().map(|address| format!("{address:#x}")).collect();
    texts.join("+")
}

/// Parses a response into addresses and names, in its order. Addresses without a name, with `??` or with the address
/// itself as name are left out.
///
/// Errs with [`Error::SymbolAnswer`] if a line begins like an address but is none.
pub fn parse_answer(text: &str) -> Result<Vec<(Addr, String)>> {
    let mut names = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let Some(digits) = line.strip_prefix("0x").or_else(|| line.strip_prefix("0X")) else {
            continue;
        };
        let (digits, name) = digits.split_once(char::is_whitespace).unwrap_or((digits, ""));
        let address = u64::from_str_radix(digits, 16);
        let expected = "a hexadecimal address";
        let address = address.map_err(|_| Error::SymbolAnswer { line: index + 1, expected })?;
        let name = name.trim();
        if is_name(name) {
            names.push((Addr(address), name.to_owned()));
        }
    }
    Ok(names)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with("??") && !name.starts_with("0x")
}

/// The frames of a remote name, innermost first; none if it is no name.
pub(crate) fn frames(name: &str) -> Vec<Frame> {
    if !is_name(name) {
        return Vec::new();
    }
    let mut names = split_inlined(name);
    names.reverse();
    let frame = |name: &str| Frame {
        name: demangle(name).into(),
        system_name: name.into(),
        start_line: None,
        file: None,
        line: None,
        column: None,
    };
    names.into_iter().map(frame).collect()
}

/// Splits at each `--` that is not the end of `operator--`.
fn split_inlined(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, separator) in name.match_indices("--") {
        let part = name.get(start..at).unwrap_or("");
        if part.is_empty() || part.ends_with("operator") {
            continue;
        }
        parts.push(part);
        start = at + separator.len();
    }
    parts.extend(name.get(start..).filter(|part| !part.is_empty()));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_join_addresses_with_plus_signs() {
        assert_eq!(encode_request(&[Addr(0x1f), Addr(0xabc)]), "0x1f+0xabc");
    }

    #[test]
    fn parses_an_answer() {
        let text = "num_symbols: 1\n0x00000000004006bd\thot_70\r\n0x4006f0   std::pair<int, int>::f()\n0x3\n0x4 ??\n0x5 0x5\n\n";
        let names = parse_answer(text).unwrap();
        assert_eq!(names, [(Addr(0x4006bd), "hot_70".into()), (Addr(0x4006f0), "std::pair<int, int>::f()".into())]);
        let error = parse_answer("0x1 a\n0xzz b\n").unwrap_err();
        assert_eq!(error.to_string(), "symbol answer: line 2: expected a hexadecimal address");
    }

    #[test]
    fn inlined_names_come_innermost_first() {
        let names = |text: &str| frames(text).into_iter().map(|frame| frame.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names("main--outer--_Z5innerv"), ["inner()", "outer", "main"]);
        assert_eq!(names("It::operator--(int)--main"), ["main", "It::operator--(int)"]);
        assert_eq!(names("--odd"), ["--odd"]);
        assert!(names("??").is_empty());
    }
}
