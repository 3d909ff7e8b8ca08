//! Checks credentials: argon2 once, then a keyed digest from memory; slows down who guesses.
//!
//! A check costs some 20 ms and 19 MiB by design, so at most two run at a time, and credentials that were right are remembered as a digest under
//! a key of this process. After ten wrong passwords within a minute from one address, that address waits.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use argon2::password_hash::rand_core::{OsRng, RngCore};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use super::{Principal, User, Users, verify_password};

const FAILURES_MAX: u32 = 10;
const FAILURE_WINDOW: Duration = Duration::from_secs(60);
/// Addresses and digests remembered; beyond it they are forgotten together.
const REMEMBERED_MAX: usize = 10_000;
const CHECKS_MAX: usize = 2;

/// A name and a password as presented.
#[derive(Clone)]
pub struct Credentials {
    /// The user's name.
    pub name: String,
    /// The password; never logged.
    pub password: String,
}

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No credentials were given, and they are needed.
    Missing,
    /// The name or the password is wrong.
    Wrong,
    /// Too many wrong ones from this address within a minute.
    TooMany,
}

/// The users and what is remembered about those who came.
pub struct Door {
    users: RwLock<Option<Arc<Users>>>,
    key: [u8; 32],
    known: Mutex<HashSet<[u8; 32]>>,
    /// SHA256(SHA256(password)) by name, of those who logged in by SQL: the short way of `caching_sha2_password`.
    quick: Mutex<HashMap<String, [u8; 32]>>,
    failures: Mutex<HashMap<IpAddr, (Instant, u32)>>,
    checks: Semaphore,
    /// A hash no password has, checked for unknown names so that they take as long as known ones.
    decoy: String,
}

impl Door {
    /// A door for these users; `None` lets everyone in as operator.
    ///
    /// # Errors
    /// The text says what failed: only if no random numbers can be had.
    pub fn new(users: Option<Users>) -> Result<Door, String> {
        let key = random_key()?;
        Ok(Door {
            users: RwLock::new(users.map(Arc::new)),
            key,
            known: Mutex::default(),
            quick: Mutex::default(),
            failures: Mutex::default(),
            checks: Semaphore::new(CHECKS_MAX),
            decoy: decoy()?,
        })
    }

    /// Takes new users; what was remembered about the old ones is forgotten.
    pub fn replace(&self, users: Option<Users>) {
        *self.users.write().unwrap_or_else(PoisonError::into_inner) = users.map(Arc::new);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.quick.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The user with this name, if there are users at all.
    pub(super) fn user(&self, name: &str) -> Option<User> {
        self.users.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.get(name).cloned()
    }

    /// What is remembered of a user's password for the short way.
    pub(super) fn quick(&self, name: &str) -> Option<[u8; 32]> {
        self.quick.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    /// Remembers a password that was right; forgotten with the users.
    pub(super) fn remember_quick(&self, name: &str, verifier: [u8; 32]) {
        let mut quick = self.quick.lock().unwrap_or_else(PoisonError::into_inner);
        if quick.len() >= REMEMBERED_MAX {
            quick.clear();
        }
        quick.insert(name.to_owned(), verifier);
    }

    /// Lets somebody in whose answer was checked elsewhere.
    ///
    /// # Errors
    /// The answer was wrong, or guesses from there wait.
    pub(super) fn enter_checked(&self, principal: Option<Principal>, from: IpAddr) -> Result<Principal, Refusal> {
        if self.blocked(from) {
            return Err(Refusal::TooMany);
        }
        principal.ok_or_else(|| {
            self.failed(from);
            Refusal::Wrong
        })
    }

    /// Lets somebody in, or says why not.
    ///
    /// # Errors
    /// The [`Refusal`].
    pub async fn enter(&self, credentials: Option<Credentials>, from: IpAddr) -> Result<Principal, Refusal> {
        let Some(users) = self.users.read().unwrap_or_else(PoisonError::into_inner).clone() else { return Ok(Principal::local()) };
        let credentials = credentials.ok_or(Refusal::Missing)?;
        if self.blocked(from) {
            return Err(Refusal::TooMany);
        }
        let user = users.get(&credentials.name);
        let hash = user.map_or_else(|| self.decoy.clone(), |user| user.hash.clone());
        let digest = self.digest(&credentials, &hash);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(&digest);
        if !known && !self.check(credentials.password, hash).await {
            self.failed(from);
            return Err(Refusal::Wrong);
        }
        let Some(user) = user else {
            self.failed(from);
            return Err(Refusal::Wrong);
        };
        self.remember(digest);
        Ok(Principal { name: user.name.clone(), role: user.role })
    }

    async fn check(&self, password: String, hash: String) -> bool {
        let Ok(_permit) = self.checks.acquire().await else { return false };
        tokio::task::spawn_blocking(move || verify_password(&password, &hash)).await.unwrap_or(false)
    }

    fn digest(&self, credentials: &Credentials, hash: &str) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.key);
        for part in [&credentials.name, &credentials.password, hash] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part.as_bytes());
        }
        digest.finalize().into()
    }

    fn remember(&self, digest: [u8; 32]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(digest);
    }

    fn blocked(&self, from: IpAddr) -> bool {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.get(&from).is_some_and(|(since, count)| *count >= FAILURES_MAX && since.elapsed() < FAILURE_WINDOW)
    }

    fn failed(&self, from: IpAddr) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= REMEMBERED_MAX {
            failures.retain(|_, (since, _)| since.elapsed() < FAILURE_WINDOW);
        }
        if failures.len() >= REMEMBERED_MAX {
            failures.clear();
        }
        let entry = failures.entry(from).or_insert((Instant::now(), 0));
        if entry.0.elapsed() >= FAILURE_WINDOW {
            *entry = (Instant::now(), 0);
        }
        entry.1 += 1;
    }
}

fn decoy() -> Result<String, String> {
    let (salt, output) = (STANDARD_NO_PAD.encode(&random_key()?[..16]), STANDARD_NO_PAD.encode(random_key()?));
    Ok(format!("$argon2id$v=19$m=19456,t=2,p=1${salt}${output}"))
}

fn random_key() -> Result<[u8; 32], String> {
    let mut key = [0; 32];
    OsRng.try_fill_bytes(&mut key).map_err(|error| error.to_string())?;
    Ok(key)
}
