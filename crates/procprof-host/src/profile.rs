//! A recording as a profile.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use procprof_profile::perf_event::ImageId;
use procprof_profile::{
    Addr, Addresses, FileOffset, Function, Label, Line, Location, LocationId, Mapping, MappingId, Meta, Nanos, Profile,
    ProfileBuilder, ProfileType,
};

use crate::error::Result;
use crate::images::{FileFacts, Files};
use crate::measure::{Engine, Measure};
use crate::own_names::{KERNEL, OwnNames};
use crate::session::{CUT, Statistics};
use crate::stacks::{Frame, Owner, Stacks};

/// What is known of a recording besides its samples.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) measure: Measure,
    pub(crate) hz: u32,
    pub(crate) period: u64,
    pub(crate) stack_bytes: u32,
    pub(crate) kernel: bool,
    pub(crate) engine: Engine,
    /// Why BPF programs don't measure waits, if they were tried.
    pub(crate) without_bpf: Option<String>,
    pub(crate) min_wait: Duration,
    pub(crate) started: SystemTime,
    pub(crate) duration: Duration,
    pub(crate) subject: String,
}

/// Builds the profile of the owners that `takes` chooses; addresses are those of calls. Statistics are those of the
/// whole recording; `None` in the profile of a part of it.
pub(crate) fn profile(
    stacks: &Stacks,
    files: &Files,
    names: &OwnNames,
    takes: impl Fn(&Owner) -> bool,
    statistics: Option<&Statistics>,
    facts: &Facts,
) -> Result<Profile> {
    let mut builder = ProfileBuilder::new(profile_type(facts.measure).sample_types());
    if facts.measure == Measure::Cpu {
        builder.period("cpu", "nanoseconds", signed(facts.period));
    }
    let started = facts.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    builder.time(nanos(started), nanos(facts.duration));
    let samples = stacks.samples(takes);
    let mut is_used = vec![false; stacks.all_frames.len()];
    samples.iter().flat_map(|(_, frames, _)| *frames).for_each(|frame| is_used[*frame as usize] = true);
    let mappings = add_mappings(&mut builder, stacks, files, &is_used);
    let locations = add_locations(&mut builder, stacks, &mappings, names, &is_used);
    let mut stack: Vec<LocationId> = Vec::new();
    let mut truncated = 0;
    for (owner, frames, amount) in samples {
        if frames.iter().any(|frame| stacks.all_frames[*frame as usize] == Frame::Note(CUT)) {
            truncated += amount.count;
        }
        stack.clear();
        stack.extend(frames.iter().filter_map(|frame| locations[*frame as usize]));
        let labels = labels(&mut builder, owner);
        builder.sample(&stack, &[signed(amount.count), signed(amount.nanos)], &labels);
    }
    let mut meta = meta(facts, started);
    meta.truncated = Some(truncated);
    if let Some(statistics) = statistics {
        meta.lost = Some(statistics.lost);
        meta.unsampled = (facts.measure != Measure::OffCpu).then_some(statistics.unsampled);
        meta.more.extend(figures(statistics, facts).map(|(key, value)| (key.to_owned(), value.to_string())));
    }
    for comment in meta.to_comments() {
        builder.comment(&comment);
    }
    builder.parts_mut().addresses = Addresses::CallSite;
    Ok(builder.finish()?)
}

/// The mappings with samples, the main program's first, then the kernel's.
fn add_mappings(builder: &mut ProfileBuilder, stacks: &Stacks, files: &Files, is_used: &[bool]) -> Vec<MappingId> {
    let with_samples = stacks.mappings.all();
    let mut has_samples = vec![false; with_samples.len()];
    for frame in stacks.all_frames.iter().zip(is_used).filter_map(|(frame, is_used)| is_used.then_some(frame)) {
        if let Frame::Code(mapping, _) = frame {
            has_samples[*mapping as usize] = true;
        }
    }
    let unknown = FileFacts::default();
    let file = |image: &ImageId| files.get(image).unwrap_or(&unknown);
    // The image of a program is known before those of the libraries that it loads.
    let is_program = |path: &str| path.rsplit('/').next().is_some_and(|name| !name.contains(".so") && name != path);
    let mut order: Vec<usize> = (0..with_samples.len()).filter(|place| has_samples[*place]).collect();
    order.sort_by_key(|place| {
        let image = with_samples[*place].image;
        (!is_program(&file(&image).path), image)
    });
    let mut mappings = vec![MappingId(0); with_samples.len()];
    for place in order {
        let mapping = &with_samples[place];
        let FileFacts { path, build_id, .. } = file(&mapping.image);
        let (filename, build_id) = (builder.intern(path), builder.intern(build_id));
        mappings[place] = builder.mapping(Mapping {
            start: Addr(mapping.range.start),
            limit: Addr(mapping.range.end),
            file_offset: FileOffset(mapping.file_offset),
            filename,
            build_id,
            ..Mapping::default()
        });
    }
    let filename = builder.intern(KERNEL);
    let (start, limit) = (Addr(1 << 63), Addr(u64::MAX));
    mappings.push(builder.mapping(Mapping { start, limit, filename, ..Mapping::default() }));
    mappings
}

