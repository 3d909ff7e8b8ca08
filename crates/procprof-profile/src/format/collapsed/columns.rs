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
    /// Those of the profile before, and of the one that is compared with it.
    Pair,
    /// Of Austin, as its mode says.
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
        let is_stack = |line: &[u8]| split(line).is_some() || split_full(line).is_some();
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
        let (stack, (time, _)) = split_full(line)?;
        Some(Split { stack, value: Some(time), has_fraction: false })
    }

    /// The values of a line, of which `one` is the part before its last number; `None` if one is too large.
    pub(super) fn values(self, line: &[u8], one: &Split<'_>) -> Option<Vec<i64>> {
        let nanos = |micros: i64| micros.checked_mul(1000);
        match self {
            Columns::Count | Columns::Memory => Some(vec![one.value?]),
            Columns::Pair => Some(vec![split(one.stack)?.value?, one.value?]),
            Columns::Wall | Columns::Cpu => Some(vec![nanos(one.value?)?]),
            Columns::Full => {
                let (_, (time, [is_idle, bytes])) = split_full(line)?;
                let time = nanos(time)?;
                Some(vec![time, if is_idle == 0 { time } else { 0 }, bytes])
            }
        }
    }
}

/// The stack of a line, and the time, whether the thread was idle, and the memory.
fn split_full(line: &[u8]) -> Option<(&[u8], (i64, [i64; 2]))> {
    let blank = memchr::memrchr2(b' ', b'\t', line)?;
    let mut numbers = std::str::from_utf8(&line[blank + 1..]).ok()?.split(',');
    let mut next = || numbers.next()?.parse().ok();
    let metrics = (next()?, [next()?, next()?]);
    numbers.next().is_none().then_some((&line[..blank], metrics))
}
