//! What servers of an archive ask each other: the profiles of a range that one has and the archive has not yet, and
//! their files.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `POST /api/servers/profiles` | [`HotQuestion`] as JSON | [`HotAnswer`] as JSON |
//! | `POST /api/servers/files` | [`FilesQuestion`] as JSON | frames, see below |
//!
//! ```text
//! answer = frame*
//! frame  = id (16 bytes, big endian) | length (u32, little endian) | stored file (gzip'd pprof)
//! ```
//! A file that was deleted meanwhile has no frame. Each request carries the token of `servers_token_file`, which is
//! that of a user who may read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use procprof_archive::{Grain, Hour, Part};
use procprof_collect::{Auth, BaseUrl, ProfileUrl, Secret, Target, Tls, endpoints, post_bytes};
use procprof_profile::{Nanos, ProfileId, ProfileType};
use procprof_store::{Entry, Filter, Format, Store, Total};
use serde::{Deserialize, Serialize};

use super::{ServerState, Servers};
use crate::archiving::{KnownParts, StoredDays};
use crate::error::chain;
use crate::remote::secret_line;
use crate::{Error, Result};

/// Longest body of a question.
pub const QUESTION_BYTES_MAX: usize = 256 << 10;
/// Most files of one answer.
pub const FILES_MAX: usize = 500;
/// Most bytes of the files of one answer, but for the last one.
pub const FILES_BYTES_MAX: u64 = 32 << 20;
/// Most profiles of one answer.
pub const PROFILES_MAX: usize = 5000;
/// Bytes of an answer with profiles, at most.
const PROFILES_BYTES_MAX: u64 = 16 << 20;
/// Time that another server has to name its profiles.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time that another server has to send files.
const FILES_PATIENCE: Duration = Duration::from_secs(60);
const FRAME_HEAD: usize = 20;

/// Which profiles a server is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotQuestion {
    /// Ids of nodes; none for all.
    pub nodes: Vec<u64>,
    /// Labels that a profile's node had, all of them.
    #[serde(default)]
    pub labels: Vec<(String, String)>,
    /// The profile type.
    #[serde(rename = "type")]
    pub profile_type: String,
    /// Complete at this moment or later, in nanoseconds since 1970.
    pub from: i64,
    /// Complete before this moment.
    pub to: i64,
}

/// The profiles that a server has of them and the archive has not yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotAnswer {
    /// At most [`PROFILES_MAX`].
    pub profiles: Vec<HotProfile>,
    /// Whether there are more.
    pub has_more: bool,
}

/// A profile that another server has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotProfile {
    /// Its id.
    pub id: String,
    /// Its node.
    pub node: u64,
    /// When it began, in nanoseconds since 1970.
    pub start: i64,
    /// How long it took, in nanoseconds.
    pub duration: i64,
    /// When it was complete, in nanoseconds since 1970.
    pub completed: i64,
    /// Size of its file.
    pub bytes: u64,
    /// The name of its node, as it was then.
    #[serde(default)]
    pub node_name: String,
    /// The cluster of its node.
    #[serde(default)]
    pub cluster: String,
    /// The labels of its node.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The sum of each sample type.
    #[serde(default)]
    pub totals: Vec<Total>,
    /// The sample type that is shown first.
    #[serde(default)]
    pub shown: String,
}

/// Which files a server is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesQuestion {
    /// Ids of profiles, at most [`FILES_MAX`].
    pub ids: Vec<String>,
}

/// A profile of another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its id.
    pub id: ProfileId,
    /// Its node.
    pub node: u64,
    /// When it began.
    pub start: Nanos,
    /// How long it took.
    pub duration: Nanos,
    /// When it was complete.
    pub completed: Nanos,
    /// Size of its file.
    pub bytes: u64,
    /// The name of its node, as it was then.
    pub node_name: String,
    /// The cluster of its node.
    pub cluster: String,
    /// The labels of its node.
    pub labels: BTreeMap<String, String>,
    /// The sum of each sample type.
    pub totals: Vec<Total>,
    /// The sample type that is shown first.
    pub shown: String,
}

/// The answer of another server.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    /// Its URL.
    pub url: String,
    /// Its profiles, or why there are none.
    pub profiles: std::result::Result<Vec<Found>, String>,
}

impl HotProfile {
    fn new(entry: Entry) -> HotProfile {
        let shown = entry.summary.shown(&entry.meta).map(|total| total.kind.clone());
        HotProfile {
            id: entry.id.to_string(),
            node: entry.node,
            start: entry.start.0,
            duration: entry.duration.0,
            completed: entry.completed.0,
            bytes: entry.bytes,
            shown: shown.unwrap_or_default(),
            node_name: entry.meta.node_name,
            cluster: entry.meta.cluster,
            labels: entry.meta.labels,
            totals: entry.summary.totals,
        }
    }

