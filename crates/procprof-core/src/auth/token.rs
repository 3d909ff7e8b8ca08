//! Tokens of host agents: users of the role `push` with a random password.

use std::fmt;
use std::path::Path;

use super::{Methods, UserRole, add_user, random_hex};
use crate::error::{Error, Result};

/// Random bytes of a token, two digits each.
const SECRET_BYTES: usize = 32;

/// A token as `Authorization: Bearer` has it: `NAME.SECRET`. The users file has only a hash of the secret.
pub struct Token(String);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Adds a user of the role `push` to a users file, or gives a known one a new token; the former token is void then.
///
/// # Errors
/// The name cannot be used, the system gives no random numbers, or the file cannot be read or written.
pub fn add_token(path: &Path, name: &str) -> Result<Token> {
    let secret = random_hex(SECRET_BYTES).map_err(|why| Error::Setup { what: "token", why })?;
    add_user(path, name, UserRole::Push, &secret, Methods::Modern)?;
    Ok(Token(format!("{name}.{secret}")))
}
