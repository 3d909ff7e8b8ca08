//! The limit of open files, by which connections are bounded: each takes one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that a server asks for at most.
const FILES_WANTED: u64 = 65_536;
/// Open files kept for stored profiles, the catalog, captures, child processes and SQL connections.
const FILES_KEPT: u64 = 512;
/// Least connections, however low the limit is.
const CONNECTIONS_MIN: u64 = 64;

/// Raises the limit of open files of this process to what the system permits without privileges; returns it.
pub fn raise() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(FILES_WANTED, |maximum| maximum.min(FILES_WANTED));
    if let Some(old) = current.filter(|current| *current < wanted)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
    {
        tracing::warn!("raise the limit of open files from {old} to {wanted}: {error}");
    }
    limit()
}

/// The limit of open files in effect.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The HTTP connections of `configured` for which a limit of open files has room.
pub fn http_connections(configured: u64, files: u64) -> u64 {
    configured.min(files.saturating_sub(FILES_KEPT).max(CONNECTIONS_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest() {
        for (configured, files, connections) in
            [(4096, u64::MAX, 4096), (4096, 65_536, 4096), (4096, 1024, 512), (4096, 256, 64), (8, 256, 8)]
        {
            assert_eq!(http_connections(configured, files), connections, "{configured} of {files}");
        }
    }

    #[test]
    fn the_limit_is_raised_and_never_lowered() {
        let before = limit();
        let raised = raise();
        assert!(raised >= before);
        assert_eq!((raise(), limit()), (raised, raised));
    }
}
