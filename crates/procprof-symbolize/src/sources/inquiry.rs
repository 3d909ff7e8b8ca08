//! The queries to the sources: the locations of a profile, grouped by the file they are in, with the answers so far.

use std::collections::BTreeMap;

use procprof_process::BuildId;
use procprof_profile::{Addr, FileOffset, Location, LocationId, Mapping, MappingId, Profile, StringId, SymbolAddr};

use super::Sources;
use super::candidate::Found;
use super::kallsyms;
use super::live::Live;
use super::named::NamedBinary;
use crate::outcome::{Failure, Proof, Source, UsedFile};
use crate::reason::Refusal;
use crate::{Frame, Image, Reason, Resolved};

/// All inquiries about one profile.
pub(crate) struct Inquiries<'p> {
    pub(crate) profile: &'p Profile,
    pub(crate) live: Option<Live>,
    /// Why there is no live process, if one was named.
    pub(crate) process_error: Option<String>,
    pub(crate) named: Vec<NamedBinary>,
    pub(crate) all: Vec<Inquiry<'p>>,
    /// The kernel's symbols, while they are read.
    pub(crate) kernel_symbols: Option<kallsyms::Reading>,
    pub(crate) failures: Vec<Failure>,
}

/// The locations of one file, or of one kind of memory without a file.
pub(crate) struct Inquiry<'p> {
    pub(crate) memory: Memory,
    pub(crate) wanted: Wanted<'p>,
    pub(crate) mapping_ids: Vec<MappingId>,
    pub(crate) locations: Vec<LocationId>,
    addresses: Vec<Addr>,
    pub(crate) answers: Vec<Answer>,
    /// The mapping's file, once it is found.
    pub(crate) found: Option<Found>,
    pub(crate) used: Vec<UsedFile>,
    pub(crate) refused: Vec<Refusal>,
    /// The uploaded index that was used.
    pub(crate) index_key: Option<String>,
    /// The uploaded indexes that fit, if there are several.
    pub(crate) fitting_keys: Vec<String>,
}

/// The facts in a profile about the file behind one or more of its mappings.
#[derive(Debug, Clone)]
pub(crate) struct Wanted<'p> {
    pub(crate) filename: &'p str,
    pub(crate) build_id: Option<BuildId>,
    pub(crate) mappings: Vec<&'p Mapping>,
    /// Whether the first mapping with a file is among them.
    pub(crate) is_main: bool,
}

/// The answer so far for one location.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) resolved: Resolved,
    /// The source of the answer; `None` as long as nothing is known.
    pub(crate) source: Option<Source>,
}

impl Answer {
    /// The frames from a source; none if nothing is known.
    pub(crate) fn frames(&self) -> &[Frame] {
        match (&self.resolved, self.source) {
            (Resolved::Frames(frames), Some(_)) => frames,
            _ => &[],
        }
    }
}

/// The kind of memory of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Memory {
    File,
    Anonymous,
    NoMapping,
    Kernel,
    Vdso,
    Vsyscall,
}

impl Memory {
    /// The kind of memory of a location.
    fn from_location(profile: &Profile, location: &Location, sources: &Sources<'_>) -> Self {
        const VSYSCALL: std::ops::Range<u64> = 0xffff_ffff_ff60_0000..0xffff_ffff_ff60_1000;
        /// The upper half of the address space is the kernel's.
        const KERNEL_START: u64 = 1 << 63;
        let Some(id) = location.mapping else {
            return match location.address.0 {
                address if VSYSCALL.contains(&address) => Self::Vsyscall,
                KERNEL_START.. => Self::Kernel,
                _ => Self::NoMapping,
            };
        };
        let mapping = profile.mapping(id);
        let filename = profile.string(mapping.filename);
        // A file in memory may be an image.
        let is_image = || {
            let is_proven = || sources.proven_files.iter().any(|proven| proven.path.as_os_str() == filename);
            filename.starts_with("/memfd:") && (!profile.string(mapping.build_id).is_empty() || is_proven())
        };
        match filename {
            "[vdso]" | "linux-vdso.so.1" | "linux-gate.so.1" => Self::Vdso,
            "[vsyscall]" => Self::Vsyscall,
            _ if filename.starts_with("[kernel") || filename.starts_with("[guest.kernel") => Self::Kernel,
            _ if is_anonymous(filename) && !is_image() => Self::Anonymous,
            _ => Self::File,
        }
    }

    /// Why a location in it is unknown as long as no source was queried.
    fn reason(self) -> Reason {
        match self {
            Self::File => Reason::FileMissing,
            Self::Anonymous => Reason::NoFile,
            Self::NoMapping => Reason::NoMapping,
            Self::Kernel => Reason::Kernel,
            Self::Vdso => Reason::Vdso,
            Self::Vsyscall => Reason::Vsyscall,
        }
    }
}

