//! What the functions of a profile take, for queries over many profiles.

use serde::{Deserialize, Serialize};

/// What each function of a profile takes, of the sample type that is shown. The catalog keeps it; the profile's file,
/// from which it can be computed again, does not have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionTable {
    /// The name of the sample type: `cpu`, `inuse_space`, …
    pub kind: String,
    /// Its unit: `nanoseconds`, `bytes`, `count`, …
    pub unit: String,
    /// The sum of the profile.
    pub total: i64,
    /// The functions, each name once, in any order.
    pub functions: Vec<FunctionValues>,
}

/// What one function takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionValues {
    /// Its name.
    pub name: String,
    /// Its own value.
    pub own: i64,
    /// With all that it calls; in a recursion once.
    pub total: i64,
}

impl FunctionTable {
    /// Functions of a profile kept at most; the functions of one with more are not kept.
    pub const FUNCTIONS_MAX: usize = 100_000;
    /// Bytes of their names at most; the functions of a profile with more are not kept.
    pub const NAMES_BYTES_MAX: usize = 16 << 20;

    /// Whether it has too many functions to be kept.
    pub(crate) fn is_too_large(&self) -> bool {
        let names = || self.functions.iter().map(|function| function.name.len()).sum::<usize>();
        self.functions.len() > Self::FUNCTIONS_MAX || names() > Self::NAMES_BYTES_MAX
    }
}
