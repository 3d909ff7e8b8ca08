//! Logins: greeting, TLS, and the exchange of the authentication method.
//!
//! `caching_sha2_password` is offered first. Its short way works for users who have logged in since the server started;
//! else the password itself is requested, over TLS, or on a plain loopback connection encrypted with an RSA key.
//! `mysql_native_password` works for users that keep a verifier for it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use argon2::password_hash::rand_core::{OsRng, RngCore};
use procprof_core::Printable;
use procprof_core::auth::{Principal, Refusal};
use procprof_core::connection_slots::Activity;
use procprof_core::throttle::SharedThrottle;
use tokio::sync::OnceCell;
use tokio_rustls::TlsAcceptor;

use super::error::{SqlError, SqlErrorKind};
use super::greeting::{First, Hello, Method, put_greeting, text};
use super::packet::put_nul_string;
use super::scramble::{NONCE, RsaKey, native_fits, sha2_fits};
use super::service::Accounts;
use super::wire::{Broken, Stream, Wire};

/// Longest packet taken from who has not logged in yet, in bytes.
const PACKET_MAX: usize = 64 * 1024;

/// Reasons for a failed login.
pub(super) enum LoginFailure {
    /// The connection broke.
    Broken(Broken),
    /// The client is refused, with this error.
    Refused(SqlError),
}

impl From<Broken> for LoginFailure {
    fn from(broken: Broken) -> LoginFailure {
        LoginFailure::Broken(broken)
    }
}

impl From<SqlError> for LoginFailure {
    fn from(failure: SqlError) -> LoginFailure {
        LoginFailure::Refused(failure)
    }
}

/// The state shared by handshakes.
pub(super) struct Handshakes<A> {
    pub(super) accounts: Arc<A>,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) key: OnceCell<RsaKey>,
    /// How often refusals are logged.
    pub(super) refusals: SharedThrottle<IpAddr>,
}

/// A connection on its way in.
pub(super) struct PendingConnection {
    pub(super) wire: Wire,
    pub(super) peer: SocketAddr,
    pub(super) encrypted: bool,
    pub(super) activity: Arc<Activity>,
}

/// A client that has logged in.
pub(super) struct Arrived {
    pub(super) hello: Hello,
    pub(super) principal: Principal,
}

/// A nonce without NUL and `$`, as clients expect.
fn nonce() -> Result<[u8; NONCE], SqlError> {
    let mut nonce = [0; NONCE];
    OsRng
        .try_fill_bytes(&mut nonce)
        .map_err(|error| SqlError::new(SqlErrorKind::Other, format!("no random numbers: {error}")))?;
    Ok(nonce.map(|byte| match byte & 0x7f {
        0 | b'$' => b'x',
        byte => byte,
    }))
}

impl<A: Accounts> Handshakes<A> {
    /// Greets, and finds out who the client is; the OK is left to the caller.
    pub(super) async fn greet(
        &self,
        pending: &mut PendingConnection,
        connection: u32,
    ) -> Result<Arrived, LoginFailure> {
        let nonce = nonce()?;
        let open = self.accounts.open("").is_some();
        let method = if open { Method::Native } else { Method::CachingSha2 };
        pending.wire.put(|out| put_greeting(out, connection, &nonce, method, self.tls.is_some()));
        pending.wire.send().await?;
        let hello = match First::decode(&pending.wire.read().await?)? {
            First::Hello(hello) => hello,
            First::Tls => {
                self.encrypt(pending).await?;
                match First::decode(&pending.wire.read().await?)? {
                    First::Hello(hello) => hello,
                    First::Tls => return Err(SqlError::new(SqlErrorKind::Malformed, "TLS inside TLS").into()),
                }
            }
        };
        // It speaks the protocol: connections that have sent nothing are closed first when slots run out.
        pending.activity.know();
        let proof = Proof { method: hello.method, answer: hello.answer.clone(), nonce };
        let principal = self.admit(pending, &hello.user, proof).await?;
        Ok(Arrived { hello, principal })
    }

    async fn encrypt(&self, pending: &mut PendingConnection) -> Result<(), LoginFailure> {
        let Some(tls) = &self.tls else {
            return Err(SqlError::new(SqlErrorKind::Malformed, "TLS is not set up here").into());
        };
        let closed: Box<dyn Stream> = Box::new(tokio::io::empty());
        let stream = tls.accept(pending.wire.exchange(closed)).await.map_err(|_| Broken::Gone)?;
        pending.wire.exchange(Box::new(stream));
        pending.encrypted = true;
        Ok(())
    }

    /// Authenticates another user on the same connection, with a fresh nonce.
    pub(super) async fn readmit(&self, pending: &mut PendingConnection, user: &str) -> Result<Principal, LoginFailure> {
        let method = if self.accounts.native(user).is_some() || self.accounts.open(user).is_some() {
            Method::Native
        } else {
            Method::CachingSha2
        };
        let proof = self.switch(pending, method).await?;
        self.admit(pending, user, proof).await
    }

    async fn switch(&self, pending: &mut PendingConnection, method: Method) -> Result<Proof, LoginFailure> {
        let nonce = nonce()?;
        pending.wire.put(|out| {
            out.push(0xfe);
            put_nul_string(out, method.name().as_bytes());
            put_nul_string(out, &nonce);
        });
        pending.wire.send().await?;
        Ok(Proof { method: Some(method), answer: pending.wire.read().await?, nonce })
    }

