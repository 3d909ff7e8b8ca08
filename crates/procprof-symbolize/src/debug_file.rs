//! Separate debug files: where distributions and `objcopy` put what was stripped from a binary.
//!
//! | by | looked for at | proof |
//! |---|---|---|
//! | build id | `DIR/.build-id/xx/yyyy.debug` | equal build id |
//! | `.gnu_debuglink` | the binary's folder, `.debug` below it, `DIR` + the binary's folder | equal build id, else the checksum (CRC-32) |
//! | split off units (`-gsplit-dwarf`) | the binary's name + `.dwp` | the id of each unit |
//! | `.gnu_debugaltlink` (parts shared by `dwz`) | the path it names, `DIR/.build-id/xx/yyyy.debug` | equal build id |
//!
//! `DIR` is each of [`ImageOptions::debug_dirs`]. What is there but can't be opened, is damaged or
//! is another build is passed over. Units that were split off and not packed (`.dwo`) are not read:
//! their names in the debug information could lead anywhere.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use object::Object;
use procprof_process::{BuildId, open_regular};

use crate::file_bytes::FileBytes;
use crate::image::{has_dwarf, parse_elf};
use crate::{DebugFile, FoundBy, ImageOptions};

/// A file that adds to another one: its name and its bytes.
#[derive(Debug)]
pub(crate) struct Supplement<T> {
    pub(crate) file: T,
    pub(crate) bytes: FileBytes,
}

/// Finds the debug file of a binary named `path`.
pub(crate) fn find(
    object: &object::File<'_>,
    build_id: Option<&BuildId>,
    path: &Path,
    options: &ImageOptions,
) -> Option<Supplement<DebugFile>> {
    by_build_id(build_id, options).or_else(|| by_debug_link(object, build_id, path, options))
}

fn by_build_id(build_id: Option<&BuildId>, options: &ImageOptions) -> Option<Supplement<DebugFile>> {
    let build_id = build_id?;
    options.debug_dirs.iter().find_map(|dir| {
        let path = dir.join(build_id_path(build_id)?);
        let bytes = open(&path, options, |_, own| own == Some(build_id))?;
        let file = DebugFile { path, found_by: FoundBy::BuildId };
        Some(Supplement { file, bytes })
    })
}

/// `.build-id/xx/yyyy.debug`; `None` for an id of one byte.
fn build_id_path(build_id: &BuildId) -> Option<PathBuf> {
    let digits = build_id.to_string();
    let (first, rest) = digits.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    Some(PathBuf::from(format!(".build-id/{first}/{rest}.debug")))
}

fn by_debug_link(
    object: &object::File<'_>,
    build_id: Option<&BuildId>,
    path: &Path,
    options: &ImageOptions,
) -> Option<Supplement<DebugFile>> {
    let (name, checksum) = object.gnu_debuglink().ok()??;
    let name = file_name(name)?;
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    link_candidates(&real, name, options).into_iter().find_map(|candidate| {
        // A binary whose link names itself would be its own debug file.
        if candidate == real {
            return None;
        }
        let bytes = open(&candidate, options, |bytes, own| match (build_id, own) {
            (Some(wanted), Some(own)) => wanted == own,
            _ => crc32(bytes) == checksum,
        })?;
        let file = DebugFile { path: candidate, found_by: FoundBy::DebugLink };
        Some(Supplement { file, bytes })
    })
}

/// The link as the name of a file, never a path that leads elsewhere.
fn file_name(link: &[u8]) -> Option<&OsStr> {
    let name = OsStr::from_bytes(link);
    let mut components = Path::new(name).components();
    let single = matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
    single.then_some(name)
}

fn link_candidates(binary: &Path, name: &OsStr, options: &ImageOptions) -> Vec<PathBuf> {
    let folder = binary.parent().unwrap_or(Path::new("/"));
    let below = folder.strip_prefix("/").unwrap_or(folder);
    let beside = [folder.join(name), folder.join(".debug").join(name)];
    let in_dirs = options.debug_dirs.iter().map(|dir| dir.join(below).join(name));
    beside.into_iter().chain(in_dirs).collect()
}

/// Finds the file that debug information in `object`, named `path`, shares parts with.
pub(crate) fn find_shared(object: &object::File<'_>, path: &Path, options: &ImageOptions) -> Option<Supplement<PathBuf>> {
    let (name, build_id) = object.gnu_debugaltlink().ok()??;
    let build_id = BuildId::new(build_id)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let named = folder.join(OsStr::from_bytes(name));
    let by_id = options.debug_dirs.iter().filter_map(|dir| Some(dir.join(build_id_path(&build_id)?)));
    [named].into_iter().chain(by_id).find_map(|file| {
        let bytes = open(&file, options, |_, own| own == Some(&build_id))?;
        Some(Supplement { file, bytes })
    })
}

/// Finds the package with the units that were split off when the binary named `path` was compiled.
pub(crate) fn find_package(path: &Path, options: &ImageOptions) -> Option<Supplement<PathBuf>> {
    let mut name = path.canonicalize().unwrap_or_else(|_| path.to_owned()).into_os_string();
    name.push(".dwp");
    let file = PathBuf::from(name);
    let bytes = FileBytes::map(&open_regular(&file).ok()?, &file, options.file_bytes_max).ok()?;
    parse_elf(&bytes, &file).ok()?;
    Some(Supplement { file, bytes })
}

/// Opens an ELF file with something to add, if `proof` accepts its bytes and build id.
fn open(path: &Path, options: &ImageOptions, proof: impl FnOnce(&[u8], Option<&BuildId>) -> bool) -> Option<FileBytes> {
    let file = open_regular(path).ok()?;
    let bytes = FileBytes::map(&file, path, options.file_bytes_max).ok()?;
    let object = parse_elf(&bytes, path).ok()?;
    if !has_dwarf(&object) && object.symbols().next().is_none() {
        return None;
    }
    let own = object.build_id().ok().flatten().and_then(BuildId::new);
    proof(&bytes, own.as_ref()).then_some(bytes)
}

/// CRC-32 as in zlib and `.gnu_debuglink`: reflected polynomial 0xEDB88320.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = crc_table();
    let step = |crc: u32, byte: &u8| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
    !bytes.iter().fold(!0, step)
}

const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { 0xEDB8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
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
}
