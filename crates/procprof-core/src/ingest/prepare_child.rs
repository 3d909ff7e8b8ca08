//! A profile made in a child process of the same binary: decoded where that may take much memory, and named, since
//! debug information is hostile input and can describe far more than it holds.
//!
//! Input and answer are alike:
//! ```text
//! a frame: the head as JSON | a profile: as it arrived; ready for the store
//! ```
//! An answer has as many of these as the file has profiles, each head with the length of its profile. The child has no
//! network: the server queries a node's own symbol page, and another child fills the names in.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use bytes::Bytes;
use procprof_process::{Identity, Pid};
use procprof_profile::{Addr, Meta, Nanos, Profile, ProfileType};
use procprof_store::{FunctionTable, Summary};
use procprof_symbolize::{Binary, BinaryRole, FindIndex, ImageOptions, PathUse, Sources};
use serde::{Deserialize, Serialize};

use super::prepare::{PrepareRequest, PreparedProfile, Refusal};
use super::symbols::{name, note_failure, unnamed};
use super::{Ingest, SymbolHints};
use crate::children::{AnswerLimit, Child, ChildLimits, ChildTask, child_indexes, frame, split_frame};
use crate::shares::Requester;
use crate::symbols::{SymbolKey, UPLOADED_BY, Uploads};

/// Unpacked size from which children go one at a time, whatever the others are at.
const LARGE_PROFILE_BYTES: u64 = 16 << 20;
/// Largest input of a child, in bytes.
const INPUT_MAX: u64 = 1 << 30;
/// Bytes that an answer may have beside twice those of the largest profile.
const OUTPUT_MORE: u64 = 16 << 20;
/// Most addresses without a name that a child lists.
const UNNAMED_MAX: usize = 200_000;

/// The source of names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum NameSource {
    /// From nowhere.
    Off,
    /// From nowhere, since a child that tried failed in this way.
    Failed(String),
    /// From what lies on this host.
    Files {
        pid: Option<u32>,
        start_ticks: u64,
        binary: Option<PathBuf>,
        /// Folder of the uploaded indexes, by key.
        symbols: PathBuf,
        /// Whether the addresses that stay unnamed are to be listed.
        list_unnamed: bool,
    },
    /// From the node's own page: these.
    Page(Vec<(u64, String)>),
}

impl NameSource {
    /// From the files that an incoming was found with.
    pub(super) fn files(ingest: &Ingest, hints: &SymbolHints) -> NameSource {
        NameSource::Files {
            pid: hints.process.map(|identity| identity.pid.0),
            start_ticks: hints.process.map_or(0, |identity| identity.start_ticks),
            binary: hints.binary.clone(),
            symbols: ingest.symbols.folder().to_owned(),
            list_unnamed: hints.remote.is_some(),
        }
    }
}

/// The head of the input.
#[derive(Debug, Serialize, Deserialize)]
struct InputHead {
    meta: Vec<String>,
    window: (i64, i64),
    arrived: Option<i64>,
    requested: Option<String>,
    unpacked_max: u64,
    naming: NameSource,
}

/// The head of the answer.
#[derive(Debug, Serialize, Deserialize)]
struct OutputHead {
    meta: Vec<String>,
    start: i64,
    duration: i64,
    summary: Summary,
    thumbnail: Vec<u8>,
    functions: FunctionTable,
    used: Vec<SymbolKey>,
    resolved: usize,
    unnamed: Vec<u64>,
    encoded: u64,
}

/// The output of a child.
#[derive(Debug)]
pub(super) struct ChildOutput {
    pub(super) made: PreparedProfile,
    /// Keys of the uploaded indexes that gave names.
    pub(super) used: Vec<SymbolKey>,
    /// How many addresses got a name.
    pub(super) resolved: usize,
    /// Addresses that have none, if they were to be listed.
    pub(super) unnamed: Vec<Addr>,
}

/// Makes what is known to be one profile of `size` bytes, unpacked, in a child; `Err` is why there is no answer.
pub(super) async fn prepare_one(
    ingest: &Ingest,
    request: &PrepareRequest,
    bytes: Bytes,
    size: u64,
    naming: NameSource,
) -> Result<Result<ChildOutput, Refusal>, String> {
    let made = prepare_all(ingest, request, bytes, size, naming).await?;
    Ok(made.map(|(first, _)| first))
}