/// Whether the name of a mapping means memory without a file.
fn is_anonymous(filename: &str) -> bool {
    const PREFIXES: [&str; 6] = ["[", "//anon", "/dev/zero", "/memfd:", "/anon_hugepage", "/SYSV"];
    filename.is_empty() || PREFIXES.iter().any(|prefix| filename.starts_with(prefix))
}

impl<'p> Inquiries<'p> {
    /// The locations without symbols, grouped, in the order of their first mapping.
    pub(crate) fn from_profile(profile: &'p Profile, sources: &Sources<'_>) -> Self {
        let mut numbers: BTreeMap<(Memory, Option<(StringId, StringId)>), usize> = BTreeMap::new();
        let mut all: Vec<Inquiry<'p>> = Vec::new();
        for (index, location) in profile.locations().iter().enumerate() {
            let id = LocationId(index as u32);
            if !profile.lines(id).is_empty() {
                continue;
            }
            let memory = Memory::from_location(profile, location, sources);
            let mapping = location.mapping.map(|id| profile.mapping(id));
            let key = (memory, mapping.map(|mapping| (mapping.filename, mapping.build_id)));
            let number = *numbers.entry(key).or_insert_with(|| {
                all.push(Inquiry::new(memory));
                all.len() - 1
            });
            all[number].push(id, location.address);
        }
        let mut mapping_ids: BTreeMap<(StringId, StringId), Vec<MappingId>> = BTreeMap::new();
        for (index, mapping) in profile.mappings().iter().enumerate() {
            mapping_ids.entry((mapping.filename, mapping.build_id)).or_default().push(MappingId(index as u32));
        }
        for ((_, key), number) in &numbers {
            all[*number].mapping_ids = key.and_then(|key| mapping_ids.get(&key)).cloned().unwrap_or_default();
        }
        let main = profile.mappings().iter().position(|mapping| profile.string(mapping.filename).starts_with('/'));
        for inquiry in &mut all {
            inquiry.wanted = Wanted::from_mappings(profile, &inquiry.mapping_ids, main);
        }
        all.sort_by_key(|inquiry| inquiry.mapping_ids.first().map_or(usize::MAX, |id| id.index()));
        let (live, process_error) = match sources.process.as_ref().map(Live::open) {
            Some(Ok(live)) => (Some(live), None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        let named = NamedBinary::all(&sources.binaries, profile);
        Self { profile, live, process_error, named, all, kernel_symbols: None, failures: Vec::new() }
    }

    /// The inquiries about one kind of memory that have something unknown.
    pub(crate) fn unknown_in(&mut self, memory: Memory) -> impl Iterator<Item = &mut Inquiry<'p>> {
        self.all.iter_mut().filter(move |inquiry| inquiry.memory == memory && inquiry.has_unknown())
    }

    /// The named binaries that were not used, with reasons.
    pub(crate) fn unused(&self) -> Vec<Refusal> {
        let used = || self.all.iter().flat_map(|inquiry| &inquiry.used);
        let is_used = |binary: &&NamedBinary| {
            used().any(|used| {
                used.path == binary.path || used.debug_file.as_ref().is_some_and(|debug| debug.path == binary.path)
            })
        };
        let refused = |binary: &NamedBinary| {
            let mut all = self.all.iter().flat_map(|inquiry| &inquiry.refused);
            all.find(|refusal| refusal.path == binary.path).map(|refusal| refusal.reason)
        };
        let unused = self.named.iter().filter(|binary| !is_used(binary));
        let refusal = |binary: &NamedBinary| Refusal {
            path: binary.path.clone(),
            build_id: binary.build_id.clone(),
            reason: binary.unreadable.or_else(|| refused(binary)).unwrap_or(Reason::NotMapped),
        };
        unused.map(refusal).collect()
    }

    pub(crate) fn fail(&mut self, source: Source, what: impl ToString) {
        self.failures.push(Failure { source, what: what.to_string() });
    }
}

impl<'p> Inquiry<'p> {
    fn new(memory: Memory) -> Self {
        Self {
            memory,
            wanted: Wanted { filename: "", build_id: None, mappings: Vec::new(), is_main: false },
            mapping_ids: Vec::new(),
            locations: Vec::new(),
            addresses: Vec::new(),
            answers: Vec::new(),
            found: None,
            used: Vec::new(),
            refused: Vec::new(),
            index_key: None,
            fitting_keys: Vec::new(),
        }
    }

    fn push(&mut self, id: LocationId, address: Addr) {
        self.locations.push(id);
        self.addresses.push(address);
        self.answers.push(Answer { resolved: Resolved::Unknown(self.memory.reason()), source: None });
    }

