//! How the base of a difference is scaled: by default so that both sides have measured for the same time.

use maud::{Markup, html};

use super::{quantity, span};
use crate::params::Params;
use crate::texts::t;
use crate::viewer::joined;

const SECOND: i64 = 1_000_000_000;
/// Nanoseconds by which the durations of equal schedules differ.
const TOLERANCE: i64 = 500_000_000;
/// The part of a duration that is not more than this, for short ones.
const PART: i64 = 20;

/// How much a side of a difference has measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) profiles: u64,
    /// Nanoseconds of all profiles.
    pub(super) duration: i64,
    /// Whether the durations of all profiles are known.
    pub(super) has_time: bool,
}

/// Both sides of a difference.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    pub(super) own: Extent,
    pub(super) base: Extent,
}

impl Extents {
    /// Whether both have measured equally much, as equal schedules do.
    pub(super) fn are_equal(self) -> bool {
        let (own, base) = (self.own.duration, self.base.duration);
        match own.max(base) {
            0 => self.own.profiles == self.base.profiles,
            longest => own.abs_diff(base) <= (longest / PART).min(TOLERANCE).unsigned_abs(),
        }
    }

    fn have_time(self) -> bool {
        self.own.has_time && self.base.has_time
    }

    /// The value of `normalize` unless the address has one. By time, what grew stays larger; snapshots have none. The
    /// address then says it, so that the viewer, reports and a copied link agree.
    pub(super) fn default(self) -> Option<&'static str> {
        (!self.are_equal()).then(|| if self.have_time() { "time" } else { "true" })
    }

    /// How the base is scaled, and the ways to the other scalings of the page at `path`.
    pub(super) fn switch(self, path: &str, params: &Params) -> Markup {
        let Extents { own, base } = self;
        let scaling = params.get("normalize").unwrap_or("false");
        let ways = [
            ("time", t!("Scale to the same measured time"), self.have_time() && !self.are_equal()),
            ("true", t!("Scale to the same total"), true),
            ("false", t!("Compare as measured"), true),
        ];
        html! {
            p class="notice" {
                @if !self.are_equal() {
                    @if own.duration > 0 && base.duration > 0 {
                        (t!("Measured: {0} here, {1} in the base.", length(own.duration), length(base.duration)))
                    } @else {
                        (t!("Profiles: {0} here, {1} in the base.", own.profiles, base.profiles))
                    }
                    " "
                }
                @match scaling {
                    "time" => (t!("The base is scaled to the same measured time.")),
                    "true" => (t!("The base is scaled to the same total.")),
                    _ if self.are_equal() && self.have_time() => (t!("Both sides measured for the same time.")),
                    _ => (t!("Values are compared as measured.")),
                }
                @for (name, label, _) in ways.iter().filter(|(name, _, fits)| *fits && *name != scaling) {
                    @let pairs = params.except(&["normalize"]).chain([("normalize", *name)]);
                    " " a href=(joined(path, &pairs.collect::<Vec<_>>())) { (label) }
                }
            }
        }
    }
}

/// A length in words; of short ones, parts of seconds matter.
fn length(nanos: i64) -> String {
    if nanos < 120 * SECOND && nanos % SECOND != 0 { quantity(nanos, "nanoseconds") } else { span(nanos) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_is_scaled_by_time_where_durations_differ() {
        let extent =
            |milliseconds: i64| Extent { profiles: 1, duration: milliseconds * 1_000_000, has_time: milliseconds > 0 };
        for (own, base, expected) in [
            (10_000, 10_000, None),
            (10_000, 10_030, None),
            (10_000, 30_000, Some("time")),
            (1000, 1400, Some("time")),
            (300, 400, Some("time")),
            (0, 0, None),
            (0, 10_000, Some("true")),
        ] {
            let extents = Extents { own: extent(own), base: extent(base) };
            assert_eq!(extents.default(), expected, "{own} ms and {base} ms");
        }
    }
}
