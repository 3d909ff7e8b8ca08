//! The profiles of `report`: read from files and standard input, or fetched from running processes as `go tool pprof`
//! does.
//!
//! An argument that names an existing file is that file. Otherwise it is a URL; its path is `/debug/pprof/profile` if it
//! has none, and `host:port[/path]` means `http`. `--seconds` is added to the URL. The time limit is `--timeout`, else
//! 1.5 times the seconds of the URL, else a minute, plus five seconds. All processes are queried at the same time; a
//! message names those that fail, and the sum lacks their profiles.

use std::borrow::Cow;
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use procprof_collect::Fetched;
use procprof_host::RecordedFiles;
use procprof_jeprof::Pieces;
use procprof_profile::diff::{self, Scaling};
use procprof_profile::format::jemalloc::{self, Dump, PieceReader};
use procprof_profile::format::{self, Decoded, Detect, Limits, perf_data};
use procprof_profile::{Grammar, Profile, merge};
use procprof_symbolize::Fetch;
use reqwest::Url;

use super::{Base, perf, saved};
use crate::allocator;
use crate::fetch::{Fetcher, Question, Remote, TlsFiles};

/// Largest profile file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Bytes of a file that suffice to recognize its format.
const HEAD_BYTES: u64 = 64 << 10;
/// Most of a file's other events that a message names.
const EVENTS_LISTED: usize = 10;
/// Path of a URL without one.
const DEFAULT_PATH: &str = "/debug/pprof/profile";
/// Time beyond the time-out that a process has for its answer.
const GRACE: Duration = Duration::from_secs(5);
/// Suffixes of paths next to which gperftools serves its symbol page.
const GPERFTOOLS: [&str; 5] =
    ["/pprof/heap", "/pprof/growth", "/pprof/profile", "/pprof/pmuprofile", "/pprof/contention"];

/// How profiles are fetched from processes, and which of a file's events is read.
#[derive(Debug, Default)]
pub(super) struct Fetching {
    /// The event whose profile is read from a file with several.
    pub(super) event: Option<String>,
    /// Seconds to profile for; 0 for those of the URL.
    pub(super) seconds: u32,
    /// Seconds to wait; 0 for the default.
    pub(super) timeout: u32,
    pub(super) tls: TlsFiles,
    /// Whether the symbol pages of processes are queried.
    pub(super) names: bool,
}

/// Symbolizes a profile by files of this machine, then by the process it came from.
pub(super) type Naming<'a> = dyn Fn(Profile, Option<Origin<'_>>) -> Result<Profile> + 'a;

/// The process a profile came from.
pub(super) struct Origin<'a> {
    /// Queries its symbol page.
    pub(super) names: Option<Box<Fetch<'a>>>,
    /// Its identity, if it runs on this machine.
    pub(super) process: Option<procprof_process::Identity>,
}

/// Reads and merges the profiles, subtracts the base, and symbolizes the result. Fetched profiles are saved: their sum,
/// or each one if they cannot be merged.
pub(super) fn load(
    files: &[PathBuf],
    base: Option<&Base>,
    fetching: &Fetching,
    naming: &Naming<'_>,
) -> Result<Profile> {
    let before = base.map_or(&[][..], |base| &base.profiles);
    let sources =
        files.iter().chain(before).map(|word| Source::from_word(word, fetching)).collect::<Result<Vec<_>>>()?;
    let is_remote = sources.iter().any(|source| matches!(source, Source::Process(_)));
    let mut profiles = read_all(&sources, fetching, naming)?;
    let joined = joined(&mut profiles, files.len(), base).inspect_err(|_| {
        let fetched = sources.iter().zip(&profiles).filter(|(source, _)| matches!(source, Source::Process(_)));
        fetched.filter_map(|(_, profile)| profile.as_ref()).for_each(|profile| drop(saved::save(profile)));
    });
    let profile = naming(joined?, None)?;
    if is_remote {
        saved::save(&profile);
    }
    Ok(profile)
}

