//! The facts about a profile, in words.

use std::fmt;

use jiff::Timestamp;
use maud::{Markup, html};
use procprof_core::ingest::SHOWN;
use procprof_core::symbols::{UPLOADED_BY, is_wanted_fact};
use procprof_store::Entry;

use super::{amount, grouped, size, trigger_name};
use crate::texts::{Text, t};

/// How a fact's value is read.
#[derive(Clone, Copy)]
enum Reading {
    /// Unchanged.
    Plain,
    /// What values mean, in the page's language if the text is known.
    Meaning,
    /// Samples per second.
    Hertz,
    Nanoseconds,
    Bytes,
    /// How often something happened; what never did is not worth a row.
    Count,
    /// The same, of time.
    CountedNanoseconds,
}

/// What facts are about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Profile,
    Recording,
    Samples,
    Waits,
    Symbols,
}

const GROUPS: [(Group, Text); 5] = [
    (Group::Profile, t!("About this profile")),
    (Group::Recording, t!("Recording")),
    (Group::Samples, t!("Samples and stacks")),
    (Group::Waits, t!("Waits")),
    (Group::Symbols, t!("Symbols")),
];

/// Facts that profiles carry under short names.
const NAMES: &[(&str, Group, Text, Reading)] = &[
    ("time-claimed", Group::Profile, t!("Time by its own clock"), Reading::Plain),
    ("counts", Group::Profile, t!("Value"), Reading::Meaning),
    ("imported-from", Group::Profile, t!("Imported from"), Reading::Plain),
    ("fetched-from", Group::Profile, t!("Fetched from"), Reading::Plain),
    ("host-id", Group::Profile, t!("Host id"), Reading::Plain),
    ("event", Group::Recording, t!("Event"), Reading::Plain),
    ("hz", Group::Recording, t!("Rate"), Reading::Hertz),
    ("cpu-source", Group::Recording, t!("CPU samples"), Reading::Plain),
    ("tick-ns", Group::Recording, t!("Kernel tick"), Reading::Nanoseconds),
    ("stack-depth", Group::Recording, t!("Deepest stack"), Reading::Plain),
    ("stack-copy-bytes", Group::Recording, t!("Stack copied with a sample"), Reading::Bytes),
    ("min-wait-nanoseconds", Group::Recording, t!("Shortest wait with a stack"), Reading::CountedNanoseconds),
    ("without-bpf", Group::Recording, t!("Not by BPF because"), Reading::Plain),
    ("processes", Group::Recording, t!("Processes"), Reading::Count),
    ("processes-sampled", Group::Recording, t!("Processes with samples"), Reading::Count),
    ("threads-by-perf", Group::Recording, t!("Threads sampled by perf events"), Reading::Count),
    ("threads-without-timer", Group::Recording, t!("Threads without a timer"), Reading::Count),
    ("threads-that-block-sigprof", Group::Recording, t!("Threads that block SIGPROF"), Reading::Count),
    ("threads-in-a-sandbox", Group::Recording, t!("Threads in a sandbox"), Reading::Plain),
    ("warnings", Group::Recording, t!("Warnings"), Reading::Plain),
    ("stacks", Group::Samples, t!("Stacks"), Reading::Count),
    ("stacks-to-root", Group::Samples, t!("Whole stacks"), Reading::Count),
    ("stacks-beyond-the-copy", Group::Samples, t!("Stacks larger than the copy"), Reading::Count),
    ("stacks-deeper-than-1024", Group::Samples, t!("Stacks of more than 1,024 frames"), Reading::Count),
    ("stacks-broken", Group::Samples, t!("Stacks with a caller that was not found"), Reading::Count),
    ("stacks-completed-from-the-process", Group::Samples, t!("Stacks completed from the process"), Reading::Count),
    ("stacks-read-too-late", Group::Samples, t!("Stacks that had changed before they were read"), Reading::Count),
    ("stacks-not-readable", Group::Samples, t!("Stacks that may not be read"), Reading::Count),
    ("stacks-beyond-the-limit-of-reads", Group::Samples, t!("Stacks beyond the limit of reads"), Reading::Count),
    ("stacks-with-guessed-callers", Group::Samples, t!("Stacks with guessed callers"), Reading::Count),
    ("samples-without-root", Group::Samples, t!("Samples without the first frame"), Reading::Count),
    ("samples-without-stack", Group::Samples, t!("Samples without a stack"), Reading::Count),
    ("samples-by-scan", Group::Samples, t!("Stacks found by a search"), Reading::Count),
    ("leaf-only-samples", Group::Samples, t!("Samples without callers"), Reading::Count),
    ("samples-in-new-code", Group::Samples, t!("Samples in code loaded meanwhile"), Reading::Count),
    ("samples-left-out-for-seccomp", Group::Samples, t!("Samples left out for seccomp"), Reading::Count),
    ("samples-of-vanished-processes", Group::Samples, t!("Samples of processes that ended first"), Reading::Count),
    (
        "samples-of-unreadable-processes",
        Group::Samples,
        t!("Samples of processes that may not be read"),
        Reading::Count,
    ),
    (
        "samples-of-processes-that-map-too-often",
        Group::Samples,
        t!("Samples of processes that map code too often"),
        Reading::Count,
    ),
    (
        "samples-of-processes-with-too-many-mappings",
        Group::Samples,
        t!("Samples of processes with too many mappings"),
        Reading::Count,
    ),
    (
        "samples-beyond-the-cpu-time-for-a-process",
        Group::Samples,
        t!("Samples beyond the CPU time for a process"),
        Reading::Count,
    ),
    (
        "samples-of-processes-outside-the-pid-namespace",
        Group::Samples,
        t!("Samples of processes of other PID namespaces"),
        Reading::Count,
    ),
    ("samples-of-32-bit-code", Group::Samples, t!("Samples of 32-bit code"), Reading::Count),
    ("unsampled-wall-ns", Group::Samples, t!("Time without samples"), Reading::CountedNanoseconds),
    ("labels-refused", Group::Samples, t!("Labels beyond the limit"), Reading::Count),
    ("throttled", Group::Samples, t!("Times the kernel sampled less often"), Reading::Count),
    ("malformed-records", Group::Samples, t!("Records that could not be read"), Reading::Count),
    ("mappings-refused", Group::Samples, t!("Mappings beyond the limit"), Reading::Count),
    ("events-refused", Group::Samples, t!("Events left out"), Reading::Plain),
    ("waits", Group::Waits, t!("Waits"), Reading::Count),
    ("waited-nanoseconds", Group::Waits, t!("Time waited"), Reading::CountedNanoseconds),
    ("waited-without-stack-nanoseconds", Group::Waits, t!("Time waited without a stack"), Reading::CountedNanoseconds),
    ("waits-shorter", Group::Waits, t!("Shorter waits"), Reading::Count),
    ("waited-shorter-nanoseconds", Group::Waits, t!("Time of shorter waits"), Reading::CountedNanoseconds),
    ("switches-unmatched", Group::Waits, t!("Switches whose begin or end is missing"), Reading::Count),
    ("switches-untracked", Group::Waits, t!("Switches of threads beyond the limit"), Reading::Count),
    ("waits-for-no-lock", Group::Waits, t!("Waits for something other than a lock"), Reading::Count),
    ("waits-for-what-is-not-known", Group::Waits, t!("Waits of unknown kind"), Reading::Count),
    ("waits-for-what-is-not-known-ns", Group::Waits, t!("Time of waits of unknown kind"), Reading::CountedNanoseconds),
    ("holders-of-what-is-not-known", Group::Waits, t!("Waits of unknown kind with a holder"), Reading::Count),
    ("waits-without-room-for-holders", Group::Waits, t!("Waits without room for their holder"), Reading::Count),
    ("waits-left-out-for-seccomp", Group::Waits, t!("Waits left out for seccomp"), Reading::Count),
    (
        "defined-by-the-program-and-not-followed",
        Group::Waits,
        t!("Lock functions of the program, not followed"),
        Reading::Plain,
    ),
    ("symbols", Group::Symbols, t!("Symbols"), Reading::Plain),
    ("symbols-from", Group::Symbols, t!("Symbols from"), Reading::Plain),
    ("symbols-uploaded", Group::Symbols, t!("Named by uploaded symbols"), Reading::Plain),
    ("symbolize-error", Group::Symbols, t!("Symbols missing because"), Reading::Plain),
    ("unresolved-locations", Group::Symbols, t!("Addresses without a name"), Reading::Count),
    ("wanted-files-not-named", Group::Symbols, t!("More files without symbols"), Reading::Count),
];

