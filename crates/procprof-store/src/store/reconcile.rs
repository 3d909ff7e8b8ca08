//! Compares the catalog with the folder: files without a row are added, rows without a file dropped, and rows whose
//! file is another one than before made anew.

use std::borrow::Cow;
use std::io::{BufReader, Read};

use foldhash::HashMap;
use procprof_profile::ProfileId;

use super::folder;
use crate::blobs::{BlobName, BlobReader, Blobs, Unfinished, check_size};
use crate::catalog::{Catalog, KnownFile, NewRow};
use crate::stored::{self, ContentHash, Facts, FileName};
use crate::{Error, Format, Result, Stamp, StoreOptions};

/// Rows written in one transaction.
const BATCH: usize = 1000;
/// First bytes read of a file; most headers fit.
const HEAD: u64 = 4096;
/// Oddities that are reported one by one; others are only counted.
const ODD_MAX: usize = 100;

/// The result of comparing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Profile files in the folder.
    pub files: u64,
    /// Files that had no row.
    pub added: u64,
    /// Rows that had no file.
    pub dropped: u64,
    /// Rows whose file has another profile, or another state of the same, by its content.
    pub changed: u64,
    /// Half-written files of a process that ended, removed.
    pub leftovers: u64,
    /// Entries of the folder that are not listed.
    pub odd_count: u64,
    /// The first 100 of them, each with the reason.
    pub odd: Vec<String>,
}

impl Reconciled {
    fn odd(&mut self, node: u64, name: &str, why: &str) {
        self.odd_count += 1;
        if self.odd.len() < ODD_MAX {
            self.odd.push(format!("{node}/{name}: {why}"));
        }
    }
}

/// Makes the catalog agree with the folder.
pub(super) fn reconcile(
    blobs: &dyn Blobs,
    catalog: &Catalog,
    options: &StoreOptions,
    unfinished: Unfinished,
) -> Result<Reconciled> {
    let mut rows: HashMap<u64, HashMap<String, Stamp>> = HashMap::default();
    for KnownFile { node, file, stamp } in catalog.files()? {
        rows.entry(node).or_default().insert(file, stamp);
    }
    let mut done = Reconciled::default();
    let mut without_row: Vec<(u64, String)> = Vec::new();
    let mut rewritten: Vec<(u64, String)> = Vec::new();
    let mut nodes: Vec<u64> = blobs.list("", unfinished)?.folders.iter().filter_map(|name| node_id(name)).collect();
    nodes.sort_unstable();
    for node in nodes {
        let listing = blobs.list(&folder(node), unfinished)?;
        let (mut files, others): (Vec<_>, Vec<_>) =
            listing.blobs.into_iter().partition(|(name, _)| FileName::parse(name).is_some());
        files.sort_unstable();
        done.files += files.len() as u64;
        done.leftovers += listing.discarded;
        for name in others.iter().map(|(name, _)| name).chain(&listing.folders).chain(&listing.odd) {
            done.odd(node, name, "not a profile's file");
        }
        let known = rows.entry(node).or_default();
        for (name, stamp) in files {
            match known.remove(&name) {
                None => without_row.push((node, name)),
                Some(noted) if noted != stamp => rewritten.push((node, name)),
                Some(_) => {}
            }
        }
    }
    // First the rows whose files are gone, so that a file moved by hand can return under its id.
    for (node, files) in rows {
        for file in files.into_keys() {
            catalog.remove_file(node, &file)?;
            done.dropped += 1;
        }
    }
    let compared = compare(blobs, catalog, options, &rewritten)?;
    done.changed = compared.changed.len() as u64;
    add(blobs, catalog, options, &compared.changed, &mut done)?;
    done.added = add(blobs, catalog, options, &without_row, &mut done)?;
    Ok(done)
}

/// Files that have another stamp than their rows note.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// Files whose rows told of another content; the rows were removed.
    pub(super) changed: Vec<(u64, String)>,
    /// Files that can't be read, or are damaged and tell no id; the rows stay.
    pub(super) unknown: Vec<(u64, String)>,
}

