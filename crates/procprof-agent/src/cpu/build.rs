//! A closed window to a profile.

use super::engine::Closed;
use super::label::{self, Decoded};
use super::ring::split;
use super::sandbox;
use super::walk::SCANNED;
use super::wall::Walls;
use super::window::{Share, Shortfalls};
use crate::clock::nanos;
use crate::error::Result;
use crate::modules::Modules;
use procprof_profile::{
    Addr, Addresses, Label, LocationId, MappingId, Meta, Nanos, Profile, ProfileBuilder, ProfileType,
};

/// The frame of CPU time that no sample represents.
pub(crate) const UNSAMPLED: &str = "[unsampled CPU]";

/// The frame of that part of it which threads used that blocked the signal.
const BLOCKED: &str = "[unsampled CPU: the thread blocks SIGPROF]";

/// The frame of wall time of threads that took no signal.
const UNSAMPLED_WALL: &str = "[unsampled wall]";

/// The frame of that part of it in which threads computed or waited that blocked the signal.
const BLOCKED_WALL: &str = "[unsampled wall: the thread blocks SIGPROF]";

/// The frame in the place of those between a function without unwind tables and the callers that a scan of the stack
/// has found.
const NOT_KNOWN: &str = "[callers found by scanning the stack]";

/// The thread label of CPU time whose threads ended before their clocks could be read.
const ENDED_THREADS: &str = "(ended threads)";

/// Builds the profile: samples by thread and stack, addresses as captured, and what was not seen as rows of its own.
pub(crate) fn profile(closed: Closed) -> Result<Profile> {
    let Closed { window, process_cpu, hz, engine, perf, period, tick, modules } = closed;
    let (started, duration, shortfalls) = (window.started, window.length, window.shortfalls);
    let (shares, of_unread_threads) = window.close(process_cpu);

    let mut builder = ProfileBuilder::new(ProfileType::Cpu.sample_types());
    builder.period("cpu", "nanoseconds", signed(period));
    builder.time(nanos(started), Nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)));
    let mappings = modules.add_to(&mut builder);
    for share in &shares {
        let engine = if by_perf(share) { "perf" } else { "tick" };
        add_share(&mut builder, &modules, &mappings, share, Some(engine));
    }
    let threads_by_perf = shares.iter().filter(|share| by_perf(share)).count() as u64;
    let unsampled = add_unsampled(&mut builder, [UNSAMPLED, BLOCKED], &shares, of_unread_threads);

    let mut meta = crate::meta::known_facts(ProfileType::Cpu, &format!("agent-{}", engine.name()), &modules);
    meta.end = Some(nanos(started + duration));
    meta.lost = Some(shortfalls.lost);
    meta.truncated = Some(shortfalls.truncated);
    meta.unsampled = Some(unsampled);
    meta.means = "CPU time of all threads; a sample weighs the CPU time its thread used since its previous sample, \
                  and its part of what the thread used after the last one"
        .into();
    let more = [
        ("hz", u64::from(hz)),
        ("tick-ns", tick),
        ("leaf-only-samples", shortfalls.unwalked),
        ("samples-in-new-code", shortfalls.in_new_code),
        ("samples-without-root", shortfalls.without_root),
        ("samples-by-scan", shortfalls.scanned),
        ("threads-without-timer", shortfalls.threads_without_timer),
        ("threads-that-block-sigprof", blocking(&shares)),
        ("threads-by-perf", threads_by_perf),
        ("labels-refused", label::refused()),
    ];
    meta.more.extend(more.map(|(key, value)| (key.to_owned(), value.to_string())));
    meta.more.insert("perf".into(), perf);
    add_sandbox(&mut meta, &shortfalls);
    add_displacement(&mut meta, &shortfalls);
    add_comments(&mut builder, &meta);
    builder.parts_mut().addresses = Addresses::RawCpu;
    Ok(builder.finish()?)
}