/// The texts that ingest, the agent, host recordings and recordings of JVMs give their profiles.
const MEANS: [Text; 27] = [
    t!("time of Java code"),
    t!("CPU time of all threads during the capture"),
    t!("time that passed, on and off the CPU"),
    t!("time in which threads did not run: blocked, or ready without a CPU"),
    t!("memory allocated, freed or not"),
    t!("memory in use at that moment"),
    t!("time spent waiting for locks, charged to who waited"),
    t!("time others waited for locks, charged to who held them"),
    t!("goroutines at that moment"),
    t!("goroutines at that moment that nothing can wake"),
    t!(
        "CPU time of all threads; a sample weighs the CPU time its thread used since its previous sample, and its part of what the thread used after the last one"
    ),
    t!("time that threads waited for locks, by where they waited; a wait counts when it ends"),
    t!("time that threads waited for locks, by where the lock was let go by the thread that held it meanwhile"),
    t!(
        "bytes in use at the end that were not in use at the beginning, by stack, estimated; stacks that have fewer are left out"
    ),
    t!("CPU time of Java threads; garbage collector and compiler threads are not sampled"),
    t!("CPU time, native code and the kernel included"),
    t!("samples of threads that run Java code, in turns; not CPU time"),
    t!("time of threads, running or not"),
    t!("bytes allocated, estimated from samples"),
    t!("sampled objects that were still alive; not scaled to all objects"),
    t!("time that threads waited for locks of Java"),
    t!("time that threads waited, by the label wait: for locks, idle for work, or for something else"),
    t!("time that threads waited for locks of native code"),
    t!("memory from malloc, as sampled; in use is what nothing has freed"),
    t!("samples of threads that are in native methods, running or waiting"),
    t!("time of traced methods from call to return"),
    t!("CPU time of {0}; a sample stands for one period"),
];