    fn found(self) -> Option<Found> {
        let HotProfile { id, node, start, duration, completed, bytes, node_name, cluster, labels, totals, shown } =
            self;
        let (id, start, duration) = (id.parse().ok()?, Nanos(start), Nanos(duration));
        let completed = Nanos(completed);
        Some(Found { id, node, start, duration, completed, bytes, node_name, cluster, labels, totals, shown })
    }
}

/// The profiles of a store that a question is about and that an archive does not have.
///
/// # Errors
/// When the store or the archive cannot be listed.
pub fn hot_profiles(store: &Store, known: &KnownParts, question: &HotQuestion) -> Result<HotAnswer> {
    let (from, to) = (Nanos(question.from), Nanos(question.to));
    let wrong = |error: procprof_profile::ParseProfileTypeError| Error::Setup { what: "type", why: error.to_string() };
    let profile_type: ProfileType = question.profile_type.parse().map_err(wrong)?;
    let mut parts: BTreeMap<Hour, Vec<Part>> = BTreeMap::new();
    for part in known.parts_between(from, to)?.parts {
        parts.entry(part.hour.day()).or_default().push(part);
    }
    let filter = Filter {
        nodes: question.nodes.clone(),
        types: vec![profile_type],
        from: Some(from),
        to: Some(to),
        labels: question.labels.clone(),
        ..Filter::default()
    };
    let (mut answer, mut stored) = (HotAnswer::default(), StoredDays::new(store, filter)?);
    while let Some(day) = stored.day()? {
        let ids = stored.of_day(day)?;
        let mut archived: HashSet<ProfileId> = HashSet::new();
        for part in parts.remove(&day).unwrap_or_default() {
            // Of one that cannot be read, the store's profiles are what there is.
            if let Ok(listed) = known.list(part, Grain::Profile) {
                archived.extend(listed.iter().map(|profile| profile.id));
            }
        }
        for id in ids.iter().filter(|id| !archived.contains(id)) {
            // One that is gone was deleted meanwhile.
            let Ok(entry) = store.get(*id) else { continue };
            if entry.format != Format::Pprof {
                continue;
            }
            if answer.profiles.len() == PROFILES_MAX {
                answer.has_more = true;
                return Ok(answer);
            }
            answer.profiles.push(HotProfile::new(entry));
        }
    }
    Ok(answer)
}

/// The frame of a file before the file itself.
pub fn frame_head(id: ProfileId, length: u32) -> [u8; FRAME_HEAD] {
    let mut head = [0; FRAME_HEAD];
    head[..16].copy_from_slice(&id.0.to_be_bytes());
    head[16..].copy_from_slice(&length.to_le_bytes());
    head
}

/// The files of an answer.
fn read_frames(answer: &Bytes) -> std::result::Result<HashMap<ProfileId, Bytes>, String> {
    let (mut files, mut at) = (HashMap::new(), 0);
    while at < answer.len() {
        let head = answer.get(at..at + FRAME_HEAD).and_then(|head| <[u8; FRAME_HEAD]>::try_from(head).ok());
        let head = head.ok_or_else(|| format!("the answer ends within the head of a file, at byte {at}"))?;
        let (id, length) = head.split_at(16);
        let id = ProfileId(id.iter().fold(0, |id, byte| id << 8 | u128::from(*byte)));
        let length = length.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
        let start = at + FRAME_HEAD;
        if answer.len() - start < length {
            return Err(format!("the answer ends within the file of profile {id}, at byte {}", answer.len()));
        }
        files.insert(id, answer.slice(start..start + length));
        at = start + length;
    }
    Ok(files)
}

impl Servers {
    /// Asks the other servers for what they have and the archive has not yet; one that does not answer is told.
    pub async fn elsewhere(self: &Arc<Self>, question: &HotQuestion) -> Vec<Elsewhere> {
        let others = self.all().into_iter().filter(|server| !server.is_own && server.is_alive);
        let asked = others.map(|server| async move {
            let profiles = self.profiles_of(&server, question).await;
            Elsewhere { url: server.url, profiles }
        });
        futures_util::future::join_all(asked).await
    }

