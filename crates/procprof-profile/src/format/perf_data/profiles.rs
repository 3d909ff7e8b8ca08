//! A recording as profiles, one for each event.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use foldhash::HashMap;

use super::attribute::Attribute;
use super::file::{File, malformed};
use super::replay::{Amount, Frame, Owner, Replayed};
use super::{CodeFiles, NAME};
use crate::format::{Event, events};
use crate::perf_event::{ImageId, ImageKey};
use crate::{
    Addr, Addresses, FileOffset, Label, LocationId, Mapping, MappingId, Meta, Nanos, Profile, ProfileBuilder,
    ProfileType, Result,
};

/// The name of the kernel's mapping.
const KERNEL: &str = "[kernel.kallsyms]";

/// Builds a profile for each event that has samples.
pub(super) fn profiles(
    file: &File<'_>,
    replayed: Replayed,
    files: &mut dyn CodeFiles,
    warnings: &mut Vec<String>,
) -> Result<Vec<Event>> {
    warn(file, &replayed, warnings);
    let build_ids = build_ids(&replayed, files);
    let has_samples = |(number, _): &(usize, &Attribute)| !replayed.events[*number].is_empty();
    let mut chosen: Vec<(usize, &Attribute)> = file.attributes.iter().enumerate().filter(has_samples).collect();
    if chosen.is_empty() {
        return Err(malformed(file.data_offset, "no sample".to_owned()));
    }
    // Stable, so that others stay in their order.
    chosen.sort_by_key(|(_, attribute)| !attribute.is_work());
    let stacks = replayed.stacks();
    let mut events = Vec::new();
    for (number, attribute) in chosen {
        let name = events::distinct(&events, &attribute.name());
        let profile = Builder::new(file, &replayed, attribute, &build_ids).finish(&replayed.events[number], &stacks)?;
        events.push(Event { name, profile });
    }
    Ok(events)
}

fn warn(file: &File<'_>, replayed: &Replayed, warnings: &mut Vec<String>) {
    let statistics = &replayed.statistics;
    let amounts = [
        (statistics.lost, "records were lost by the kernel or perf: buffers were full"),
        (statistics.malformed, "records could not be read"),
        (
            statistics.not_unwound,
            "stacks were copied and not unwound, which takes the recorded files: their callers are missing",
        ),
        (statistics.broken, "copied stacks have a caller that can't be found"),
        (
            statistics.cut,
            "copied stacks end before the thread's first frame; perf record --call-graph dwarf,65528 copies more",
        ),
        (statistics.deep, "copied stacks are deeper than 1,024 frames"),
        (statistics.code_of_32_bits, "samples are of 32-bit code, whose copied stacks are not unwound"),
        (statistics.unknown_counters, "values of counters are of no event of the recording"),
        (replayed.processes.mappings_refused, "mappings were more than are read"),
    ];
    let some = amounts.into_iter().filter(|(count, _)| *count > 0);
    warnings.extend(some.map(|(count, what)| format!("{NAME}: {count} {what}")));
    for attribute in file.attributes.iter().filter(|attribute| attribute.has_branch_call_stacks()) {
        warnings.push(format!("{NAME}: {}: callers in user code, recorded by LBR, are not read", attribute.name()));
    }
}

/// The build ids of the images with samples, in hexadecimal.
fn build_ids(replayed: &Replayed, files: &mut dyn CodeFiles) -> HashMap<ImageId, String> {
    let mut ids = HashMap::default();
    for image in replayed.mappings.all().iter().map(|mapping| mapping.image) {
        ids.entry(image).or_insert_with(|| {
            let images = &replayed.processes.images;
            let known = if let ImageKey::BuildId(id, _) = &images[image.0 as usize] { Some(id.clone()) } else { None };
            known.or_else(|| files.build_id(image, images)).map_or_else(String::new, |id| hexadecimal(&id))
        });
    }
    ids
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The profile of one event under construction.
struct Builder<'a> {
    builder: ProfileBuilder,
    file: &'a File<'a>,
    replayed: &'a Replayed,
    attribute: &'a Attribute,
    build_ids: &'a HashMap<ImageId, String>,
    locations: HashMap<u32, LocationId>,
    mappings: HashMap<u32, MappingId>,
    kernel: Option<MappingId>,
}

