//! [`Bucket`]: a bucket of S3, Google Cloud Storage or Azure as storage of an archive.
//!
//! Each operation runs on a runtime of the bucket's own, and its caller waits. It is tried again when a server fails or
//! is not reached, and ends within [`BucketLimits`]. Names that a listing has are compared with what a path may be and
//! never joined to paths of files.

mod answers;
mod settings;

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use http::StatusCode;
use object_store::path::Path;
use object_store::{
    Error as StoreError, OBJECT_STORE_COALESCE_DEFAULT, ObjectStore, ObjectStoreExt, PutMode, PutPayload,
};
use tokio::runtime::Runtime;
use tokio::sync::watch;

pub use settings::Environment;

use super::{BucketPlace, Object, Objects, is_step};
use crate::{Error, Result};
use answers::{Answers, Noted};
use settings::CredentialsError;

/// Bytes of an answer that has no content of an object.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Bytes of a page of a listing, which has 1,000 objects, or 5,000 at Azure.
const PAGE_BYTES_MAX: usize = 32 << 20;
/// Times of an operation that a listing, which may have many pages, has.
const LISTING_TIMES: u32 = 10;
/// How often an object is created anew when creations of others are in its way.
const CONFLICTS_MAX: u32 = 5;
/// Characters of a foreign name that are shown.
const SHOWN_MAX: usize = 200;

/// Limits of the operations on a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketLimits {
    /// Time until a connection is made.
    pub connect: Duration,
    /// Time without a byte from a server.
    pub silence: Duration,
    /// Time of an operation, with all its tries, beside that for its bytes.
    pub operation: Duration,
    /// The least speed, in bytes a second: what an operation transfers prolongs it by this.
    pub speed: u64,
    /// Tries of a request after the first.
    pub retries: usize,
    /// Time before the second try; up to 32 times as long before the next ones.
    pub pause: Duration,
    /// Objects of a listing.
    pub objects: usize,
}

impl Default for BucketLimits {
    fn default() -> BucketLimits {
        BucketLimits {
            connect: Duration::from_secs(5),
            silence: Duration::from_secs(15),
            operation: Duration::from_secs(30),
            speed: 256 << 10,
            retries: 4,
            pause: Duration::from_millis(100),
            objects: 1 << 20,
        }
    }
}

/// A bucket as storage, with the credentials that the environment names.
pub struct Bucket {
    place: BucketPlace,
    store: Arc<dyn ObjectStore>,
    limits: BucketLimits,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    is_stopped: watch::Sender<bool>,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({})", self.place)
    }
}

impl Drop for Bucket {
    /// Also where waiting for the runtime's end would not be permitted.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Why an operation has failed.
struct Failure {
    cause: Cause,
    noted: Box<Noted>,
    /// The time that it had.
    limit: Duration,
}

enum Cause {
    Refused(StoreError),
    TooLate,
    Stopped,
    /// It has panicked.
    Defect,
}

impl Bucket {
    /// A bucket; whether it can be reached is not tried.
    ///
    /// # Errors
    /// When the settings in the environment cannot be used.
    pub fn open(place: BucketPlace, environment: &Environment, limits: BucketLimits) -> Result<Bucket> {
        let failed = |why: String| Error::Bucket { doing: "open", object: place.to_string(), why };
        let store = settings::client(&place, environment, &limits).map_err(|error| {
            let why = found(&error, |error: &std::io::Error| error.kind().to_string());
            let why = why.unwrap_or_else(|| "incomplete or malformed".to_owned());
            failed(format!("settings of the environment ({}): {why}", environment.names(place.provider)))
        })?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("bucket")
            .enable_all()
            .build()
            .map_err(|error| failed(format!("start a thread: {error}")))?;
        Ok(Bucket { place, store, limits, runtime: Some(runtime), is_stopped: watch::Sender::new(false) })
    }

    fn key(&self, doing: &'static str, path: &str) -> Result<Path> {
        let refused = || Error::Bucket {
            doing,
            object: self.place.to_string(),
            why: format!("{:?} is no path of an object", shortened(path)),
        };
        if !path.split('/').all(is_step) {
            return Err(refused());
        }
        Path::parse(self.place.key(path)).map_err(|_| refused())
    }

    /// The time of an operation that transfers so many bytes.
    fn time(&self, bytes: usize) -> Duration {
        self.limits.operation.saturating_add(Duration::from_secs(bytes as u64 / self.limits.speed.max(1)))
    }