    async fn profiles_of(
        &self,
        server: &ServerState,
        question: &HotQuestion,
    ) -> std::result::Result<Vec<Found>, String> {
        let answer = self.ask(&server.url, "profiles", question, PROFILES_BYTES_MAX, PATIENCE).await?;
        let answer: HotAnswer = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
        if answer.has_more || answer.profiles.len() > PROFILES_MAX {
            return Err(format!("more than {PROFILES_MAX} profiles that are not archived; choose a shorter range"));
        }
        let found: Option<Vec<Found>> = answer.profiles.into_iter().map(HotProfile::found).collect();
        found.ok_or_else(|| "the id of a profile cannot be understood".to_owned())
    }

    /// As [`Servers::elsewhere`], for a thread that may block.
    pub fn elsewhere_blocking(self: &Arc<Self>, question: HotQuestion) -> Vec<Elsewhere> {
        if self.all().iter().all(|server| server.is_own || !server.is_alive) {
            return Vec::new();
        }
        let own = Arc::clone(self);
        let answered = self.wait_for(async move { own.elsewhere(&question).await });
        answered.unwrap_or_else(|why| vec![Elsewhere { url: "other servers".to_owned(), profiles: Err(why) }])
    }

    /// As [`Servers::files`], for a thread that may block.
    ///
    /// # Errors
    /// The reason in a sentence.
    pub fn files_blocking(
        self: &Arc<Self>,
        url: &str,
        profiles: &[Found],
    ) -> std::result::Result<HashMap<ProfileId, Bytes>, String> {
        let (own, url, profiles) = (Arc::clone(self), url.to_owned(), profiles.to_vec());
        self.wait_for(async move { own.files(&url, &profiles).await })?
    }

    /// Runs a request in the server's runtime, from whatever thread.
    fn wait_for<T: Send + 'static>(
        &self,
        request: impl Future<Output = T> + Send + 'static,
    ) -> std::result::Result<T, String> {
        let runtime = self.runtime.get().ok_or("this server is starting")?;
        let (sender, receiver) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            // Gone only with the server.
            let _ = sender.send(request.await);
        });
        receiver.recv().map_err(|_| "this server is stopping".to_owned())
    }

    /// The files of profiles of another server, as far as it still has them: at most [`FILES_MAX`], which have
    /// [`FILES_BYTES_MAX`] but for the last one.
    ///
    /// # Errors
    /// The reason in a sentence.
    pub async fn files(&self, url: &str, profiles: &[Found]) -> std::result::Result<HashMap<ProfileId, Bytes>, String> {
        let ids = profiles.iter().map(|profile| profile.id.to_string()).collect();
        let most = profiles.iter().map(|profile| profile.bytes + FRAME_HEAD as u64).sum::<u64>();
        // A file that got names meanwhile is larger.
        let most = most.min(FILES_BYTES_MAX + self.settings.config().profile_bytes_max);
        let most = most.saturating_mul(2).saturating_add(1 << 20);
        let answer = self.ask(url, "files", &FilesQuestion { ids }, most, FILES_PATIENCE).await?;
        read_frames(&Bytes::from(answer))
    }

    async fn ask(
        &self,
        url: &str,
        what: &str,
        question: &impl Serialize,
        bytes: u64,
        limit: Duration,
    ) -> std::result::Result<Vec<u8>, String> {
        let config = self.settings.config();
        let base: BaseUrl = url.parse().map_err(|error| chain(&error))?;
        let mut target = Target::new(&endpoints::GO, base);
        target.tls = Tls { ca_file: config.servers_ca_file.clone(), ..Tls::default() };
        if let Some(path) = &config.servers_token_file {
            target.auth = Auth::Bearer(Secret::new(secret_line(path).await?));
        }
        let place: ProfileUrl = format!("{url}/api/servers/{what}").parse().map_err(|error| chain(&error))?;
        let question = serde_json::to_vec(question).map_err(|error| error.to_string())?;
        post_bytes(&self.client, &target, &place, question, bytes, limit).await.map_err(|error| chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_back_and_what_is_cut_is_told() {
        let mut answer = Vec::new();
        for (id, file) in [(7_u128, &b"seven"[..]), (1 << 100, b""), (u128::MAX, b"x")] {
            answer.extend(frame_head(ProfileId(id), file.len() as u32));
            answer.extend(file);
        }
        let whole = Bytes::from(answer);
        let files = read_frames(&whole).unwrap();
        assert_eq!(files.len(), 3);
        assert_eq!(files[&ProfileId(7)], "seven");
        assert_eq!(files[&ProfileId(u128::MAX)], "x");
        let ends = [0, 25, 45, whole.len()];
        for end in 0..=whole.len() {
            let read = read_frames(&whole.slice(..end));
            assert_eq!(read.is_ok(), ends.contains(&end), "{end}: {read:?}");
        }
    }
}
