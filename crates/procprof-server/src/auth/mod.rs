//! Who asks: users, roles, and what their credentials are checked against.
//!
//! One [`Principal`] for every door: HTTP and SQL know the same users.

mod door;
mod hash;
mod sql;
#[cfg(test)]
mod tests;
mod users;

use std::fmt;
use std::str::FromStr;

pub use door::{Credentials, Door, Refusal};
pub use hash::{hash_password, verify_password};
pub(crate) use sql::SqlAccounts;
pub use users::{Methods, User, Users, add_user};

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UserRole {
    /// Read.
    Viewer,
    /// Also capture, enable, delete, pin, pause, push.
    Operator,
}

impl UserRole {
    /// The name in the users file.
    pub fn name(self) -> &'static str {
        match self {
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
            "viewer" => Ok(UserRole::Viewer),
            "operator" => Ok(UserRole::Operator),
            other => Err(format!("{other:?} is no role; expected viewer or operator")),
        }
    }
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The user's name; `local` without a users file.
    pub name: String,
    /// What they may do.
    pub role: UserRole,
}

impl Principal {
    /// Everyone on this machine, when there is no users file.
    pub fn local() -> Principal {
        Principal { name: "local".to_owned(), role: UserRole::Operator }
    }

    /// Whether they may change anything.
    pub fn operates(&self) -> bool {
        self.role == UserRole::Operator
    }
}
