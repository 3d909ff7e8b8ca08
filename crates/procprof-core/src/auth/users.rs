//! The users file: `name:role:hash` lines, `#` comments, mode 600.
//!
//! ```text
//! # procprof users: name:role:hash
//! # procprof.users 1
//! ann:operator:$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$...
//! old:viewer:$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$...:*6BB4837EB74329105EE4568DDA7DC67ED2CA2AD9
//! ```
//!
//! The second comment is the version of the file, which programs that do not know it skip. It is written with each
//! change.
//!
//! The last field is only there for users that log in with MySQL's `mysql_native_password`: SHA1(SHA1(password)), as
//! MySQL itself writes it. It is quick to guess at, unlike argon2, so it is kept on request only.
//! `caching_sha2_password` needs nothing beside the argon2 hash.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use procprof_files::DiskFormat;

use super::UserRole;
use super::hash::{hash_password, readable};
use super::verifier::native_verifier;
use crate::error::{Error, Result};
use crate::ownership;

const FORMAT: DiskFormat = DiskFormat { name: "users", version: 1 };
/// Mode of the file: only its owner may read the hashes.
const MODE: u32 = 0o600;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// 1 to 64 letters, digits, `_` and `-`.
    pub name: String,
    /// The user's permissions.
    pub role: UserRole,
    /// The argon2 hash of the password.
    pub hash: String,
    /// SHA1(SHA1(password)), for `mysql_native_password`.
    pub native: Option<[u8; 20]>,
}

/// The ways a user may log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Methods {
    /// HTTP, and MySQL's `caching_sha2_password`.
    Modern,
    /// Also MySQL's `mysql_native_password`, whose verifier is quick to guess at.
    WithMysqlNative,
}

/// The users of a file.
#[derive(Clone, Debug, Default)]
pub struct Users(Vec<User>);

impl Users {
    /// Reads a users file.
    ///
    /// # Errors
    /// The file cannot be read, others can write it, it is of a newer version, or a line is no `name:role:hash`; the
    /// line's content is never repeated.
    pub fn read(path: &Path) -> Result<Users> {
        const WHAT: &str = "users file";
        let failed = |cause| Error::File { what: WHAT, path: path.to_owned(), cause };
        let mut file = File::open(path).map_err(failed)?;
        ownership::not_writable(WHAT, path, &file)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        FORMAT.check(path, version(&text))?;
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

/// The version in a comment.
fn version_of_line(line: &str) -> Option<u32> {
    FORMAT.version_of_mark(line.strip_prefix("# ")?)
}

/// The version of a file.
fn version(text: &str) -> Option<u32> {
    text.lines().find_map(version_of_line)
}

/// Writes a file, its version after the comments that begin it.
fn write(path: &Path, lines: &[&str]) -> io::Result<()> {
    let version = format!("# {}", FORMAT.mark());
    let mut lines: Vec<&str> = lines.iter().copied().filter(|line| version_of_line(line).is_none()).collect();
    let comments = lines.iter().take_while(|line| line.starts_with('#')).count();
    lines.insert(comments, &version);
    Ok(procprof_files::replace(path, (lines.join("\n") + "\n").as_bytes(), MODE)?)
}

/// Whether a text can be a user's name.
fn legal_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(legal)
}

fn parse(line: &str) -> std::result::Result<User, String> {
    let mut parts = line.trim().splitn(4, ':');
    let (Some(name), Some(role), Some(hash)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("expected name:role:hash".to_owned());
    };
    if !legal_name(name) {
        return Err("a name has 1 to 64 letters, digits, _ and -".to_owned());
    }
    if !readable(hash) {
        return Err("the hash is no argon2 hash".to_owned());
    }
    let native = parts
        .next()
        .map(|text| {
            native(text).ok_or("the last field is no mysql_native_password verifier: * and 40 hexadecimal digits")
        })
        .transpose()?;
    Ok(User { name: name.to_owned(), role: role.parse()?, hash: hash.to_owned(), native })
}

fn native(text: &str) -> Option<[u8; 20]> {
    let digits = text
        .strip_prefix('*')
        .filter(|digits| digits.len() == 40 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    let mut verifier = [0; 20];
    for (byte, pair) in verifier.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(verifier)
}

/// Adds a user to a file, or gives a known one a new role and password; the file is made with mode 600.
///
/// # Errors
/// The name or password cannot be used, or the file cannot be read or written.
pub fn add_user(path: &Path, name: &str, role: UserRole, password: &str, methods: Methods) -> Result<()> {
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
    FORMAT.check(path, version(&text))?;
    let own = format!("{name}:");
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(&own)).collect();
    let native = match methods {
        Methods::Modern => String::new(),
        Methods::WithMysqlNative => {
            native_verifier(password).iter().fold(":*".to_owned(), |text, byte| format!("{text}{byte:02X}"))
        }
    };
    let line = format!("{own}{role}:{hash}{native}");
    lines.push(&line);
    write(path, &lines).map_err(failed)
}

/// Removes a user from a file.
///
/// # Errors
/// There is none of that name, or the file cannot be read or written.
pub fn remove_user(path: &Path, name: &str) -> Result<()> {
    let none = || Error::User { name: name.chars().take(64).collect(), why: format!("not in {}", path.display()) };
    // A broken file is not made worse.
    Users::read(path)?.get(name).ok_or_else(none)?;
    let failed = |cause| Error::File { what: "users file", path: path.to_owned(), cause };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let own = format!("{name}:");
    let kept: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with(&own)).collect();
    write(path, &kept).map_err(failed)
}