    async fn admit(
        &self,
        pending: &mut PendingConnection,
        user: &str,
        proof: Proof,
    ) -> Result<Principal, LoginFailure> {
        match self.accounts.open(user) {
            Some(principal) => {
                self.admit_without_password(pending, proof).await?;
                Ok(principal)
            }
            None => self.check(pending, user, proof).await,
        }
    }

    /// Whatever was answered is right; the method's own end must still come.
    async fn admit_without_password(&self, pending: &mut PendingConnection, proof: Proof) -> Result<(), LoginFailure> {
        let proof = match proof.method {
            Some(_) => proof,
            None => self.switch(pending, Method::Native).await?,
        };
        if proof.method == Some(Method::CachingSha2) && !proof.answer.is_empty() {
            put_more(&mut pending.wire, &[FAST]);
        }
        Ok(())
    }

    async fn check(
        &self,
        pending: &mut PendingConnection,
        user: &str,
        proof: Proof,
    ) -> Result<Principal, LoginFailure> {
        let native = self.accounts.native(user);
        let proof = match (proof.method, native) {
            // A client that was set to this method before it saw the greeting of another sends nothing until the method
            // is requested.
            (Some(Method::Native), Some(_)) if proof.answer.is_empty() => self.switch(pending, Method::Native).await?,
            (Some(Method::CachingSha2), _) | (Some(Method::Native), Some(_)) => proof,
            _ => self.switch(pending, Method::CachingSha2).await?,
        };
        let given = !proof.answer.is_empty();
        let entered = match (proof.method, native) {
            (Some(Method::Native), Some(verifier)) => {
                self.accounts.checked(user, native_fits(&proof.answer, &proof.nonce, &verifier), pending.peer)
            }
            _ if !given => self.accounts.checked(user, false, pending.peer),
            _ => self.caching_sha2(pending, user, &proof).await?,
        };
        entered.map_err(|refusal| denied(user, pending.peer, given, refusal).into())
    }

    async fn caching_sha2(
        &self,
        pending: &mut PendingConnection,
        user: &str,
        proof: &Proof,
    ) -> Result<Result<Principal, Refusal>, LoginFailure> {
        if let Some(verifier) = self.accounts.remembered(user)
            && sha2_fits(&proof.answer, &proof.nonce, &verifier)
        {
            put_more(&mut pending.wire, &[FAST]);
            return Ok(self.accounts.checked(user, true, pending.peer));
        }
        put_more(&mut pending.wire, &[FULL]);
        pending.wire.send().await?;
        let password = self.password(pending, &proof.nonce).await?;
        Ok(match password {
            Some(password) => self.accounts.full(user.to_owned(), password, pending.peer).await,
            None => self.accounts.checked(user, false, pending.peer),
        })
    }

    /// The password itself; `None` if what came cannot be read.
    async fn password(
        &self,
        pending: &mut PendingConnection,
        nonce: &[u8; NONCE],
    ) -> Result<Option<String>, LoginFailure> {
        let payload = pending.wire.read().await?;
        if pending.encrypted {
            return Ok(payload.strip_suffix(&[0]).and_then(|password| text(password, "password").ok()));
        }
        if !pending.peer.ip().is_loopback() {
            let text =
                "this connection is not encrypted: log in over TLS (--ssl-mode=REQUIRED, or your client's word for it)";
            return Err(SqlError::new(SqlErrorKind::NeedsTls, text).into());
        }
        let key = self.key.get_or_try_init(generate).await.map_err(|why| SqlError::new(SqlErrorKind::Other, why))?;
        let hidden = match payload.as_slice() {
            [ASK_KEY] => {
                put_more(&mut pending.wire, key.pem());
                pending.wire.send().await?;
                pending.wire.read().await?
            }
            _ => payload,
        };
        Ok(key.open(&hidden, nonce))
    }
}

/// A client's answer to a nonce.
struct Proof {
    method: Option<Method>,
    answer: Vec<u8>,
    nonce: [u8; NONCE],
}

const FAST: u8 = 3;
const FULL: u8 = 4;
const ASK_KEY: u8 = 2;

fn put_more(wire: &mut Wire, data: &[u8]) {
    wire.put(|out| {
        out.push(1);
        out.extend_from_slice(data);
    });
}

async fn generate() -> Result<RsaKey, String> {
    tokio::task::spawn_blocking(RsaKey::generate).await.map_err(|error| error.to_string())?
}

fn denied(user: &str, peer: SocketAddr, given: bool, refusal: Refusal) -> SqlError {
    // What a client calls itself comes into the log.
    let user: String = user.chars().take(64).collect();
    let user = Printable(&user);
    let reason = match refusal {
        Refusal::TooMany => "; too many wrong passwords from this address, wait a minute",
        Refusal::Missing | Refusal::Wrong => "",
    };
    let given = if given { "YES" } else { "NO" };
    SqlError::new(
        SqlErrorKind::Login,
        format!("Access denied for user '{user}'@'{}' (using password: {given}){reason}", peer.ip()),
    )
}

/// A connection that has just been accepted.
pub(super) fn pending(
    stream: impl Stream + 'static,
    peer: SocketAddr,
    patience: Duration,
    activity: Arc<Activity>,
) -> PendingConnection {
    PendingConnection { wire: Wire::new(Box::new(stream), PACKET_MAX, patience), peer, encrypted: false, activity }
}
