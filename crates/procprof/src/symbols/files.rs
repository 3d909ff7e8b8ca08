//! Which files are meant: those named, and what lies in folders that are named.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::packed::Packing;

/// Deepest folder that is searched, below the one named.
const DEPTH_MAX: usize = 64;
/// Most files of a folder that are looked at.
const FILES_MAX: usize = 200_000;
/// Bytes at the start of an ELF file up to behind its type.
const HEAD: usize = 18;

/// A file whose symbols are to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) path: PathBuf,
    /// Whether it was named itself: then it must have symbols.
    pub(super) is_named: bool,
}

/// The named files, and notes about the search.
pub(super) fn meant(named: &[PathBuf]) -> Result<(Vec<Input>, Vec<String>)> {
    let (mut inputs, mut notes) = (Vec::new(), Vec::new());
    for path in named {
        let state = std::fs::metadata(path).with_context(|| format!("open {}", path.display()))?;
        if !state.is_dir() {
            inputs.push(Input { path: path.clone(), is_named: true });
            continue;
        }
        let mut search = Search::default();
        search.folder(path, 0);
        if search.found.is_empty() {
            notes.push(format!("{}: no ELF file in {} files", path.display(), search.looked_at));
        }
        notes.append(&mut search.notes);
        search.found.sort();
        inputs.extend(search.found.into_iter().map(|path| Input { path, is_named: false }));
    }
    Ok((inputs, notes))
}

#[derive(Default)]
struct Search {
    found: Vec<PathBuf>,
    notes: Vec<String>,
    looked_at: usize,
}

impl Search {
    fn folder(&mut self, path: &Path, depth: usize) {
        let entries = match std::fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return self.notes.push(format!("{}: {error}", path.display())),
        };
        for entry in entries.map_while(Result::ok) {
            let (path, kind) = (entry.path(), entry.file_type());
            match kind {
                Ok(kind) if kind.is_dir() && depth < DEPTH_MAX => self.folder(&path, depth + 1),
                Ok(kind) if kind.is_dir() => {
                    self.notes.push(format!("{}: more than {DEPTH_MAX} folders deep, not searched", path.display()))
                }
                Ok(kind) if kind.is_file() => self.file(path),
                // Links are not followed: what they lead to is found where it is, or is none of this folder's.
                _ => {}
            }
        }
    }

    fn file(&mut self, path: PathBuf) {
        self.looked_at += 1;
        if self.looked_at == FILES_MAX + 1 {
            self.notes.push(format!("{}: only the first {FILES_MAX} files were looked at", path.display()));
        }
        if self.looked_at <= FILES_MAX && is_image(&path).unwrap_or(false) {
            self.found.push(path);
        }
    }
}

/// Whether a file is a program or a shared library, or the debug file of one.
fn is_image(path: &Path) -> std::io::Result<bool> {
    let packing = Packing::detect(path)?;
    let mut head = [0; HEAD];
    match packing.reader(std::fs::File::open(path)?)?.read_exact(&mut head) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
        read => read?,
    }
    const EXECUTABLE: u8 = 2;
    const SHARED: u8 = 3;
    let [.., low, high] = head;
    let is_big_endian = head[5] == 2;
    let kind = if is_big_endian { (low, high) } else { (high, low) };
    Ok(head.starts_with(b"\x7fELF") && matches!(kind, (0, EXECUTABLE | SHARED)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_searched_for_programs_and_libraries() {
        let folder = tempfile::tempdir().unwrap();
        let elf = |kind: u8| [b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".as_slice(), &[kind, 0, 0, 0]].concat();
        std::fs::create_dir(folder.path().join("lib")).unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        write("program", &elf(2));
        write("lib/libx.so", &elf(3));
        write("object.o", &elf(1));
        write("short", b"\x7fELF");
        write("text", b"something else altogether");
        let packed = std::fs::File::create(folder.path().join("lib/libx.so.debug.gz")).unwrap();
        let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, &elf(3)).unwrap();
        packed.finish().unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("round")).unwrap();
        let (found, notes) = meant(&[folder.path().to_owned(), folder.path().join("text")]).unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|input| (input.path.strip_prefix(folder.path()).unwrap().to_str().unwrap(), input.is_named))
            .collect();
        assert_eq!(
            names,
            [("lib/libx.so", false), ("lib/libx.so.debug.gz", false), ("program", false), ("text", true)]
        );
        assert!(notes.is_empty(), "{notes:?}");
        assert!(meant(&[folder.path().join("nowhere")]).is_err());
    }
}
