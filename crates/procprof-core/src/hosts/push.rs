//! Pushed profiles: each is taken in once, by the id that its agent gave it.

use std::collections::hash_map::Entry as Slot;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use procprof_profile::{Meta, Nanos, ProfileId, ProfileType};
use procprof_store::{Entry, ErrorKind};
use tokio::sync::watch;

use super::protocol::{Outcome, PushedProfile, ServiceFacts};
use super::{Hosts, bounded};
use crate::auth::Principal;
use crate::error::chain;
use crate::ingest::{IncomingData, IncomingProfile, IngestError, Reserved, SymbolHints, accept, record_error};
use crate::nodes::{FailedAttempt, Node, PushedBy};
use crate::symbols::{UPLOADS, WantedSymbols};

/// Seconds after which a profile for which there was no room may be sent again.
const FULL_SECONDS: u32 = 5;
/// The same where the disk is full, or the store fails.
const STORE_SECONDS: u32 = 60;
/// Most types of a host itself that are noted.
const SENT_TYPES_MAX: usize = 16;

/// Why no further frame of a push is read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The user was removed, or has another token or role now.
    #[error("the token was revoked")]
    Revoked,
}

/// A profile whose bytes may come.
pub struct Admitted {
    header: PushedProfile,
    node: Arc<Node>,
    id: ProfileId,
    profile_type: ProfileType,
}

/// The id of a profile that is being taken in; dropped when that has ended.
struct Taking<'a> {
    hosts: &'a Hosts,
    id: ProfileId,
    _ended: watch::Sender<()>,
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.hosts.taking.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id.0);
    }
}

impl Hosts {
    /// Looks at the header of a frame. An outcome, unless the profile is wanted: its bytes need not be kept then.
    ///
    /// # Errors
    /// [`PushError::Revoked`].
    pub async fn begin_push(
        &self,
        principal: &Principal,
        mut header: PushedProfile,
    ) -> Result<Result<Admitted, Outcome>, PushError> {
        if !self.authenticator.still_holds(principal) {
            return Err(PushError::Revoked);
        }
        let refused = |reason: String| Ok(Err(Outcome::Refused { reason }));
        let Ok(id) = header.id.parse::<uuid::Uuid>() else { return refused("id: expected a UUID".to_owned()) };
        let id = ProfileId(id.as_u128());
        let profile_type = match header.profile_type.parse::<ProfileType>() {
            Ok(profile_type) => profile_type,
            Err(error) => return refused(format!("profile_type: {error}")),
        };
        if header.service.as_deref().is_some_and(|service| !bounded::is_service_name(service)) {
            return refused("service: it is no name".to_owned());
        }
        if let Err(error) = self.admit(principal, &header.host).await {
            return refused(error.to_string());
        }
        if self.is_stored(id).await {
            return Ok(Err(Outcome::Known));
        }
        header.labels = bounded::labels(header.labels);
        header.failure = header.failure.map(bounded::line);
        match self.node(&header).await {
            Ok(node) => Ok(Ok(Admitted { header, node, id, profile_type })),
            Err(outcome) => Ok(Err(outcome)),
        }
    }

    /// Takes a profile in; and the build ids of files whose symbols it lacks.
    pub async fn push(&self, admitted: Admitted, bytes: Bytes, reserved: Arc<Reserved>) -> (Outcome, Vec<String>) {
        if let Some(reason) = admitted.header.failure.clone() {
            self.note_failure(&admitted, &reason, ErrorKind::Capture);
            return (Outcome::Stored, Vec::new());
        }
        let _taking = loop {
            match self.take(admitted.id) {
                Ok(taking) => break taking,
                // Another request is taking the same profile in.
                Err(mut ended) => while ended.changed().await.is_ok() {},
            }
        };
        if self.is_stored(admitted.id).await {
            return (Outcome::Known, Vec::new());
        }
        let Admitted { header, node, id, profile_type } = &admitted;
        let trigger = if header.capture.is_some() { "manual" } else { "push" };
        let mut meta = Meta {
            id: Some(*id),
            profile_type: Some(profile_type.clone()),
            trigger: trigger.to_owned(),
            ..node.meta()
        };
        meta.labels.extend(header.labels.clone());
        meta.more.insert("host-id".to_owned(), header.host.clone());
        let incoming = IncomingProfile {
            meta,
            data: IncomingData::Encoded(bytes, Some(profile_type.clone())),
            window: (Nanos(header.start_nanos), Nanos(header.duration_nanos.max(0))),
            hints: SymbolHints::default(),
            reserved: Some(reserved),
        };
        match accept(&self.ingest, incoming).await {
            Ok(entries) => (Outcome::Stored, self.note_stored(&admitted, entries).await),
            Err(error) => (self.not_stored(&admitted, error), Vec::new()),
        }
    }

    /// Notes that there is no profile where one was to come: for ever.
    pub fn refuse_push(&self, admitted: &Admitted, reason: &str) -> Outcome {
        self.note_failure(admitted, reason, ErrorKind::Refused);
        Outcome::Refused { reason: reason.to_owned() }
    }

    async fn is_stored(&self, id: ProfileId) -> bool {
        let store = Arc::clone(&self.ingest.store);
        matches!(tokio::task::spawn_blocking(move || store.contains(id)).await, Ok(Ok(true)))
    }

