//! A frontend of a StarRocks cluster, which profiles itself all the time: its flame graphs are fetched over HTTP as it
//! makes them.
//!
//! ```text
//! GET /proc_profile?node=FE                                                   the page that lists them
//! GET /proc_profile/file?filename=cpu-profile-20261120-222534.html.tar.gz     a page of async-profiler, or the archive of one
//! ```
//! A request gives what came since the one before; the first one gives the latest. What is given may have been given to
//! an earlier source of the same frontend, so each recording is marked as found.

mod archive;
mod listing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use procprof_profile::{Nanos, ProfileType};
use reqwest::Method;

pub use self::archive::page;
use self::listing::Listed;
use crate::fetch::fetch_bytes;
use crate::{
    CollectError, HttpClient, Instance, Pending, ProfileUrl, Recording, RecordingData, Recordings, Request, Result,
    Source, Target, Watch,
};

/// Largest list, in bytes.
const PAGE_MAX: u64 = 16 << 20;
/// Most profiles of a type that a request gives; the next one goes on with those after.
const PROFILES_MAX: usize = 10;
/// How long one page may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes the target of a frontend, for each request anew: secrets may change.
pub type MakeTarget = Arc<dyn Fn() -> Pending<'static, Target> + Send + Sync>;

/// The moment that a time in a file name is, as the frontend's zone has it: `20261120-222534`.
pub type ReadTime = Arc<dyn Fn(&str) -> Option<Nanos> + Send + Sync>;

/// Which frontend, and what its pages do not have.
#[derive(Clone)]
pub struct FrontendOptions {
    /// Makes its target.
    pub target: MakeTarget,
    /// Reads the times of its file names.
    pub time: ReadTime,
    /// How long each of its profiles is (`proc_profile_collect_time_s` there); 0 where that is unknown.
    pub length: Nanos,
}

/// Fetches the profiles that a frontend makes of itself.
pub struct FrontendSource {
    options: FrontendOptions,
    /// By type, the names on the frontend's list that were given, or will not be.
    seen: Mutex<BTreeMap<ProfileType, BTreeSet<String>>>,
}

