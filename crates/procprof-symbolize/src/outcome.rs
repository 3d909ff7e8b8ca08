//! The result of symbolizing a profile: the sources used, and what stayed unknown and why.

use std::collections::BTreeMap;
use std::path::PathBuf;

use procprof_process::BuildId;
use procprof_profile::MappingId;

use crate::{DebugFile, Reason, Refusal};

/// The result of symbolizing a profile: the sources used, and what stayed unknown and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// One entry for each mapping that has locations, in the profile's order; last, without a mapping, the locations
    /// that are in none.
    pub mappings: Vec<MappingOutcome>,
    /// Why the process could not be used, if one was named: it ended or restarted, or may not be
    /// read.
    pub process_error: Option<String>,
    /// The sources that were queried and failed, with their errors.
    pub failures: Vec<Failure>,
    /// The binaries that the operator named and that were not used, with reasons.
    pub unused_binaries: Vec<Refusal>,
}

/// A source of symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Source {
    /// DWARF: the file's own, or a separate debug file's.
    DebugInfo,
    /// An uploaded symbol index.
    Uploaded,
    /// A debug file from a debuginfod server.
    Debuginfod,
    /// Go's own table of functions.
    GoTable,
    /// ELF symbols.
    SymbolTable,
    /// The list of generated code that a compiler in the process has written.
    PerfMap,
    /// The kernel's symbols.
    Kallsyms,
    /// The code the kernel maps into each process.
    Vdso,
    /// The symbol page of the profiled process.
    SymbolPage,
}

/// A source that was queried and failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The source.
    pub source: Source,
    /// Its error.
    pub what: String,
}

/// The result for the locations of one mapping. Numbers count locations, not samples.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MappingOutcome {
    /// The mapping; `None` for locations that are in none.
    pub mapping: Option<MappingId>,
    /// Its file name as in the profile; may be empty.
    pub filename: String,
    /// Its build id as in the profile, or that of a proven file; may be empty.
    pub build_id: String,
    /// Locations that had symbols before.
    pub already: usize,
    /// Locations that got symbols, by source.
    pub resolved: Vec<(Source, usize)>,
    /// Locations without symbols, by reason.
    pub unresolved: Vec<(Reason, usize)>,
    /// The files the symbols are from, in the order in which they were queried.
    pub used: Vec<UsedFile>,
    /// The files that were tried and not used, in that order.
    pub refused: Vec<Refusal>,
    /// The key ([`crate::SymbolIndex::key`]) of the uploaded index that was used.
    pub index_key: Option<String>,
    /// The keys of the uploaded indexes that fit, if there are several: then none was used.
    pub fitting_keys: Vec<String>,
}

/// A file that symbols are from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedFile {
    /// The source that it was read as.
    pub source: Source,
    /// Its path.
    pub path: PathBuf,
    /// Its build id, if it has one.
    pub build_id: Option<BuildId>,
    /// The separate debug file that was used with it.
    pub debug_file: Option<DebugFile>,
    /// Whether it is known to be the one profiled.
    pub proof: Proof,
}

/// Whether a file is known to be the one profiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// It is: equal build ids, or the very file a live process has mapped.
    Verified,
    /// The operator named or sent it, name (and for what was sent, layout) fit, and nothing contradicts.
    Unverified,
}

impl Proof {
    /// `verified` or `unverified`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Unverified => "unverified",
        }
    }
}

/// A file that would give the missing symbols.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedFile {
    /// Its name as in the profile.
    pub filename: String,
    /// Its build id; empty if the profile does not have it.
    pub build_id: String,
}

impl MappingOutcome {
    /// The number of locations that got symbols.
    pub fn resolved_count(&self) -> usize {
        self.resolved.iter().map(|(_, count)| count).sum()
    }

    /// The number of locations without symbols.
    pub fn unresolved_count(&self) -> usize {
        self.unresolved.iter().map(|(_, count)| count).sum()
    }

    /// The file that would give the missing symbols; `None` if no file would.
    pub fn wanted(&self) -> Option<WantedFile> {
        let wants = self.unresolved.iter().any(|(reason, _)| reason.wants_file());
        wants.then(|| WantedFile { filename: self.filename.clone(), build_id: self.build_id.clone() })
    }

    pub(crate) fn count_resolved(&mut self, source: Source) {
        match self.resolved.iter_mut().find(|(known, _)| *known == source) {
            Some((_, count)) => *count += 1,
            None => self.resolved.push((source, 1)),
        }
    }

    pub(crate) fn count_unresolved(&mut self, reason: Reason) {
        match self.unresolved.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => self.unresolved.push((reason, 1)),
        }
    }
}

impl Outcome {
    /// The number of locations that got symbols.
    pub fn resolved_count(&self) -> usize {
        self.mappings.iter().map(MappingOutcome::resolved_count).sum()
    }

    /// The number of locations without symbols.
    pub fn unresolved_count(&self) -> usize {
        self.mappings.iter().map(MappingOutcome::unresolved_count).sum()
    }

    /// The number of locations that got symbols, by source, in the order in which the sources are queried.
    pub fn resolved_by_source(&self) -> BTreeMap<Source, usize> {
        sum(self.mappings.iter().flat_map(|mapping| &mapping.resolved))
    }

    /// The number of locations without symbols, by reason.
    pub fn unresolved_by_reason(&self) -> BTreeMap<Reason, usize> {
        sum(self.mappings.iter().flat_map(|mapping| &mapping.unresolved))
    }

    /// The files that would give the missing symbols, each once.
    pub fn wanted(&self) -> Vec<WantedFile> {
        let mut files = Vec::new();
        for wanted in self.mappings.iter().filter_map(MappingOutcome::wanted) {
            if !files.contains(&wanted) {
                files.push(wanted);
            }
        }
        files
    }

    /// Whether any symbol is from a file that is not proven to be the one profiled.
    pub fn is_unverified(&self) -> bool {
        self.unverified().next().is_some()
    }

    /// The files that symbols are from and that are not proven to be the ones profiled, each once.
    pub fn unverified(&self) -> impl Iterator<Item = &UsedFile> {
        let all =
            || self.mappings.iter().filter(|mapping| mapping.resolved_count() > 0).flat_map(|mapping| &mapping.used);
        let is_first =
            move |(index, used): &(usize, &UsedFile)| !all().take(*index).any(|before| before.path == used.path);
        all().enumerate().filter(is_first).map(|(_, used)| used).filter(|used| used.proof == Proof::Unverified)
    }
}

fn sum<'a, K: Copy + Ord + 'a>(counts: impl Iterator<Item = &'a (K, usize)>) -> BTreeMap<K, usize> {
    let mut sums = BTreeMap::new();
    counts.for_each(|(key, count)| *sums.entry(*key).or_default() += count);
    sums
}
