//! Removes old profiles: first all that are too old, then the oldest of any type while all together are too large.
//!
//! The newest profile of each type always stays. Renderings kept beside profiles count and go like profiles.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use super::file::{is_temporary, prefix_of};

/// A file under a temporary name this old was left by a process that was killed.
const ABANDONED_AFTER: Duration = Duration::from_secs(600);

/// How the names of renderings kept beside profiles end.
const RENDERING: &str = "-flame.html.gz";

/// A file of the folder.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    path: PathBuf,
    prefix: String,
    modified: SystemTime,
    bytes: u64,
}

/// The removed files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Removed {
    pub(super) files: usize,
    pub(super) bytes: u64,
    /// One sentence for each file that could not be removed.
    pub(super) failures: Vec<String>,
}

/// Cleans the folder. A folder that is not there is clean.
pub(super) fn clean(folder: &Path, max_age: Duration, max_bytes: u64, now: SystemTime) -> Result<Removed> {
    let mut removed = Removed::default();
    let entries = list(folder, now, &mut removed)?;
    for victim in victims(&entries, max_age, max_bytes, now) {
        match fs::remove_file(&victim.path) {
            Ok(()) => {
                removed.files += 1;
                removed.bytes += victim.bytes;
            }
            Err(error) => removed.failures.push(format!("remove {}: {error}", victim.path.display())),
        }
    }
    Ok(removed)
}

/// The profiles of the folder, plain files only. Removes what killed processes left half-written.
fn list(folder: &Path, now: SystemTime, removed: &mut Removed) -> Result<Vec<Entry>> {
    let directory = match fs::read_dir(folder) {
        Ok(directory) => directory,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("list {}", folder.display())),
    };
    let mut entries = Vec::new();
    for entry in directory {
        let entry = entry.with_context(|| format!("list {}", folder.display()))?;
        let (path, name) = (entry.path(), entry.file_name());
        let Some(name) = name.to_str() else { continue };
        // Gone in the meantime, or not to be looked at: not ours to remove.
        let Ok(metadata) = entry.metadata() else { continue };
        let Ok(modified) = metadata.modified() else { continue };
        if !metadata.is_file() {
            continue;
        }
        if is_temporary(name) && age(modified, now) > ABANDONED_AFTER && fs::remove_file(&path).is_ok() {
            removed.files += 1;
            removed.bytes += metadata.len();
        }
        if let Some(prefix) = prefix_of(name) {
            entries.push(Entry { prefix: prefix.to_owned(), path, modified, bytes: metadata.len() });
        }
    }
    Ok(entries)
}

/// The files to remove, oldest first.
fn victims(entries: &[Entry], max_age: Duration, max_bytes: u64, now: SystemTime) -> Vec<Entry> {
    let mut ordered: Vec<&Entry> = entries.iter().collect();
    ordered.sort_by(|a, b| (a.modified, &a.path).cmp(&(b.modified, &b.path)));
    let profiles = ordered.iter().filter(|entry| !entry.path.to_string_lossy().ends_with(RENDERING));
    // The last one of each prefix is kept by the map.
    let newest: BTreeMap<&str, &Path> = profiles.map(|entry| (entry.prefix.as_str(), entry.path.as_path())).collect();
    let mut total: u64 = ordered.iter().map(|entry| entry.bytes).sum();
    let mut victims = Vec::new();
    for entry in ordered {
        let wanted = age(entry.modified, now) > max_age || total > max_bytes;
        if wanted && newest.get(entry.prefix.as_str()) != Some(&entry.path.as_path()) {
            total -= entry.bytes;
            victims.push(entry.clone());
        }
    }
    victims
}

fn age(modified: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(modified).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn entries(now: SystemTime, rows: &[(&str, u64, u64)]) -> Vec<Entry> {
        let entry = |(name, age_seconds, bytes): &(&str, u64, u64)| Entry {
            path: name.into(),
            prefix: name.split('-').next().unwrap().to_owned(),
            modified: now - Duration::from_secs(*age_seconds),
            bytes: *bytes,
        };
        rows.iter().map(entry).collect()
    }

    fn names(rows: &[(&str, u64, u64)], max_bytes: u64) -> Vec<String> {
        let now = SystemTime::UNIX_EPOCH + 100 * DAY;
        let victims = victims(&entries(now, rows), DAY, max_bytes, now);
        victims.iter().map(|entry| entry.path.display().to_string()).collect()
    }

    #[test]
    fn age_is_strict() {
        let rows = [("cpu-a", 86_401, 1), ("cpu-b", 86_400, 1), ("cpu-c", 5, 1)];
        assert_eq!(names(&rows, 100), ["cpu-a"]);
    }

    #[test]
    fn size_takes_the_oldest_of_any_type_first() {
        let rows = [("contention-new", 10, 40), ("contention-old", 50, 40), ("cpu-old", 60, 40), ("cpu-new", 20, 40)];
        assert_eq!(names(&rows, 130), ["cpu-old"]);
        assert_eq!(names(&rows, 100), ["cpu-old", "contention-old"]);
    }

    #[test]
    fn the_newest_of_each_type_stays() {
        let rows = [
            ("cpu-a", 900_000, 40),
            ("cpu-b", 800_000, 40),
            ("contention-a", 700_000, 40),
            ("cpu-b-flame.html.gz", 9, 40),
        ];
        assert_eq!(names(&rows, 0), ["cpu-a", "cpu-b-flame.html.gz"]);
    }

    #[test]
    fn cleans_a_real_folder_and_leaves_strangers_alone() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, age: Duration| {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        };
        write("cpu-profile-20200101-000000-pprof.gz", 3 * DAY);
        write("cpu-profile-20200102-000000-pprof.gz", 2 * DAY);
        write("cpu-profile-20200103-000000-pprof.gz", Duration::ZERO);
        write("notes.txt", 9 * DAY);
        write(".cpu-profile.1.tmp", DAY);
        let removed = clean(folder.path(), DAY, u64::MAX, SystemTime::now()).unwrap();
        assert_eq!((removed.files, removed.failures.len()), (3, 0));
        assert!(folder.path().join("notes.txt").exists());
        assert_eq!(clean(&folder.path().join("absent"), DAY, 0, SystemTime::now()).unwrap(), Removed::default());
    }
}
