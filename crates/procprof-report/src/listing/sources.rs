//! The inputs of a report besides the profile: source texts and machine code, read by the caller.

use std::collections::BTreeMap;

use procprof_profile::{Addr, MappingId};
use regex::Regex;

use crate::listing::code::Code;

/// Source texts and machine code for a report, read by the caller.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Source texts by their path in the profile.
    pub files: BTreeMap<String, String>,
    /// Why others could not be read, by their path; also for binaries.
    pub missing: BTreeMap<String, String>,
    /// Machine code, for reports that request it by [`Report::wanted_code`](crate::Report::wanted_code).
    pub code: Vec<Code>,
}

/// Machine code that a report shows.
#[derive(Clone, Debug)]
pub struct CodeWanted {
    /// The mapping whose file it is in.
    pub mapping: MappingId,
    /// Addresses of the profile in the requested functions, in order.
    pub addresses: Vec<Addr>,
    /// An expression that the name of a function must also match, if any.
    pub names: Option<Regex>,
}

impl Sources {
    /// The text of a file, or why it is missing.
    pub(crate) fn text(&self, path: &str) -> std::result::Result<&str, &str> {
        let missing = || self.missing.get(path).map_or("the source was not read", String::as_str);
        self.files.get(path).map(String::as_str).ok_or_else(missing)
    }
}
