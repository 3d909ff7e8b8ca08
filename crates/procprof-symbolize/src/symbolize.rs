//! Symbolizing a profile: which file for which mapping, one batch a file, the rest from remote.

use std::collections::BTreeMap;

use procprof_process::BuildId;
use procprof_profile::{Addr, Addresses, Line, Location, LocationId, Mapping, MappingId, Parts, Profile, StringId, SymbolAddr};

use crate::candidate::{self, Found, Live, Wanted};
use crate::lines::LineWriter;
use crate::outcome::{MappingOutcome, Outcome, Proof, Refusal, UsedFile};
use crate::sources::Sources;
use crate::{Error, Frame, Image, Reason, Resolved, Result, remote};

/// Fills in functions, files, lines and inlined frames of all locations that have none.
///
/// Addresses are kept, and build ids of proven files added, so that it can be done again when
/// better symbols arrive. Errs with [`Error::NotAdjusted`] if the addresses are not call sites, and
/// if the symbols do not fit into a profile; whatever can't be found is told by the [`Outcome`].
pub fn symbolize_profile(profile: Profile, sources: &mut Sources<'_>) -> Result<(Profile, Outcome)> {
    if profile.addresses() != Addresses::CallSite {
        return Err(Error::NotAdjusted);
    }
    let mut work = Work::of(&profile);
    let live = work.open_process(sources);
    for group in work.groups(&profile) {
        work.symbolize_group(&profile, &group, sources, live.as_ref());
    }
    work.ask_remote(&profile, sources);
    work.write(profile)
}

/// The answers so far, by location.
struct Work {
    /// `None` for locations that had symbols before.
    answers: Vec<Option<Answer>>,
    /// By mapping, last those in none.
    outcomes: Vec<MappingOutcome>,
    process_error: Option<String>,
    remote_error: Option<String>,
}

struct Answer {
    resolved: Resolved,
    remote: bool,
}

/// The mappings of one file.
struct Group {
    mappings: Vec<MappingId>,
    locations: Vec<LocationId>,
}

impl Work {
    fn of(profile: &Profile) -> Self {
        let answers = profile.locations().iter().enumerate().map(|(index, location)| {
            let known = !profile.lines(LocationId(index as u32)).is_empty();
            let reason = reason_without_file(profile, location);
            (!known).then_some(Answer { resolved: Resolved::Unknown(reason), remote: false })
        });
        let outcomes = profile.mappings().iter().enumerate().map(|(index, mapping)| MappingOutcome {
            mapping: Some(MappingId(index as u32)),
            filename: profile.string(mapping.filename).to_owned(),
            build_id: profile.string(mapping.build_id).to_owned(),
            ..MappingOutcome::default()
        });
        Self {
            answers: answers.collect(),
            outcomes: outcomes.chain([MappingOutcome::default()]).collect(),
            process_error: None,
            remote_error: None,
        }
    }

    fn open_process(&mut self, sources: &Sources<'_>) -> Option<Live> {
        match Live::open(&sources.process?) {
            Ok(live) => Some(live),
            Err(error) => {
                self.process_error = Some(error.to_string());
                None
            }
        }
    }

    /// The files with locations to symbolize, in the order of their first mapping.
    fn groups(&self, profile: &Profile) -> Vec<Group> {
        let mut numbers: BTreeMap<(StringId, StringId), usize> = BTreeMap::new();
        let mut groups: Vec<Group> = Vec::new();
        let mut group_of_mapping = Vec::with_capacity(profile.mappings().len());
        for (index, mapping) in profile.mappings().iter().enumerate() {
            let number = *numbers.entry((mapping.filename, mapping.build_id)).or_insert(groups.len());
            if number == groups.len() {
                groups.push(Group { mappings: Vec::new(), locations: Vec::new() });
            }
            groups[number].mappings.push(MappingId(index as u32));
            group_of_mapping.push(number);
        }
        for (index, location) in profile.locations().iter().enumerate() {
            let to_do = matches!(&self.answers[index], Some(answer) if answer.resolved == Resolved::Unknown(Reason::FileMissing));
            if let Some(mapping) = location.mapping.filter(|_| to_do) {
                groups[group_of_mapping[mapping.index()]].locations.push(LocationId(index as u32));
            }
        }
        groups.retain(|group| !group.locations.is_empty());
        groups
    }