impl fmt::Debug for FrontendSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontendSource").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl FrontendSource {
    /// A source for that frontend.
    pub fn new(options: FrontendOptions) -> FrontendSource {
        FrontendSource { options, seen: Mutex::default() }
    }

    async fn record_all(&self, request: &Request, watch: &Watch) -> Result<Recordings> {
        for profile_type in request.types() {
            if !matches!(profile_type, ProfileType::Cpu | ProfileType::Alloc) {
                return Err(CollectError::Unsupported { kind: "starrocks-fe", profile_type: profile_type.clone() });
            }
        }
        let (client, target) = (HttpClient::new(), (self.options.target)().await?);
        let list = ProfileUrl::from_url(target.http.join("/proc_profile?node=FE"));
        let page = fetch_bytes(&client, &target, Method::GET, &list, PAGE_MAX, PATIENCE, watch).await?;
        let origin = list.to_string();
        let another = || CollectError::NotAProfile {
            url: origin.clone(),
            reason: "not the page on which a frontend lists its profiles".to_owned(),
            first_bytes: page[..page.len().min(256)].to_vec(),
        };
        let listed = listing::read(&String::from_utf8_lossy(&page)).ok_or_else(another)?;
        let mut recordings = Vec::new();
        for profile_type in request.types() {
            for one in self.unseen(&listed, profile_type) {
                let fetched = self.fetch(&client, &target, &one, watch).await;
                match fetched {
                    Err(error) if is_passing(&error) => {
                        recordings.push(self.recording(&one, Err(error)));
                        break;
                    }
                    // The frontend keeps its profiles for a time only.
                    Err(CollectError::NotFound { .. }) => {}
                    content => recordings.push(self.recording(&one, content)),
                }
                self.seen().entry(profile_type.clone()).or_default().insert(one.name);
            }
        }
        if recordings.is_empty() {
            return Err(nothing_new(&listed, request));
        }
        Ok(Recordings { recordings, origin, instance: Instance::default() })
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, BTreeMap<ProfileType, BTreeSet<String>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files of a list that a request selects, the oldest first. Names are compared and not times: an hour that the
    /// clocks repeat has each time twice.
    fn unseen(&self, listed: &[Listed], profile_type: &ProfileType) -> Vec<Listed> {
        let of_type: Vec<&Listed> = listed.iter().filter(|one| one.profile_type == *profile_type).collect();
        let mut all = self.seen();
        let seen = all.entry(profile_type.clone()).or_insert_with(|| {
            let before = of_type.len().saturating_sub(PROFILES_MAX);
            of_type[..before].iter().map(|one| one.name.clone()).collect()
        });
        seen.retain(|name| of_type.iter().any(|one| one.name == *name));
        of_type.into_iter().filter(|one| !seen.contains(&one.name)).take(PROFILES_MAX).cloned().collect()
    }

    async fn fetch(&self, client: &HttpClient, target: &Target, one: &Listed, watch: &Watch) -> Result<RecordingData> {
        let url = ProfileUrl::from_url(target.http.join(&format!("/proc_profile/file?filename={}", one.name)));
        let bytes = fetch_bytes(client, target, Method::GET, &url, target.max_bytes, PATIENCE, watch).await?;
        let limit = target.max_bytes.saturating_mul(4);
        let unpacked = tokio::task::spawn_blocking(move || page(bytes, limit)).await;
        let wrong =
            |reason: String| CollectError::NotAProfile { url: url.to_string(), reason, first_bytes: Vec::new() };
        let page = unpacked.map_err(|_| CollectError::Cancelled { url: url.to_string() })?.map_err(wrong)?;
        Ok(RecordingData::Encoded(Bytes::from(page)))
    }

    fn recording(&self, one: &Listed, content: Result<RecordingData>) -> Recording {
        let started = (self.options.time)(&one.time);
        let content = match started {
            Some(_) => content,
            None => Err(CollectError::target("file name", one.name.clone(), "its time is out of range")),
        };
        let (started, length) = (started.unwrap_or(Nanos(0)), self.options.length);
        let mut recording = Recording::new(one.profile_type.clone(), content, started, length);
        recording.finished = Nanos(started.0.saturating_add(length.0));
        recording.is_found = true;
        recording.facts.insert("engine".to_owned(), "async-profiler of the frontend".to_owned());
        recording.facts.insert("fetched-from".to_owned(), one.name.clone());
        recording
    }
}

/// Whether the same request may succeed later.
fn is_passing(error: &CollectError) -> bool {
    use CollectError::{Broken, Busy, Cancelled, Connect, Forbidden, NoRoom, Timeout, Unauthorized};
    matches!(
        error,
        Broken { .. }
            | Busy { .. }
            | Cancelled { .. }
            | Connect { .. }
            | Forbidden { .. }
            | NoRoom { .. }
            | Timeout { .. }
            | Unauthorized { .. }
    )
}

/// Why there is nothing to give.
fn nothing_new(listed: &[Listed], request: &Request) -> CollectError {
    let latest = listed.iter().rev().find(|one| request.types().any(|profile_type| *profile_type == one.profile_type));
    match latest {
        Some(latest) => {
            CollectError::NothingNew { why: format!("the frontend has no profile later than {} yet", latest.name) }
        }
        None => CollectError::Unavailable {
            why: "the frontend has no profile of this type; are proc_profile_cpu_enable and proc_profile_mem_enable \
                  set there?"
                .to_owned(),
        },
    }
}

impl Source for FrontendSource {
    fn record<'a>(&'a self, request: &'a Request, watch: &'a Watch) -> Pending<'a, Recordings> {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = watch.cancel.cancelled() => Err(CollectError::Cancelled { url: "frontend".to_owned() }),
                answer = self.record_all(request, watch) => answer,
            }
        })
    }
}
