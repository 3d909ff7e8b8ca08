//! Separate debug files, in the places where distributions, `objcopy`, pprof and StarRocks put what was stripped from a
//! binary.
//!
//! | place | path | proof |
//! |---|---|---|
//! | named | each of [`ImageOptions::debug_files`] | build id or checksum |
//! | build id | `DIR/.build-id/xx/yyyy.debug`, `DIR/xx/yyyy.debug`, `DIR/ID/NAME`, `DIR/ID/debuginfo` | build id |
//! | perf's cache | `DIR/.build-id/xx/yyyy/debug`, `DIR/.build-id/xx/yyyy/elf` | build id |
//! | `.gnu_debuglink` | `LINK` beside the binary, in `.debug` below, in `DIR` + the binary's folder, in `DIR` | build id, else checksum |
//! | pprof's | `PATH/ID/*`, `PATH/xx/yyyy.debug`, `PATH/NAME`, `PATH/FILE` | build id or checksum |
//! | name | `NAME.debug`, `NAME.debuginfo` beside the binary and in `DIR`, `DIR/NAME` | build id or checksum |
//!
//! `DIR` is each of [`ImageOptions::debug_dirs`], `PATH` each of [`ImageOptions::binary_paths`]. The checksum (CRC-32)
//! is that of `.gnu_debuglink`, and is used if binary or debug file has no build id. Files that can't be opened, are
//! damaged or are another build are skipped and reported.
//!
//! Other files are the parts that `dwz` has extracted (`.gnu_debugaltlink`: the path it names,
//! `DIR/.dwz/NAME`, and by build id), and the packaged split off units (the binary's name + `.dwp`).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use object::Object;
use procprof_process::{BuildId, open_regular};

use super::file_bytes::FileBytes;
use super::header::{has_dwarf, parse_elf};
use crate::{ImageOptions, Reason, Refusal};

/// Most files of one folder `PATH/ID` that are tried.
const FOLDER_FILES_MAX: usize = 64;

/// A file that adds to another one: its name and its bytes.
#[derive(Debug)]
pub(crate) struct Supplement<T> {
    pub(crate) file: T,
    pub(crate) bytes: FileBytes,
}

/// The way in which a separate debug file was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    /// By its build id, which equals the binary's.
    BuildId,
    /// By the binary's `.gnu_debuglink`; the checksum (or the build id of both) was compared.
    DebugLink,
}

/// A separate debug file that is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebugFile {
    /// Its path.
    pub path: PathBuf,
    /// The way in which it was found.
    pub found_by: FoundBy,
}

/// The binary whose debug file is searched.
struct Stripped<'a> {
    /// Its path without symbolic links.
    path: PathBuf,
    build_id: Option<&'a BuildId>,
    link: Option<Link<'a>>,
}

/// The content of its `.gnu_debuglink`.
#[derive(Clone, Copy)]
struct Link<'a> {
    name: &'a OsStr,
    checksum: u32,
}

/// Finds the debug file of a binary named `path`. Files that exist and are not its own are added to `refused`.
pub(crate) fn find(
    object: &object::File<'_>,
    build_id: Option<&BuildId>,
    path: &Path,
    options: &ImageOptions,
    refused: &mut Vec<Refusal>,
) -> Option<Supplement<DebugFile>> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let stripped = Stripped { link: Link::read(object), path, build_id };
    let mut seen: Vec<PathBuf> = Vec::new();
    // A given file belongs to one of many images; that it isn't this one's is no error.
    let mut refuse = |path: PathBuf, build_id, reason| {
        if !options.debug_files.contains(&path) {
            refused.push(Refusal { path, build_id, reason });
        }
    };
    stripped.candidates(options).into_iter().find_map(|(candidate, found_by)| {
        // A binary whose link names itself would be its own debug file.
        if candidate == stripped.path || seen.contains(&candidate) {
            return None;
        }
        seen.push(candidate.clone());
        let (bytes, own) = match open(&candidate, options) {
            Ok(opened) => opened?,
            Err(reason) => {
                refuse(candidate, None, reason);
                return None;
            }
        };
        match stripped.is_proven(&bytes, own.as_ref()) {
            Ok(()) => Some(Supplement { file: DebugFile { path: candidate, found_by }, bytes }),
            Err(reason) => {
                refuse(candidate, own, reason);
                None
            }
        }
    })
}

