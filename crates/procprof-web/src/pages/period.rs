//! Periods that end now, which lists and sums are chosen by: `last=1h`.

use crate::params::Params;
use crate::problem::{ApiResult, Problem};
use crate::texts::{Text, t};

/// A period that ends now.
#[derive(Clone, Copy)]
pub(super) struct Period {
    /// As in the address.
    pub(super) name: &'static str,
    /// For people.
    pub(super) label: Text,
    /// Its length in seconds.
    pub(super) seconds: i64,
}

/// The periods that can be chosen, the shortest first.
pub(super) const PERIODS: [Period; 4] = [
    Period { name: "1h", label: t!("1 hour"), seconds: 3600 },
    Period { name: "6h", label: t!("6 hours"), seconds: 21_600 },
    Period { name: "1d", label: t!("1 day"), seconds: 86_400 },
    Period { name: "7d", label: t!("7 days"), seconds: 604_800 },
];

impl Period {
    /// The period that `last=` names.
    ///
    /// # Errors
    /// It names none.
    pub(super) fn of(params: &Params) -> ApiResult<Option<Period>> {
        let Some(text) = params.get("last") else { return Ok(None) };
        let found = PERIODS.into_iter().find(|period| period.name == text);
        found.map(Some).ok_or_else(|| Problem::bad_request("last: expected 1h, 6h, 1d or 7d"))
    }
}
