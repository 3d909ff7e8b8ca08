//! Symbolization on the command line: its flags, and the messages about addresses that stay unnamed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, ValueHint, value_parser};
use procprof_jeprof::short_function_name;
use procprof_process::interpreter::Functions;
use procprof_process::{Identity, Interpreter};
use procprof_profile::{Profile, StringId};
use procprof_symbolize::{
    Binary, BinaryRole, FetchDebugFile, ImageOptions, IndexFolder, MappingOutcome, Outcome, PathUse, ProvenFile,
    Reason, Refusal, Source, Sources, SplitUnits, WantedShare, symbolize_profile,
};

use super::perf;
use super::source::Origin;
use crate::debuginfod::Debuginfod;

/// Most files that messages list.
const LISTED_MAX: usize = 8;
/// Least share of the profile for which a wanted file is listed by name.
const LISTED_SHARE_MIN: f64 = 0.01;
/// Most bytes of the cache of symbols of binaries.
const CACHE_BYTES_MAX: u64 = 1 << 30;
/// The folder that is searched for debug files after those of the command line.
const SYSTEM_DEBUG_DIR: &str = "/usr/lib/debug";
/// perf's cache of binaries, in the home folder; `perf archive` packs a part of it for another machine.
const PERF_CACHE: &str = ".debug";

/// The sources of names that the command line permits.
#[derive(Debug, Default)]
pub(super) struct Naming {
    binaries: Vec<Binary>,
    debug_dirs: Vec<PathBuf>,
    paths: PathUse,
    perf_maps: Vec<PathBuf>,
    kallsyms: Option<PathBuf>,
    short_names: bool,
    debuginfod: Option<Debuginfod>,
    /// The cache of symbols of binaries.
    cache: Option<IndexFolder>,
}

