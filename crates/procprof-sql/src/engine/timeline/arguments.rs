//! What `timeline()` is called with: the buckets of its period, and what it is split by.

use procprof_core::archiving::Grain;
use procprof_core::render::ProfileRange;

use super::SECOND;
use crate::engine::periods::{PeriodCall, cut, text};
use crate::mysql::{SqlError, Value};

/// Most buckets.
const BUCKETS_MAX: i64 = 10_000;

/// The length of a bucket in nanoseconds: seconds, or a number with a unit.
pub(super) fn width(call: &PeriodCall<'_>, bucket: &Value) -> Result<i64, SqlError> {
    let written = text(bucket);
    let digits = written.trim().trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let seconds = match written.trim()[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "s" | "second" | "seconds" => Some(1),
        "m" | "min" | "minute" | "minutes" => Some(60),
        "h" | "hour" | "hours" => Some(3600),
        "d" | "day" | "days" => Some(86_400),
        _ => None,
    };
    let digits = if digits.trim().is_empty() && !written.trim().is_empty() { "1" } else { digits.trim() };
    let width =
        seconds.zip(digits.parse::<i64>().ok()).and_then(|(seconds, number)| number.checked_mul(seconds * SECOND));
    let wrong = || {
        let text = cut(&written);
        call.wrong(format!("bucket: '{text}' is no number of seconds, and none with the unit s, m, h or d"))
    };
    width.filter(|width| *width > 0).ok_or_else(wrong)
}

/// The buckets of a timeline: whole multiples of their length since 1970.
#[derive(Clone, Copy)]
pub(super) struct Buckets {
    /// The start of the first.
    pub(super) start: i64,
    pub(super) width: i64,
    pub(super) count: usize,
}

impl Buckets {
    pub(super) fn new(call: &PeriodCall<'_>, range: &ProfileRange, width: i64) -> Result<Buckets, SqlError> {
        let (from, last) = (range.from.0.div_euclid(width), (range.to.0 - 1).div_euclid(width));
        let count = last - from + 1;
        if count > BUCKETS_MAX {
            let text =
                format!("the period has {count} buckets, and at most {BUCKETS_MAX} are made; choose longer ones");
            return Err(call.limit(text));
        }
        Ok(Buckets { start: from * width, width, count: count as usize })
    }

    /// Whether a node's hour is in one bucket, and may take the place of its profiles.
    pub(super) fn grain(self) -> Grain {
        if self.width % (3600 * SECOND) == 0 { Grain::Hour } else { Grain::Profile }
    }

    /// The bucket of a moment in the period.
    pub(super) fn of(self, moment: i64) -> u32 {
        ((moment - self.start) / self.width) as u32
    }
}

/// What a timeline is split by.
pub(super) enum Split {
    Nothing,
    Node,
    Cluster,
    Label(String),
    Functions,
    Function(String),
}

impl Split {
    pub(super) fn parse(call: &PeriodCall<'_>, text: &str) -> Result<Split, SqlError> {
        Ok(match text.split_once('.').map_or((text, None), |(word, rest)| (word, Some(rest))) {
            ("", None) => Split::Nothing,
            ("node", None) => Split::Node,
            ("cluster", None) => Split::Cluster,
            ("function", None) => Split::Functions,
            ("label", Some(key)) if !key.is_empty() => Split::Label(key.to_owned()),
            ("function", Some(name)) if !name.is_empty() => Split::Function(name.to_owned()),
            _ => {
                let text = cut(text);
                let text = format!("split: '{text}' is none of node, cluster, label.KEY, function, function.NAME");
                return Err(call.wrong(text));
            }
        })
    }

    pub(super) fn is_of_functions(&self) -> bool {
        matches!(self, Split::Functions | Split::Function(_))
    }
}
