//! The facts about a profile, in words.

use std::fmt;

use jiff::Timestamp;
use maud::{Markup, html};
use procprof_core::ingest::SHOWN;
use procprof_core::symbols::is_wanted_fact;
use procprof_store::Entry;

use super::{amount, size};
use crate::texts::{Text, t};

/// How a fact's value is read.
#[derive(Clone, Copy)]
enum Reading {
    /// Unchanged.
    Plain,
    /// Samples per second.
    Hertz,
    Nanoseconds,
}

/// Facts that profiles carry under short names.
const NAMES: &[(&str, Text, Reading)] = &[
    ("hz", t!("Rate"), Reading::Hertz),
    ("tick-ns", t!("Kernel tick"), Reading::Nanoseconds),
    ("leaf-only-samples", t!("Samples without callers"), Reading::Plain),
    ("samples-in-new-code", t!("Samples in code loaded meanwhile"), Reading::Plain),
    ("threads-without-timer", t!("Threads without a timer"), Reading::Plain),
    ("threads-that-block-sigprof", t!("Threads that block SIGPROF"), Reading::Plain),
    ("time-claimed", t!("Time by its own clock"), Reading::Plain),
    ("stack-depth", t!("Deepest stack"), Reading::Plain),
    ("cpu-source", t!("CPU samples"), Reading::Plain),
    ("symbols", t!("Symbols"), Reading::Plain),
    ("symbols-from", t!("Symbols from"), Reading::Plain),
    ("symbols-uploaded", t!("Named by uploaded symbols"), Reading::Plain),
    ("symbolize-error", t!("Symbols missing because"), Reading::Plain),
    ("unresolved-locations", t!("Addresses without a name"), Reading::Plain),
    ("imported-from", t!("Imported from"), Reading::Plain),
    ("warnings", t!("Warnings"), Reading::Plain),
];

/// The texts that ingest gives profiles of a known type.
const MEANS: [Text; 8] = [
    t!("CPU time of all threads during the capture"),
    t!("time that passed, on and off the CPU"),
    t!("time in which threads did not run: blocked, or ready without a CPU"),
    t!("memory allocated, freed or not"),
    t!("memory in use at that moment"),
    t!("time spent waiting for locks, charged to who waited"),
    t!("time others waited for locks, charged to who held them"),
    t!("goroutines at that moment"),
];

/// The card with all facts.
pub(super) fn card(entry: &Entry) -> Markup {
    html! {
        section class="card" {
            h2 { (t!("About this profile")) }
            dl { @for (name, value) in &rows(entry) { dt { (name) } dd { (value) } } }
        }
    }
}

fn rows(entry: &Entry) -> Vec<(String, String)> {
    let meta = &entry.meta;
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut add = |name: &dyn fmt::Display, value: String| {
        if !value.is_empty() {
            rows.push((name.to_string(), value));
        }
    };
    add(&t!("Means"), means(&meta.means).to_owned());
    add(&t!("Started (UTC)"), utc(entry.start.0));
    add(&t!("Completed (UTC)"), utc(entry.completed.0));
    add(
        &t!("Duration"),
        if entry.duration.0 > 0 { amount(entry.duration.0, "nanoseconds") } else { t!("instant").to_string() },
    );
    add(&t!("File"), format!("{}, {}", entry.file_name, size(entry.bytes)));
    add(&t!("Trigger"), meta.trigger.clone());
    add(&t!("Engine"), meta.engine.clone());
    for total in &entry.summary.totals {
        add(&t!("Total {0}", total.kind), amount(total.value, &total.unit));
    }
    add(&t!("Lost samples"), meta.lost.map(|count| count.to_string()).unwrap_or_default());
    add(&t!("Truncated stacks"), meta.truncated.map(|count| count.to_string()).unwrap_or_default());
    add(
        &t!("CPU time without samples"),
        meta.unsampled.map(|nanos| amount(nanos.cast_signed(), "nanoseconds")).unwrap_or_default(),
    );
    add(&t!("Version"), meta.instance_version.clone());
    add(&t!("Build id"), meta.instance_build_id.clone());
    for (key, value) in &meta.labels {
        add(&t!("Label {0}", key), value.clone());
    }
    for (key, value) in meta.more.iter().filter(|(key, _)| *key != SHOWN && !is_wanted_fact(key)) {
        let (name, value) = in_words(key, value);
        add(&name, value);
    }
    add(&t!("Stored by"), meta.tool.clone());
    rows
}

/// What the values of a profile mean; texts that the server did not choose stay as they are.
fn means(text: &str) -> &str {
    MEANS.iter().find(|known| known.english() == text).map_or(text, |known| known.get())
}

/// A fact's name and value for people; an unknown one keeps its own.
fn in_words(key: &str, value: &str) -> (String, String) {
    let Some((_, name, reading)) = NAMES.iter().find(|(known, ..)| *known == key) else {
        return (key.to_owned(), value.to_owned());
    };
    let value = match (reading, value.parse::<i64>()) {
        (Reading::Hertz, Ok(hertz)) => format!("{hertz} Hz"),
        (Reading::Nanoseconds, Ok(nanos)) => amount(nanos, "nanoseconds"),
        _ => value.to_owned(),
    };
    (name.to_string(), value)
}

fn utc(nanos: i64) -> String {
    let time = Timestamp::from_nanosecond(i128::from(nanos));
    time.map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::in_words;

    #[test]
    fn facts_have_names_and_units() {
        let told = |key: &str, value: &str| {
            let (name, value) = in_words(key, value);
            format!("{name}: {value}")
        };
        assert_eq!(told("hz", "99"), "Rate: 99 Hz");
        assert_eq!(told("tick-ns", "4000000"), "Kernel tick: 4.0 ms");
        assert_eq!(told("hz", "fast"), "Rate: fast");
        assert_eq!(told("moon-phase", "full"), "moon-phase: full");
    }
}
