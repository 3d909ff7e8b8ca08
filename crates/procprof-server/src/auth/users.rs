//! The users file: `name:role:hash` lines, `#` comments, mode 600.
//!
//! ```text
//! # procprof users
//! ann:operator:$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$...
//! ```

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::UserRole;
use super::hash::{hash_password, readable};
use crate::error::{Error, Result};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// 1 to 64 letters, digits, `_` and `-`.
    pub name: String,
    /// What they may do.
    pub role: UserRole,
    /// The argon2 hash of the password.
    pub hash: String,
}

/// The users of a file.
#[derive(Clone, Debug, Default)]
pub struct Users(Vec<User>);

impl Users {
    /// Reads a users file.
    ///
    /// # Errors
    /// The file cannot be read, or a line is no `name:role:hash`; the line's content is never repeated.
    pub fn read(path: &Path) -> Result<Users> {
        let text = std::fs::read_to_string(path).map_err(|cause| Error::File { what: "users file", path: path.to_owned(), cause })?;
        let mut users: Vec<User> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why: &str| Error::Users { path: path.to_owned(), line: index + 1, why: why.to_owned() };
            let user = parse(line).map_err(|why| wrong(&why))?;
            if users.iter().any(|other| other.name == user.name) {
                return Err(wrong("the name is given twice"));
            }
            users.push(user);
        }
        Ok(Users(users))
    }

    /// The user with this name.
    pub fn get(&self, name: &str) -> Option<&User> {
        self.0.iter().find(|user| user.name == name)
    }

    /// All users, in order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &User> {
        self.0.iter()
    }
}

/// Whether a text can be a user's name.
fn legal_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(legal)
}

fn parse(line: &str) -> std::result::Result<User, String> {
    let mut parts = line.trim().splitn(3, ':');
    let (Some(name), Some(role), Some(hash)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("expected name:role:hash".to_owned());
    };
    if !legal_name(name) {
        return Err("a name has 1 to 64 letters, digits, _ and -".to_owned());
    }
    if !readable(hash) {
        return Err("the hash is no argon2 hash".to_owned());
    }
    Ok(User { name: name.to_owned(), role: role.parse()?, hash: hash.to_owned() })
}

/// Adds a user to a file, or gives a known one a new role and password; the file is made with mode 600.
///
/// # Errors
/// The name or password cannot be used, or the file cannot be read or written.
pub fn add_user(path: &Path, name: &str, role: UserRole, password: &str) -> Result<()> {
    let wrong = |why: &str| Error::User { name: name.chars().take(64).collect(), why: why.to_owned() };
    if !legal_name(name) {
        return Err(wrong("a name has 1 to 64 letters, digits, _ and -"));
    }
    if password.is_empty() {
        return Err(wrong("the password is empty"));
    }
    let hash = hash_password(password).map_err(|why| wrong(&why))?;
    let failed = |cause| Error::File { what: "users file", path: path.to_owned(), cause };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => "# procprof users: name:role:hash\n".to_owned(),
        Err(cause) => return Err(failed(cause)),
    };
    let own = format!("{name}:");
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(&own)).collect();
    let line = format!("{own}{role}:{hash}");
    lines.push(&line);
    write_private(path, &(lines.join("\n") + "\n")).map_err(failed)
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}