    /// Runs an operation within a time; its answers have at most so many bytes.
    fn run<T: Send + 'static>(
        &self,
        limit: Duration,
        answer_bytes_max: usize,
        operation: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> std::result::Result<(T, Noted), Failure> {
        let answers = Answers::new(answer_bytes_max);
        let (sender, receiver) = mpsc::sync_channel(1);
        let noting = Arc::clone(&answers).noting(operation);
        let mut is_stopped = self.is_stopped.subscribe();
        if let Some(runtime) = &self.runtime {
            runtime.spawn(async move {
                let done = tokio::select! {
                    biased;
                    // The bucket, which has the sender, waits.
                    _ = is_stopped.wait_for(|is_stopped| *is_stopped) => Err(Cause::Stopped),
                    done = tokio::time::timeout(limit, noting) => match done {
                        Ok(done) => done.map_err(Cause::Refused),
                        Err(_) => Err(Cause::TooLate),
                    },
                };
                // So does the receiver.
                let _ = sender.send(done);
            });
        }
        // A channel that is closed is that of an operation that has panicked.
        let done = receiver.recv().unwrap_or(Err(Cause::Defect));
        let noted = answers.noted();
        match done {
            Ok(found) => Ok((found, noted)),
            Err(cause) => Err(Failure { cause, noted: Box::new(noted), limit }),
        }
    }

    /// The error of an operation on an object.
    fn failed(&self, doing: &'static str, path: &str, failure: Failure) -> Error {
        let object = self.place.url(path);
        if matches!(failure.cause, Cause::Stopped) {
            return Error::Stopped;
        }
        let is_missing = matches!(failure.cause, Cause::Refused(StoreError::NotFound { .. }));
        if !is_missing || failure.is_bucket_missing() {
            return Error::Bucket { doing, object, why: failure.why() };
        }
        // An answer without a code leaves open whether there is the bucket.
        let has_code = failure.noted.status().is_some_and(|(_, code)| code.is_some());
        match if has_code { Ok(()) } else { self.probe(path) } {
            Ok(()) => Error::NotFound { object },
            Err(error) => error,
        }
    }

    /// Errs when the bucket cannot be listed.
    fn probe(&self, path: &str) -> Result<()> {
        let store = Arc::clone(&self.store);
        let prefix = self.key("list", path)?;
        let probing = async move { store.list(Some(&prefix)).try_next().await };
        match self.run(self.time(0), PAGE_BYTES_MAX, probing) {
            Ok(_) => Ok(()),
            Err(Failure { cause: Cause::Stopped, .. }) => Err(Error::Stopped),
            Err(failure) => Err(Error::Bucket { doing: "list", object: self.place.url(path), why: failure.why() }),
        }
    }

    /// Ranges of an object, none of them empty; `behind` is the error when it ends before.
    fn fetch(&self, path: &str, ranges: Vec<Range<u64>>, behind: impl Fn() -> Error) -> Result<Vec<Bytes>> {
        let Some(end) = ranges.iter().map(|range| range.end).max() else { return Ok(Vec::new()) };
        let start = ranges.iter().map(|range| range.start).min().unwrap_or(end);
        let lengths: Vec<u64> = ranges.iter().map(|range| range.end - range.start).collect();
        // Ranges that lie close to each other are one request, with what is between.
        let between = ranges.len() as u64 * OBJECT_STORE_COALESCE_DEFAULT;
        let most = usize::try_from((end - start).min(lengths.iter().sum::<u64>().saturating_add(between)));
        let most = most.unwrap_or(usize::MAX);
        let (store, key) = (Arc::clone(&self.store), self.key("read", path)?);
        let reading = async move { store.get_ranges(&key, &ranges).await };
        match self.run(self.time(most), most.max(ANSWER_BYTES_MAX), reading) {
            Ok((found, _)) if found.iter().map(|bytes| bytes.len() as u64).eq(lengths) => Ok(found),
            Ok(_) => Err(behind()),
            Err(failure) => {
                // Servers answer a range behind the end in several ways.
                let may_be_behind = failure.noted.status().is_some_and(|(status, _)| {
                    status == StatusCode::RANGE_NOT_SATISFIABLE || status == StatusCode::PARTIAL_CONTENT
                });
                if may_be_behind && end > self.size(path)? {
                    return Err(behind());
                }
                Err(self.failed("read", path, failure))
            }
        }
    }

