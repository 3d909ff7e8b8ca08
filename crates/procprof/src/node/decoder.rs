//! What other programs have written is read by a child process with limits: decoded, given the build ids of the files
//! of the process that it is of, and written as gzip'd pprof.
//!
//! ```text
//! answer = (header length (u32, little endian) | Header as JSON | profile length (u32, little endian) | profile)*
//! ```

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use procprof_collect::frontend::page;
use procprof_files::FileState;
use procprof_process::{Identity, Pid, Process};
use procprof_profile::format::{Limits, decode_events, pprof};
use procprof_profile::{Grammar, Meta, Profile, ProfileType, StringIndex};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySets, set_capabilities};
use serde::{Deserialize, Serialize};

use super::shared::Shared;

/// Largest file that is read, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 64 << 20;

/// Longest time of the child.
const LONGEST: Duration = Duration::from_secs(60);
/// Time between two looks at it.
const LOOK: Duration = Duration::from_millis(10);
/// Its largest size after unpacking.
const UNPACKED_BYTES_MAX: u64 = 512 << 20;
/// Most bytes of an answer, and most profiles of a file.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
const PROFILES_MAX: usize = 8;

/// Options of the hidden process that decodes profiles.
#[derive(Debug, Args)]
pub(crate) struct DecodeChildArgs {
    /// Limit of its memory
    #[arg(long, value_name = "BYTES")]
    memory_bytes: u64,
    /// The process that it is of
    #[arg(long, value_name = "PID")]
    pid: u32,
    /// When that was started, in clock ticks since boot
    #[arg(long, value_name = "TICKS")]
    start_ticks: u64,
    /// A fact to add to its profiles
    #[arg(long = "fact", value_name = "KEY=VALUE")]
    facts: Vec<Fact>,
    /// Name of the file that is standard input
    name: String,
}

/// A fact that a profile gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact(pub(super) String, pub(super) String);

impl FromStr for Fact {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or_else(|| "expected KEY=VALUE".to_owned())?;
        Ok(Self(key.to_owned(), value.to_owned()))
    }
}

/// What the child says of a profile.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Header {
    profile_type: String,
    start_nanos: i64,
    duration_nanos: i64,
}

/// A profile of a file.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) profile_type: String,
    /// 0 if the file does not tell.
    pub(super) start_nanos: i64,
    pub(super) duration_nanos: i64,
    /// As gzip'd pprof.
    pub(super) profile: Vec<u8>,
}

/// Has a child process decode a file of a process.
///
/// # Errors
/// It is no profile, or too large.
pub(super) fn decode(
    shared: &Shared,
    process: Identity,
    name: &str,
    facts: &[Fact],
    file: File,
) -> Result<Vec<Decoded>> {
    let mut answer = tempfile::tempfile_in(&shared.settings.spool).context("make a file for the answer")?;
    let mut errors = tempfile::tempfile_in(&shared.settings.spool).context("make a file for the answer")?;
    let status = run(shared, process, name, facts, file, [&answer, &errors])?;
    errors.seek(SeekFrom::Start(0)).context("read the answer")?;
    let mut told = Vec::new();
    errors.take(2000).read_to_end(&mut told).context("read the answer")?;
    ensure!(status.success(), "{}", first_line(&told).unwrap_or("the process that reads it failed"));
    answer.seek(SeekFrom::Start(0)).context("read the answer")?;
    let mut bytes = Vec::new();
    answer.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut bytes).context("read the answer")?;
    ensure!(bytes.len() as u64 <= ANSWER_BYTES_MAX, "its profiles take more than {} MiB", ANSWER_BYTES_MAX >> 20);
    parse(&bytes).context("the process that reads it gave no answer")
}

fn first_line(told: &[u8]) -> Option<&str> {
    let told = std::str::from_utf8(told).ok()?.lines().next()?;
    Some(told.trim_start_matches("procprof: ")).filter(|line| !line.is_empty())
}

fn run(
    shared: &Shared,
    process: Identity,
    name: &str,
    facts: &[Fact],
    input: File,
    [answer, errors]: [&File; 2],
) -> Result<std::process::ExitStatus> {
    let mut child = Command::new("/proc/self/exe")
        .arg("decode-child")
        .args(["--memory-bytes", &shared.settings.symbol_memory_bytes_max.to_string()])
        .args(["--pid", &process.pid.to_string(), "--start-ticks", &process.start_ticks.to_string()])
        .args(facts.iter().flat_map(|Fact(key, value)| ["--fact".to_owned(), format!("{key}={value}")]))
        .args(["--", name])
        .env_clear()
        .stdin(input)
        .stdout(answer.try_clone().context("start a process")?)
        .stderr(Stdio::from(errors.try_clone().context("start a process")?))
        .spawn()
        .context("start a process")?;
    let begun = Instant::now();
    while begun.elapsed() < LONGEST {
        if let Some(status) = child.try_wait().context("wait for the process")? {
            return Ok(status);
        }
        std::thread::sleep(LOOK);
    }
    // One that has ended meanwhile can't be killed.
    let _ = child.kill();
    child.wait().context("wait for the process")?;
    bail!("reading it takes more than {} s", LONGEST.as_secs())
}