impl Naming {
    /// The flags.
    pub(super) fn args() -> [Arg; 7] {
        let arg = |name: &'static str, value, help| {
            Arg::new(name).long(name).value_name(value).help(help).help_heading("Names of addresses")
        };
        let path = |name, value, help| arg(name, value, help).value_parser(value_parser!(PathBuf));
        let file = |name, help| path(name, "FILE", help).value_hint(ValueHint::FilePath);
        [
            file(
                "binary",
                "Binary, library or debug file of the profiled process, matched by build id, else by name; its names are \
                marked as unverified if the build id cannot be compared. May be given several times",
            )
            .action(ArgAction::Append),
            path(
                "debug-dir",
                "DIR",
                "Folder with debug files, by build id or name, in addition to /usr/lib/debug, ~/.debug (perf's), \
                PPROF_BINARY_PATH and the folder of the binary. May be given several times",
            )
            .value_hint(ValueHint::DirPath)
            .action(ArgAction::Append),
            arg(
                "trust-paths",
                "BOOL",
                "Whether a profile without build ids is symbolized from the files that its paths name on this machine, \
                marked as unverified; use false for profiles of other machines [default: true]",
            )
            .value_parser(value_parser!(bool)),
            file(
                "perf-map",
                "Names of JIT-compiled code, in the format of /tmp/perf-PID.map. May be given several times",
            )
            .action(ArgAction::Append),
            file(
                "kallsyms",
                "Kernel symbols of the profiled machine: a copy of its /proc/kallsyms, made as root since its last boot",
            ),
            Arg::new("short-names")
                .long("short-names")
                .help("Print names without return types, parameters and template arguments, as jeprof does")
                .action(ArgAction::SetTrue)
                .help_heading("Names of addresses"),
            Arg::new("no-cache")
                .long("no-cache")
                .help(
                    "Neither read nor write the cache of symbols in PROCPROF_CACHE_DIR, by default ~/.cache/procprof",
                )
                .action(ArgAction::SetTrue)
                .help_heading("Names of addresses"),
        ]
    }

    /// The flags as typed, and the settings of the environment.
    pub(super) fn from_matches(matches: &ArgMatches) -> Self {
        let paths = |id: &str| -> Vec<PathBuf> { matches.get_many(id).into_iter().flatten().cloned().collect() };
        let binaries = paths("binary").into_iter().map(|path| Binary { path, role: BinaryRole::Any });
        Self {
            binaries: binaries.collect(),
            debug_dirs: paths("debug-dir"),
            paths: if matches.get_one("trust-paths") == Some(&false) { PathUse::IfProven } else { PathUse::Trusted },
            perf_maps: paths("perf-map"),
            kallsyms: matches.get_one("kallsyms").cloned(),
            short_names: matches.get_flag("short-names"),
            debuginfod: Debuginfod::from_environment(),
            cache: if matches.get_flag("no-cache") { None } else { cache() },
        }
    }

    /// The defaults, without flags and environment.
    pub(super) fn plain() -> Self {
        Self { cache: cache(), paths: PathUse::Trusted, ..Self::default() }
    }

    /// Names addresses without names; `program` is the main program. With an `origin`, the profile is one of several:
    /// messages about unnamed addresses are printed for their sum, which has none.
    pub(super) fn symbolized(
        &self,
        profile: Profile,
        program: Option<&Path>,
        origin: Option<Origin<'_>>,
    ) -> Result<Profile> {
        let mut sources = self.sources(program);
        sources.this_boot = perf::is_of_this_boot(&profile);
        let is_part = origin.is_some();
        if let Some(origin) = origin {
            (sources.fetch, sources.process) = (origin.names, origin.process);
        }
        let (profile, outcome) = symbolize(profile, &mut sources)?;
        if is_part {
            return Ok(profile);
        }
        messages(&outcome, &profile).iter().for_each(|line| eprintln!("procprof: {line}"));
        if self.short_names { with_short_names(profile) } else { Ok(profile) }
    }

    /// As [`Naming::symbolized`], for a profile that was taken on this machine since it was started, from `files`.
    pub(super) fn of_this_boot(
        &self,
        profile: Profile,
        files: &[ProvenFile],
        process: Option<Identity>,
    ) -> Result<Profile> {
        let mut sources = self.sources(None);
        (sources.this_boot, sources.process, sources.proven_files) = (true, process, files);
        let (profile, outcome) = symbolize(profile, &mut sources)?;
        messages(&outcome, &profile).iter().for_each(|line| eprintln!("procprof: {line}"));
        Ok(profile)
    }

    /// The files given for names, which hold machine code, too.
    pub(super) fn binaries(&self, program: Option<&Path>) -> Vec<PathBuf> {
        program.map(Path::to_owned).into_iter().chain(self.binaries.iter().map(|binary| binary.path.clone())).collect()
    }

    fn sources(&self, program: Option<&Path>) -> Sources<'_> {
        let main = program.map(|path| Binary { path: path.to_owned(), role: BinaryRole::Main });
        let binaries: Vec<Binary> = main.into_iter().chain(self.binaries.iter().cloned()).collect();
        let mut image =
            ImageOptions { binary_paths: binary_paths(), split_units: SplitUnits::Anywhere, ..ImageOptions::default() };
        let others = [Some(PathBuf::from(SYSTEM_DEBUG_DIR)), std::env::home_dir().map(|home| home.join(PERF_CACHE))];
        image.debug_dirs = self.debug_dirs.iter().cloned().chain(others.into_iter().flatten()).collect();
        image.cache.clone_from(&self.cache);
        image.debug_files = binaries.iter().map(|binary| binary.path.clone()).collect();
        let debuginfod = self
            .debuginfod
            .as_ref()
            .map(|client| -> Box<FetchDebugFile<'_>> { Box::new(|build_id| client.debug_file(build_id)) });
        Sources {
            binaries,
            paths: self.paths,
            perf_maps: self.perf_maps.clone(),
            kallsyms: self.kallsyms.clone(),
            debuginfod,
            image,
            ..Sources::default()
        }
    }
}

/// Symbolizes a profile, and prints the failures of sources.
fn symbolize(profile: Profile, sources: &mut Sources<'_>) -> Result<(Profile, Outcome)> {
    let (profile, outcome) = symbolize_profile(profile, sources).context("symbolize")?;
    for failure in &outcome.failures {
        match failure.source {
            Source::SymbolPage => eprintln!("procprof: symbol page of the process: {}", failure.what),
            source => eprintln!("procprof: {source}: {}", failure.what),
        }
    }
    Ok((profile, outcome))
}

/// The cache of symbols of binaries.
pub(crate) fn cache() -> Option<IndexFolder> {
    crate::debuginfod::cache_dir().map(|folder| IndexFolder::new(folder.join("symbols"), CACHE_BYTES_MAX))
}

/// The folders of `PPROF_BINARY_PATH`, else pprof's own.
fn binary_paths() -> Vec<PathBuf> {
    match std::env::var_os("PPROF_BINARY_PATH").filter(|paths| !paths.is_empty()) {
        Some(paths) => std::env::split_paths(&paths).collect(),
        None => std::env::home_dir().map(|home| home.join("pprof/binaries")).into_iter().collect(),
    }
}