    fn symbolize_group(&mut self, profile: &Profile, group: &Group, sources: &Sources<'_>, live: Option<&Live>) {
        let mut refused = Vec::new();
        let found = candidate::find(&wanted(profile, &group.mappings), sources, live, &mut refused);
        let answers = match &found {
            Some(found) => resolve_in(profile, &found.image, &group.locations),
            None => vec![Resolved::Unknown(reason_of(&refused)); group.locations.len()],
        };
        for (id, resolved) in group.locations.iter().zip(answers) {
            self.answers[id.index()] = Some(Answer { resolved, remote: false });
        }
        for id in &group.mappings {
            let outcome = &mut self.outcomes[id.index()];
            outcome.refused.clone_from(&refused);
            outcome.used = found.as_ref().map(used_file);
        }
    }

    /// Asks the remote page, if there is one, for all addresses still unknown, at once.
    fn ask_remote(&mut self, profile: &Profile, sources: &mut Sources<'_>) {
        let Some(fetch) = &mut sources.fetch else {
            return;
        };
        let mut addresses: Vec<Addr> = self.unknown().map(|index| profile.locations()[index].address).collect();
        addresses.retain(|address| address.0 != 0);
        addresses.sort_unstable();
        addresses.dedup();
        if addresses.is_empty() {
            return;
        }
        let mut names = match fetch(&addresses) {
            Ok(names) => names,
            Err(error) => {
                self.remote_error = Some(error.to_string());
                return;
            }
        };
        names.sort_by_key(|(address, _)| *address);
        let unknown: Vec<usize> = self.unknown().collect();
        for index in unknown {
            let address = profile.locations()[index].address;
            let Ok(position) = names.binary_search_by_key(&address, |(address, _)| *address) else {
                continue;
            };
            let frames = remote::frames(&names[position].1);
            if !frames.is_empty() {
                self.answers[index] = Some(Answer { resolved: Resolved::Frames(frames), remote: true });
            }
        }
    }

    /// The positions of the locations that have no symbols yet.
    fn unknown(&self) -> impl Iterator<Item = usize> + '_ {
        let is_unknown = |answer: &Option<Answer>| matches!(answer, Some(Answer { resolved: Resolved::Unknown(_), .. }));
        self.answers.iter().enumerate().filter(move |(_, answer)| is_unknown(answer)).map(|(index, _)| index)
    }

    /// Writes the answers into the profile and counts them.
    fn write(mut self, profile: Profile) -> Result<(Profile, Outcome)> {
        let ids = (0..profile.locations().len()).map(|index| LocationId(index as u32));
        let old_counts: Vec<usize> = ids.clone().map(|id| profile.lines(id).len()).collect();
        let old_lines: Vec<Line> = ids.flat_map(|id| profile.lines(id)).copied().collect();
        let mut old_lines = old_lines.as_slice();
        let mut parts = profile.into_parts();
        let mut writer = LineWriter::new(&parts);
        let locations = std::mem::take(&mut parts.locations);
        parts.lines.clear();
        for (index, location) in locations.into_iter().enumerate() {
            let slot = location.mapping.map_or(self.outcomes.len() - 1, MappingId::index);
            let outcome = &mut self.outcomes[slot];
            let (kept, rest) = old_lines.split_at(old_counts[index]);
            old_lines = rest;
            let frames = match &self.answers[index] {
                None => {
                    outcome.already += 1;
                    parts.push_location(location, kept)?;
                    continue;
                }
                Some(Answer { resolved: Resolved::Unknown(reason), .. }) => {
                    outcome.count_unresolved(*reason);
                    parts.push_location(location, &[])?;
                    continue;
                }
                Some(Answer { resolved: Resolved::Frames(frames), remote }) => {
                    let count = if *remote { &mut outcome.resolved_remotely } else { &mut outcome.resolved };
                    *count += 1;
                    frames
                }
            };
            let lines = writer.lines(&mut parts, frames)?;
            parts.push_location(location, &lines)?;
            if let Some(id) = location.mapping {
                mark(&mut parts.mappings[id.index()], frames);
            }
        }
        fill_build_ids(&mut self.outcomes, &mut parts, &mut writer)?;
        self.outcomes.retain(|outcome| outcome.already + outcome.resolved + outcome.resolved_remotely + outcome.unresolved_count() > 0);
        let outcome = Outcome { mappings: self.outcomes, process_error: self.process_error, remote_error: self.remote_error };
        Ok((parts.finish()?, outcome))
    }
}