/// Makes all profiles of a file of `size` bytes, unpacked, in a child; the first, and the others. `Err` is why there is
/// no answer.
pub(super) async fn prepare_all(
    ingest: &Ingest,
    request: &PrepareRequest,
    bytes: Bytes,
    size: u64,
    naming: NameSource,
) -> Result<Result<(ChildOutput, Vec<ChildOutput>), Refusal>, String> {
    let config = ingest.config();
    let head = InputHead {
        meta: request.meta.to_comments(),
        window: (request.window.0.0, request.window.1.0),
        arrived: request.arrived.map(|time| time.0),
        requested: request.requested.as_ref().map(|kind| kind.name().to_owned()),
        unpacked_max: request.unpacked_max,
        naming,
    };
    let head = serde_json::to_vec(&head).map_err(|error| error.to_string())?;
    let input = frame(head.into()).into_iter().chain([bytes]).collect();
    let answer = AnswerLimit {
        bytes: config.profile_bytes_max.saturating_mul(2).saturating_add(OUTPUT_MORE),
        key: Some(("profile_bytes_max", config.profile_bytes_max)),
    };
    let limits = ChildLimits::from_config(&config);
    let requester = request.requester.clone();
    let child = Child { requester, program: &ingest.children.symbolize, work: (), input, limits, answer };
    let answer = if size > LARGE_PROFILE_BYTES {
        ingest.children.run_large(child).await
    } else {
        ingest.children.run(child).await
    };
    let answer = answer.map_err(|error| error.to_string())?;
    read_outputs(&answer).ok_or_else(|| "the child's answer is cut short".to_owned())
}

fn read_outputs(answer: &[u8]) -> Option<Result<(ChildOutput, Vec<ChildOutput>), Refusal>> {
    let (first, mut rest) = match read_output(answer)? {
        Ok(answer) => answer,
        Err(refusal) => return Some(Err(refusal)),
    };
    let mut others = Vec::new();
    while !rest.is_empty() {
        let (other, left) = read_output(rest)?.ok()?;
        others.push(other);
        rest = left;
    }
    Some(Ok((first, others)))
}

/// One profile of an answer, and what follows it.
fn read_output(answer: &[u8]) -> Option<Result<(ChildOutput, &[u8]), Refusal>> {
    let (head, rest) = split_frame(answer)?;
    let head: OutputHead = match serde_json::from_slice::<Result<OutputHead, Refusal>>(head).ok()? {
        Ok(head) => head,
        Err(refusal) => return Some(Err(refusal)),
    };
    let (encoded, rest) = rest.split_at_checked(usize::try_from(head.encoded).ok()?)?;
    let made = PreparedProfile {
        meta: Meta::from_comments(head.meta.iter().map(String::as_str)),
        start: Nanos(head.start),
        duration: Nanos(head.duration),
        summary: Summary { thumbnail: head.thumbnail, ..head.summary },
        functions: head.functions,
        encoded: encoded.to_vec(),
        is_own: false,
    };
    let unnamed = head.unnamed.into_iter().map(Addr).collect();
    Some(Ok((ChildOutput { made, used: head.used, resolved: head.resolved, unnamed }, rest)))
}

