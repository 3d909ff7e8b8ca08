//! Who may come in by SQL: the users file's users; without one, a single operator whose password the server makes.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use argon2::password_hash::rand_core::{OsRng, RngCore};

use super::{Credentials, Principal, Refusal, UserRole};
use crate::app::App;
use crate::error::{Error, Result};
use crate::mysql::{Accounts, native_verifier, sha2_verifier};

/// Name of the operator without a users file, as clients call themselves by default.
const GENERATED_USER: &str = "root";
/// The file in the data folder that holds its password.
const PASSWORD_FILE: &str = "mysql-password";
/// Random bytes of a generated password, two digits each.
const PASSWORD_BYTES: usize = 16;
/// Bytes read of a password file.
const PASSWORD_FILE_MAX: u64 = 1024;

/// What is checked.
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

/// The accounts of the SQL door.
pub(crate) struct SqlAccounts {
    app: Arc<App>,
    policy: Policy,
}

impl SqlAccounts {
    /// Everyone comes in as operator; only ever on loopback.
    pub(crate) fn open(app: &Arc<App>) -> SqlAccounts {
        SqlAccounts { app: Arc::clone(app), policy: Policy::Open }
    }

    /// The users file's users; without one, [`GENERATED_USER`] with the password in the data folder, which is made if it is not there.
    ///
    /// # Errors
    /// The password file cannot be read or written.
    pub(crate) fn users(app: &Arc<App>) -> Result<SqlAccounts> {
        let path = app.data.join(PASSWORD_FILE);
        let failed = |cause| Error::File { what: "SQL password", path: path.clone(), cause };
        let password = generated_password(&path).map_err(failed)?;
        if app.config().users_file.is_none() {
            tracing::info!("SQL user {GENERATED_USER}: the password is in {}", path.display());
        }
        let generated = Generated { native: native_verifier(&password), sha2: sha2_verifier(&password) };
        Ok(SqlAccounts { app: Arc::clone(app), policy: Policy::Users(generated) })
    }

    /// The generated user's verifiers, while there is no users file.
    fn generated(&self, user: &str) -> Option<&Generated> {
        match &self.policy {
            Policy::Users(generated) if user == GENERATED_USER && self.app.config().users_file.is_none() => Some(generated),
            _ => None,
        }
    }

    fn principal(&self, user: &str) -> Option<Principal> {
        if self.generated(user).is_some() {
            return Some(Principal { name: user.to_owned(), role: UserRole::Operator });
        }
        let user = self.app.door.user(user)?;
        Some(Principal { name: user.name, role: user.role })
    }
}

impl Accounts for SqlAccounts {
    fn open(&self, user: &str) -> Option<Principal> {
        match self.policy {
            Policy::Open if user.is_empty() => Some(Principal::local()),
            Policy::Open => Some(Principal { name: user.chars().take(64).collect(), role: UserRole::Operator }),
            Policy::Users(_) => None,
        }
    }

    fn native(&self, user: &str) -> Option<[u8; 20]> {
        match self.generated(user) {
            Some(generated) => Some(generated.native),
            None => self.app.door.user(user)?.native,
        }
    }

    fn remembered(&self, user: &str) -> Option<[u8; 32]> {
        match self.generated(user) {
            Some(generated) => Some(generated.sha2),
            None => self.app.door.quick(user),
        }
    }

    fn checked(&self, user: &str, fits: bool, from: SocketAddr) -> std::result::Result<Principal, Refusal> {
        self.app.door.enter_checked(self.principal(user).filter(|_| fits), from.ip())
    }

    async fn full(&self, user: String, password: String, from: SocketAddr) -> std::result::Result<Principal, Refusal> {
        let verifier = sha2_verifier(&password);
        if let Some(generated) = self.generated(&user) {
            let fits = aws_lc_rs::constant_time::verify_slices_are_equal(&verifier, &generated.sha2).is_ok();
            return self.checked(&user, fits, from);
        }
        if self.app.config().users_file.is_none() {
            // Without users HTTP lets everyone in; SQL does not.
            return self.checked(&user, false, from);
        }
        let entered = self.app.door.enter(Some(Credentials { name: user, password }), from.ip()).await?;
        self.app.door.remember_quick(&entered.name, verifier);
        Ok(entered)
    }
}

/// Reads the password, or makes one in a file of mode 600.
fn generated_password(path: &Path) -> io::Result<String> {
    match std::fs::File::open(path) {
        Ok(file) => {
            let mut text = String::new();
            file.take(PASSWORD_FILE_MAX).read_to_string(&mut text)?;
            match text.trim() {
                "" => Err(io::Error::new(io::ErrorKind::InvalidData, "it is empty; remove it, and a new one is made")),
                password => Ok(password.to_owned()),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut bytes = [0; PASSWORD_BYTES];
            OsRng.try_fill_bytes(&mut bytes).map_err(io::Error::other)?;
            let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(format!("{password}\n").as_bytes())?;
            file.sync_all()?;
            Ok(password)
        }
        Err(error) => Err(error),
    }
}
