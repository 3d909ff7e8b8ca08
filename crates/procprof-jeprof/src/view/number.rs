//! Numbers as jeprof prints them.

use std::cmp::Ordering;

use crate::{HeapIndex, ProfileKind, Settings};

/// The format of a profile's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Megabytes,
    Bytes,
    Objects,
    Seconds,
    Samples,
}

impl Unit {
    pub(crate) fn from_settings(kind: ProfileKind, settings: &Settings) -> Unit {
        match kind {
            ProfileKind::Heap | ProfileKind::Growth => match settings.index {
                HeapIndex::InuseObjects | HeapIndex::AllocObjects => Unit::Objects,
                HeapIndex::InuseSpace | HeapIndex::AllocSpace if settings.show_bytes => Unit::Bytes,
                HeapIndex::InuseSpace | HeapIndex::AllocSpace => Unit::Megabytes,
            },
            ProfileKind::Contention if !settings.contentions_unit => Unit::Seconds,
            ProfileKind::Contention | ProfileKind::Cpu => Unit::Samples,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Megabytes => "MB",
            Unit::Bytes => "B",
            Unit::Objects => "objects",
            Unit::Seconds => "seconds",
            Unit::Samples => "samples",
        }
    }

    pub(crate) fn print(self, value: f64) -> String {
        match self {
            Unit::Megabytes => format!("{:.1}", value / 1_048_576.0),
            Unit::Seconds => format!("{:.3}", value / 1e9),
            Unit::Bytes | Unit::Objects | Unit::Samples => integer(value),
        }
    }
}

/// `%d`: cut off towards 0.
pub(crate) fn integer(value: f64) -> String {
    (value as i64).to_string()
}

/// The greater one first; 0 and -0 are equal.
pub(crate) fn descending(a: f64, b: f64) -> Ordering {
    b.partial_cmp(&a).unwrap_or(Ordering::Equal)
}

pub(crate) fn percent(value: f64, total: f64) -> String {
    if total != 0.0 {
        return format!("{:.1}%", value * 100.0 / total);
    }
    let text = match value {
        0.0 => "nan",
        value if value > 0.0 => "+inf",
        _ => "-inf",
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_in_c() {
        assert_eq!(Unit::Megabytes.print(1_048_576.0 * 0.25), "0.2");
        assert_eq!(Unit::Megabytes.print(-1000.0), "-0.0");
        assert_eq!(Unit::Bytes.print(-1.9), "-1");
        assert_eq!(Unit::Seconds.print(1_234_567_890.0), "1.235");
        assert_eq!(percent(1.0, 3.0), "33.3%");
        assert_eq!(percent(0.0, 0.0), "nan");
        assert_eq!(percent(-2.0, 0.0), "-inf");
    }
}