    /// The mappings that its locations are in, each once.
    pub(crate) fn mappings_in_use(&self, profile: &'p Profile) -> Vec<&'p Mapping> {
        let mut ids: Vec<MappingId> = self.locations.iter().filter_map(|id| profile.location(*id).mapping).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().map(|id| profile.mapping(id)).collect()
    }

    fn has_unknown(&self) -> bool {
        self.answers.iter().any(|answer| answer.source.is_none())
    }

    /// The unknown locations: the position, and the address in the process.
    pub(crate) fn unknown(&self) -> Vec<(usize, Addr)> {
        let all = self.answers.iter().zip(&self.addresses).enumerate();
        all.filter(|(_, (answer, _))| answer.source.is_none())
            .map(|(position, (_, address))| (position, *address))
            .collect()
    }

    /// Records the answer of a source for a location; a reason replaces the one before, except that a file without
    /// symbols does not replace that better symbols of it don't cover the address.
    pub(crate) fn answer(&mut self, position: usize, source: Source, resolved: Resolved) {
        let is_covered_by_none = self.answers[position].resolved == Resolved::Unknown(Reason::NotCovered);
        if is_covered_by_none && resolved == Resolved::Unknown(Reason::NoSymbols) {
            return;
        }
        let source = matches!(resolved, Resolved::Frames(_)).then_some(source);
        self.answers[position] = Answer { resolved, source };
    }

    /// Sets this reason for all unknown locations.
    pub(crate) fn give_up(&mut self, reason: Reason) {
        for answer in self.answers.iter_mut().filter(|answer| answer.source.is_none()) {
            answer.resolved = Resolved::Unknown(reason);
        }
    }

    /// Looks up all unknown locations in an image.
    pub(crate) fn ask_image(&mut self, profile: &Profile, source: Source, image: &Image) {
        self.ask(
            profile,
            source,
            |start, distance| image.symbol_addr_in(start, distance),
            |places| image.resolve(places),
        );
    }

    /// Looks up all unknown locations: `locate` returns where in the image a byte of a mapping is, from the start of
    /// the mapping in the file and the distance of the byte from it.
    pub(crate) fn ask(
        &mut self,
        profile: &Profile,
        source: Source,
        locate: impl Fn(FileOffset, u64) -> Option<SymbolAddr>,
        resolve: impl FnOnce(&[SymbolAddr]) -> Vec<Resolved>,
    ) {
        let positions: Vec<usize> = self.unknown().into_iter().map(|(position, _)| position).collect();
        let place = |position: &usize| {
            let location = profile.location(self.locations[*position]);
            let mapping = profile.mapping(location.mapping?);
            locate(mapping.file_offset, location.address.0.checked_sub(mapping.start.0)?)
        };
        let places: Vec<Option<SymbolAddr>> = positions.iter().map(place).collect();
        let inside: Vec<SymbolAddr> = places.iter().copied().flatten().collect();
        let mut resolved = resolve(&inside).into_iter();
        for (position, place) in positions.into_iter().zip(places) {
            let answer = place.and_then(|_| resolved.next()).unwrap_or(Resolved::Unknown(Reason::OutsideSegments));
            self.answer(position, source, answer);
        }
    }

    /// Records that symbols are from an image.
    pub(crate) fn use_image(&mut self, source: Source, image: &Image, proof: Proof) {
        self.used.push(UsedFile {
            source,
            path: image.path().to_owned(),
            build_id: image.build_id().cloned(),
            debug_file: image.debug_file().cloned(),
            proof,
        });
    }

    /// The build id of its file, from the profile or the file found for it, and whether it is verified.
    pub(crate) fn build_id(&self) -> Option<(BuildId, Proof)> {
        match (&self.wanted.build_id, &self.found) {
            (Some(build_id), _) => Some((build_id.clone(), Proof::Verified)),
            (None, Some(found)) => Some((found.image.build_id()?.clone(), found.proof)),
            (None, None) => None,
        }
    }
}

impl<'p> Wanted<'p> {
    /// The facts in the profile about the file behind these mappings, which share name and build id.
    fn from_mappings(profile: &'p Profile, ids: &[MappingId], main: Option<usize>) -> Self {
        let mappings: Vec<&Mapping> = ids.iter().map(|id| profile.mapping(*id)).collect();
        Self {
            filename: mappings.first().map_or("", |mapping| profile.string(mapping.filename)),
            build_id: mappings.first().and_then(|mapping| profile.string(mapping.build_id).parse::<BuildId>().ok()),
            is_main: main.is_some_and(|main| ids.iter().any(|id| id.index() == main)),
            mappings,
        }
    }

    /// The file's path, without the suffix ` (deleted)`.
    pub(crate) fn path(&self) -> &'p std::path::Path {
        std::path::Path::new(self.filename.strip_suffix(" (deleted)").unwrap_or(self.filename))
    }
}