impl<'a> Link<'a> {
    fn read(object: &object::File<'a>) -> Option<Self> {
        let (name, checksum) = object.gnu_debuglink().ok()??;
        Some(Self { name: file_name(name)?, checksum })
    }
}

impl Stripped<'_> {
    /// The paths where its debug file may be, in the order in which they are tried.
    fn candidates(&self, options: &ImageOptions) -> Vec<(PathBuf, FoundBy)> {
        let name = self.path.file_name().unwrap_or_default();
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let mut candidates: Vec<(PathBuf, FoundBy)> = Vec::new();
        let mut add = |paths: Vec<PathBuf>, found_by| candidates.extend(paths.into_iter().map(|path| (path, found_by)));
        add(options.debug_files.clone(), FoundBy::BuildId);
        if let Some(build_id) = self.build_id {
            add(options.debug_dirs.iter().flat_map(|dir| by_build_id(dir, build_id, name)).collect(), FoundBy::BuildId);
        }
        if let Some(link) = self.link {
            let below = folder.strip_prefix("/").unwrap_or(folder);
            add(vec![folder.join(link.name), folder.join(".debug").join(link.name)], FoundBy::DebugLink);
            let in_dirs =
                options.debug_dirs.iter().flat_map(|dir| [dir.join(below).join(link.name), dir.join(link.name)]);
            add(in_dirs.collect(), FoundBy::DebugLink);
        }
        for path in &options.binary_paths {
            add(in_binary_path(path, self.build_id, &self.path), FoundBy::BuildId);
        }
        add(beside(folder, name).into(), FoundBy::BuildId);
        for dir in &options.debug_dirs {
            add(beside(dir, name).into(), FoundBy::BuildId);
            add(vec![dir.join(name)], FoundBy::BuildId);
        }
        candidates
    }

    /// Checks whether a file is its own.
    fn is_proven(&self, bytes: &[u8], own: Option<&BuildId>) -> Result<(), Reason> {
        match (self.build_id, own, self.link) {
            (Some(wanted), Some(own), _) if wanted == own => Ok(()),
            (Some(_), Some(_), _) => Err(Reason::BuildIdMismatch),
            (_, _, Some(link)) if crc32(bytes) == link.checksum => Ok(()),
            (_, _, Some(_)) => Err(Reason::ChecksumMismatch),
            _ => Err(Reason::Unproven),
        }
    }
}

/// The paths where the debug file of a build may be below a folder of debug files.
pub(crate) fn by_build_id(dir: &Path, build_id: &BuildId, name: &OsStr) -> Vec<PathBuf> {
    let whole = build_id.to_string();
    let split = split_build_id(build_id).into_iter().flat_map(|split| {
        let below = dir.join(".build-id").join(&split);
        let kept = below.with_extension("");
        [below, dir.join(split), kept.join("debug"), kept.join("elf")]
    });
    split.chain([dir.join(&whole).join(name), dir.join(&whole).join("debuginfo")]).collect()
}

/// The paths where pprof looks for the binary named `path` (and its debug file) below a folder.
pub(crate) fn in_binary_path(dir: &Path, build_id: Option<&BuildId>, path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap_or_default();
    let mut places = Vec::new();
    if let Some(build_id) = build_id {
        let folder = dir.join(build_id.to_string());
        places.push(folder.join(name));
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort_unstable();
        places.extend(files.into_iter().take(FOLDER_FILES_MAX));
        places.extend(split_build_id(build_id).map(|split| dir.join(split)));
        places.push(dir.join(below_root(path)).join(build_id.to_string()));
    }
    places.extend([dir.join(name), dir.join(below_root(path))]);
    places
}

/// A path below another root; components that lead upwards are left out.
fn below_root(path: &Path) -> PathBuf {
    path.components().filter(|component| matches!(component, Component::Normal(_))).collect()
}

