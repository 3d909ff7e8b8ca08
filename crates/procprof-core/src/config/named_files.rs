//! The files that a configuration names and that are read later, at each connection.

use std::path::Path;

use super::{Auth, Config, Password};
use crate::error::{Error, Result};

/// Checks that each can be read now.
///
/// # Errors
/// Names the first that cannot be read, by its key and, of a table, its place.
pub(super) fn check_all(config: &Config) -> Result<()> {
    let top = [("servers_token_file", &config.servers_token_file), ("servers_ca_file", &config.servers_ca_file)];
    for (key, path) in top {
        check("configuration", key, path.as_deref())?;
    }
    for fe in &config.fe_queries {
        let password = match &fe.password {
            Password::File(path) => Some(path.as_path()),
            Password::None | Password::Text(_) => None,
        };
        check(&fe.place, "password_file", password)?;
        check(&fe.place, "tls.ca_file", fe.tls.as_ref().and_then(|tls| tls.ca_file.as_deref()))?;
    }
    for node in config.nodes.iter().chain(config.fe_queries.iter().map(|fe| &fe.node)) {
        let (key, path) = match &node.auth {
            Auth::None => ("auth", None),
            Auth::Basic { password_file, .. } => ("auth.password_file", Some(password_file.as_path())),
            Auth::Bearer { token_file } => ("auth.bearer_file", Some(token_file.as_path())),
        };
        check(&node.place, key, path)?;
        check(&node.place, "tls.ca_file", node.tls.ca_file.as_deref())?;
    }
    Ok(())
}

fn check(place: &str, key: &str, path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    std::fs::File::open(path).map(drop).map_err(|cause| Error::WrongValue {
        place: place.to_owned(),
        key: key.to_owned(),
        why: format!("{}: {cause}", path.display()),
    })
}
