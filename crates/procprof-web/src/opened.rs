//! Files that users opened to look at: kept in memory for a while, within bounds, and never stored.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use procprof_core::ingest::Inspected;
use procprof_core::shares::Requester;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::params::Params;
use super::problem::{ApiResult, Problem};

/// Files kept at a time, of all users and of one; further ones take the place of the oldest.
const FILES_MAX: usize = 64;
pub(crate) const OWN_FILES_MAX: usize = 4;
/// Their bytes together, of all users and of one.
const BYTES_MAX: usize = 256 << 20;
pub(crate) const OWN_BYTES_MAX: usize = 128 << 20;
/// Reports of them made at a time.
const RENDERS_MAX: usize = 2;
/// How long one is kept.
pub(crate) const AGE_MAX: Duration = Duration::from_secs(3600);

/// An opened file.
pub(crate) struct OpenedFile {
    /// Its part of the address, which cannot be guessed.
    pub(crate) token: String,
    /// The name it had.
    pub(crate) name: String,
    /// The user who opened it, who alone may look at it.
    pub(crate) by: String,
    /// The user, or the address where there are no users; files are counted by it.
    pub(crate) owner: Requester,
    pub(crate) profiles: Vec<Inspected>,
    pub(crate) at: Instant,
}

impl OpenedFile {
    /// The bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.profiles.iter().map(|profile| profile.encoded.len()).sum()
    }

    /// The time until it is forgotten.
    pub(crate) fn time_left(&self) -> Duration {
        AGE_MAX.saturating_sub(self.at.elapsed())
    }
}

/// All opened files, oldest first.
pub struct OpenedFiles {
    files: Mutex<VecDeque<Arc<OpenedFile>>>,
    renders: Arc<Semaphore>,
}

impl Default for OpenedFiles {
    fn default() -> OpenedFiles {
        OpenedFiles { files: Mutex::default(), renders: Arc::new(Semaphore::new(RENDERS_MAX)) }
    }
}

impl OpenedFiles {
    /// Keeps a file. The oldest ones of its owner make room; when all together are too many, those of the owner with
    /// the most bytes besides this file.
    pub(crate) fn keep(&self, file: OpenedFile) {
        let mut files = self.current();
        let owner = file.owner.clone();
        files.push_back(Arc::new(file));
        while over(files.iter().filter(|file| file.owner == owner), OWN_FILES_MAX, OWN_BYTES_MAX) {
            drop_oldest(&mut files, &owner);
        }
        while over(files.iter(), FILES_MAX, BYTES_MAX) {
            let others = || files.iter().take(files.len() - 1);
            let bytes_of = |owner: &Requester| -> usize {
                others().filter(|file| file.owner == *owner).map(|file| file.bytes()).sum()
            };
            let largest = others().map(|file| &file.owner).max_by_key(|owner| bytes_of(owner)).cloned();
            largest.iter().for_each(|owner| drop_oldest(&mut files, owner));
        }
    }

    /// The file of a token, for the user who opened it.
    pub(crate) fn get(&self, token: &str, by: &str) -> ApiResult<Arc<OpenedFile>> {
        let found = self.current().iter().find(|file| file.token == token && file.by == by).cloned();
        found.ok_or_else(|| {
            let why = format!(
                "this file is open no longer: files are kept for an hour, and {OWN_FILES_MAX} of a user; open it again"
            );
            Problem::new(StatusCode::GONE, "gone", why)
        })
    }

    /// The file of a token, and the number of its profile that `event=` names.
    pub(crate) fn profile(&self, token: &str, by: &str, params: &Params) -> ApiResult<(Arc<OpenedFile>, usize)> {
        let file = self.get(token, by)?;
        let last = file.profiles.len().saturating_sub(1) as u64;
        let event = usize::try_from(params.number("event", 0, last)?.unwrap_or(0)).unwrap_or(0);
        Ok((file, event))
    }

    /// The files of an owner, newest first.
    pub(crate) fn own(&self, owner: &Requester, by: &str) -> Vec<Arc<OpenedFile>> {
        self.current().iter().rev().filter(|file| file.owner == *owner && file.by == by).cloned().collect()
    }

    /// Forgets a file.
    pub(crate) fn close(&self, token: &str, by: &str) {
        self.current().retain(|file| file.token != token || file.by != by);
    }

    /// A place to make a report in, when it is its turn.
    pub(crate) async fn render_slot(&self) -> ApiResult<OwnedSemaphorePermit> {
        Arc::clone(&self.renders).acquire_owned().await.map_err(|_| Problem::internal("the server is stopping"))
    }

    /// Those that are not too old.
    fn current(&self) -> MutexGuard<'_, VecDeque<Arc<OpenedFile>>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|file| file.at.elapsed() < AGE_MAX);
        files
    }
}

/// Whether these are too many, or too large together.
fn over<'a>(files: impl Iterator<Item = &'a Arc<OpenedFile>>, most: usize, bytes_max: usize) -> bool {
    let (count, bytes) = files.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.bytes()));
    count > 1 && (count > most || bytes > bytes_max)
}

fn drop_oldest(files: &mut VecDeque<Arc<OpenedFile>>, owner: &Requester) {
    if let Some(oldest) = files.iter().position(|file| file.owner == *owner) {
        files.remove(oldest);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use procprof_core::auth::{Principal, UserRole};
    use procprof_core::ingest::Inspected;
    use procprof_profile::{Meta, Nanos};
    use procprof_store::Summary;

    use super::*;

    fn requester(name: &str) -> Requester {
        Requester::new(&Principal::new(name, UserRole::Viewer), IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    fn keep(opened: &OpenedFiles, owner: &str, token: &str, bytes: usize) {
        let profile = Inspected {
            meta: Meta::default(),
            start: Nanos(0),
            duration: Nanos(0),
            summary: Summary::default(),
            encoded: vec![0; bytes].into(),
        };
        opened.keep(OpenedFile {
            token: token.to_owned(),
            name: token.to_owned(),
            by: owner.to_owned(),
            owner: requester(owner),
            profiles: vec![profile],
            at: Instant::now(),
        });
    }

    fn tokens(opened: &OpenedFiles, owner: &str) -> Vec<String> {
        opened.own(&requester(owner), owner).iter().map(|file| file.token.clone()).collect()
    }

    #[test]
    fn a_user_makes_room_with_files_of_their_own() {
        let opened = OpenedFiles::default();
        keep(&opened, "ada", "theirs", 10);
        for number in 0..6 {
            keep(&opened, "bob", &number.to_string(), 10);
        }
        assert_eq!(
            (tokens(&opened, "bob"), tokens(&opened, "ada")),
            (vec!["5".into(), "4".into(), "3".into(), "2".into()], vec!["theirs".into()])
        );
        keep(&opened, "bob", "large", OWN_BYTES_MAX - 15);
        assert_eq!(tokens(&opened, "bob"), ["large", "5"]);
        assert!(opened.get("large", "ada").is_err() && opened.get("large", "bob").is_ok());
        keep(&opened, "cid", "also large", OWN_BYTES_MAX);
        assert_eq!((tokens(&opened, "bob"), tokens(&opened, "ada").len()), (vec!["large".to_owned()], 1));
        opened.close("large", "ada");
        opened.close("theirs", "ada");
        assert_eq!((tokens(&opened, "bob").len(), tokens(&opened, "ada").len()), (1, 0));
    }
}