/// The main function of the child; `argument` is the task. Returns the process's exit code.
pub fn symbolize_child_main(argument: &str) -> i32 {
    match child(argument) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

fn child(argument: &str) -> io::Result<()> {
    ChildTask::<()>::begin(argument)?;
    let mut input = Vec::new();
    io::stdin().lock().take(INPUT_MAX).read_to_end(&mut input)?;
    let (head, bytes) = split_frame(&input).ok_or_else(|| io::Error::other("the input is cut short"))?;
    let head: InputHead = serde_json::from_slice(head)?;
    let mut out = io::stdout().lock();
    match prepare(head, bytes) {
        Ok(all) => all.into_iter().try_for_each(|(head, encoded)| write_output(&mut out, &Ok(head), &encoded))?,
        Err(refusal) => write_output(&mut out, &Err(refusal), &[])?,
    }
    out.flush()
}

fn write_output(out: &mut impl Write, head: &Result<OutputHead, Refusal>, encoded: &[u8]) -> io::Result<()> {
    let head = serde_json::to_vec(head)?;
    frame(head.into()).iter().try_for_each(|piece| out.write_all(piece))?;
    out.write_all(encoded)
}

fn prepare(head: InputHead, bytes: &[u8]) -> Result<Vec<(OutputHead, Vec<u8>)>, Refusal> {
    let request = PrepareRequest {
        meta: Meta::from_comments(head.meta.iter().map(String::as_str)),
        window: (Nanos(head.window.0), Nanos(head.window.1)),
        arrived: head.arrived.map(Nanos),
        requested: head.requested.and_then(|name| name.parse::<ProfileType>().ok()),
        unpacked_max: head.unpacked_max,
        requester: Requester::server(),
    };
    let all = request.decode(bytes)?;
    all.into_iter().map(|(request, profile)| prepare_profile(request, profile, head.naming.clone())).collect()
}

/// Makes one profile of a file.
fn prepare_profile(
    mut request: PrepareRequest,
    mut profile: Profile,
    naming: NameSource,
) -> Result<(OutputHead, Vec<u8>), Refusal> {
    let (mut used, mut resolved) = (Vec::new(), 0);
    let mut list_unnamed = false;
    match naming {
        NameSource::Off => {}
        NameSource::Failed(why) => note_failure(&profile, &mut request.meta, why),
        NameSource::Files { pid, start_ticks, binary, symbols, list_unnamed: list } => {
            list_unnamed = list;
            let uploads = Uploads::in_folder(&symbols);
            let mut sources = files(pid, start_ticks, binary, &uploads);
            (profile, used, resolved) = name(profile, &mut request.meta, &mut sources);
            for key in &used {
                if let Some(sender) = uploads.sender(key) {
                    request.meta.more.insert(format!("{UPLOADED_BY}{key}"), sender);
                }
            }
        }
        NameSource::Page(names) => {
            let names: Vec<(Addr, String)> = names.into_iter().map(|(address, name)| (Addr(address), name)).collect();
            let mut fetch = |_: &[Addr]| Ok(names.clone());
            let mut sources =
                Sources { paths: PathUse::Never, fetch: Some(Box::new(&mut fetch)), ..Sources::default() };
            profile = super::symbols::name_by_page(profile, &mut request.meta, &mut sources);
        }
    }
    let mut unnamed: Vec<u64> = unnamed(&profile).filter(|_| list_unnamed).map(|address| address.0).collect();
    unnamed.sort_unstable();
    unnamed.dedup();
    unnamed.truncate(UNNAMED_MAX);
    let PreparedProfile { meta, start, duration, summary, functions, encoded, .. } = request.finish(profile)?;
    let (meta, thumbnail) = (meta.to_comments(), summary.thumbnail.clone());
    let length = encoded.len() as u64;
    Ok((
        OutputHead {
            meta,
            start: start.0,
            duration: duration.0,
            summary,
            thumbnail,
            functions,
            used,
            resolved,
            unnamed,
            encoded: length,
        },
        encoded,
    ))
}

fn files(pid: Option<u32>, start_ticks: u64, binary: Option<PathBuf>, uploads: &Uploads) -> Sources<'_> {
    let identity =
        pid.and_then(|pid| Identity::read(Pid(pid)).ok()).filter(|identity| identity.start_ticks == start_ticks);
    let binaries = binary.into_iter().map(|path| Binary { path, role: BinaryRole::Main });
    let uploaded: Box<FindIndex<'_>> = Box::new(|wanted| uploads.find(wanted));
    let image = ImageOptions { cache: child_indexes(), ..ImageOptions::default() };
    Sources { binaries: binaries.collect(), process: identity, uploaded: Some(uploaded), image, ..Sources::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(start: i64, encoded: &[u8]) -> Result<OutputHead, Refusal> {
        Ok(OutputHead {
            meta: Vec::new(),
            start,
            duration: 0,
            summary: Summary::default(),
            thumbnail: Vec::new(),
            functions: FunctionTable::default(),
            used: Vec::new(),
            resolved: 0,
            unnamed: vec![7],
            encoded: encoded.len() as u64,
        })
    }

    #[test]
    fn an_answer_has_every_profile_of_a_file_or_the_reason_for_none() {
        let mut bytes = Vec::new();
        for (start, encoded) in [(1, &b"first"[..]), (2, b""), (3, b"third")] {
            write_output(&mut bytes, &head(start, encoded), encoded).unwrap();
        }
        let (first, others) = read_outputs(&bytes).unwrap().unwrap();
        let read: Vec<(i64, &[u8])> = std::iter::once(&first)
            .chain(&others)
            .map(|answer| (answer.made.start.0, answer.made.encoded.as_slice()))
            .collect();
        assert_eq!(read, [(1, &b"first"[..]), (2, b""), (3, b"third")]);
        let whole = [5, 13].map(|cut| bytes.len() - cut);
        assert!(whole.into_iter().all(|end| read_outputs(&bytes[..end]).is_none()), "cut short");
        let mut refused = Vec::new();
        write_output(&mut refused, &Err(Refusal::NoSamples), &[]).unwrap();
        assert!(matches!(read_outputs(&refused), Some(Err(Refusal::NoSamples))));
    }
}