/// The locations of the frames with samples.
fn add_locations(
    builder: &mut ProfileBuilder,
    stacks: &Stacks,
    mappings: &[MappingId],
    names: &OwnNames,
    is_used: &[bool],
) -> Vec<Option<LocationId>> {
    let kernel = mappings.last().copied();
    let mut location = |frame: &Frame| {
        let (mapping, address) = match frame {
            Frame::Code(mapping, address) => (Some(mappings[*mapping as usize]), *address),
            Frame::Kernel(address) => (kernel, *address),
            Frame::Nowhere(address) => (None, *address),
            Frame::Note(text) => return builder.frame(text),
        };
        let Some(own) = names.get(frame) else { return builder.address(mapping, Addr(address)) };
        let (name, system_name) = (builder.intern(&own.name), builder.intern(&own.system_name));
        let function = builder.function(Function { name, system_name, ..Function::default() });
        let location = Location::new(mapping, Addr(address));
        builder.location(location, &[Line { function, ..Line::default() }])
    };
    stacks.all_frames.iter().zip(is_used).map(|(frame, is_used)| is_used.then(|| location(frame))).collect()
}

fn labels(builder: &mut ProfileBuilder, owner: &Owner) -> Vec<Label> {
    let mut labels =
        vec![builder.text_label("process", &owner.process), builder.number_label("pid", owner.pid.into(), "")];
    if let Some((tid, name)) = &owner.thread {
        labels.push(builder.text_label("thread", name));
        labels.push(builder.number_label("tid", (*tid).into(), ""));
    }
    if let Some(state) = owner.state {
        labels.push(builder.text_label("state", state));
    }
    if let Some(reason) = owner.reason {
        labels.push(builder.text_label("reason", reason));
    }
    if !owner.membership.cgroup.is_empty() {
        labels.push(builder.text_label("cgroup", &owner.membership.cgroup));
    }
    labels.extend(owner.membership.labels().into_iter().map(|(key, value)| builder.text_label(&key, &value)));
    labels
}

fn profile_type(measure: Measure) -> ProfileType {
    match measure {
        Measure::Cpu => ProfileType::Cpu,
        Measure::OffCpu => ProfileType::OffCpu,
        Measure::Wall => ProfileType::Wall,
    }
}

/// What the values are.
fn means(facts: &Facts) -> String {
    let subject = &facts.subject;
    let kernel = if facts.kernel { "" } else { " in user code; time in the kernel may not be sampled by this user" };
    let stacks =
        if facts.kernel { "" } else { "; stacks of waits shorter than 0.05 s may not be sampled by this user" };
    match facts.measure {
        Measure::Cpu => format!("CPU time of {subject}{kernel}; a sample stands for one period"),
        Measure::OffCpu => format!(
            "time in which threads of {subject} did not run, from switch to switch: blocked, or preempted by other \
             threads; where not every wait was sampled, stacks share the time of the others of their thread{stacks}"
        ),
        Measure::Wall => format!(
            "time of the threads of {subject}: running (samples of CPU time{kernel}), blocked or preempted (from switch \
             to switch){stacks}"
        ),
    }
}

fn meta(facts: &Facts, started: Duration) -> Meta {
    let mut meta = Meta {
        profile_type: Some(profile_type(facts.measure)),
        engine: if facts.engine == Engine::Bpf { "bpf" } else { "perf-events" }.to_owned(),
        trigger: "record".to_owned(),
        tool: concat!("procprof ", env!("CARGO_PKG_VERSION")).to_owned(),
        end: Some(nanos(started + facts.duration)),
        means: means(facts),
        ..Meta::default()
    };
    let numbers = [("hz", u64::from(facts.hz)), ("stack-copy-bytes", u64::from(facts.stack_bytes))];
    let least = u64::try_from(facts.min_wait.as_nanos()).unwrap_or(u64::MAX);
    let least = (facts.measure != Measure::Cpu).then_some(("min-wait-nanoseconds", least));
    meta.more.extend(numbers.into_iter().chain(least).map(|(key, value)| (key.to_owned(), value.to_string())));
    if let Some(reason) = &facts.without_bpf {
        meta.more.insert("without-bpf".to_owned(), reason.replace('\n', "; "));
    }
    meta
}

/// What has happened to the samples of a whole recording.
fn figures(statistics: &Statistics, facts: &Facts) -> impl Iterator<Item = (&'static str, u64)> {
    let numbers = [
        ("stacks", statistics.user_stacks),
        ("stacks-to-root", statistics.to_root),
        ("stacks-beyond-the-copy", statistics.cut),
        ("stacks-deeper-than-1024", statistics.deep),
        ("stacks-broken", statistics.broken),
        ("stacks-completed-from-the-process", statistics.completed),
        ("stacks-read-too-late", statistics.read_late),
        ("stacks-not-readable", statistics.read_refused),
        ("stacks-beyond-the-limit-of-reads", statistics.read_limited),
        ("stacks-with-guessed-callers", statistics.guessed),
        ("samples-of-vanished-processes", statistics.vanished),
        ("samples-of-unreadable-processes", statistics.refused),
        ("samples-of-processes-with-too-many-mappings", statistics.oversized),
        ("samples-of-processes-that-map-too-often", statistics.restless),
        ("samples-beyond-the-cpu-time-for-a-process", statistics.over_budget),
        ("samples-of-processes-outside-the-pid-namespace", statistics.outside),
        ("samples-of-32-bit-code", statistics.code_of_32_bits),
        ("throttled", statistics.throttled),
        ("malformed-records", statistics.malformed),
        ("mappings-refused", statistics.mappings_refused),
    ];
    let waits = [
        ("waits", statistics.waits),
        ("waited-nanoseconds", statistics.waited),
        ("waited-without-stack-nanoseconds", statistics.waited_without_stack),
        ("waits-shorter", statistics.waits_short),
        ("waited-shorter-nanoseconds", statistics.waited_short),
        ("switches-unmatched", statistics.switches_unmatched),
        ("switches-untracked", statistics.switches_untracked),
    ];
    let has_waits = facts.measure != Measure::Cpu;
    numbers.into_iter().chain(waits.into_iter().filter(move |_| has_waits))
}

fn nanos(duration: Duration) -> Nanos {
    Nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
