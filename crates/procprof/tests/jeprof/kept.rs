//! State that is made once and used by all tests of this process: a folder, and binutils whose outputs are kept.
//!
//! jeprof reads every binary four times with `nm`, and again for each command line; most of its time goes there. With
//! `JEPROF_TOOLS` it starts the script below instead, which runs the real program once for the same arguments and
//! input.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The programs of binutils that jeprof reads binaries with.
const TOOLS: [&str; 3] = ["nm", "addr2line", "objdump"];

/// One of them, by the name it is started as. There is a status file beside each output.
const SCRIPT: &str = r#"#!/bin/sh
tool=${0##*/} kept=${0%/*}/kept
case "$tool $*" in
*" --help") exec /usr/bin/"$tool" "$@" ;;
addr2line*) input=$(cat) ;;
*) input= ;;
esac
key=$(printf '%s\n' "$tool" "$@" "$input" | sha256sum)
file=$kept/${key%% *}
if [ ! -e "$file" ]; then
    printf '%s\n' "$input" | /usr/bin/"$tool" "$@" >"$file.$$"
    echo "$?" >"$file.$$.status"
    mv "$file.$$.status" "$file.status"
    mv "$file.$$" "$file"
fi
cat "$file"
read -r status <"$file.status"
exit "$status"
"#;

/// A folder of this process, without links in its path. It stays until the next run, which removes those of processes
/// that have ended.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("jeprof");
        std::fs::create_dir_all(&all).unwrap();
        for entry in std::fs::read_dir(&all).unwrap().map(Result::unwrap) {
            if !Path::new("/proc").join(entry.file_name()).exists() {
                // Another test process may remove it, too.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let own = all.canonicalize().unwrap().join(std::process::id().to_string());
        // A process that had this number before may have left it.
        let _ = std::fs::remove_dir_all(&own);
        std::fs::create_dir(&own).unwrap();
        own
    });
    &FOLDER
}

/// The value of `JEPROF_TOOLS` for which jeprof uses the outputs that are kept.
pub(crate) fn tools() -> &'static str {
    static PREFIX: LazyLock<String> = LazyLock::new(|| {
        let tools = folder().join("tools");
        std::fs::create_dir_all(tools.join("kept")).unwrap();
        for tool in TOOLS {
            let path = tools.join(tool);
            std::fs::write(&path, SCRIPT).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        // jeprof requires every tool there; this one is the real one.
        symlink("/usr/bin/c++filt", tools.join("c++filt")).unwrap();
        format!("{}/", tools.display())
    });
    &PREFIX
}