/// The sum of the first `count` profiles minus that of the others. On an error, `profiles` is unchanged.
fn joined(profiles: &mut [Option<Profile>], count: usize, base: Option<&Base>) -> Result<Profile> {
    let (measured, before) = profiles.split_at_mut(count);
    let Some(base) = base else {
        announce_missing("source", measured)?;
        return match measured {
            [only] => only.take().context("no profile"),
            several => Ok(merged(several)?.into_owned()),
        };
    };
    announce_missing("source", measured)?;
    announce_missing("base", before)?;
    let before = merged(before)?;
    difference(merged(measured)?, &before, base)
}

/// One profile to read.
enum Source {
    File(PathBuf),
    Process(Box<Process>),
}

/// A profile of a process.
struct Process {
    typed: String,
    question: Question,
    /// Its symbol page.
    symbols: Url,
}

impl Source {
    fn from_word(word: &Path, fetching: &Fetching) -> Result<Source> {
        let file = || Source::File(word.to_owned());
        if word == Path::new("-") || word.exists() {
            return Ok(file());
        }
        let Some(typed) = word.to_str() else { return Ok(file()) };
        let Some((scheme, mut url)) = url_of(typed) else { return Ok(file()) };
        if matches!(url.path(), "" | "/") {
            url.set_path(DEFAULT_PATH);
        }
        if fetching.seconds > 0 {
            set_seconds(&mut url, fetching.seconds);
        }
        let seconds =
            url.query_pairs().find(|(key, _)| key == "seconds").and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
        let remote = Remote::parse(&url.as_str().replacen(url.scheme(), &scheme, 1), &fetching.tls)?;
        let symbols = symbols_page(Url::parse(&remote.url.plain()).context("read the address of the symbol page")?);
        let question = Question { remote, seconds, limit: limit(seconds, fetching.timeout) };
        Ok(Source::Process(Box::new(Process { typed: typed.to_owned(), question, symbols })))
    }
}

/// The scheme as typed and the URL, if it is one.
fn url_of(typed: &str) -> Option<(String, Url)> {
    let (scheme, rest) = typed.split_once("://").unwrap_or(("", typed));
    let plain = match scheme {
        "http" | "https" => scheme,
        "https+insecure" => "https",
        "" => "http",
        _ => return None,
    };
    if scheme.is_empty() {
        let authority = rest.split('/').next()?;
        let (host, port) = authority.rsplit_once(':')?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return None;
        }
    }
    let url = Url::parse(&format!("{plain}://{rest}")).ok()?;
    Some((if scheme.is_empty() { plain.to_owned() } else { scheme.to_owned() }, url))
}

fn set_seconds(url: &mut Url, seconds: u32) {
    let mut pairs: Vec<(String, String)> = url.query_pairs().into_owned().filter(|(key, _)| key != "seconds").collect();
    pairs.push(("seconds".to_owned(), seconds.to_string()));
    pairs.sort();
    url.query_pairs_mut().clear().extend_pairs(pairs);
}

fn limit(seconds: u32, timeout: u32) -> Duration {
    let wait = match (timeout, seconds) {
        (0, 0) => Duration::from_secs(60),
        (0, seconds) => Duration::from_millis(u64::from(seconds) * 1500),
        (timeout, _) => Duration::from_secs(u64::from(timeout)),
    };
    wait + GRACE
}

/// The symbol page beside a profile: `symbol` among Go's and gperftools' pages, `symbolz` elsewhere.
fn symbols_page(mut url: Url) -> Url {
    let path = url.path().to_owned();
    let known = path.contains("/debug/pprof/") || GPERFTOOLS.iter().any(|end| path.ends_with(end));
    let folder = path.trim_end_matches('/').rsplit_once('/').map_or("", |(folder, _)| folder);
    url.set_path(&format!("{folder}/{}", if known { "symbol" } else { "symbolz" }));
    url.set_query(None);
    url
}