fn parse(mut rest: &[u8]) -> Option<Vec<Decoded>> {
    let mut profiles = Vec::new();
    while !rest.is_empty() && profiles.len() < PROFILES_MAX {
        let header: Header = serde_json::from_slice(part(&mut rest)?).ok()?;
        let profile = part(&mut rest)?.to_vec();
        let Header { profile_type, start_nanos, duration_nanos } = header;
        profiles.push(Decoded { profile_type, start_nanos, duration_nanos: duration_nanos.max(0), profile });
    }
    (!profiles.is_empty()).then_some(profiles)
}

fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_first_chunk::<4>()?;
    let (part, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = behind;
    Some(part)
}

/// The child: reads the file that is its standard input, and writes its profiles to standard output.
///
/// # Errors
/// It is no profile, or too large for the limits.
pub(crate) fn decode_child(arguments: &DecodeChildArgs) -> Result<ExitCode> {
    let limit = Some(arguments.memory_bytes);
    setrlimit(Resource::As, Rlimit { current: limit, maximum: limit }).context("limit the memory")?;
    // At the ordinary priority it does the same work.
    let _ = rustix::process::nice(10);
    let input = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned().context("read the file")?;
    let input = File::from(input);
    let build_ids = build_ids(arguments.pid, arguments.start_ticks, &input);
    // Nothing that it contains needs privileges to be decoded.
    let none = rustix::thread::CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .context("give up privileges")?;
    let mut bytes = Vec::new();
    input.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).context("read the file")?;
    ensure!(bytes.len() as u64 <= FILE_BYTES_MAX, "it is larger than {} MiB", FILE_BYTES_MAX >> 20);
    if arguments.name.ends_with(".tar.gz") {
        bytes = page(bytes, UNPACKED_BYTES_MAX).map_err(anyhow::Error::msg)?;
    }
    let limits = Limits { unpacked_bytes: UNPACKED_BYTES_MAX, ..Limits::default() };
    let decoded = decode_events(&bytes, &limits)?;
    drop(bytes);
    let mut output = std::io::stdout().lock();
    let decoded = decoded.into_iter().filter(|decoded| decoded.profile.sample_count() > 0).take(PROFILES_MAX);
    let mut profiles = 0;
    for decoded in decoded {
        profiles += 1;
        let profile = with_build_ids(decoded.profile.adjusted(Grammar::Pprof)?, &build_ids)?;
        let profile = with_facts(profile, &arguments.facts)?;
        let profile_type = profile_type(&profile, &arguments.name).context("its type is unknown")?;
        let (start, duration) = (profile.time().0, profile.duration().0);
        let header =
            Header { profile_type: profile_type.name().to_owned(), start_nanos: start, duration_nanos: duration };
        for part in [serde_json::to_vec(&header).context("write the answer")?, pprof::encode_gzip(&profile)?] {
            let length = u32::try_from(part.len()).context("write the answer")?;
            output.write_all(&length.to_le_bytes()).context("write the answer")?;
            output.write_all(&part).context("write the answer")?;
        }
    }
    ensure!(profiles > 0, "it has no samples");
    output.flush().context("write the answer")?;
    Ok(ExitCode::SUCCESS)
}

fn with_facts(profile: Profile, facts: &[Fact]) -> Result<Profile> {
    if facts.is_empty() {
        return Ok(profile);
    }
    let mut meta = profile.meta();
    for Fact(key, value) in facts {
        match &**key {
            "engine" => meta.engine.clone_from(value),
            _ => drop(meta.more.insert(key.clone(), value.clone())),
        }
    }
    Ok(profile.with_meta(&meta)?)
}

/// What the profile says, else what its sample types or its file name tell: `mem-profile-20261120-222534.tar.gz`.
fn profile_type(profile: &Profile, name: &str) -> Option<ProfileType> {
    let own = Meta::from_comments(profile.comments()).profile_type;
    own.or_else(|| profile.guess_type()).or_else(|| ProfileType::from_prefix(name.split_once("-profile-")?.0))
}

/// The build ids of the files with code of a process, by path and the difference of addresses and places in the file.
type BuildIds = HashMap<(PathBuf, u64), String>;

