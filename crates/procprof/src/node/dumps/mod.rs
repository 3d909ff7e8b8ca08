//! Dump folders: files that processes write by themselves, such as those of `lg_prof_interval`, as profiles of their
//! services.
//!
//! ```text
//! rule -> folders of a process -> files that no longer change -> child process: decode, build ids -> spool
//! ```
//! A file is sent once, under an id made of its content and state, so that an agent that is started again sends nothing
//! twice. Whoever may write to a folder may name files in it: links, pipes and files of other users are not read, and
//! a file is decoded by a child process with limits ([`decoder`]).

mod folders;
mod listing;
mod seen;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use procprof_files::{FileState, Folder};
use procprof_process::{Identity, Pid};
use sha2::{Digest, Sha256};

pub(super) use self::folders::DumpFolder;
use self::folders::{Place, places};
use self::listing::{Choice, Found, Skipped, choose};
use self::seen::Seen;
use super::decoder::{self, FILE_BYTES_MAX};
use super::shared::{Shared, nanos_since_1970};

/// Time between two looks at the folders; a file that is the same in two of them is whole.
const LOOK: Duration = Duration::from_secs(5);
/// Looks at the folders of a process after its end, for what it wrote last.
const LOOKS_AFTER_END: u32 = 3;
/// Most files that are read in one look; the next one goes on.
const FILES_MAX: usize = 30;
/// Entries of a folder that are looked at.
const ENTRIES_MAX: usize = 10_000;
/// Services with a report of their own.
const REPORTS_MAX: usize = 1_000;

/// A process whose rule names dump folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watched {
    pub(super) identity: Identity,
    pub(super) service: String,
    pub(super) folders: Vec<DumpFolder>,
}

/// What became of the files of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Files that were sent.
    pub(super) sent: u64,
    /// Files that are no profiles, and the latest of them.
    unreadable: u64,
    why: String,
    /// Files that are too large, too old, or not of the user of the process.
    skipped: BTreeMap<Skipped, u64>,
    /// Folders that can't be read now.
    closed: Vec<String>,
}

impl Report {
    /// Lines for people: what is not sent, and why.
    pub(super) fn lines(&self) -> Vec<String> {
        let closed = self.closed.iter().map(|why| format!("dump folder: {why}"));
        let unreadable = (self.unreadable > 0)
            .then(|| format!("{} dumps can't be read as profiles; the latest: {}", self.unreadable, self.why));
        let skipped = self.skipped.iter().map(|(why, count)| format!("{count} dumps are not sent: {}", why.text()));
        closed.chain(unreadable).chain(skipped).collect()
    }
}

/// Files of all services since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) sent: u64,
    pub(super) unreadable: u64,
    pub(super) skipped: u64,
}

/// What the search for processes and the watch of their folders share.
#[derive(Debug, Default)]
pub(super) struct Dumps {
    watched: Mutex<Vec<Watched>>,
    reports: Mutex<BTreeMap<String, Report>>,
}

impl Dumps {
    pub(super) fn set_watched(&self, watched: Vec<Watched>) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = watched;
    }

    fn watched(&self) -> Vec<Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reports by service.
    pub(super) fn reports(&self) -> MutexGuard<'_, BTreeMap<String, Report>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn totals(&self) -> Totals {
        self.reports().values().fold(Totals::default(), |sum, report| Totals {
            sent: sum.sent + report.sent,
            unreadable: sum.unreadable + report.unreadable,
            skipped: sum.skipped + report.skipped.values().sum::<u64>(),
        })
    }

    fn note(&self, service: &str, change: impl FnOnce(&mut Report)) {
        let mut reports = self.reports();
        if reports.len() < REPORTS_MAX || reports.contains_key(service) {
            change(reports.entry(service.to_owned()).or_default());
        }
    }
}