/// The profiles in order; one that could not be fetched is `None`, a file that cannot be read is an error.
fn read_all(sources: &[Source], fetching: &Fetching, naming: &Naming<'_>) -> Result<Vec<Option<Profile>>> {
    let processes: Vec<&Process> = sources.iter().filter_map(Source::process).collect();
    if processes.is_empty() {
        return sources.iter().map(|source| read_file(source, fetching).map(Some)).collect();
    }
    let fetcher = Fetcher::new()?;
    let questions: Vec<Question> = processes.iter().map(|process| process.question.clone()).collect();
    announce(&questions);
    let mut answers = fetcher.get_all(&questions).into_iter();
    let mut profile = |source: &Source| match source {
        Source::File(_) => read_file(source, fetching),
        Source::Process(process) => {
            let fetched = answers.next().context("a process was not queried")??;
            named(fetched, process, &fetcher, fetching, naming)
        }
    };
    let read = sources.iter().map(|source| match profile(source) {
        Ok(profile) => Some(profile),
        Err(error) => {
            eprintln!("procprof: {error:#}");
            None
        }
    });
    Ok(read.collect())
}

impl Source {
    fn process(&self) -> Option<&Process> {
        match self {
            Source::File(_) => None,
            Source::Process(process) => Some(process),
        }
    }

    /// As typed, less credentials.
    fn name(&self) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::Process(process) => {
                process.typed.rsplit_once('@').map_or(process.typed.as_str(), |(_, rest)| rest).to_owned()
            }
        }
    }
}

fn announce(questions: &[Question]) {
    for question in questions {
        eprintln!("Fetching profile over HTTP from {}", question.remote.url);
        if question.seconds > 0 && !std::io::stderr().is_terminal() {
            eprintln!("Please wait... ({} s)", question.seconds);
        }
    }
}

/// Symbolizes a fetched profile by files and, if permitted, by its process.
fn named(
    fetched: Fetched,
    process: &Process,
    fetcher: &Fetcher,
    fetching: &Fetching,
    naming: &Naming<'_>,
) -> Result<Profile> {
    let remote = &process.question.remote;
    let local = fetched.instance.local;
    let profile = adjusted(fetched.decoded, &remote.host())?;
    let page = remote.page(&process.symbols)?;
    let ask =
        |addresses: &[procprof_profile::Addr]| fetcher.names(remote, &page, addresses).map_err(std::io::Error::other);
    let names: Option<Box<Fetch<'_>>> = if fetching.names { Some(Box::new(ask)) } else { None };
    naming(profile, Some(Origin { names, process: local }))
}

/// Prints how many profiles of `what` are missing; an error if all are.
fn announce_missing(what: &str, profiles: &[Option<Profile>]) -> Result<()> {
    let there = profiles.iter().flatten().count();
    if there == 0 {
        bail!("failed to fetch any {what} profiles");
    }
    if there < profiles.len() {
        eprintln!("procprof: fetched {there} {what} profiles out of {}", profiles.len());
    }
    Ok(())
}

/// The sum of the profiles that were read.
fn merged(profiles: &[Option<Profile>]) -> Result<Cow<'_, Profile>> {
    let there: Vec<&Profile> = profiles.iter().flatten().collect();
    match there.as_slice() {
        [only] => Ok(Cow::Borrowed(only)),
        several => merge::merge(several).map(Cow::Owned).context("sum the profiles"),
    }
}

fn difference(profile: Cow<'_, Profile>, before: &Profile, base: &Base) -> Result<Profile> {
    let profile = match base.scaling {
        Scaling::AsMeasured => profile,
        scaling => Cow::Owned(scaling.apply(before, profile.into_owned()).context("scale to the base")?),
    };
    let difference = if base.is_measure { diff::diff_base } else { diff::diff };
    difference(before, &profile).context("subtract the base")
}

