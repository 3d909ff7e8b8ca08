//! Names for the addresses of a profile: which files and processes are asked, and what is said of those that stay
//! unnamed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, ValueHint, value_parser};
use procprof_jeprof::short_function_name;
use procprof_process::Identity;
use procprof_profile::{Profile, StringId};
use procprof_symbolize::{
    Binary, BinaryRole, FetchDebugFile, ImageOptions, IndexFolder, MappingOutcome, Outcome, PathUse, ProvenFile,
    Reason, Refusal, Source, Sources, SplitUnits, WantedShare, symbolize_profile,
};

use super::source::Origin;
use crate::debuginfod::Debuginfod;

/// Most files that are told about.
const TOLD_MAX: usize = 8;
/// Share of the profile from which a wanted file is told by name.
const WORTH_TELLING: f64 = 0.01;
/// Most bytes of what is kept of binaries for the next time.
const CACHE_BYTES_MAX: u64 = 1 << 30;
/// Where debug files are looked for besides the folders given.
const SYSTEM_DEBUG_DIR: &str = "/usr/lib/debug";

/// What is asked for names, as typed.
#[derive(Debug, Default)]
pub(super) struct Naming {
    binaries: Vec<Binary>,
    debug_dirs: Vec<PathBuf>,
    paths: PathUse,
    perf_maps: Vec<PathBuf>,
    kallsyms: Option<PathBuf>,
    short_names: bool,
    debuginfod: Option<Debuginfod>,
    /// Where what was read of binaries is kept.
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
                "A binary, library or debug file that was profiled, matched by build id, else by name; marked when it can't be proven to be the one. May be given several times",
            )
            .action(ArgAction::Append),
            path(
                "debug-dir",
                "DIR",
                "Folder with debug files, by build id or name, besides /usr/lib/debug, PPROF_BINARY_PATH and what is beside the binary. May be given several times",
            )
            .value_hint(ValueHint::DirPath)
            .action(ArgAction::Append),
            arg(
                "trust-paths",
                "BOOL",
                "Whether a profile without build ids gets its names from the files at its paths here, marked as unverified; false for profiles of other machines [default: true]",
            )
            .value_parser(value_parser!(bool)),
            file("perf-map", "Names of code made at run time, as /tmp/perf-PID.map has them. May be given several times").action(ArgAction::Append),
            file("kallsyms", "Kernel symbols of the profiled machine, a copy of its /proc/kallsyms made as root since it started"),
            Arg::new("short-names")
                .long("short-names")
                .help("Names without return types, parameters and template arguments, as jeprof shortens them")
                .action(ArgAction::SetTrue)
                .help_heading("Names of addresses"),
            Arg::new("no-cache")
                .long("no-cache")
                .help("Read binaries as if for the first time, and keep nothing of them in PROCPROF_CACHE_DIR, else ~/.cache/procprof")
                .action(ArgAction::SetTrue)
                .help_heading("Names of addresses"),
        ]
    }

    /// What was typed, and what the environment says.
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

    /// Nothing typed, and nothing said.
    pub(super) fn plain() -> Self {
        Self { cache: cache(), paths: PathUse::Trusted, ..Self::default() }
    }

    /// Names what has addresses only; `program` is taken for the main program. What stays unnamed is told once all
    /// profiles are joined, which have no one origin.
    pub(super) fn symbolized(
        &self,
        profile: Profile,
        program: Option<&Path>,
        origin: Option<Origin<'_>>,
    ) -> Result<Profile> {
        let mut sources = self.sources(program);
        let is_part = origin.is_some();
        if let Some(origin) = origin {
            (sources.fetch, sources.process) = (origin.names, origin.process);
        }
        let (profile, outcome) = asked(profile, &mut sources)?;
        if is_part {
            return Ok(profile);
        }
        lines(&outcome, &profile).iter().for_each(|line| eprintln!("procprof: {line}"));
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
        let (profile, outcome) = asked(profile, &mut sources)?;
        lines(&outcome, &profile).iter().for_each(|line| eprintln!("procprof: {line}"));
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
        image.debug_dirs = self.debug_dirs.iter().cloned().chain([PathBuf::from(SYSTEM_DEBUG_DIR)]).collect();
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

/// Asks the sources for names, and reports those that fail.
fn asked(profile: Profile, sources: &mut Sources<'_>) -> Result<(Profile, Outcome)> {
    let (profile, outcome) = symbolize_profile(profile, sources).context("symbolize")?;
    for failure in &outcome.failures {
        match failure.source {
            Source::SymbolPage => eprintln!("procprof: the process was asked for names: {}", failure.what),
            source => eprintln!("procprof: {source}: {}", failure.what),
        }
    }
    Ok((profile, outcome))
}

/// The folder of what was read of binaries.
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

/// What is to be said of names that are missing or not proven.
fn lines(outcome: &Outcome, profile: &Profile) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let unverified = outcome
        .unverified()
        .map(|used| format!("unverified: nothing proves that {} is what was profiled", used.path.display()));
    lines.extend(unverified.take(TOLD_MAX));
    lines.extend(outcome.unused_binaries.iter().map(|unused| format!("not used: {}", refusal(unused))));
    let missing = outcome.unresolved_count();
    if missing > 0 {
        lines.push(format!("{missing} of {} addresses have no name: {}", profile.locations().len(), reasons(outcome)));
    }
    let shares = outcome.wanted_shares(profile);
    let worth = shares.iter().take_while(|wanted| wanted.share >= WORTH_TELLING).take(TOLD_MAX).count();
    lines.extend(shares[..worth].iter().map(|wanted| wanted_line(outcome, wanted)));
    match shares.len() - worth {
        0 => {}
        1 => lines.push(format!("wanted: {}, for less", name_of(&shares[worth].file.filename))),
        more => lines.push(format!("wanted: {more} more files, for less")),
    }
    lines
}

