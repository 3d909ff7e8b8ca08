//! The few keys of a StarRocks `be.conf` that matter to `collect`.
//!
//! ```text
//! # comment
//! sys_log_dir = ${STARROCKS_HOME}/log
//! brpc_port = 8060
//! COLLECT_BE_PROFILE_INTERVAL=3600
//! ```
//! The last line for a key wins. `${NAME}` is a variable of the environment; one that is not set is an error in a key
//! that is used here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::settings::Environment;

/// Largest file read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The keys of a file as written, before variables are replaced.
#[derive(Debug, Default)]
pub(super) struct BeConf {
    path: PathBuf,
    keys: BTreeMap<String, (usize, String)>,
}

impl BeConf {
    /// Reads the file.
    pub(super) fn read(path: &Path) -> Result<BeConf> {
        let length = fs::metadata(path).with_context(|| format!("read {}", path.display()))?.len();
        ensure!(length <= MAX_BYTES, "{}: longer than {MAX_BYTES} bytes", path.display());
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Ok(BeConf::parse(path, &text))
    }

    fn parse(path: &Path, text: &str) -> BeConf {
        let mut keys = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.starts_with('#') {
                continue;
            }
            if let Some((key, value)) = line.split_once('=') {
                keys.insert(key.trim().to_owned(), (index + 1, value.trim().trim_matches('"').to_owned()));
            }
        }
        BeConf { path: path.to_owned(), keys }
    }

    /// The value of a key with its variables replaced.
    pub(super) fn get(&self, key: &str, environment: &Environment) -> Result<Option<String>> {
        let Some((line, value)) = self.keys.get(key) else {
            return Ok(None);
        };
        let value =
            expand(value, environment).with_context(|| format!("{}: line {line}: {key}", self.path.display()))?;
        Ok(Some(value))
    }
}

fn expand(value: &str, environment: &Environment) -> Result<String> {
    let mut text = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else {
            bail!("\"${{\" without \"}}\"");
        };
        text.push_str(before);
        text.push_str(&environment.get(name).with_context(|| format!("variable {name} is not set"))?);
        rest = behind;
    }
    Ok(text + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_keys_and_replaces_variables() {
        let text = "# brpc_port = 1\nbrpc_port = 8061\n sys_log_dir=${STARROCKS_HOME}/log/${X}\nother = ${NOPE}\n\nbrpc_port=8062";
        let conf = BeConf::parse(Path::new("be.conf"), text);
        let environment = Environment::from([("STARROCKS_HOME", "/opt/sr"), ("X", "y")]);
        assert_eq!(conf.get("brpc_port", &environment).unwrap().as_deref(), Some("8062"));
        assert_eq!(conf.get("sys_log_dir", &environment).unwrap().as_deref(), Some("/opt/sr/log/y"));
        assert_eq!(conf.get("absent", &environment).unwrap(), None);
        let error = format!("{:#}", conf.get("other", &environment).unwrap_err());
        assert_eq!(error, "be.conf: line 4: other: variable NOPE is not set");
    }
}