/// Reads and decodes a profile file, or a folder of perf; `-` is standard input.
fn read_file(source: &Source, fetching: &Fetching) -> Result<Profile> {
    let Source::File(path) = source else { bail!("{} is no file", source.name()) };
    let name = path.display().to_string();
    let (mut bytes, mut expected, mut modified) = (Vec::new(), 0, SystemTime::now());
    let input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else if path.is_dir() {
        (bytes, modified) = joined_folder(path, &name)?;
        Box::new(std::io::empty())
    } else {
        let mut file = File::open(path).with_context(|| format!("open {name}"))?;
        let metadata = file.metadata().with_context(|| format!("read {name}"))?;
        expected = metadata.len();
        modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        allocator::expect_input(expected);
        file.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes).with_context(|| format!("read {name}"))?;
        let is_large = metadata.is_file() && (HEAD_BYTES..=FILE_BYTES_MAX).contains(&expected);
        if is_large && jemalloc::detect(&bytes) == Detect::Yes && bytes.contains(&b'\n') {
            return adjusted(in_pieces(&bytes, &file, expected, &name)?, &name);
        }
        Box::new(file)
    };
    // Growing it step by step would copy it several times.
    bytes.reserve_exact((expected.min(FILE_BYTES_MAX) as usize + 1).saturating_sub(bytes.len()));
    input
        .take(FILE_BYTES_MAX + 1 - bytes.len() as u64)
        .read_to_end(&mut bytes)
        .with_context(|| format!("read {name}"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        bail!("{name}: more than {FILE_BYTES_MAX} bytes, which is the most that is read");
    }
    let is_of_perf = format::detect(&bytes) == Some(perf_data::NAME);
    let all = if is_of_perf {
        perf_data::decode_with(&bytes, &Limits::default(), &mut RecordedFiles::default())
    } else if fetching.event.is_some() {
        format::decode_events(&bytes, &Limits::default())
    } else {
        decoded(&bytes, path).map(|decoded| vec![decoded])
    };
    let all = all.with_context(|| format!("decode {name}"))?;
    let mut decoded = chosen(all, fetching.event.as_deref(), &name)?;
    if is_of_perf {
        decoded.profile = perf::of_this_boot(decoded.profile, modified)?;
    }
    drop(bytes);
    adjusted(decoded, &name)
}

/// The recording in a folder of `perf record --threads` as one file, and the time of its end.
fn joined_folder(folder: &Path, name: &str) -> Result<(Vec<u8>, SystemTime)> {
    let path = folder.join("data");
    if !path.is_file() {
        bail!("{name} is a folder, and none of perf, which has a file `data`");
    }
    let mut left = FILE_BYTES_MAX;
    let mut read = |path: &Path| {
        let mut bytes = Vec::new();
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        file.take(left + 1).read_to_end(&mut bytes).with_context(|| format!("read {}", path.display()))?;
        match left.checked_sub(bytes.len() as u64) {
            Some(rest) => left = rest,
            None => bail!("{name}: more than {FILE_BYTES_MAX} bytes, which is the most that is read"),
        }
        Ok(bytes)
    };
    let data = read(&path)?;
    let mut others = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("list {name}"))? {
        let path = entry.with_context(|| format!("list {name}"))?.path();
        let file_name = path.file_name().unwrap_or_default();
        if file_name.as_encoded_bytes().starts_with(b"data.") {
            others.push(read(&path)?);
        }
    }
    let modified = path.metadata().and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let joined = perf_data::join_folder(&data, &others, &Limits::default());
    Ok((joined.with_context(|| format!("decode {name}"))?, modified))
}

/// Decodes a profile; collapsed stacks without a `;` in any are known by the file's name alone.
fn decoded(bytes: &[u8], path: &Path) -> procprof_profile::Result<Decoded> {
    let is_named_so = path.extension().is_some_and(|end| ["folded", "collapsed"].iter().any(|known| end == *known));
    match format::decode(bytes, &Limits::default()) {
        Err(procprof_profile::Error::Unrecognized { .. }) if is_named_so => {
            format::decode_collapsed(bytes, &Limits::default())
        }
        decoded => decoded,
    }
}