/// What the profile says of the file behind these mappings, which share name and build id.
fn wanted<'a>(profile: &'a Profile, ids: &[MappingId]) -> Wanted<'a> {
    let mappings: Vec<&Mapping> = ids.iter().map(|id| profile.mapping(*id)).collect();
    let has_file = |mapping: &Mapping| profile.string(mapping.filename).starts_with('/');
    let main = profile.mappings().iter().position(has_file);
    Wanted {
        filename: mappings.first().map_or("", |mapping| profile.string(mapping.filename)),
        build_id: mappings.first().and_then(|mapping| profile.string(mapping.build_id).parse::<BuildId>().ok()),
        is_main: main.is_some_and(|main| ids.iter().any(|id| id.index() == main)),
        mappings,
    }
}

/// Why a location has no symbols before any file is looked at; [`Reason::FileMissing`] if one
/// should be.
fn reason_without_file(profile: &Profile, location: &Location) -> Reason {
    const VSYSCALL: std::ops::Range<u64> = 0xffff_ffff_ff60_0000..0xffff_ffff_ff60_1000;
    /// The upper half of the address space is the kernel's.
    const KERNEL_START: u64 = 1 << 63;
    let Some(id) = location.mapping else {
        return match location.address.0 {
            address if VSYSCALL.contains(&address) => Reason::Vsyscall,
            KERNEL_START.. => Reason::Kernel,
            _ => Reason::NoMapping,
        };
    };
    let filename = profile.string(profile.mapping(id).filename);
    match filename {
        "[vdso]" | "linux-vdso.so.1" | "linux-gate.so.1" => Reason::Vdso,
        "[vsyscall]" => Reason::Vsyscall,
        _ if filename.starts_with("[kernel") || filename.starts_with("[guest.kernel") => Reason::Kernel,
        _ if is_memory(filename) => Reason::NoFile,
        _ => Reason::FileMissing,
    }
}

/// Whether the name of a mapping is that of memory without a file.
fn is_memory(filename: &str) -> bool {
    const PREFIXES: [&str; 6] = ["[", "//anon", "/dev/zero", "/memfd:", "/anon_hugepage", "/SYSV"];
    filename.is_empty() || PREFIXES.iter().any(|prefix| filename.starts_with(prefix))
}

/// The reason the refused files come down to: another build weighs more than one that is missing.
fn reason_of(refused: &[Refusal]) -> Reason {
    let mismatch = refused.iter().find(|refusal| refusal.reason == Reason::BuildIdMismatch);
    mismatch.or(refused.last()).map_or(Reason::FileMissing, |refusal| refusal.reason)
}

fn resolve_in(profile: &Profile, image: &Image, locations: &[LocationId]) -> Vec<Resolved> {
    let addresses: Vec<Option<SymbolAddr>> = locations.iter().map(|id| symbol_addr(profile, image, *id)).collect();
    let inside: Vec<SymbolAddr> = addresses.iter().copied().flatten().collect();
    let mut resolved = image.resolve(&inside).into_iter();
    let answers = addresses.iter().map(|address| address.and_then(|_| resolved.next()));
    answers.map(|answer| answer.unwrap_or(Resolved::Unknown(Reason::OutsideSegments))).collect()
}

fn symbol_addr(profile: &Profile, image: &Image, id: LocationId) -> Option<SymbolAddr> {
    let location = profile.location(id);
    let mapping = profile.mapping(location.mapping?);
    let distance = location.address.0.checked_sub(mapping.start.0)?;
    image.symbol_addr_in(mapping.file_offset, distance)
}

fn used_file(found: &Found) -> UsedFile {
    UsedFile {
        path: found.image.path().to_owned(),
        build_id: found.image.build_id().cloned(),
        debug_file: found.image.debug_file().cloned(),
        proof: found.proof,
    }
}

fn mark(mapping: &mut Mapping, frames: &[Frame]) {
    mapping.has_functions = true;
    mapping.has_filenames |= frames.iter().any(|frame| frame.file.is_some());
    mapping.has_line_numbers |= frames.iter().any(|frame| frame.line.is_some());
    mapping.has_inline_frames |= frames.len() > 1;
}

/// Adds the build ids of proven files to mappings without one.
fn fill_build_ids(outcomes: &mut [MappingOutcome], parts: &mut Parts, writer: &mut LineWriter) -> Result<()> {
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.build_id.is_empty()) {
        let (Some(id), Some(used)) = (outcome.mapping, &outcome.used) else {
            continue;
        };
        if let (Proof::Verified, Some(build_id)) = (used.proof, &used.build_id) {
            outcome.build_id = build_id.to_string();
            parts.mappings[id.index()].build_id = writer.string(parts, &outcome.build_id)?;
        }
    }
    Ok(())
}