/// `xx/yyyy.debug`; `None` for an id of one byte.
fn split_build_id(build_id: &BuildId) -> Option<PathBuf> {
    let digits = build_id.to_string();
    let (first, rest) = digits.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    Some(PathBuf::from(format!("{first}/{rest}.debug")))
}

fn beside(folder: &Path, name: &OsStr) -> [PathBuf; 2] {
    ["debug", "debuginfo"].map(|extension| folder.join(with_suffix(name, extension)))
}

fn with_suffix(name: &OsStr, extension: &str) -> OsString {
    let mut name = name.to_owned();
    name.extend([OsStr::new("."), OsStr::new(extension)]);
    name
}

/// The link as the name of a file, never a path that leads elsewhere.
fn file_name(link: &[u8]) -> Option<&OsStr> {
    let name = OsStr::from_bytes(link);
    let mut components = Path::new(name).components();
    let single = matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
    single.then_some(name)
}

/// Finds the file that debug information in `object`, named `path`, shares parts with.
pub(crate) fn find_shared(
    object: &object::File<'_>,
    path: &Path,
    options: &ImageOptions,
) -> Option<Supplement<PathBuf>> {
    let (name, build_id) = object.gnu_debugaltlink().ok()??;
    let (name, build_id) = (OsStr::from_bytes(name), BuildId::new(build_id)?);
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let named = path.parent().unwrap_or(Path::new("/")).join(name);
    let last = Path::new(name).file_name().unwrap_or_default();
    let in_dirs = options.debug_dirs.iter().flat_map(|dir| {
        let mut places = by_build_id(dir, &build_id, last);
        places.extend([dir.join(".dwz").join(last), dir.join(last)]);
        places
    });
    let in_paths = options.binary_paths.iter().flat_map(|dir| in_binary_path(dir, Some(&build_id), Path::new(name)));
    [named].into_iter().chain(in_dirs).chain(in_paths).chain(options.debug_files.iter().cloned()).find_map(|file| {
        let (bytes, own) = open(&file, options).ok()??;
        (own.as_ref() == Some(&build_id)).then_some(Supplement { file, bytes })
    })
}

/// Finds the package with the units that were split off when the binary named `path` was compiled.
pub(crate) fn find_package(path: &Path, options: &ImageOptions) -> Option<Supplement<PathBuf>> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = with_suffix(path.file_name()?, "dwp");
    let beside = path.with_file_name(&name);
    let in_dirs = options.debug_dirs.iter().chain(&options.binary_paths).map(|dir| dir.join(&name));
    let named =
        options.debug_files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "dwp")).cloned();
    [beside].into_iter().chain(in_dirs).chain(named).find_map(|file| {
        let bytes = FileBytes::map(&open_regular(&file).ok()?, &file, options.file_bytes_max).ok()?;
        parse_elf(&bytes, &file).ok()?;
        Some(Supplement { file, bytes })
    })
}

/// The bytes and build id of an ELF file with something to add; `None` if it isn't there or has
/// neither debug information nor symbols.
fn open(path: &Path, options: &ImageOptions) -> Result<Option<(FileBytes, Option<BuildId>)>, Reason> {
    let Ok(file) = open_regular(path) else {
        return Ok(None);
    };
    let bytes = FileBytes::map(&file, path, options.file_bytes_max).map_err(|error| error.reason())?;
    let object = parse_elf(&bytes, path).map_err(|error| error.reason())?;
    if !has_dwarf(&object) && object.symbols().next().is_none() {
        return Ok(None);
    }
    let own = object.build_id().ok().flatten().and_then(BuildId::new);
    Ok(Some((bytes, own)))
}

/// CRC-32 as in zlib and `.gnu_debuglink`.
fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_the_standard_check_text() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn links_are_names_only() {
        assert!(file_name(b"libx.so.debug").is_some());
        for link in [&b"../x"[..], b"/etc/passwd", b"a/b", b"", b".."] {
            assert!(file_name(link).is_none());
        }
    }

    #[test]
    fn paths_stay_below_their_folder() {
        let places = in_binary_path(Path::new("/symbols"), None, Path::new("/opt/../../be/lib/be"));
        assert_eq!(places, [Path::new("/symbols/be"), Path::new("/symbols/opt/be/lib/be")]);
    }
}
