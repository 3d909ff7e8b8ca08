//! Users of the SQL server: those of the users file; without one, a single operator whose password the server makes.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use procprof_core::auth::{
    Credentials, Principal, Refusal, User, UserRole, native_verifier, random_hex, sha2_verifier,
};
use procprof_core::ownership;
use procprof_core::{Error, Result};

use super::Sql;
use crate::mysql::Accounts;

/// Name of the operator without a users file, as clients call themselves by default.
const GENERATED_USER: &str = "root";
/// The file in the data folder that holds its password.
const PASSWORD_FILE: &str = "mysql-password";
/// Random bytes of a generated password, two digits each.
const PASSWORD_BYTES: usize = 16;
/// Bytes read of a password file.
const PASSWORD_FILE_MAX: u64 = 1024;

/// The source of the users.
enum Policy {
    /// Nothing: everyone is operator.
    Open,
    /// The users file, and without one this password of the generated user.
    Users(Generated),
}

struct Generated {
    native: [u8; 20],
    sha2: [u8; 32],
}

/// The accounts of the SQL authenticator.
pub(crate) struct SqlAccounts {
    sql: Arc<Sql>,
    policy: Policy,
}

impl SqlAccounts {
    /// Everyone comes in as operator; only ever on loopback.
    pub(crate) fn open(sql: &Arc<Sql>) -> SqlAccounts {
        SqlAccounts { sql: Arc::clone(sql), policy: Policy::Open }
    }

    /// The users file's users; without one, [`GENERATED_USER`] with the password in the data folder, which is made if
    /// it is not there.
    ///
    /// # Errors
    /// The password file cannot be read or written.
    pub(crate) fn users(sql: &Arc<Sql>) -> Result<SqlAccounts> {
        let path = sql.settings.data.join(PASSWORD_FILE);
        let password = generated_password(&path)?;
        if sql.config().users_file.is_none() {
            tracing::info!("SQL user {GENERATED_USER}: the password is in {}", path.display());
        }
        let generated = Generated { native: native_verifier(&password), sha2: sha2_verifier(&password) };
        Ok(SqlAccounts { sql: Arc::clone(sql), policy: Policy::Users(generated) })
    }

    /// The generated user's verifiers, while there is no users file.
    fn generated(&self, user: &str) -> Option<&Generated> {
        match &self.policy {
            Policy::Users(generated) if user == GENERATED_USER && self.sql.config().users_file.is_none() => {
                Some(generated)
            }
            _ => None,
        }
    }

    fn principal(&self, user: &str) -> Option<Principal> {
        if self.generated(user).is_some() {
            return Some(Principal::new(user, UserRole::Operator));
        }
        self.user(user).as_ref().map(Principal::from_user)
    }

    /// A user who may log in here.
    fn user(&self, name: &str) -> Option<User> {
        self.sql.authenticator.user(name).filter(|user| Principal::from_user(user).reads())
    }
}

impl Accounts for SqlAccounts {
    fn open(&self, user: &str) -> Option<Principal> {
        match self.policy {
            Policy::Open if user.is_empty() => Some(Principal::local()),
            Policy::Open => Some(Principal::new(user.chars().take(64).collect::<String>(), UserRole::Operator)),
            Policy::Users(_) => None,
        }
    }

    fn still(&self, principal: &Principal) -> Option<Principal> {
        match self.policy {
            Policy::Open => Some(principal.clone()),
            Policy::Users(_) => self.principal(&principal.name).filter(|now| now.has_password_of(principal)),
        }
    }

    fn native(&self, user: &str) -> Option<[u8; 20]> {
        match self.generated(user) {
            Some(generated) => Some(generated.native),
            None => self.user(user)?.native,
        }
    }

    fn remembered(&self, user: &str) -> Option<[u8; 32]> {
        match self.generated(user) {
            Some(generated) => Some(generated.sha2),
            None => self.sql.authenticator.quick(user),
        }
    }

    fn checked(&self, user: &str, fits: bool, from: SocketAddr) -> std::result::Result<Principal, Refusal> {
        self.sql.authenticator.enter_checked(user, self.principal(user).filter(|_| fits), from.ip())
    }

    async fn full(&self, user: String, password: String, from: SocketAddr) -> std::result::Result<Principal, Refusal> {
        let verifier = sha2_verifier(&password);
        if let Some(generated) = self.generated(&user) {
            let fits = aws_lc_rs::constant_time::verify_slices_are_equal(&verifier, &generated.sha2).is_ok();
            return self.checked(&user, fits, from);
        }
        if self.sql.config().users_file.is_none() {
            // Without users HTTP lets everyone in; SQL does not.
            return self.checked(&user, false, from);
        }
        let entered = self.sql.authenticator.enter(Some(Credentials { name: user, password }), from.ip()).await?;
        if !entered.reads() {
            return Err(Refusal::Wrong);
        }
        self.sql.authenticator.remember_quick(&entered, verifier);
        Ok(entered)
    }
}

/// Reads the password, or makes one in a file of mode 600.
fn generated_password(path: &Path) -> Result<String> {
    const WHAT: &str = "SQL password";
    let failed = |cause| Error::File { what: WHAT, path: path.to_owned(), cause };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return new_password(path).map_err(failed),
        Err(error) => return Err(failed(error)),
    };
    ownership::secret(WHAT, path, &file)?;
    let mut text = String::new();
    file.take(PASSWORD_FILE_MAX).read_to_string(&mut text).map_err(failed)?;
    match text.trim() {
        "" => Err(failed(io::Error::new(io::ErrorKind::InvalidData, "it is empty; remove it, and a new one is made"))),
        password => Ok(password.to_owned()),
    }
}

fn new_password(path: &Path) -> io::Result<String> {
    let password = random_hex(PASSWORD_BYTES).map_err(io::Error::other)?;
    procprof_files::create(path, format!("{password}\n").as_bytes(), 0o600)?;
    Ok(password)
}
