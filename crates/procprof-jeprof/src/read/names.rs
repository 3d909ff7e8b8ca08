//! Names in a profile: lines of `0xADDRESS NAME--INLINED` behind `--- symbol`.

use std::collections::BTreeMap;

use super::source::Source;
use crate::symbols::{Symbol, short_function_name};

/// Names in a profile.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The program's path.
    pub binary: Option<String>,
    by_address: BTreeMap<u64, String>,
}

impl Names {
    /// Names by address; functions that were inlined follow the one they were inlined into, after `--`.
    pub fn new(binary: Option<String>, by_address: impl IntoIterator<Item = (u64, String)>) -> Names {
        Names { binary, by_address: by_address.into_iter().collect() }
    }

    /// The functions at an address, outermost first: those it was given, else the address.
    pub fn symbols(&self, address: u64) -> Vec<Symbol> {
        let unknown = format!("0x{address:016x}");
        let names = self.by_address.get(&address).unwrap_or(&unknown);
        let symbol =
            |full: &str| Symbol { short: short_function_name(full).into(), place: "?".into(), full: full.into() };
        names.split("--").filter(|name| !name.is_empty()).map(symbol).collect()
    }

    /// Adds the names of another profile, which replace existing ones.
    pub fn add(&mut self, other: Names) {
        self.binary = other.binary.or(self.binary.take());
        self.by_address.extend(other.by_address);
    }

    /// Reads them up to the line that ends them.
    pub(super) fn read(source: &mut Source<'_>) -> Names {
        let mut names = Names::default();
        while let Some(line) = source.line() {
            let line = String::from_utf8_lossy(line);
            if line.starts_with("---") {
                break;
            }
            let entry = line.strip_prefix("0x").and_then(|rest| rest.split_once(char::is_whitespace));
            if let Some((digits, name)) = entry {
                if let Ok(address) = u64::from_str_radix(digits, 16) {
                    names.by_address.insert(address, name.trim_start().to_owned());
                }
            } else if let Some(binary) = line.strip_prefix("binary=") {
                names.binary = Some(binary.trim().to_owned());
            }
        }
        names
    }
}
