//! Names that only this host can give: of the kernel's functions, of the vdso, and of code that was generated at run
//! time, as processes list it in perf maps.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use foldhash::{HashMap, HashSet};
use procprof_process::{Pid, Process};
use procprof_profile::{Addr, FileOffset, Mapping, ProfileBuilder, ProfileType};
use procprof_symbolize::{PathUse, Sources, symbolize_profile};

use crate::images::Files;
use crate::stacks::{Frame, Stacks};

/// The name of the kernel's mapping, as `perf` has it.
pub(crate) const KERNEL: &str = "[kernel.kallsyms]";

/// Time after which no further perf map is read; what is in them stays without names.
const LONGEST: Duration = Duration::from_secs(2);

/// The name of a function, as shown and as its compiler has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnName {
    pub(crate) name: String,
    pub(crate) system_name: String,
}

/// The names of frames.
pub(crate) type OwnNames = HashMap<Frame, OwnName>;

/// The names of all frames that only this host can name. What a process that has ended would have told stays unnamed.
pub(crate) fn own_names(stacks: &Stacks, files: &Files, kallsyms: Option<&Path>) -> OwnNames {
    // By process for generated code; together for what all processes share.
    let mut frames: BTreeMap<Option<u32>, HashSet<Frame>> = BTreeMap::new();
    for frame in &stacks.all_frames {
        let group = match frame {
            Frame::Kernel(_) => None,
            Frame::Code(mapping, _) => match files.get(&stacks.mappings.all()[*mapping as usize].image) {
                Some(file) if file.memory_of.is_some() => file.memory_of,
                Some(file) if file.path == "[vdso]" => None,
                _ => continue,
            },
            Frame::Nowhere(_) | Frame::Note(_) => continue,
        };
        frames.entry(group).or_default().insert(*frame);
    }
    let mut names = OwnNames::default();
    let begun = Instant::now();
    // What all processes share comes first.
    for (pid, frames) in frames {
        if pid.is_some() && begun.elapsed() > LONGEST {
            break;
        }
        let frames: Vec<Frame> = frames.into_iter().collect();
        add_names(&mut names, stacks, files, kallsyms, pid, &frames);
    }
    names
}

fn add_names(
    names: &mut OwnNames,
    stacks: &Stacks,
    files: &Files,
    kallsyms: Option<&Path>,
    pid: Option<u32>,
    frames: &[Frame],
) {
    let process = pid.and_then(|pid| Process::open(Pid(pid)).ok());
    if pid.is_some() && process.is_none() {
        return;
    }
    let mut builder = ProfileBuilder::new(ProfileType::Cpu.sample_types());
    let mut mappings: HashMap<u32, _> = HashMap::default();
    let mut kernel = None;
    for frame in frames {
        let location = match frame {
            Frame::Code(number, address) => {
                let mapping = *mappings.entry(*number).or_insert_with(|| {
                    let seen = &stacks.mappings.all()[*number as usize];
                    let file = files.get(&seen.image);
                    let filename = builder.intern(file.map_or("", |file| &file.path));
                    let build_id = builder.intern(file.map_or("", |file| &file.build_id));
                    builder.mapping(Mapping {
                        start: Addr(seen.range.start),
                        limit: Addr(seen.range.end),
                        file_offset: FileOffset(seen.file_offset),
                        filename,
                        build_id,
                        ..Mapping::default()
                    })
                });
                builder.address(Some(mapping), Addr(*address))
            }
            Frame::Kernel(address) => {
                let mapping = *kernel.get_or_insert_with(|| {
                    let filename = builder.intern(KERNEL);
                    let (start, limit) = (Addr(1 << 63), Addr(u64::MAX));
                    builder.mapping(Mapping { start, limit, filename, ..Mapping::default() })
                });
                builder.address(Some(mapping), Addr(*address))
            }
            Frame::Nowhere(_) | Frame::Note(_) => continue,
        };
        builder.sample(&[location], &[1, 1], &[]);
    }
    builder.parts_mut().addresses = procprof_profile::Addresses::CallSite;
    let mut sources = Sources {
        this_boot: true,
        paths: PathUse::Never,
        kallsyms: kallsyms.map(Path::to_owned),
        process: process.map(|process| process.identity()),
        ..Sources::default()
    };
    let named = builder.finish().ok().and_then(|profile| symbolize_profile(profile, &mut sources).ok());
    let Some((profile, _)) = named else { return };
    // Samples may come in another order, but each has the address of its frame.
    let mut by_address: HashMap<u64, OwnName> = HashMap::default();
    for location in profile.samples().filter_map(|sample| sample.stack.first().copied()) {
        let Some(line) = profile.lines(location).first() else { continue };
        let function = profile.function(line.function);
        let [name, system_name] = [function.name, function.system_name].map(|text| profile.string(text).to_owned());
        by_address.insert(profile.location(location).address.0, OwnName { name, system_name });
    }
    for frame in frames {
        if let Frame::Code(_, address) | Frame::Kernel(address) = frame
            && let Some(name) = by_address.get(address)
        {
            names.insert(*frame, name.clone());
        }
    }
}