/// Watches dump folders in a thread of its own, if a rule names any: a file system that hangs delays nothing else.
///
/// # Errors
/// The thread can't be started.
pub(super) fn start(shared: &Arc<Shared>) -> Result<()> {
    if shared.settings.rules.iter().all(|rule| rule.dumps.is_empty()) {
        return Ok(());
    }
    let shared = Arc::clone(shared);
    let work = move || {
        // At the ordinary priority it does the same work.
        let _ = rustix::process::nice(5);
        let mut watch = Watch { seen: Seen::read(&shared.settings.spool), ..Watch::default() };
        while !shared.is_stopping() {
            watch.look(&shared);
            std::thread::sleep(LOOK);
        }
    };
    std::thread::Builder::new().name("dumps".to_owned()).spawn(work).context("start a thread")?;
    Ok(())
}

/// A process with its folders, which stay open over its end.
#[derive(Debug)]
struct Followed {
    watched: Watched,
    places: Vec<(Place, Folder)>,
    looks_after_end: u32,
}

#[derive(Debug, Default)]
struct Watch {
    seen: Seen,
    followed: HashMap<(Pid, u64), Followed>,
    /// The files of the last look that waited to be whole.
    waiting: HashSet<listing::Key>,
}

impl Watch {
    /// Looks at all folders once, and sends what is new and whole in them.
    fn look(&mut self, shared: &Shared) {
        self.follow(shared);
        let mut found: Vec<(Identity, String, Folder, Found)> = Vec::new();
        for followed in self.followed.values() {
            for (place, folder) in &followed.places {
                let entries = folder.first_entries(ENTRIES_MAX).unwrap_or_default();
                let of_place = entries.into_iter().filter(|(name, _)| place.takes(name)).filter_map(|(name, _)| {
                    let state = folder.state(&name)?;
                    Some(Found { name, state, user: place.user })
                });
                let Watched { identity, service, .. } = &followed.watched;
                found.extend(of_place.map(|file| (*identity, service.clone(), folder.clone(), file)));
            }
        }
        found.sort_by(|a, b| (a.3.state.modified_nanos, &a.3.name).cmp(&(b.3.state.modified_nanos, &b.3.name)));
        let now = nanos_since_1970(SystemTime::now());
        let before = std::mem::take(&mut self.waiting);
        let mut read = 0;
        for (identity, service, folder, file) in found {
            let key = file.key();
            match choose(&file, self.seen.has(&key), before.contains(&key), now) {
                Choice::Known => self.seen.keep(&key),
                Choice::Wait => drop(self.waiting.insert(key)),
                Choice::Skip(why) => {
                    self.seen.add(key);
                    shared.dumps.note(&service, |report| *report.skipped.entry(why).or_default() += 1);
                }
                // One that is left for the next look stays whole.
                Choice::Take if read == FILES_MAX || shared.is_stopping() || shared.spool().is_half_full() => {
                    self.waiting.insert(key);
                }
                Choice::Take => {
                    read += 1;
                    match send(shared, identity, &service, &folder, &file) {
                        Ok(true) => shared.dumps.note(&service, |report| report.sent += 1),
                        // It was written to meanwhile: it is another one at the next look.
                        Ok(false) => continue,
                        Err(error) => {
                            tracing::warn!("dump {} of {service}: {error:#}", folder.path().join(&file.name).display());
                            shared.dumps.note(&service, |report| {
                                report.unreadable += 1;
                                report.why = format!("{}: {error:#}", file.name);
                            });
                        }
                    }
                    self.seen.add(key);
                }
            }
        }
        if let Err(error) = self.seen.write(&shared.settings.spool) {
            tracing::warn!("note the dumps that were sent: {error:#}; they may be sent again, which adds nothing");
        }
    }

    /// Opens the folders of the processes that run now, and gives up those of processes that ended a while ago.
    fn follow(&mut self, shared: &Shared) {
        let mut closed: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let watched = shared.dumps.watched();
        for followed in self.followed.values_mut() {
            followed.looks_after_end += 1;
        }
        self.followed.retain(|_, followed| followed.looks_after_end <= LOOKS_AFTER_END);
        for watched in watched {
            let (places, errors) = places(&watched);
            // Those of one that has ended are known from before.
            let Some(places) = places else { continue };
            closed.entry(watched.service.clone()).or_default().extend(errors);
            let followed = Followed { places, looks_after_end: 0, watched };
            let identity = followed.watched.identity;
            self.followed.insert((identity.pid, identity.start_ticks), followed);
        }
        for (service, mut errors) in closed {
            errors.sort();
            errors.dedup();
            shared.dumps.note(&service, |report| report.closed = errors);
        }
    }
}

