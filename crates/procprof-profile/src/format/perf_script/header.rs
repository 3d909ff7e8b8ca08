//! The line of a sample: command, process, thread, CPU, time, period, event, and text of the event.

use crate::format::call_tree::{CallTree, Labels};

/// A sample's line, taken apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Header<'a> {
    comm: &'a str,
    pid: Option<i64>,
    tid: Option<i64>,
    has_cpu: bool,
    /// In seconds of the machine's clock.
    pub(super) time: Option<f64>,
    pub(super) period: Option<i64>,
    /// Name of the event; empty if the line has none.
    pub(super) event: &'a str,
    rest: &'a str,
}

impl<'a> Header<'a> {
    /// Takes a line apart; `None` if it is no sample's.
    pub(super) fn parse(line: &'a str) -> Option<Header<'a>> {
        let words = words(line);
        let time = words.iter().position(|(_, word)| seconds(word).is_some());
        let place = match time {
            // The thread precedes the time, perhaps with the CPU between them.
            Some(time) => (0..time).rev().take(3).find(|index| thread(words[*index].1).is_some()),
            None => (0..words.len())
                .find(|index| thread(words[*index].1).is_some() && *index > 0 && ends_well(&words[index + 1..])),
        };
        let behind = match (place, time) {
            (_, Some(time)) => time + 1,
            (Some(place), None) => place + 1 + words[place + 1..].iter().take_while(|(_, word)| is_cpu(word)).count(),
            (None, None) => return None,
        };
        let (pid, tid) = place.and_then(|place| thread(words[place].1)).unzip();
        let comm = place.map_or("", |place| line[..words[place].0].trim());
        let mut header = Header {
            comm,
            pid: pid.flatten(),
            tid,
            has_cpu: place.is_some_and(|place| words.get(place + 1).is_some_and(|(_, word)| is_cpu(word))),
            time: time.and_then(|time| seconds(words[time].1)),
            ..Header::default()
        };
        let mut words = words[behind..].iter().peekable();
        if let Some((_, word)) = words.peek().filter(|(_, word)| is_number(word)) {
            header.period = word.parse().ok();
            words.next();
        }
        if let Some((start, word)) = words.peek().filter(|(_, word)| word.len() > 1 && word.ends_with(':')) {
            header.event = word.trim_end_matches(':');
            header.rest = line[start + word.len()..].trim();
            words.next();
        } else if let Some((start, _)) = words.peek() {
            header.rest = line[*start..].trim();
        }
        Some(header)
    }

    /// Whether it is of another record than a sample.
    pub(super) fn is_record(&self) -> bool {
        self.rest.starts_with("PERF_RECORD_") || self.event.starts_with("PERF_RECORD_")
    }

    /// Whether only `perf script` writes such a line: thread and time, and an event with a period, a CPU or a group.
    pub(super) fn is_sure(&self) -> bool {
        let has_more = self.period.is_some() || self.has_cpu || self.event.contains(':');
        self.tid.is_some() && self.time.is_some() && !self.event.is_empty() && has_more
    }

    /// The number of lost samples in a record.
    pub(super) fn lost(&self) -> u64 {
        let count = self.rest.strip_prefix("PERF_RECORD_LOST ").and_then(|rest| rest.trim().strip_prefix("lost "));
        count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    /// The place of a sample without a stack, `1199 cold+0xd (/tmp/work)`, as a frame's line has it.
    pub(super) fn place(&self) -> Option<&'a str> {
        let (address, symbol) = self.rest.split_once(' ')?;
        let is_address = address.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_address && symbol.ends_with(')') && symbol.contains('(')).then_some(self.rest)
    }

    /// The quantity that the period counts, and its unit.
    pub(super) fn measure(&self) -> (&'a str, &'static str) {
        let name = self
            .event
            .split_once(':')
            .map_or(self.event, |(name, modifiers)| if modifiers.len() < 5 { name } else { self.event });
        match name {
            "cpu-clock" | "task-clock" => ("cpu", "nanoseconds"),
            "" => ("period", "count"),
            name => (name, "count"),
        }
    }

    /// The labels of the sample.
    pub(super) fn labels(&self, tree: &mut CallTree) -> Labels {
        let mut labels = Vec::new();
        if !self.comm.is_empty() {
            labels.push(tree.builder.text_label("thread", self.comm));
        }
        labels.extend(self.tid.map(|tid| tree.builder.number_label("tid", tid, "")));
        labels.extend(self.pid.map(|pid| tree.builder.number_label("pid", pid, "")));
        tree.labels(&labels)
    }
}

/// The words of a line and where each begins, as many as are needed.
fn words(line: &str) -> Vec<(usize, &str)> {
    let start = |word: &str| word.as_ptr() as usize - line.as_ptr() as usize;
    line.split_whitespace().take(40).map(|word| (start(word), word)).collect()
}

/// The seconds of `38340.698097:`.
fn seconds(word: &str) -> Option<f64> {
    let (whole, fraction) = word.strip_suffix(':')?.split_once('.')?;
    (is_number(whole) && is_number(fraction)).then(|| word[..word.len() - 1].parse().ok()).flatten()
}

/// Process, if it is there, and thread of `6586/6590`.
fn thread(word: &str) -> Option<(Option<i64>, i64)> {
    let number = |text: &str| if text == "-1" || is_number(text) { text.parse::<i64>().ok() } else { None };
    match word.split_once('/') {
        Some((pid, tid)) => Some((Some(number(pid)?), number(tid)?)),
        None => Some((None, number(word)?)),
    }
}

fn is_cpu(word: &str) -> bool {
    word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).is_some_and(is_number)
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether these words may follow a thread where there is no time: a CPU, a period, an event.
fn ends_well(words: &[(usize, &str)]) -> bool {
    let mut words = words.iter().map(|(_, word)| *word).peekable();
    words.next_if(|word| is_cpu(word));
    words.next_if(|word| is_number(word));
    words.next().is_none_or(|word| word.len() > 1 && word.ends_with(':') || word.starts_with("PERF_RECORD_"))
}

#[cfg(test)]
impl<'a> Header<'a> {
    /// The command, process and thread.
    pub(super) fn about(&self) -> (&'a str, Option<i64>, Option<i64>) {
        (self.comm, self.pid, self.tid)
    }
}