/// The profile of that kind of event, else the first.
fn chosen(mut all: Vec<Decoded>, event: Option<&str>, name: &str) -> Result<Decoded> {
    let mut warnings = all.first_mut().map(|first| std::mem::take(&mut first.warnings)).unwrap_or_default();
    let Some(event) = event else {
        if let [first, others @ ..] = all.as_slice()
            && !others.is_empty()
        {
            let others: Vec<&str> = others.iter().take(EVENTS_LISTED).map(|other| other.event.as_str()).collect();
            warnings.push(format!("this is {}; --event also shows {}", first.event, others.join(", ")));
        }
        return all.into_iter().next().map(|first| Decoded { warnings, ..first }).context("no profile");
    };
    let events: Vec<&str> = all.iter().map(|decoded| decoded.event.as_str()).collect();
    let Some(place) = events.iter().position(|known| *known == event) else {
        match events.as_slice() {
            [""] => bail!("{name} holds one profile, of no kind of event; leave out --event"),
            events => bail!("{name} has no event {event:?}; it has {}", events.join(", ")),
        }
    };
    Ok(Decoded { warnings, ..all.swap_remove(place) })
}

/// Decodes a dump of jemalloc, which can be large, on all cores; `head` has its first bytes.
fn in_pieces(head: &[u8], file: &File, size: u64, name: &str) -> Result<Decoded> {
    let mut dump = Dump::open(head, size, &Limits::default()).with_context(|| format!("decode {name}"))?;
    let pieces = Pieces::new(file, size, Dump::border);
    let readers = (0..pieces.threads()).map(|_| dump.reader()).collect();
    let mut ended = Ok(None);
    let read = pieces.read(readers, PieceReader::read, |piece, place| {
        ended = dump.add(piece).map(|map| map.map(|map| place.start + map as u64));
        if matches!(ended, Ok(None)) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    read.with_context(|| format!("read {name}"))?;
    let map = ended.with_context(|| format!("decode {name}"))?;
    let map = map.map(|map| pieces.rest(map)).transpose().with_context(|| format!("read {name}"))?;
    let mut warnings = Vec::new();
    let profile = dump.finish(map.as_deref(), &mut warnings).with_context(|| format!("decode {name}"))?;
    Ok(Decoded::new(profile, jemalloc::NAME, warnings))
}

fn adjusted(decoded: Decoded, name: &str) -> Result<Profile> {
    for warning in &decoded.warnings {
        eprintln!("procprof: {name}: {warning}");
    }
    decoded.profile.adjusted(Grammar::Pprof).with_context(|| format!("read {name} by pprof's rules"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_pprof_reads_them() {
        let url = |typed: &str| url_of(typed).map(|(scheme, url)| format!("{scheme} {url}"));
        for (typed, meant) in [
            ("http://a:1/x?y=1", Some("http http://a:1/x?y=1")),
            ("localhost:6060", Some("http http://localhost:6060/")),
            ("127.0.0.1:80/debug", Some("http http://127.0.0.1/debug")),
            ("https+insecure://a/x", Some("https+insecure https://a/x")),
            ("cpu.pb.gz", None),
            ("mem_03:55:24x", None),
            ("dir/a:1", None),
            ("ftp://a/x", None),
        ] {
            assert_eq!(url(typed).as_deref(), meant, "{typed}");
        }
    }

    #[test]
    fn symbol_pages_stand_beside_the_profile() {
        let page = |url: &str| symbols_page(Url::parse(url).unwrap()).to_string();
        assert_eq!(page("http://a:1/debug/pprof/profile?seconds=5"), "http://a:1/debug/pprof/symbol");
        assert_eq!(page("http://a:1/x/pprof/heap"), "http://a:1/x/pprof/symbol");
        assert_eq!(page("http://a:1/x/profilez?seconds=5"), "http://a:1/x/symbolz");
    }

    #[test]
    fn waits_follow_the_seconds() {
        assert_eq!(limit(0, 0).as_secs(), 65);
        assert_eq!(limit(20, 0).as_secs(), 35);
        assert_eq!(limit(20, 2).as_secs(), 7);
        let mut url = Url::parse("http://a:1/p?z=1&seconds=9&debug=0").unwrap();
        set_seconds(&mut url, 5);
        assert_eq!(url.as_str(), "http://a:1/p?debug=0&seconds=5&z=1");
    }
}
