//! Checks credentials: argon2 once, then a keyed digest from memory; slows down guessing.
//!
//! A check costs some 20 ms and 19 MiB by design, so at most two run at a time, and credentials that were right are
//! remembered as a digest under a key of this process, for as long as the user has that password. How many may be wrong
//! is counted by [`Guesses`].

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use argon2::password_hash::rand_core::{OsRng, RngCore};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex as AsyncMutex, Semaphore, watch};

use super::guesses::Guesses;
use super::{Principal, User, UserRole, Users, verify_password};

/// Digests remembered; beyond it they are forgotten together.
const REMEMBERED_MAX: usize = 10_000;
const CHECKS_MAX: usize = 2;
/// Turns for the same credentials: requests that come at once with a password that is right are one check.
const TURNS: usize = 64;

/// A name and a password as presented.
#[derive(Clone)]
pub struct Credentials {
    /// The user's name.
    pub name: String,
    /// The password; never logged.
    pub password: String,
}

/// Why a user is not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No credentials were given, and they are needed.
    Missing,
    /// The name or the password is wrong.
    Wrong,
    /// Too many wrong ones for this name from this address, or from this address, within a minute.
    TooMany,
}

/// The users and what is remembered about those who came.
pub struct Authenticator {
    users: RwLock<Option<Arc<Users>>>,
    key: [u8; 32],
    known: Mutex<HashSet<[u8; 32]>>,
    /// SHA256(SHA256(password)) by name, of those who logged in by SQL: the short way of `caching_sha2_password`.
    quick: Mutex<HashMap<String, [u8; 32]>>,
    guesses: Guesses,
    checks: Semaphore,
    turns: [AsyncMutex<()>; TURNS],
    /// Counts changes of the users.
    generation: watch::Sender<u64>,
    /// A hash no password has, checked for unknown names so that they take as long as known ones.
    decoy: String,
}

impl Authenticator {
    /// An authenticator of these users; with `None` every client is an operator.
    ///
    /// # Errors
    /// The text of the failure: only if no random numbers are available.
    pub fn new(users: Option<Users>) -> Result<Authenticator, String> {
        let key = random_key()?;
        Ok(Authenticator {
            users: RwLock::new(users.map(Arc::new)),
            key,
            known: Mutex::default(),
            quick: Mutex::default(),
            guesses: Guesses::default(),
            checks: Semaphore::new(CHECKS_MAX),
            turns: std::array::from_fn(|_| AsyncMutex::default()),
            generation: watch::Sender::new(0),
            decoy: decoy()?,
        })
    }

    /// Takes new users; what was remembered holds for those who kept their password.
    pub fn replace(&self, users: Option<Users>) {
        let new = users.map(Arc::new);
        // Held to the end, so that new users never coexist with cached results for former ones.
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *users, new.clone());
        let hash = |users: &Option<Arc<Users>>, name: &str| users.as_ref()?.get(name).map(|user| user.hash.clone());
        // A digest of credentials holds the hash it was checked against, so it is worth nothing once that is another.
        let mut quick = self.quick.lock().unwrap_or_else(PoisonError::into_inner);
        quick.retain(|name, _| hash(&old, name).is_some_and(|old| hash(&new, name) == Some(old)));
        drop(quick);
        drop(users);
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// Sees each [`Authenticator::replace`].
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Whether someone who was let in would be let in now, with the same permissions.
    pub fn still_holds(&self, principal: &Principal) -> bool {
        match &*self.users.read().unwrap_or_else(PoisonError::into_inner) {
            Some(users) => users.get(&principal.name).is_some_and(|user| Principal::from_user(user) == *principal),
            None => *principal == Principal::local(),
        }
    }

    /// Whether the users file has this user of the role `push` with this [`Principal::password_mark`].
    pub fn has_token(&self, name: &str, mark: &str) -> bool {
        let user = self.user(name).as_ref().map(Principal::from_user);
        user.is_some_and(|user| user.role == UserRole::Push && user.password_mark() == mark)
    }

    /// The user with this name, if there are users at all.
    pub fn user(&self, name: &str) -> Option<User> {
        self.users.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.get(name).cloned()
    }

    /// The digest of a user's password for the short way, if it is cached.
    pub fn quick(&self, name: &str) -> Option<[u8; 32]> {
        self.quick.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    /// Remembers a password that was right, unless it was changed meanwhile; forgotten with the user.
    pub fn remember_quick(&self, principal: &Principal, verifier: [u8; 32]) {
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        let now = users.as_ref().and_then(|users| users.get(&principal.name)).map(Principal::from_user);
        if now.is_none_or(|now| now.password != principal.password) {
            return;
        }
        let mut quick = self.quick.lock().unwrap_or_else(PoisonError::into_inner);
        if quick.len() >= REMEMBERED_MAX {
            quick.clear();
        }
        quick.insert(principal.name.clone(), verifier);
    }

    /// Lets a user in whose answer was checked elsewhere; `principal` is `None` for a wrong one.
    ///
    /// # Errors
    /// The answer was wrong, or no more answers for that name are taken from there.
    pub fn enter_checked(&self, name: &str, principal: Option<Principal>, from: IpAddr) -> Result<Principal, Refusal> {
        match principal {
            Some(principal) if self.guesses.takes_known(name, from) => Ok(principal),
            Some(_) => Err(Refusal::TooMany),
            None => Err(self.guesses.attempt(name, from).map_or(Refusal::TooMany, |_| Refusal::Wrong)),
        }
    }

    /// Authenticates a user.
    ///
    /// # Errors
    /// The [`Refusal`].
    pub async fn enter(&self, credentials: Option<Credentials>, from: IpAddr) -> Result<Principal, Refusal> {
        let Some(users) = self.users.read().unwrap_or_else(PoisonError::into_inner).clone() else {
            return Ok(Principal::local());
        };
        let credentials = credentials.ok_or(Refusal::Missing)?;
        let user = users.get(&credentials.name);
        let hash = user.map_or_else(|| self.decoy.clone(), |user| user.hash.clone());
        let digest = self.digest(&credentials, &hash);
        let principal = user.map(Principal::from_user);
        if self.is_known(&digest) {
            return self.enter_checked(&credentials.name, principal, from);
        }
        let _turn = self.turns[usize::from(digest[0]) % TURNS].lock().await;
        if self.is_known(&digest) {
            return self.enter_checked(&credentials.name, principal, from);
        }
        let attempt = self.guesses.attempt(&credentials.name, from).ok_or(Refusal::TooMany)?;
        let is_right = self.check(credentials.password, hash).await;
        let principal = principal.filter(|_| is_right).ok_or(Refusal::Wrong)?;
        attempt.right();
        self.remember(digest);
        Ok(principal)
    }

    fn is_known(&self, digest: &[u8; 32]) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(digest)
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