/// A file whose symbols are missing, and what to do about it.
fn wanted_line(outcome: &Outcome, wanted: &WantedShare) -> String {
    let file = &wanted.file;
    let is_it = |mapping: &&MappingOutcome| mapping.wanted().as_ref() == Some(file);
    let tried =
        outcome.mappings.iter().find(is_it).map_or_else(String::new, |mapping| tried(&mapping.refused, &file.filename));
    let build_id =
        if file.build_id.is_empty() { "no build id".to_owned() } else { format!("build id {}", file.build_id) };
    let (name, percent) = (name_of(&file.filename), wanted.share * 100.0);
    let path = file.filename.strip_suffix(" (deleted)").unwrap_or(&file.filename);
    let help = match wanted.is_stripped {
        true => "it is stripped; give its debug file with --binary FILE or --debug-dir DIR, or set DEBUGINFOD_URLS"
            .to_owned(),
        false => format!("give it with --binary FILE, or send it: procprof symbols push {path}"),
    };
    format!("wanted: {name} ({build_id}): hides {percent:.1} % of samples{tried}; {help}")
}

/// The last part of a path as a profile has it.
fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// How many addresses have which reason, the most first.
fn reasons(outcome: &Outcome) -> String {
    let mut counts: Vec<(Reason, usize)> = outcome.unresolved_by_reason().into_iter().collect();
    counts.sort_by_key(|(reason, count)| (std::cmp::Reverse(*count), *reason));
    counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect::<Vec<_>>().join(", ")
}

/// What was looked at in place of a file.
fn tried(refused: &[Refusal], filename: &str) -> String {
    let mut texts: Vec<String> = Vec::new();
    for refused in refused {
        let is_plain = refused.path == Path::new(filename) && refused.reason == Reason::FileMissing;
        let text = if is_plain { Reason::FileMissing.to_string() } else { refusal(refused) };
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.truncate(TOLD_MAX);
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