    /// Whether the content of an object is this.
    fn has(&self, path: &str, content: &[u8]) -> Result<bool> {
        match self.size(path) {
            Ok(size) if size == content.len() as u64 => Ok(self.read(path, 0, content.len())? == content),
            Ok(_) => Ok(false),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Text from the first source of a type.
fn found<E: std::error::Error + 'static>(
    error: &(dyn std::error::Error + 'static),
    text: impl Fn(&E) -> String,
) -> Option<String> {
    let mut source = Some(error);
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(text(found));
        }
        source = error.source();
    }
    None
}

fn shortened(name: &str) -> String {
    name.chars().take(SHOWN_MAX).collect()
}

impl Failure {
    fn is_bucket_missing(&self) -> bool {
        let missing = ["NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"];
        self.noted.status().is_some_and(|(_, code)| code.is_some_and(|code| missing.contains(&code)))
    }

    /// The reason, of facts that are not secret.
    fn why(&self) -> String {
        let error = match &self.cause {
            Cause::Refused(error) => error,
            Cause::TooLate => return format!("not done within {} s; {}", self.limit.as_secs(), self.noted),
            Cause::Stopped => return "stopped".to_owned(),
            Cause::Defect => return "a defect of the client".to_owned(),
        };
        if let StoreError::InvalidPath { source } = error {
            return format!("the listing has a name that is refused: {}", refused_name(source));
        }
        if let Some(why) = found(error, |error: &CredentialsError| error.to_string()) {
            return why;
        }
        if self.noted.requests == 0 {
            let why = found(error, |error: &std::io::Error| error.kind().to_string());
            return format!(
                "no request could be made: {}",
                why.as_deref().unwrap_or("unusable settings or credentials")
            );
        }
        self.noted.to_string()
    }
}

/// Whether an object stands for a folder, as consoles of buckets create them.
fn is_marker(object: &Object, sorted: &[Object]) -> bool {
    let below = format!("{}/", object.path);
    let next = sorted.partition_point(|other| other.path < below);
    object.bytes == 0 && sorted.get(next).is_some_and(|other| other.path.starts_with(&below))
}

/// The name that a listing must not have.
fn refused_name(error: &object_store::path::Error) -> String {
    use object_store::path::Error as PathError;
    match error {
        PathError::EmptySegment { path } | PathError::BadSegment { path, .. } => format!("{:?}", shortened(path)),
        _ => "one that is not UTF-8".to_owned(),
    }
}

impl Objects for Bucket {
    fn put(&self, path: &str, content: &[u8]) -> Result<()> {
        let (store, key) = (Arc::clone(&self.store), self.key("write", path)?);
        let payload = PutPayload::from(content.to_vec());
        let putting = async move { store.put(&key, payload).await };
        self.run(self.time(content.len()), ANSWER_BYTES_MAX, putting)
            .map(drop)
            .map_err(|failure| self.failed("write", path, failure))
    }

