//! Authentication: users, their roles, and the checks of their credentials.
//!
//! One [`Principal`] for every authenticator: HTTP and SQL have the same users.

mod authenticator;
mod guesses;
mod hash;
#[cfg(test)]
mod tests;
mod token;
mod users;
mod verifier;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use argon2::password_hash::rand_core::{OsRng, RngCore};
use sha2::{Digest, Sha256};

pub use authenticator::{Authenticator, Credentials, Refusal};
use hash::verify_password;
pub use token::{Token, add_token};
pub use users::{Methods, User, Users, add_user, remove_user};
pub use verifier::{native_verifier, sha2_verifier};

/// The range from which one client can choose its address: with IPv6 that is the network of 64 bits.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        address => address,
    }
}

/// So many random bytes as hexadecimal digits.
///
/// # Errors
/// The system gives no random numbers.
pub fn random_hex(bytes: usize) -> Result<String, String> {
    let mut random = vec![0; bytes];
    OsRng.try_fill_bytes(&mut random).map_err(|error| error.to_string())?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The permissions of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserRole {
    /// Send what a host agent records, and nothing else: no reading.
    Push,
    /// Read.
    Viewer,
    /// Read, and also capture, enable, delete, pin, pause, push.
    Operator,
}

impl UserRole {
    /// The name in the users file.
    pub fn name(self) -> &'static str {
        match self {
            UserRole::Push => "push",
            UserRole::Viewer => "viewer",
            UserRole::Operator => "operator",
        }
    }
}

impl fmt::Display for UserRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for UserRole {
    type Err = String;

    fn from_str(text: &str) -> Result<UserRole, String> {
        match text {
            "push" => Ok(UserRole::Push),
            "viewer" => Ok(UserRole::Viewer),
            "operator" => Ok(UserRole::Operator),
            other => Err(format!("{other:?} is no role; expected push, viewer or operator")),
        }
    }
}

/// An authenticated user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The user's name; `local` without a users file.
    pub name: String,
    /// The user's permissions.
    pub role: UserRole,
    /// Which password let them in.
    password: PasswordMark,
}

/// A password as of one line of the users file: equal until it is set anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PasswordMark([u8; 32]);

impl Principal {
    /// A user of that name who needed no password of the users file.
    pub fn new(name: impl Into<String>, role: UserRole) -> Principal {
        Principal { name: name.into(), role, password: PasswordMark::default() }
    }

    /// Everyone on this machine, when there is no users file.
    pub fn local() -> Principal {
        Principal::new("local", UserRole::Operator)
    }

    /// Whether both came in by the same password.
    pub fn has_password_of(&self, other: &Principal) -> bool {
        self.password == other.password
    }

    /// The user of a line of the users file.
    pub fn from_user(user: &User) -> Principal {
        Principal {
            name: user.name.clone(),
            role: user.role,
            password: PasswordMark(Sha256::digest(&user.hash).into()),
        }
    }

    /// Whether they may read, and so log in to pages and SQL.
    pub fn reads(&self) -> bool {
        matches!(self.role, UserRole::Viewer | UserRole::Operator)
    }

    /// Whether they may send what a host agent records.
    pub fn pushes(&self) -> bool {
        matches!(self.role, UserRole::Push | UserRole::Operator)
    }

    /// A text that is equal for the same password of the same line of the users file alone; it is no secret.
    pub fn password_mark(&self) -> String {
        self.password.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether they may change anything.
    pub fn operates(&self) -> bool {
        self.role == UserRole::Operator
    }
}