/// Gives the profiles of a file to the spool; false if it was written to meanwhile.
fn send(shared: &Shared, process: Identity, service: &str, folder: &Folder, file: &Found) -> Result<bool> {
    let (mut open, _) = folder.file(&file.name, FILE_BYTES_MAX)?;
    let is_same = |open: &File| FileState::from_file(open).is_ok_and(|state| state == file.state);
    if !is_same(&open) {
        return Ok(false);
    }
    let mut hash = Sha256::new();
    std::io::copy(&mut (&mut open).take(FILE_BYTES_MAX), &mut hash).context("read the file")?;
    let digest = hash.finalize();
    open.seek(SeekFrom::Start(0)).context("read the file")?;
    let decoded = decoder::decode(shared, process, &file.name, &[], open.try_clone().context("read the file")?);
    if !is_same(&open) {
        return Ok(false);
    }
    for (number, decoded) in decoded?.into_iter().enumerate() {
        let mut header = shared.header(&decoded.profile_type, Some(service.to_owned()));
        header.id = id(&header.host, service, file, &digest, number);
        header.duration_nanos = decoded.duration_nanos;
        let end = file.state.modified_nanos;
        header.start_nanos = if decoded.start_nanos > 0 { decoded.start_nanos } else { end - decoded.duration_nanos };
        header.labels.insert("file".to_owned(), file.name.clone());
        shared.push(&header, &decoded.profile);
    }
    Ok(true)
}

/// The id of a profile: a UUIDv7 of the time of its file, the same whenever it is made.
fn id(host: &str, service: &str, file: &Found, digest: &[u8], number: usize) -> String {
    let mut hash = Sha256::new();
    for part in [host.as_bytes(), service.as_bytes(), file.name.as_bytes(), digest] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.update(file.state.modified_nanos.to_le_bytes());
    hash.update((number as u64).to_le_bytes());
    let mut random = [0; 10];
    random.copy_from_slice(&hash.finalize()[..10]);
    let millis = u64::try_from(file.state.modified_nanos / 1_000_000).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_same_for_the_same_dump_alone() {
        let state = FileState { device: 1, inode: 2, bytes: 3, modified_nanos: 1_700_000_000_123_456_789, owner: 0 };
        let file = Found { name: "a.heap".to_owned(), state, user: 0 };
        let own = id("host", "service", &file, b"digest", 0);
        assert_eq!(own, id("host", "service", &Found { user: 7, ..file.clone() }, b"digest", 0));
        let uuid: uuid::Uuid = own.parse().unwrap();
        assert_eq!(uuid.get_timestamp().unwrap().to_unix().0, 1_700_000_000);
        let other = Found { name: "b.heap".to_owned(), ..file.clone() };
        let others = [
            id("host2", "service", &file, b"digest", 0),
            id("hosts", "ervice", &file, b"digest", 0),
            id("host", "service", &other, b"digest", 0),
            id("host", "service", &file, b"other", 0),
            id("host", "service", &file, b"digest", 1),
        ];
        assert!(others.iter().all(|other| *other != own), "{own}: {others:?}");
    }

    #[test]
    fn a_report_says_what_is_not_sent() {
        let dumps = Dumps::default();
        dumps.note("a", |report| {
            (report.sent, report.unreadable, report.why) = (2, 1, "x.heap: empty".to_owned());
            report.skipped.insert(Skipped::TooOld, 3);
            report.closed.push("open /nowhere".to_owned());
        });
        assert_eq!(dumps.totals(), Totals { sent: 2, unreadable: 1, skipped: 3 });
        let lines = dumps.reports()["a"].lines();
        assert_eq!(lines[0], "dump folder: open /nowhere");
        assert!(lines[1].contains("1 dumps can't be read as profiles; the latest: x.heap: empty"), "{lines:?}");
        assert!(lines[2].contains("3 dumps are not sent: older than"), "{lines:?}");
    }
}