    fn create(&self, path: &str, content: &[u8]) -> Result<bool> {
        let key = self.key("create", path)?;
        let payload = PutPayload::from(content.to_vec());
        let mut may_have_written = false;
        let mut turn = 0;
        loop {
            let (store, key, payload) = (Arc::clone(&self.store), key.clone(), payload.clone());
            let creating = async move { store.put_opts(&key, payload, PutMode::Create.into()).await };
            let failure = match self.run(self.time(content.len()), ANSWER_BYTES_MAX, creating) {
                Ok(_) => return Ok(true),
                Err(failure) => failure,
            };
            may_have_written |= failure.noted.may_have_written;
            match &failure.cause {
                Cause::Refused(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => {}
                _ => return Err(self.failed("create", path, failure)),
            }
            // Another creation or deletion of it is not decided yet.
            let is_open = failure.noted.status().is_some_and(|(status, code)| {
                status == StatusCode::CONFLICT && code.is_none_or(|code| code != "BlobAlreadyExists")
            });
            if !is_open {
                // The try that has made it may be one of this call whose answer was lost.
                return Ok(may_have_written && self.has(path, content)?);
            }
            if turn == CONFLICTS_MAX {
                return Err(self.failed("create", path, failure));
            }
            std::thread::sleep(self.limits.pause.saturating_mul(1 << turn));
            turn += 1;
        }
    }

    fn size(&self, path: &str) -> Result<u64> {
        let (store, key) = (Arc::clone(&self.store), self.key("look up", path)?);
        let looking = async move { store.head(&key).await };
        let found = self.run(self.time(0), ANSWER_BYTES_MAX, looking);
        found.map(|(meta, _)| meta.size).map_err(|failure| self.failed("look up", path, failure))
    }

    fn read(&self, path: &str, start: u64, length: usize) -> Result<Vec<u8>> {
        Ok(self.read_ranges(path, &[(start, length)])?.pop().unwrap_or_default().into())
    }

    fn read_ranges(&self, path: &str, ranges: &[(u64, usize)]) -> Result<Vec<Bytes>> {
        let filled = || ranges.iter().filter(|(_, length)| *length > 0);
        let behind = |range: Option<&(u64, usize)>| {
            let (start, length) = range.copied().unwrap_or_default();
            Error::malformed(path, format!("{length} bytes at {start} lie behind its end"))
        };
        let is_behind = |size: u64| {
            move |(start, length): &&(u64, usize)| start.checked_add(*length as u64).is_none_or(|end| end > size)
        };
        if filled().count() < ranges.len() {
            // Of those without bytes only the place can be wrong.
            let size = self.size(path)?;
            if let Some(range) = ranges.iter().find(is_behind(size)) {
                return Err(behind(Some(range)));
            }
        }
        if let Some(range) = filled().find(is_behind(u64::MAX)) {
            return Err(behind(Some(range)));
        }
        let wanted: Vec<Range<u64>> = filled().map(|(start, length)| *start..start + *length as u64).collect();
        let found =
            self.fetch(path, wanted, || behind(filled().max_by_key(|(start, length)| start + *length as u64)))?;
        let mut found = found.into_iter();
        let read = ranges.iter().map(|(_, length)| match length {
            0 => Bytes::new(),
            _ => found.next().unwrap_or_default(),
        });
        Ok(read.collect())
    }

    fn list(&self, below: &str) -> Result<Vec<Object>> {
        let store = Arc::clone(&self.store);
        let below = below.trim_matches('/');
        let prefix = match below {
            "" => Path::parse(&self.place.prefix).ok(),
            below => Some(self.key("list", below)?),
        };
        let limit = self.limits.objects;
        let listing = async move {
            let mut found: Vec<(String, u64)> = Vec::new();
            let mut listed = store.list(prefix.as_ref());
            while let Some(meta) = listed.try_next().await? {
                if found.len() == limit {
                    return Ok(None);
                }
                found.push((meta.location.into(), meta.size));
            }
            Ok(Some(found))
        };
        let (found, _) = self
            .run(self.time(0).saturating_mul(LISTING_TIMES), PAGE_BYTES_MAX, listing)
            .map_err(|failure| self.failed("list", below, failure))?;
        let what = || format!("{}: objects", self.place.url(below));
        let found =
            found.ok_or_else(|| Error::TooLarge { what: what(), size: limit as u64 + 1, limit: limit as u64 })?;
        let start = match &*self.place.prefix {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let is_below =
            |path: &str| below.is_empty() || path.strip_prefix(below).is_some_and(|rest| rest.starts_with('/'));
        let mut objects: Vec<Object> = found
            .into_iter()
            .filter_map(|(key, bytes)| Some(Object { path: key.strip_prefix(&start)?.to_owned(), bytes }))
            .filter(|object| is_below(&object.path) && object.path.split('/').all(is_step))
            .collect();
        objects.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        let markers: Vec<bool> = objects.iter().map(|object| is_marker(object, &objects)).collect();
        let mut markers = markers.into_iter();
        objects.retain(|_| !markers.next().unwrap_or(false));
        Ok(objects)
    }

    fn delete(&self, path: &str) -> Result<()> {
        let (store, key) = (Arc::clone(&self.store), self.key("delete", path)?);
        let deleting = async move { store.delete(&key).await };
        match self.run(self.time(0), ANSWER_BYTES_MAX, deleting).map_err(|failure| self.failed("delete", path, failure))
        {
            Err(error) if error.is_not_found() => Ok(()),
            done => done.map(drop),
        }
    }

    fn stop(&self) {
        self.is_stopped.send_replace(true);
    }
}
