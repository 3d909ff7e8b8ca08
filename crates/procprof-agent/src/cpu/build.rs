//! A closed window to a profile.

use super::engine::Closed;
use super::label::{self, Decoded};
use super::ring::split;
use super::wall::Walls;
use super::window::Share;
use crate::clock::nanos;
use crate::error::Result;
use crate::modules::Modules;
use procprof_profile::{Addr, Addresses, Label, LocationId, MappingId, Meta, Nanos, Profile, ProfileBuilder, ProfileType};
use std::time::SystemTime;

/// The frame of CPU time that no sample stands for.
pub(crate) const UNSAMPLED: &str = "[unsampled CPU]";

/// The frame of wall time of threads that took no signal.
const UNSAMPLED_WALL: &str = "[unsampled wall]";

/// The thread label of CPU time whose threads ended before their clocks could be read.
const ENDED_THREADS: &str = "(ended threads)";

/// Builds the profile: samples by thread and stack, addresses as captured, and what was not seen as rows of its own.
pub(crate) fn profile(closed: Closed) -> Result<Profile> {
    let Closed { window, process_cpu, hz, engine, perf, period, tick } = closed;
    let (started, duration, shortfalls) = (window.started, window.began.elapsed(), window.shortfalls);
    let (shares, of_unread_threads) = window.close(process_cpu);
    let modules = Modules::of_this_process();

    let mut builder = ProfileBuilder::new(ProfileType::Cpu.sample_types());
    builder.period("cpu", "nanoseconds", signed(period));
    builder.time(nanos(started), Nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)));
    let mappings = modules.add_to(&mut builder);
    for share in &shares {
        let engine = if by_perf(share) { "perf" } else { "tick" };
        add_share(&mut builder, &modules, &mappings, share, Some(engine));
    }
    let threads_by_perf = shares.iter().filter(|share| by_perf(share)).count() as u64;
    let unsampled = add_unsampled(&mut builder, UNSAMPLED, &shares, of_unread_threads);

    let mut meta = crate::meta::of(ProfileType::Cpu, &format!("agent-{}", engine.name()), &modules);
    meta.end = Some(nanos(SystemTime::now()));
    meta.lost = Some(shortfalls.lost);
    meta.truncated = Some(shortfalls.truncated);
    meta.unsampled = Some(unsampled);
    meta.means = "CPU time of all threads; a sample weighs the CPU time its thread used since its previous sample".into();
    let more = [
        ("hz", u64::from(hz)),
        ("tick-ns", tick),
        ("leaf-only-samples", shortfalls.unwalked),
        ("samples-in-new-code", shortfalls.in_new_code),
        ("samples-without-root", shortfalls.without_root),
        ("threads-without-timer", shortfalls.threads_without_timer),
        ("threads-by-perf", threads_by_perf),
        ("labels-refused", label::refused()),
    ];
    meta.more.extend(more.map(|(key, value)| (key.to_owned(), value.to_string())));
    meta.more.insert("perf".into(), perf);
    add_comments(&mut builder, &meta);
    builder.parts_mut().addresses = Addresses::RawCpu;
    Ok(builder.finish()?)
}

/// Builds the profile of a wall-clock capture.
pub(crate) fn wall(walls: Walls) -> Result<Profile> {
    let Walls { window, hz, signals } = walls;
    let (started, duration, shortfalls) = (window.started, window.began.elapsed(), window.shortfalls);
    let (shares, _) = window.close(0);
    let modules = Modules::of_this_process();
    let mut builder = ProfileBuilder::new(ProfileType::Wall.sample_types());
    builder.period("wall", "nanoseconds", 1_000_000_000 / i64::from(hz));
    builder.time(nanos(started), Nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)));
    let mappings = modules.add_to(&mut builder);
    for share in &shares {
        add_share(&mut builder, &modules, &mappings, share, None);
    }
    let unsampled = add_unsampled(&mut builder, UNSAMPLED_WALL, &shares, 0);
    let mut meta = crate::meta::of(ProfileType::Wall, "agent-wall", &modules);
    meta.end = Some(nanos(SystemTime::now()));
    meta.lost = Some(shortfalls.lost);
    meta.truncated = Some(shortfalls.truncated);
    meta.means =
        "wall time of all threads but the one that took the profile; a thread that sleeps is counted at the stack it was last seen with"
            .into();
    let more = [
        ("hz", u64::from(hz)),
        ("signals", signals),
        ("unsampled-wall-ns", unsampled),
        ("leaf-only-samples", shortfalls.unwalked),
        ("samples-without-root", shortfalls.without_root),
    ];
    meta.more.extend(more.map(|(key, value)| (key.to_owned(), value.to_string())));
    add_comments(&mut builder, &meta);
    builder.parts_mut().addresses = Addresses::RawCpu;
    Ok(builder.finish()?)
}

fn add_comments(builder: &mut ProfileBuilder, meta: &Meta) {
    for comment in meta.to_comments() {
        builder.comment(&comment);
    }
}

fn add_share(builder: &mut ProfileBuilder, modules: &Modules, mappings: &[MappingId], share: &Share, engine: Option<&str>) {
    let mut of_thread = vec![builder.text_label("thread", &share.name), builder.number_label("tid", i64::from(share.tid), "")];
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
            // A call may be a function's last instruction: the byte before the return address decides the mapping.
            let mapping = modules.find(address.saturating_sub(u64::from(depth > 0)));
            stack.push(builder.address(mapping.map(|index| mappings[index]), Addr(*address)));
        }
        builder.sample(&stack, &[signed(weight.samples), signed(weight.nanos)], &labels);
    }
}

/// Adds one row per thread name; returns the nanoseconds in all of them.
fn add_unsampled(builder: &mut ProfileBuilder, frame: &str, shares: &[Share], of_unread_threads: u64) -> u64 {
    let mut by_name = std::collections::BTreeMap::new();
    for share in shares {
        *by_name.entry(&*share.name).or_insert(0) += share.unsampled;
    }
    *by_name.entry(ENDED_THREADS).or_insert(0) += of_unread_threads;
    let frame = builder.frame(frame);
    for (name, nanos) in by_name.iter().filter(|(_, nanos)| **nanos > 0) {
        let label: Label = builder.text_label("thread", name);
        builder.sample(&[frame], &[0, signed(*nanos)], &[label]);
    }
    by_name.values().sum()
}

/// Whether perf events made most of a thread's samples.
fn by_perf(share: &Share) -> bool {
    2 * share.by_perf > share.samples
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