/// The messages about names that are missing or unverified.
fn messages(outcome: &Outcome, profile: &Profile) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let unverified = outcome
        .unverified()
        .map(|used| format!("unverified: nothing proves that {} is the profiled file", used.path.display()));
    lines.extend(unverified.take(LISTED_MAX));
    lines.extend(outcome.unused_binaries.iter().map(|unused| format!("not used: {}", refusal(unused))));
    let missing = outcome.unresolved_count();
    if missing > 0 {
        lines.push(format!("{missing} of {} addresses have no name: {}", profile.locations().len(), reasons(outcome)));
    }
    let shares = outcome.wanted_shares(profile);
    let worth = shares.iter().take_while(|wanted| wanted.share >= LISTED_SHARE_MIN).take(LISTED_MAX).count();
    lines.extend(shares[..worth].iter().map(|wanted| wanted_line(outcome, wanted)));
    match shares.len() - worth {
        0 => {}
        1 => lines.push(format!("wanted: {}, for a smaller share", name_of(&shares[worth].file.filename))),
        more => lines.push(format!("wanted: {more} more files, for smaller shares")),
    }
    lines
}

/// The message about a file whose symbols are missing, with the remedy.
fn wanted_line(outcome: &Outcome, wanted: &WantedShare) -> String {
    let file = &wanted.file;
    let is_it = |mapping: &&MappingOutcome| mapping.wanted().as_ref() == Some(file);
    let tried =
        outcome.mappings.iter().find(is_it).map_or_else(String::new, |mapping| tried(&mapping.refused, &file.filename));
    let build_id =
        if file.build_id.is_empty() { "no build id".to_owned() } else { format!("build id {}", file.build_id) };
    let (name, percent) = (name_of(&file.filename), wanted.share * 100.0);
    let path = file.filename.strip_suffix(" (deleted)").unwrap_or(&file.filename);
    let interpreter = Interpreter::of_file(name).filter(|interpreter| interpreter.functions == Functions::Absent);
    let help = match (interpreter, wanted.is_stripped) {
        (Some(interpreter), _) => {
            format!("its symbols would name functions of {0} itself, not those of programs in {0}", interpreter.name)
        }
        (None, true) => {
            "it is stripped; give its debug file with --binary FILE or --debug-dir DIR, or set DEBUGINFOD_URLS"
                .to_owned()
        }
        (None, false) => format!("give it with --binary FILE, or upload it: procprof symbols push {path}"),
    };
    format!("wanted: {name} ({build_id}): hides {percent:.1} % of samples{tried}; {help}")
}

/// The last part of a path as a profile has it.
fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The reasons for unnamed addresses with their counts, the most frequent first.
fn reasons(outcome: &Outcome) -> String {
    let mut counts: Vec<(Reason, usize)> = outcome.unresolved_by_reason().into_iter().collect();
    counts.sort_by_key(|(reason, count)| (std::cmp::Reverse(*count), *reason));
    counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect::<Vec<_>>().join(", ")
}

/// The files that were tried and rejected.
fn tried(refused: &[Refusal], filename: &str) -> String {
    let mut texts: Vec<String> = Vec::new();
    for refused in refused {
        let is_plain = refused.path == Path::new(filename) && refused.reason == Reason::FileMissing;
        let text = if is_plain { Reason::FileMissing.to_string() } else { refusal(refused) };
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.truncate(LISTED_MAX);
    if texts.is_empty() { String::new() } else { format!(" ({})", texts.join("; ")) }
}

fn refusal(refusal: &Refusal) -> String {
    let Refusal { path, build_id, reason } = refusal;
    match build_id {
        Some(build_id) if *reason != Reason::NotMapped => format!("{}: {reason}: its is {build_id}", path.display()),
        _ => format!("{}: {reason}", path.display()),
    }
}

/// The profile with names as jeprof shortens them. Names of the linker are kept.
fn with_short_names(profile: Profile) -> Result<Profile> {
    let mut parts = profile.into_parts();
    let mut ids: HashMap<String, StringId> =
        parts.strings.iter().enumerate().map(|(index, text)| (text.to_owned(), StringId(index as u32))).collect();
    for index in 0..parts.functions.len() {
        let name = parts.functions[index].name;
        let short = short_function_name(parts.strings.get(name).unwrap_or_default());
        let id = match ids.get(&short) {
            Some(id) => *id,
            None => {
                let id = parts.strings.push(&short).context("more than 4 GiB of strings")?;
                ids.insert(short, id);
                id
            }
        };
        parts.functions[index].name = id;
    }
    parts.finish().context("shorten names")
}
