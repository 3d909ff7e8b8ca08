//! The facts about uploaded symbols besides the index itself.

use procprof_profile::Nanos;
use serde::{Deserialize, Serialize};

use super::SymbolKey;

/// The level of detail of an index; the more, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// Functions only: made from a symbol table.
    Functions,
    /// Functions, files, lines and inlined frames: made from debug information.
    Lines,
}

impl Detail {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Detail::Functions => "functions",
            Detail::Lines => "functions, lines and inlined frames",
        }
    }
}

/// The standing of whoever sent an index; the greater takes the place of the lesser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// A token that speaks for no host.
    Other,
    /// The token of a host that runs the file. Records that were written before owners were have this one, too.
    #[default]
    Host,
    /// An operator.
    Operator,
}

impl Owner {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Owner::Other => "other",
            Owner::Host => "host",
            Owner::Operator => "operator",
        }
    }
}

/// The metadata of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexFacts {
    /// Its key.
    pub(crate) key: SymbolKey,
    /// Name of the file it was made from.
    pub(crate) name: String,
    /// Number of its functions.
    pub(crate) functions: u64,
    /// Their level of detail.
    pub(crate) detail: Detail,
}

/// Uploaded symbols, as listed; kept in `KEY.json` beside the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Their key.
    pub key: SymbolKey,
    /// Name of the file they were made from, without its folder.
    pub name: String,
    /// Size of the index.
    pub bytes: u64,
    /// Number of its functions.
    pub functions: u64,
    /// Their level of detail.
    pub detail: Detail,
    /// When it was stored, UTC nanoseconds.
    pub stored: i64,
    /// The user who uploaded it.
    pub by: String,
    /// The standing of that user for this file.
    #[serde(default)]
    pub owner: Owner,
    /// When a profile was last named by it, UTC nanoseconds, to the hour.
    pub last_used: Option<i64>,
}

impl Record {
    /// Whether it takes the place of another one of its key: by a greater standing, or with more detail by the same.
    pub(crate) fn replaces(&self, old: &Record) -> bool {
        is_better((self.owner, self.detail), old)
    }

    /// Whether a text is in the name of the file or in the key, in any case; an empty one is.
    pub fn has(&self, text: &str) -> bool {
        let text = text.trim().to_lowercase();
        self.name.to_lowercase().contains(&text) || self.key.as_str().to_lowercase().contains(&text)
    }

    /// The moment by which the least used goes first.
    pub(crate) fn last_wanted(&self) -> Nanos {
        Nanos(self.last_used.unwrap_or(self.stored).max(self.stored))
    }
}

/// Whether an index of this standing and detail takes the place of the one that is stored. Equal ones do not: what
/// names profiles changes for a reason alone.
pub fn is_better((owner, detail): (Owner, Detail), stored: &Record) -> bool {
    owner > stored.owner || (owner == stored.owner && detail > stored.detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standing_comes_before_detail_and_equals_stay() {
        let all = [Owner::Other, Owner::Host, Owner::Operator]
            .into_iter()
            .flat_map(|owner| [Detail::Functions, Detail::Lines].map(|detail| (owner, detail)));
        let all: Vec<(Owner, Detail)> = all.collect();
        for (place, one) in all.iter().enumerate() {
            for (other_place, (owner, detail)) in all.iter().enumerate() {
                let stored = Record {
                    key: "00ff".parse().unwrap(),
                    name: String::new(),
                    bytes: 1,
                    functions: 1,
                    detail: *detail,
                    stored: 0,
                    by: String::new(),
                    owner: *owner,
                    last_used: None,
                };
                assert_eq!(is_better(*one, &stored), place > other_place, "{one:?} {owner:?} {detail:?}");
            }
        }
    }

    #[test]
    fn a_record_without_an_owner_is_of_a_host() {
        let json = r#"{"key":"00ff","name":"x","bytes":1,"functions":1,"detail":"lines","stored":1,"by":"ann","last_used":null}"#;
        assert_eq!(serde_json::from_str::<Record>(json).unwrap().owner, Owner::Host);
    }
}
