//! The numbers at the end of lines: a count, those of two profiles, or the metrics of Austin.
//!
//! ```text
//! # austin: 3.7.0
//! # mode: full
//!
//! P11166;T0:11166;/src/calls.py:main:25 20110,0,282624      microseconds, 1 if the thread was idle, bytes gained
//! ```
//! The modes `wall` and `cpu` of Austin have microseconds alone, `memory` bytes. Format:
//! <https://github.com/P403n1x87/austin>, "Austin format".

use super::{Split, is_passed_over, split};

/// The columns of all lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Columns {
    Count,
    /// Counts of the profile before, and of the one that is compared with it.
    Pair,
    /// Austin's time, as its mode says.
    Wall,
    Cpu,
    Memory,
    Full,
}

impl Columns {
    /// The columns that the comments before the first stack state: those of Austin, else a count.
    pub(super) fn from_comments(bytes: &[u8]) -> Columns {
        let (mut is_austin, mut columns) = (false, Columns::Count);
        let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
        let is_stack = |line: &[u8]| split(line).is_some() || FullMetrics::read(line).is_some();
        for comment in lines.take_while(|line| is_passed_over(line) || !is_stack(line)) {
            is_austin |= comment.starts_with(b"# austin: ");
            columns = match comment {
                b"# mode: wall" => Columns::Wall,
                b"# mode: cpu" => Columns::Cpu,
                b"# mode: memory" => Columns::Memory,
                b"# mode: full" => Columns::Full,
                _ => columns,
            };
        }
        if is_austin { columns } else { Columns::Count }
    }

    pub(super) fn sample_types(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Columns::Count => &[("samples", "count")],
            Columns::Pair => &[("before", "count"), ("samples", "count")],
            Columns::Wall => &[("wall", "nanoseconds")],
            Columns::Cpu => &[("cpu", "nanoseconds")],
            Columns::Memory => &[("space", "bytes")],
            Columns::Full => &[("wall", "nanoseconds"), ("cpu", "nanoseconds"), ("space", "bytes")],
        }
    }

    /// The sample type that is shown first.
    pub(super) fn default_sample_type(self) -> &'static str {
        match self {
            Columns::Full => "wall",
            other => other.sample_types()[other.sample_types().len() - 1].0,
        }
    }

    /// The stack and the first number of a line.
    pub(super) fn split(self, line: &[u8]) -> Option<Split<'_>> {
        if self != Columns::Full {
            return split(line);
        }
        let metrics = FullMetrics::read(line)?;
        Some(Split { stack: metrics.stack, value: Some(metrics.micros), has_fraction: false })
    }

    /// The values of a line, of which `one` is the part before its last number; `None` if one is too large.
    pub(super) fn values(self, line: &[u8], one: &Split<'_>) -> Option<Vec<i64>> {
        let nanos = |micros: i64| micros.checked_mul(1000);
        match self {
            Columns::Count | Columns::Memory => Some(vec![one.value?]),
            Columns::Pair => Some(vec![split(one.stack)?.value?, one.value?]),
            Columns::Wall | Columns::Cpu => Some(vec![nanos(one.value?)?]),
            Columns::Full => {
                let FullMetrics { micros, is_idle, bytes, .. } = FullMetrics::read(line)?;
                let wall = nanos(micros)?;
                Some(vec![wall, if is_idle { 0 } else { wall }, bytes])
            }
        }
    }
}

/// A line with all metrics of Austin.
struct FullMetrics<'t> {
    stack: &'t [u8],
    micros: i64,
    is_idle: bool,
    /// What the process gained, or lost.
    bytes: i64,
}

impl<'t> FullMetrics<'t> {
    fn read(line: &'t [u8]) -> Option<FullMetrics<'t>> {
        let blank = memchr::memrchr2(b' ', b'\t', line)?;
        let mut numbers = std::str::from_utf8(&line[blank + 1..]).ok()?.split(',');
        let mut next = || numbers.next()?.parse::<i64>().ok();
        let (micros, is_idle, bytes) = (next()?, next()? != 0, next()?);
        numbers.next().is_none().then_some(FullMetrics { stack: &line[..blank], micros, is_idle, bytes })
    }
}