/// Builds the profile of a wall-clock capture.
pub(crate) fn wall(walls: Walls) -> Result<Profile> {
    let Walls { window, hz, signals, modules } = walls;
    let (started, duration, shortfalls) = (window.started, window.length, window.shortfalls);
    let (shares, _) = window.close(0);
    let mut builder = ProfileBuilder::new(ProfileType::Wall.sample_types());
    builder.period("wall", "nanoseconds", 1_000_000_000 / i64::from(hz));
    builder.time(nanos(started), Nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)));
    let mappings = modules.add_to(&mut builder);
    for share in &shares {
        add_share(&mut builder, &modules, &mappings, share, None);
    }
    let unsampled = add_unsampled(&mut builder, [UNSAMPLED_WALL, BLOCKED_WALL], &shares, 0);
    let mut meta = crate::meta::known_facts(ProfileType::Wall, "agent-wall", &modules);
    meta.end = Some(nanos(started + duration));
    meta.lost = Some(shortfalls.lost);
    meta.truncated = Some(shortfalls.truncated);
    meta.means =
        "wall time of all threads but the one that took the profile; a thread that sleeps is counted at the stack it \
         was last seen with"
            .into();
    let more = [
        ("hz", u64::from(hz)),
        ("signals", signals),
        ("unsampled-wall-ns", unsampled),
        ("threads-that-block-sigprof", blocking(&shares)),
        ("leaf-only-samples", shortfalls.unwalked),
        ("samples-without-root", shortfalls.without_root),
        ("samples-by-scan", shortfalls.scanned),
    ];
    meta.more.extend(more.map(|(key, value)| (key.to_owned(), value.to_string())));
    add_sandbox(&mut meta, &shortfalls);
    add_displacement(&mut meta, &shortfalls);
    add_comments(&mut builder, &meta);
    builder.parts_mut().addresses = Addresses::RawCpu;
    Ok(builder.finish()?)
}

/// Records that threads were not sampled, and why.
fn add_sandbox(meta: &mut Meta, shortfalls: &Shortfalls) {
    if shortfalls.threads_in_sandbox > 0 {
        meta.more.insert("threads-in-a-sandbox".into(), sandbox::reason(shortfalls.threads_in_sandbox));
    }
}

/// Records that the program replaced the signal's handler, and at how many of the checks.
fn add_displacement(meta: &mut Meta, shortfalls: &Shortfalls) {
    if shortfalls.looks_without_handler > 0 {
        let note = format!(
            "another SIGPROF handler took the place of the profiler's; nothing was sampled at {} looks",
            shortfalls.looks_without_handler
        );
        meta.more.insert("sigprof".into(), note);
    }
}

fn add_comments(builder: &mut ProfileBuilder, meta: &Meta) {
    for comment in meta.to_comments() {
        builder.comment(&comment);
    }
}

fn add_share(
    builder: &mut ProfileBuilder,
    modules: &Modules,
    mappings: &[MappingId],
    share: &Share,
    engine: Option<&str>,
) {
    let mut of_thread =
        vec![builder.text_label("thread", &share.name), builder.number_label("tid", i64::from(share.tid), "")];
    of_thread.extend(engine.map(|engine| builder.text_label("engine", engine)));
    let mut stacks: Vec<_> = share.stacks.iter().collect();
    stacks.sort_by(|a, b| b.1.nanos.cmp(&a.1.nanos).then_with(|| a.0.cmp(b.0)));
    let mut stack: Vec<LocationId> = Vec::new();
    for (words, weight) in stacks {
        let (label_words, addresses) = split(words);
        let mut labels = of_thread.clone();
        labels.extend(label::decode(label_words).iter().map(|(key, value)| match value {
            Decoded::Text(text) => builder.text_label(key, text),
            Decoded::Number(number) => builder.number_label(key, *number, ""),
        }));
        stack.clear();
        for (depth, address) in addresses.iter().enumerate() {
            if *address == SCANNED {
                stack.push(builder.frame(NOT_KNOWN));
                continue;
            }
            // A call may be a function's last instruction: the byte before the return address decides the mapping.
            let mapping = modules.find(address.saturating_sub(u64::from(depth > 0)));
            stack.push(builder.address(mapping.map(|index| mappings[index]), Addr(*address)));
        }
        builder.sample(&stack, &[signed(weight.samples), signed(weight.nanos)], &labels);
    }
}

/// Adds a row per thread name and frame: one for time without a known reason, the other for that of threads that
/// blocked the signal; returns the nanoseconds in all of them.
fn add_unsampled(builder: &mut ProfileBuilder, frames: [&str; 2], shares: &[Share], of_unread_threads: u64) -> u64 {
    let mut by_name = std::collections::BTreeMap::new();
    let mut add = |name, which: usize, nanos: u64| *by_name.entry((name, which)).or_insert(0) += nanos;
    for share in shares {
        add(&*share.name, 0, share.unsampled - share.blocked);
        add(&*share.name, 1, share.blocked);
    }
    add(ENDED_THREADS, 0, of_unread_threads);
    for ((name, which), nanos) in by_name.iter().filter(|(_, nanos)| **nanos > 0) {
        let frame = builder.frame(frames[*which]);
        let label: Label = builder.text_label("thread", name);
        builder.sample(&[frame], &[0, signed(*nanos)], &[label]);
    }
    by_name.values().sum()
}

/// Threads with time for which they blocked the signal.
fn blocking(shares: &[Share]) -> u64 {
    shares.iter().filter(|share| share.blocked > 0).count() as u64
}

/// Whether perf events made most of a thread's samples.
fn by_perf(share: &Share) -> bool {
    2 * share.by_perf > share.samples
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
