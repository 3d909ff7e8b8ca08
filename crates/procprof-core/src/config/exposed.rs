//! Files of a configuration, and the data folder, that others on this machine can read or write although they should
//! not.

use std::path::{Path, PathBuf};

use super::{Auth, Config};
use crate::ownership;

/// Files of the data folder that are looked at.
const FILES_MAX: usize = 1000;

/// Files and folders of a configuration that are open to others, a sentence each: the server works, but they should be
/// closed.
pub fn warnings(config: &Config, data: &Path) -> Vec<String> {
    let mut secrets: Vec<(&str, &PathBuf)> = config.tls_key.iter().map(|path| ("tls_key", path)).collect();
    secrets.extend(config.servers_token_file.iter().map(|path| ("servers_token_file", path)));
    for node in config.nodes.iter().chain(config.fe_queries.iter().map(|fe| &fe.node)) {
        match &node.auth {
            Auth::None => {}
            Auth::Basic { password_file, .. } => secrets.push(("password_file", password_file)),
            Auth::Bearer { token_file } => secrets.push(("bearer_file", token_file)),
        }
    }
    let mut found: Vec<String> =
        secrets.into_iter().filter_map(|(what, path)| ownership::exposed(what, path)).collect();
    found.extend(ownership::writable("data folder", data));
    let files = std::fs::read_dir(data).into_iter().flatten().take(FILES_MAX).map_while(std::result::Result::ok);
    // Links have modes that mean nothing.
    let files = files.map(|file| file.path()).filter(|path| !path.is_symlink());
    found.extend(files.filter_map(|path| ownership::writable("data", &path)));
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_open_to_others_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "x").unwrap();
        let set = |mode: u32| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let config = Config { tls_key: Some(path.clone()), ..Config::default() };
        let found = |mode: u32| {
            set(mode);
            warnings(&config, folder.path())
        };
        assert_eq!(found(0o600), [] as [String; 0]);
        assert!(found(0o604)[0].starts_with("tls_key "));
        let findings = found(0o666);
        assert!(findings.len() == 2 && findings[1].starts_with("data "), "{findings:?}");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(found(0o600)[0].starts_with("data folder "));
        std::fs::write(&path, "").unwrap();
        set(0o646);
        let read = Config::read(&path).unwrap();
        assert!(read.warnings[0].starts_with("configuration "), "{:?}", read.warnings);
    }
}