/// The card with all facts.
pub(super) fn card(entry: &Entry) -> Markup {
    let rows = rows(entry);
    html! {
        section class="card" {
            @for (group, heading) in GROUPS {
                @let of_group: Vec<_> = rows.iter().filter(|row| row.0 == group).collect();
                @if !of_group.is_empty() {
                    h2 { (heading) }
                    dl { @for (_, name, value) in of_group { dt { (name) } dd { (value) } } }
                }
            }
        }
    }
}

fn rows(entry: &Entry) -> Vec<(Group, String, String)> {
    let meta = &entry.meta;
    let mut rows: Vec<(Group, String, String)> = Vec::new();
    let mut add = |group, name: &dyn fmt::Display, value: String| {
        if !value.is_empty() {
            rows.push((group, name.to_string(), value));
        }
    };
    let counted = |count: Option<u64>| count.filter(|count| *count > 0).map(grouped).unwrap_or_default();
    add(Group::Profile, &t!("Means"), means(&meta.means));
    add(Group::Profile, &t!("Started (UTC)"), utc(entry.start.0));
    add(Group::Profile, &t!("Completed (UTC)"), utc(entry.completed.0));
    add(
        Group::Profile,
        &t!("Duration"),
        if entry.duration.0 > 0 { amount(entry.duration.0, "nanoseconds") } else { t!("instant").to_string() },
    );
    for total in &entry.summary.totals {
        add(Group::Profile, &t!("Total {0}", total.kind), amount(total.value, &total.unit));
    }
    add(Group::Profile, &t!("File"), format!("{}, {}", entry.file_name, size(entry.bytes)));
    add(Group::Profile, &t!("Trigger"), trigger_name(&meta.trigger).to_owned());
    add(Group::Profile, &t!("Version"), meta.instance_version.clone());
    add(Group::Profile, &t!("Build id"), meta.instance_build_id.clone());
    for (key, value) in &meta.labels {
        add(Group::Profile, &t!("Label {0}", key), value.clone());
    }
    add(Group::Recording, &t!("Engine"), engine_name(&meta.engine).to_owned());
    add(Group::Samples, &t!("Lost samples"), counted(meta.lost));
    add(Group::Samples, &t!("Truncated stacks"), counted(meta.truncated));
    add(
        Group::Samples,
        &t!("CPU time without samples"),
        meta.unsampled
            .filter(|nanos| *nanos > 0)
            .map(|nanos| amount(nanos.cast_signed(), "nanoseconds"))
            .unwrap_or_default(),
    );
    for (key, value) in meta.more.iter().filter(|(key, _)| *key != SHOWN && !is_wanted_fact(key)) {
        let (group, name, value) = in_words(key, value);
        add(group, &name, value);
    }
    add(Group::Profile, &t!("Stored by"), meta.tool.clone());
    rows
}

