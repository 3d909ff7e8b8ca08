//! Names that only this host can give: of the kernel's functions, of the vdso, and of code that was generated at run
//! time, as processes list it in perf maps.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::HashMap;
use procprof_process::{Pid, Process};
use procprof_profile::{Addr, FileOffset, Mapping, ProfileBuilder, ProfileType};
use procprof_symbolize::{Failure, LIVE_PERF_MAP_BYTES_MAX, PathUse, PerfMapLimits, Sources, symbolize_profile};

use crate::images::Files;
use crate::stacks::{Frame, Stacks};

/// The name of the kernel's mapping, as `perf` has it.
pub(crate) const KERNEL: &str = "[kernel.kallsyms]";

/// Most CPU time for the perf maps of a process, each time that its code is named.
pub const PERF_MAP_CPU_MAX: Duration = Duration::from_millis(200);
/// Time after which no further perf map is read, each time that code is named.
const LONGEST: Duration = Duration::from_secs(2);

/// The name of a function, as shown and as its compiler has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnName {
    pub(crate) name: String,
    pub(crate) system_name: String,
}

/// The names of frames.
pub(crate) type OwnNames = HashMap<Frame, OwnName>;

/// Why generated code of a process has no names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnnamedCode {
    /// Its pid.
    pub pid: u32,
    /// The reason.
    pub why: String,
}

/// Names of generated code that processes have written for this recording: open perf maps by pid.
pub type PerfMaps = BTreeMap<u32, Arc<File>>;

/// The names of all frames that only this host can name, and the code that has none beyond a limit. What a process
/// that has ended would have told stays unnamed.
pub(crate) fn own_names(
    stacks: &Stacks,
    files: &Files,
    kallsyms: Option<&Path>,
    maps: &PerfMaps,
) -> (OwnNames, Vec<UnnamedCode>) {
    // What all processes share comes first.
    let shared = stacks.all_frames.iter().filter(|frame| match frame {
        Frame::Kernel(_) => true,
        Frame::Code(mapping, _) => {
            files.get(&stacks.mappings.all()[*mapping as usize].image).is_some_and(|file| file.path == "[vdso]")
        }
        Frame::Nowhere(_) | Frame::Note(_) => false,
    });
    let shared: Vec<Frame> = shared.copied().collect();
    let mut names = OwnNames::default();
    let sources = Sources { kallsyms: kallsyms.map(Path::to_owned), ..Sources::default() };
    add_names(&mut names, stacks, files, sources, &shared);
    let (generated, unnamed) = generated_names(stacks, files, maps);
    names.extend(generated);
    (names, unnamed)
}

/// The names of generated code, as running processes list it in perf maps, their own and those given, and the code that
/// has none beyond a limit.
pub(crate) fn generated_names(stacks: &Stacks, files: &Files, maps: &PerfMaps) -> (OwnNames, Vec<UnnamedCode>) {
    let (mut names, mut unnamed) = (OwnNames::default(), Vec::new());
    let begun = Instant::now();
    for (pid, frames) in generated_code(stacks, files) {
        if begun.elapsed() > LONGEST {
            let why = format!("the perf maps of other processes took {} s", LONGEST.as_secs());
            unnamed.push(UnnamedCode { pid, why });
            continue;
        }
        let Ok(process) = Process::open(Pid(pid)) else { continue };
        let map = maps.get(&pid).map(|map| PathBuf::from(format!("/proc/self/fd/{}", map.as_raw_fd())));
        let sources = Sources {
            process: Some(process.identity()),
            perf_maps: map.into_iter().collect(),
            perf_map_limits: PerfMapLimits { bytes_max: LIVE_PERF_MAP_BYTES_MAX, cpu_max: Some(PERF_MAP_CPU_MAX) },
            ..Sources::default()
        };
        let failures = add_names(&mut names, stacks, files, sources, &frames);
        unnamed.extend(failures.into_iter().map(|failure| UnnamedCode { pid, why: failure.what }));
    }
    (names, unnamed)
}

/// The frames in generated code of each process, the process with most of them first.
pub(crate) fn generated_code(stacks: &Stacks, files: &Files) -> Vec<(u32, Vec<Frame>)> {
    let mut frames: BTreeMap<u32, Vec<Frame>> = BTreeMap::new();
    for frame in &stacks.all_frames {
        let Frame::Code(mapping, _) = frame else { continue };
        let file = files.get(&stacks.mappings.all()[*mapping as usize].image);
        if let Some(pid) = file.and_then(|file| file.memory_of) {
            frames.entry(pid).or_default().push(*frame);
        }
    }
    let mut frames: Vec<(u32, Vec<Frame>)> = frames.into_iter().collect();
    frames.sort_by_key(|(_, frames)| std::cmp::Reverse(frames.len()));
    frames
}

/// Adds the names that sources give to frames of one process, or to those that all share; the sources that failed.
fn add_names(
    names: &mut OwnNames,
    stacks: &Stacks,
    files: &Files,
    sources: Sources<'_>,
    frames: &[Frame],
) -> Vec<Failure> {
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
    let mut sources = Sources { this_boot: true, paths: PathUse::Never, ..sources };
    let named = builder.finish().ok().and_then(|profile| symbolize_profile(profile, &mut sources).ok());
    let Some((profile, outcome)) = named else { return Vec::new() };
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
    outcome.failures
}
