//! Programs of binutils whose outputs are kept, for all tests of this process.
//!
//! jeprof reads every binary four times with `nm`, and again for each command line; most of its time goes there. With
//! `JEPROF_TOOLS` it starts the script below instead, which runs the real program once for the same arguments and
//! input.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::LazyLock;

use crate::harness::shared_folder;

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

/// The value of `JEPROF_TOOLS` for which jeprof uses the outputs that are kept.
pub(crate) fn tools() -> &'static str {
    static PREFIX: LazyLock<String> = LazyLock::new(|| {
        let tools = shared_folder().join("tools");
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