/// What the values of a profile mean; texts that the server does not know stay as they are.
fn means(text: &str) -> String {
    MEANS.iter().find_map(|known| translated(known, text)).unwrap_or_else(|| text.to_owned())
}

/// A text in the page's language if it is the known one, which may have one value.
fn translated(known: &Text, text: &str) -> Option<String> {
    match known.english().split_once("{0}") {
        Some((before, after)) => {
            let value = text.strip_prefix(before)?.strip_suffix(after)?;
            Some(known.with(&[&value]))
        }
        None => (known.english() == text).then(|| known.get().to_owned()),
    }
}

/// What took a profile, under its name in files.
fn engine_name(engine: &str) -> &str {
    match engine {
        "perf-events" => t!("perf events").get(),
        "bpf" => "BPF",
        other => other,
    }
}

/// A fact's name and value for people, the latter empty if there is nothing to tell; an unknown fact keeps its own.
fn in_words(key: &str, value: &str) -> (Group, String, String) {
    if let Some(symbols) = key.strip_prefix(UPLOADED_BY) {
        return (Group::Symbols, t!("Symbols {0} sent by", symbols).to_string(), value.to_owned());
    }
    let Some((_, group, name, reading)) = NAMES.iter().find(|(known, ..)| *known == key) else {
        return (Group::Recording, key.to_owned(), value.to_owned());
    };
    let value = match (reading, value.parse::<u64>()) {
        (Reading::Count | Reading::CountedNanoseconds, Ok(0)) => String::new(),
        (Reading::Hertz, Ok(hertz)) => format!("{hertz} Hz"),
        (Reading::Nanoseconds | Reading::CountedNanoseconds, Ok(nanos)) => amount(nanos.cast_signed(), "nanoseconds"),
        (Reading::Bytes, Ok(bytes)) => size(bytes),
        (Reading::Count, Ok(count)) => grouped(count),
        (Reading::Meaning, _) => means(value),
        (Reading::Plain, _) | (_, Err(_)) => value.to_owned(),
    };
    (*group, name.to_string(), value)
}

fn utc(nanos: i64) -> String {
    let time = Timestamp::from_nanosecond(i128::from(nanos));
    time.map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{MEANS, in_words, translated};

    #[test]
    fn meanings_are_found_with_their_values() {
        let found = |text: &str| MEANS.iter().find_map(|known| translated(known, text));
        for text in ["memory in use at that moment", "CPU time of process 7 (shop); a sample stands for one period"] {
            assert_eq!(found(text).as_deref(), Some(text));
        }
        assert_eq!(found("fuel used"), None);
    }

    #[test]
    fn facts_have_names_and_units() {
        let told = |key: &str, value: &str| {
            let (_, name, value) = in_words(key, value);
            format!("{name}: {value}")
        };
        assert_eq!(told("hz", "99"), "Rate: 99 Hz");
        assert_eq!(told("tick-ns", "4000000"), "Kernel tick: 4.0 ms");
        assert_eq!(told("hz", "fast"), "Rate: fast");
        assert_eq!(told("stacks", "12345"), "Stacks: 12,345");
        assert_eq!(told("stacks-broken", "0"), "Stacks with a caller that was not found: ");
        assert_eq!(told("symbols-by.00ff", "db1 (host)"), "Symbols 00ff sent by: db1 (host)");
        assert_eq!(told("moon-phase", "full"), "moon-phase: full");
    }
}