/// Compares files with their rows by what they contain. The right rows get the files' stamps, the others are removed.
pub(super) fn compare(
    blobs: &dyn Blobs,
    catalog: &Catalog,
    options: &StoreOptions,
    files: &[(u64, String)],
) -> Result<Comparison> {
    let mut compared = Comparison::default();
    for batch in files.chunks(BATCH) {
        let mut right = Vec::new();
        for (node, name) in batch {
            let Some(noted) = catalog.by_name(*node, name)? else { continue };
            let file = (*node, name.clone());
            match read_row(blobs, options, *node, name) {
                Ok(FileRow { is_damaged: true, .. }) | Err(_) => compared.unknown.push(file),
                Ok(FileRow { row, .. }) => {
                    let stamp = row.stamp;
                    if row.entry()? == noted {
                        right.push(KnownFile { node: *node, file: name.clone(), stamp });
                    } else {
                        compared.changed.push(file);
                    }
                }
            }
        }
        catalog.set_stamps(&right)?;
    }
    for (node, name) in &compared.changed {
        catalog.remove_file(*node, name)?;
    }
    Ok(compared)
}

/// The node of a folder name: digits as they are printed, so that each node has one folder.
fn node_id(name: &str) -> Option<u64> {
    name.parse().ok().filter(|node: &u64| node.to_string() == name)
}

/// Adds rows for files without; returns their number.
pub(super) fn add(
    blobs: &dyn Blobs,
    catalog: &Catalog,
    options: &StoreOptions,
    files: &[(u64, String)],
    done: &mut Reconciled,
) -> Result<u64> {
    let mut added = 0;
    for batch in files.chunks(BATCH) {
        let mut rows = Vec::with_capacity(batch.len());
        for (node, name) in batch {
            match read_row(blobs, options, *node, name) {
                Ok(file) => rows.push(file.row),
                Err(error @ Error::DiskFull { .. }) => return Err(error),
                Err(error) => done.odd(*node, name, &error.to_string()),
            }
        }
        let refused = catalog.insert_all(&rows)?;
        for row in &refused {
            done.odd(row.node, &row.file, &format!("its id {} is that of another file", row.id));
        }
        added += (rows.len() - refused.len()) as u64;
    }
    Ok(added)
}

/// A row as its file tells it.
struct FileRow {
    row: NewRow<'static>,
    /// Whether the id is the hash of a file that once had another one, since it can't be decoded.
    is_damaged: bool,
}

/// Reads a row from its file: from the header's facts, else from the profile's comments, else from folder, name and
/// content.
fn read_row(blobs: &dyn Blobs, options: &StoreOptions, node: u64, name: &str) -> Result<FileRow> {
    let file_name = FileName::parse(name).ok_or_else(|| Error::malformed(name, "not a profile's file name"))?;
    let folder = folder(node);
    let blob = BlobName::new(&folder, name)?;
    let gone = || Error::malformed(blob.to_string(), "went away meanwhile");
    let head = blobs.get(blob, 0..HEAD)?.ok_or_else(gone)?;
    check_size(blob, head.size, options.profile_bytes_max)?;
    let (mut head, bytes, stamp) = (head.bytes, head.size, head.stamp);
    if let Some(needed) = stored::needed(&head).filter(|needed| *needed > head.len()) {
        let rest = blobs.get(blob, head.len() as u64..needed as u64)?.ok_or_else(gone)?;
        head.extend(rest.bytes);
    }
    let in_header = stored::read_extra(&head).and_then(|(json, strip)| Facts::from_json(json, strip).ok());
    let in_comments = || match file_name.format {
        Format::Pprof => Facts::from_comments(BufReader::new(BlobReader::new(blobs, blob)), options.unpacked_bytes_max),
        Format::Flame | Format::HtmlArchive | Format::Recording => Ok(None),
    };
    let told = in_header.filter(|facts| facts.meta.id.is_some()).map_or_else(in_comments, |facts| Ok(Some(facts)));
    let is_damaged = told.is_err();
    let mut facts = match told.ok().flatten() {
        Some(facts) => facts,
        None => {
            let id =
                hash(BlobReader::new(blobs, blob)).map_err(|source| Error::io("read", blob.to_string(), source))?;
            Facts::of_foreign(node, &file_name, id)
        }
    };
    // The folder decides, so that the file is found again at the place in the row.
    facts.meta.node = Some(node);
    let profile_type = facts.meta.profile_type.take().unwrap_or(file_name.profile_type);
    facts.meta.profile_type = Some(profile_type);
    let id = facts.meta.id.ok_or(Error::Incomplete { what: "id" })?;
    let row = NewRow { id, node, file: name.to_owned(), bytes, stamp, facts: Cow::Owned(facts), functions: None };
    Ok(FileRow { row, is_damaged })
}

fn hash(mut blob: BlobReader<'_>) -> std::io::Result<ProfileId> {
    let mut hash = ContentHash::default();
    let mut piece = vec![0; 64 << 10];
    loop {
        match blob.read(&mut piece)? {
            0 => return Ok(hash.id()),
            count => hash.update(&piece[..count]),
        }
    }
}
