//! Compares the catalog with the folder: files without a row are added, rows without a file dropped.

use std::io::{BufReader, Read, Seek};

use foldhash::{HashMap, HashSet};
use procprof_profile::ProfileId;

use crate::catalog::{Catalog, NewRow};
use crate::facts::{ContentHash, Facts};
use crate::file_name::FileName;
use crate::folder::Folder;
use crate::{Error, Format, Result, StoreOptions, gzip_extra};

/// Rows written in one transaction.
const BATCH: usize = 1000;
/// First bytes read of a file; most headers fit.
const HEAD: usize = 4096;
/// Oddities told one by one; of more only the number grows.
const ODD_MAX: usize = 100;

/// What comparing changed and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Profile files in the folder.
    pub files: u64,
    /// Files that had no row.
    pub added: u64,
    /// Rows that had no file.
    pub dropped: u64,
    /// Half-written files of a process that ended, removed.
    pub leftovers: u64,
    /// Things in the folder that are not listed.
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

/// Whether half-written files are of another process, and so to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leftovers {
    Remove,
    Keep,
}

/// Makes the catalog say what the folder holds.
pub(crate) fn reconcile(folder: &Folder, catalog: &Catalog, options: &StoreOptions, leftovers: Leftovers) -> Result<Reconciled> {
    let mut rows: HashMap<u64, HashSet<String>> = HashMap::default();
    for (node, file) in catalog.files()? {
        rows.entry(node).or_default().insert(file);
    }
    let mut done = Reconciled::default();
    let mut without_row: Vec<(u64, String)> = Vec::new();
    for node in folder.nodes()? {
        let listing = folder.list(node)?;
        done.files += listing.profiles.len() as u64;
        for name in listing.temporary.iter().filter(|_| leftovers == Leftovers::Remove) {
            folder.remove(node, name)?;
            done.leftovers += 1;
        }
        for name in &listing.odd {
            done.odd(node, name, "not a profile's file");
        }
        let known = rows.entry(node).or_default();
        without_row.extend(listing.profiles.into_iter().filter(|name| !known.remove(name)).map(|name| (node, name)));
    }
    // First the rows whose files went, so that a file moved by hand can come back under its id.
    for (node, files) in rows {
        for file in files {
            catalog.remove_file(node, &file)?;
            done.dropped += 1;
        }
    }
    for batch in without_row.chunks(BATCH) {
        add(folder, catalog, options, batch, &mut done)?;
    }
    Ok(done)
}

fn add(folder: &Folder, catalog: &Catalog, options: &StoreOptions, batch: &[(u64, String)], done: &mut Reconciled) -> Result<()> {
    let mut rows = Vec::with_capacity(batch.len());
    for (node, name) in batch {
        match read_row(folder, options, *node, name) {
            Ok(row) => rows.push(row),
            Err(error @ Error::DiskFull { .. }) => return Err(error),
            Err(error) => done.odd(*node, name, &error.to_string()),
        }
    }
    let refused = catalog.insert_all(&rows)?;
    for row in &refused {
        done.odd(row.node, &row.file, &format!("its id {} is that of another file", row.id));
    }
    done.added += (rows.len() - refused.len()) as u64;
    Ok(())
}

/// Reads a row from its file: from the header's facts, else from the profile's comments, else from folder, name and content.
fn read_row(folder: &Folder, options: &StoreOptions, node: u64, name: &str) -> Result<NewRow> {
    let file_name = FileName::parse(name).ok_or_else(|| Error::malformed(name, "not a profile's file name"))?;
    let (mut file, bytes) = folder.file(node, name, options.profile_bytes_max)?;
    let failed = |source: std::io::Error| Error::io("read", format!("{node}/{name}"), source);
    let mut head = Vec::with_capacity(HEAD);
    (&mut file).take(HEAD as u64).read_to_end(&mut head).map_err(failed)?;
    if let Some(missing) = gzip_extra::needed(&head).and_then(|needed| needed.checked_sub(head.len())) {
        (&mut file).take(missing as u64).read_to_end(&mut head).map_err(failed)?;
    }
    let told = gzip_extra::read(&head).and_then(|(json, strip)| Facts::from_json(json, strip).ok());
    let mut facts = match told.filter(|facts| facts.meta.id.is_some()) {
        Some(facts) => facts,
        None => {
            let mut rewound = || file.rewind().map_err(failed);
            rewound()?;
            let commented = match file_name.format {
                Format::Pprof => Facts::from_comments(BufReader::new(&file), options.unpacked_bytes_max),
                Format::Flame | Format::HtmlArchive => None,
            };
            match commented {
                Some(facts) => facts,
                None => {
                    (&file).rewind().map_err(failed)?;
                    Facts::of_foreign(node, &file_name, hash(&file).map_err(failed)?)
                }
            }
        }
    };
    // The folder decides, so that the file is found again where the row says.
    facts.meta.node = Some(node);
    let profile_type = facts.meta.profile_type.take().unwrap_or(file_name.profile_type);
    facts.meta.profile_type = Some(profile_type);
    let id = facts.meta.id.ok_or(Error::Incomplete { what: "id" })?;
    Ok(NewRow { id, node, file: name.to_owned(), bytes, facts })
}

fn hash(mut file: &std::fs::File) -> std::io::Result<ProfileId> {
    let mut hash = ContentHash::default();
    let mut piece = vec![0; 64 << 10];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hash.id()),
            count => hash.update(&piece[..count]),
        }
    }
}
