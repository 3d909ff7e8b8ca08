//! StarRocks' `fe.conf` and `be.conf`: `key = value` lines, `#` comments, `${VAR}` from the environment.
//!
//! ```text
//! sys_log_dir = ${STARROCKS_HOME}/log   # as shipped
//! brpc_port = 8060
//! ```
//! Only the keys that [`super::KEYS`] marks for it are read; the many others of these files are none of our business.

use super::{Config, KEYS};
use crate::error::{Error, Result};

/// Which of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfFile {
    /// `fe.conf`.
    Fe,
    /// `be.conf`.
    Be,
}

impl ConfFile {
    /// The file's usual name.
    pub fn name(self) -> &'static str {
        match self {
            ConfFile::Fe => "fe.conf",
            ConfFile::Be => "be.conf",
        }
    }

    /// Whether this file may give the key: the FE's `http_port` is not the one backends answer on.
    fn gives(self, key: &str) -> bool {
        self == ConfFile::Be || !matches!(key, "http_port" | "brpc_port")
    }
}

pub(crate) fn apply(
    config: &mut Config,
    text: &str,
    file: &str,
    which: ConfFile,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<()> {
    for (number, line) in text.lines().enumerate() {
        let Some((name, value)) = split(line) else { continue };
        let Some(key) = KEYS.iter().find(|key| key.starrocks && key.name == name && which.gives(name)) else {
            continue;
        };
        let place = || format!("{file}:{}", number + 1);
        let wrong = |why| Error::WrongValue { place: place(), key: name.to_owned(), why };
        let value = expand(value, &variable).map_err(wrong)?;
        key.set_text(config, &value).map_err(|why| Error::WrongValue { place: place(), key: name.to_owned(), why })?;
        config.warn(key.ignored());
    }
    Ok(())
}

/// The key and value of a line; `None` for blank lines, comments and lines without `=`.
fn split(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    if line.starts_with('#') {
        return None;
    }
    let (key, value) = line.split_once('=')?;
    let value = value.split_once(" #").map_or(value, |(value, _)| value);
    Some((key.trim(), value.trim()))
}

/// Puts the values of `${VAR}` in place.
fn expand(value: &str, variable: impl Fn(&str) -> Option<String>) -> std::result::Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        let Some(end) = from.find('}') else { return Err("\"${\" without \"}\"".to_owned()) };
        let name = &from[2..end];
        out.push_str(before);
        out.push_str(&variable(name).ok_or_else(|| format!("variable {name} is not set"))?);
        rest = &from[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}