    fn take(&self, id: ProfileId) -> Result<Taking<'_>, watch::Receiver<()>> {
        match self.taking.lock().unwrap_or_else(PoisonError::into_inner).entry(id.0) {
            Slot::Occupied(other) => Err(other.get().clone()),
            Slot::Vacant(slot) => {
                let (ended, seen) = watch::channel(());
                slot.insert(seen);
                Ok(Taking { hosts: self, id, _ended: ended })
            }
        }
    }

    /// The node of a profile, registered if it is not known.
    async fn node(&self, header: &PushedProfile) -> Result<Arc<Node>, Outcome> {
        if let Some(service) = &header.service {
            let unknown = ServiceFacts {
                name: service.clone(),
                labels: header.labels.clone(),
                processes: 0,
                ..ServiceFacts::default()
            };
            match self.register(&header.host, &[unknown]).await {
                Ok(0) => {}
                Ok(_) => {
                    let reason = "as many services are known as may be, and none of them can be forgotten".to_owned();
                    return Err(Outcome::Refused { reason });
                }
                Err(error) => return Err(Outcome::Later { reason: chain(&error), seconds: STORE_SECONDS }),
            }
        }
        let id = {
            let mut table = self.table();
            let host = table.hosts.get_mut(&header.host);
            host.and_then(|host| match &header.service {
                None => Some(host.known.node),
                Some(service) => host.known.services.get_mut(service).map(|known| {
                    known.seen_nanos = crate::clock::now().0.max(known.seen_nanos);
                    known.node
                }),
            })
        };
        let listed = || id.and_then(|id| self.ingest.registry.by_id(id)).filter(|node| node.pushed_by.is_some());
        let mut node = listed();
        if node.is_none() {
            // It was registered a moment ago.
            self.list().await;
            node = listed();
        }
        node.ok_or_else(|| Outcome::Later {
            reason: "the node is not registered yet".to_owned(),
            seconds: FULL_SECONDS,
        })
    }

    async fn note_stored(&self, admitted: &Admitted, entries: Vec<Entry>) -> Vec<String> {
        let Admitted { header, node, .. } = admitted;
        for entry in &entries {
            self.ingest.registry.note(node.id, |health| {
                let own = health.types.entry(entry.profile_type.clone()).or_default();
                (own.last_success, own.unavailable) = (Some(Timestamp::now()), None);
            });
        }
        let mut wanted: Vec<String> = Vec::new();
        let mut want = |build_id: &str| {
            if self.lacks_symbols(build_id) && !wanted.iter().any(|known| known == build_id) {
                wanted.push(build_id.to_owned());
            }
        };
        for entry in &entries {
            for missing in WantedSymbols::from_facts(&entry.meta).iter().filter(|missing| missing.is_worth()) {
                want(&missing.build_id);
            }
            // Names of someone with a lesser standing than the host that runs the file.
            entry.meta.more.get(UPLOADS).into_iter().flat_map(|keys| keys.split(',')).for_each(&mut want);
        }
        let mut is_new_type = false;
        if let Some(host) = self.table().hosts.get_mut(&header.host) {
            host.seat.want(&wanted);
            let types = &mut host.known.sent_types;
            if header.service.is_none() && header.capture.is_none() && types.len() < SENT_TYPES_MAX {
                is_new_type = types.insert(header.profile_type.clone());
                host.changed |= is_new_type;
                host.is_stale |= is_new_type;
            }
        }
        if is_new_type {
            self.list().await;
        }
        if let (Some(capture), Some(entry)) = (&header.capture, entries.into_iter().next()) {
            self.answered(&header.host, capture, Ok(entry));
        }
        wanted
    }

    fn not_stored(&self, admitted: &Admitted, error: IngestError) -> Outcome {
        let reason = chain(&error);
        match error {
            IngestError::Full(full) if !full.is_for_ever() => Outcome::Later { reason, seconds: FULL_SECONDS },
            IngestError::Store(procprof_store::Error::Exists { .. }) => Outcome::Known,
            IngestError::Store(procprof_store::Error::TooLarge { .. })
            | IngestError::Full(_)
            | IngestError::Refused(_)
            | IngestError::NotDecoded(_) => self.refuse_push(admitted, &reason),
            IngestError::Store(_) | IngestError::Stopping => Outcome::Later { reason, seconds: STORE_SECONDS },
        }
    }

    /// Notes why there is no profile: for the capture that waits for it, else where people see errors.
    fn note_failure(&self, admitted: &Admitted, reason: &str, kind: ErrorKind) {
        let Admitted { header, node, profile_type, .. } = admitted;
        if let Some(capture) = &header.capture {
            return self.answered(&header.host, capture, Err(reason.to_owned()));
        }
        self.ingest.registry.note(node.id, |health| {
            let own = health.types.entry(profile_type.clone()).or_default();
            own.last_failure = Some(FailedAttempt { at: Timestamp::now(), reason: reason.to_owned() });
        });
        record_error(&self.ingest, Some(node.id), Some(profile_type.clone()), kind, reason, &[]);
    }
}

impl Admitted {
    /// The node of the profile.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// The node as its host has it.
    pub fn pushed_by(&self) -> Option<&PushedBy> {
        self.node.pushed_by.as_ref()
    }
}