impl<'a> Builder<'a> {
    fn new(
        file: &'a File<'a>,
        replayed: &'a Replayed,
        attribute: &'a Attribute,
        build_ids: &'a HashMap<ImageId, String>,
    ) -> Self {
        let name = attribute.name();
        let (kind, unit) =
            if attribute.is_clock() { ("cpu", "nanoseconds") } else { (without_modifiers(&name), "count") };
        let mut builder = ProfileBuilder::new(&[("samples", "count"), (kind, unit)]);
        let of_clock = |hz: u64| if attribute.is_clock() { 1_000_000_000_u64.checked_div(hz) } else { None };
        let period = attribute.fixed_period().or_else(|| attribute.frequency().and_then(of_clock));
        // Members of a group have none: they are read when their leader is sampled.
        if let Some(period) = period.filter(|period| *period > 0) {
            builder.period(kind, unit, signed(period));
        }
        if let Some((first, last)) = replayed.times {
            builder.time(Nanos(0), Nanos(signed(last - first)));
        }
        let (locations, mappings) = (HashMap::default(), HashMap::default());
        Self { builder, file, replayed, attribute, build_ids, locations, mappings, kernel: None }
    }

    fn finish(mut self, amounts: &HashMap<(Owner, u32), Amount>, stacks: &[&[u32]]) -> Result<Profile> {
        let mut samples: Vec<(&Owner, u32, &Amount)> =
            amounts.iter().map(|((owner, stack), amount)| (owner, *stack, amount)).collect();
        // Stacks have numbers in the order in which they are met.
        samples.sort_unstable_by_key(|(owner, stack, amount)| (Reverse(amount.period), *stack, owner.pid, owner.tid));
        self.add_mappings(samples.iter().flat_map(|(_, stack, _)| stacks[*stack as usize]));
        let mut stack = Vec::new();
        for (owner, number, amount) in samples {
            stack.clear();
            for frame in stacks[number as usize] {
                stack.push(self.location(*frame));
            }
            let labels = self.labels(owner);
            self.builder.sample(&stack, &[signed(amount.samples), signed(amount.period)], &labels);
        }
        for comment in self.meta().to_comments() {
            self.builder.comment(&comment);
        }
        self.builder.parts_mut().addresses = Addresses::CallSite;
        self.builder.finish()
    }