/// The build ids of the files of a process; none if it has ended, or was started after the file was written.
fn build_ids(pid: u32, start_ticks: u64, file: &File) -> BuildIds {
    let process = Process::open(Pid(pid)).ok().filter(|process| process.identity().start_ticks == start_ticks);
    let Some(process) = process else { return HashMap::new() };
    let written = FileState::from_file(file).map_or(0, |state| state.modified_nanos);
    if written < process.identity().start_time.0 {
        return HashMap::new();
    }
    let maps = process.maps().unwrap_or_default();
    let mut found = HashMap::new();
    for range in maps.iter().filter(|range| range.is_file_code()) {
        if let Some(id) = process.build_id_of(range).ok().flatten() {
            let bias = range.start.0.wrapping_sub(range.file_offset.0);
            found.insert((range.path.to_path_buf(), bias), id.to_string());
        }
    }
    if process.check_same().is_ok() { found } else { HashMap::new() }
}

/// Adds build ids to mappings that have none.
fn with_build_ids(profile: Profile, build_ids: &BuildIds) -> Result<Profile> {
    let mut parts = profile.into_parts();
    let mut index = StringIndex::from_table(&parts.strings);
    for mapping in &mut parts.mappings {
        let text = |id| parts.strings.get(id).unwrap_or_default();
        if !text(mapping.build_id).is_empty() {
            continue;
        }
        let bias = mapping.start.0.wrapping_sub(mapping.file_offset.0);
        if let Some(build_id) = build_ids.get(&(PathBuf::from(text(mapping.filename)), bias)) {
            mapping.build_id = index.intern(&mut parts.strings, build_id).context("it has too many strings")?;
        }
    }
    Ok(parts.finish()?)
}

#[cfg(test)]
mod tests {
    use procprof_profile::{Addr, Mapping, ProfileBuilder};

    use super::*;

    #[test]
    fn mappings_get_the_build_ids_of_their_files() {
        let mut builder = ProfileBuilder::new(ProfileType::Heap.sample_types());
        let mut address = |path: &str, build_id: &str, start: u64| {
            let (filename, build_id) = (builder.intern(path), builder.intern(build_id));
            let mapping =
                Mapping { start: Addr(start), limit: Addr(start + 9), filename, build_id, ..Mapping::default() };
            let mapping = builder.mapping(mapping);
            builder.address(Some(mapping), Addr(start))
        };
        let stack = [address("/bin/a", "", 10), address("/bin/b", "bb", 20), address("/bin/c", "", 30)];
        builder.sample(&stack, &vec![1; ProfileType::Heap.sample_types().len()], &[]);
        let known = [("/bin/a", 10, "aa"), ("/bin/b", 20, "xx"), ("/bin/c", 31, "cc")];
        let known = known.map(|(path, bias, id)| ((PathBuf::from(path), bias), id.to_owned()));
        let profile = with_build_ids(builder.finish().unwrap(), &HashMap::from(known)).unwrap();
        let found: Vec<&str> = profile.mappings().iter().map(|mapping| profile.string(mapping.build_id)).collect();
        assert_eq!(found, ["aa", "bb", ""]);
    }

    #[test]
    fn broken_answers_are_none() {
        let answer = |header: &str, profile: &[u8]| {
            let lengths = [header.len() as u32, profile.len() as u32].map(u32::to_le_bytes);
            [&lengths[0][..], header.as_bytes(), &lengths[1][..], profile].concat()
        };
        let whole = answer(r#"{"profile_type":"heap","start_nanos":1,"duration_nanos":-2}"#, b"profile");
        let found = parse(&whole).unwrap();
        assert_eq!((&*found[0].profile_type, found[0].start_nanos, found[0].duration_nanos), ("heap", 1, 0));
        assert_eq!((&*found[0].profile, found.len()), (&b"profile"[..], 1));
        assert!((0..whole.len()).all(|length| parse(&whole[..length]).is_none()));
        assert!(parse(&answer("{}", b"")).is_none());
        assert!(parse(&whole.repeat(PROFILES_MAX + 1)).is_some_and(|found| found.len() == PROFILES_MAX));
    }

    #[test]
    fn a_name_tells_the_type_where_nothing_else_does() {
        let profile = ProfileBuilder::new(&[("events", "count")]).finish().unwrap();
        assert_eq!(profile_type(&profile, "cpu-profile-20261120-222534.html.tar.gz"), Some(ProfileType::Cpu));
        assert_eq!(profile_type(&profile, "mem-profile-1.gz"), Some(ProfileType::Alloc));
        assert_eq!(profile_type(&profile, "x.gz"), None);
    }
}