    /// Adds the mappings of frames, the main program's first.
    fn add_mappings<'f>(&mut self, frames: impl Iterator<Item = &'f u32>) {
        let replayed = self.replayed;
        let mapping = |frame: &u32| match replayed.frames[*frame as usize] {
            Frame::Code(mapping, _) => Some(mapping),
            Frame::Kernel(_) | Frame::Nowhere(_) | Frame::Note(_) => None,
        };
        let used: BTreeSet<u32> = frames.filter_map(mapping).collect();
        let is_program = |number: &u32| {
            let image = replayed.mappings.all()[*number as usize].image;
            let path = replayed.processes.images[image.0 as usize].path().to_string_lossy();
            path.rsplit('/').next().is_some_and(|name| !name.contains(".so") && name != path)
        };
        let (programs, others): (Vec<u32>, Vec<u32>) = used.into_iter().partition(is_program);
        for number in programs.into_iter().chain(others) {
            self.mapping(number);
        }
    }

    fn location(&mut self, number: u32) -> LocationId {
        if let Some(location) = self.locations.get(&number) {
            return *location;
        }
        let location = match self.replayed.frames[number as usize] {
            Frame::Code(mapping, address) => {
                let mapping = self.mapping(mapping);
                self.builder.address(Some(mapping), Addr(address))
            }
            Frame::Kernel(address) => {
                let mapping = self.kernel_mapping(address);
                self.builder.address(mapping, Addr(address))
            }
            Frame::Nowhere(address) => self.builder.address(None, Addr(address)),
            Frame::Note(text) => self.builder.frame(text),
        };
        self.locations.insert(number, location);
        location
    }

    fn mapping(&mut self, number: u32) -> MappingId {
        if let Some(mapping) = self.mappings.get(&number) {
            return *mapping;
        }
        let code = &self.replayed.mappings.all()[number as usize];
        let path = self.replayed.processes.images[code.image.0 as usize].path().to_string_lossy();
        let filename = self.builder.intern(&path);
        let build_id = self.builder.intern(self.build_ids.get(&code.image).map_or("", String::as_str));
        let mapping = self.builder.mapping(Mapping {
            start: Addr(code.range.start),
            limit: Addr(code.range.end),
            file_offset: FileOffset(code.file_offset),
            filename,
            build_id,
            ..Mapping::default()
        });
        self.mappings.insert(number, mapping);
        mapping
    }

    /// The kernel's mapping, if the address is one of the upper half.
    fn kernel_mapping(&mut self, address: u64) -> Option<MappingId> {
        const START: Addr = Addr(1 << 63);
        if address < START.0 || address == u64::MAX {
            return None;
        }
        if self.kernel.is_none() {
            let build_id = self.file.features.build_id(KERNEL.as_bytes()).map(hexadecimal).unwrap_or_default();
            let (filename, build_id) = (self.builder.intern(KERNEL), self.builder.intern(&build_id));
            let mapping = Mapping { start: START, limit: Addr(u64::MAX), filename, build_id, ..Mapping::default() };
            self.kernel = Some(self.builder.mapping(mapping));
        }
        self.kernel
    }

    fn labels(&mut self, owner: &Owner) -> Vec<Label> {
        let names = &self.replayed.processes.all_names;
        let mut labels = Vec::new();
        for (text, name, number, id) in
            [("process", owner.process, "pid", owner.pid), ("thread", owner.thread, "tid", owner.tid)]
        {
            labels.extend(name.map(|name| self.builder.text_label(text, &names[name as usize])));
            labels.push(self.builder.number_label(number, id.into(), ""));
        }
        labels
    }

    fn meta(&self) -> Meta {
        let (features, statistics) = (&self.file.features, &self.replayed.statistics);
        let name = self.attribute.name();
        let is_clock = self.attribute.is_clock();
        let counts = if is_clock { "CPU time by" } else { "" };
        let mut meta = Meta {
            profile_type: is_clock.then_some(ProfileType::Cpu),
            engine: "perf".to_owned(),
            lost: Some(statistics.lost),
            truncated: Some(statistics.cut + statistics.deep),
            means: format!("{counts} event {name} of perf, a sample weighted by its period").trim_start().to_owned(),
            ..Meta::default()
        };
        let texts = [
            ("event", name.as_str()),
            ("host", &features.host),
            ("command-line", &features.command_line),
            ("os-release", &features.os_release),
            ("perf-version", &features.version),
            ("architecture", &features.architecture),
        ];
        let kernel = self.replayed.kernel.as_ref().map(|(symbol, start)| format!("{symbol} {start:#x}"));
        let mut numbers = vec![("throttled", statistics.throttled), ("malformed-records", statistics.malformed)];
        if self.attribute.copies_stacks() {
            numbers.extend([
                ("stack-copy-bytes", u64::from(self.attribute.stack_bytes())),
                ("stacks", statistics.stacks),
                ("stacks-to-root", statistics.to_root),
                ("stacks-beyond-the-copy", statistics.cut),
                ("stacks-deeper-than-1024", statistics.deep),
                ("stacks-broken", statistics.broken),
                ("stacks-not-unwound", statistics.not_unwound),
            ]);
        }
        let texts = texts.into_iter().map(|(key, text)| (key, text.to_owned()));
        let numbers = numbers.into_iter().map(|(key, number)| (key, number.to_string()));
        let facts = texts.chain(kernel.map(|kernel| ("kernel", kernel))).chain(numbers);
        meta.more.extend(facts.map(|(key, value)| (key.to_owned(), value)));
        meta
    }
}

/// The name of an event without such modifiers as `:u`; names of tracepoints have a colon, too.
fn without_modifiers(name: &str) -> &str {
    name.split_once(':').map_or(name, |(event, modifiers)| if modifiers.len() < 5 { event } else { name })
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
