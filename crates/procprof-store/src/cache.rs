//! `DATA/cache/`: cached renderings. Safe to delete at any time.
//!
//! A file is named `<made>-<node>-<profile>-<hash of the key>` (`x` if there is none) and contains the CRC-32 of the
//! content (4 bytes, little endian), then the content. Nothing is synced: a file with a wrong checksum is a miss.

use std::path::Path;

use foldhash::HashMap;
use procprof_files::{Bounds, CachedFile, Durability, EntryKind, FileCache, Folder, Layout, surplus};
use procprof_profile::{Nanos, ProfileId};
use sha2::{Digest, Sha256};

use crate::Result;

/// Mode of the files.
const MODE: u32 = 0o640;

/// The key of a cached rendering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheKey<'a> {
    /// The node it is counted for; `None` if it shows profiles of several nodes.
    pub node: Option<u64>,
    /// The profile it shows, with which it is deleted. `None` if it shows several.
    pub profile: Option<ProfileId>,
    /// Everything else that determines its content: report, options, version.
    pub what: &'a str,
}

impl CacheKey<'_> {
    fn hash(&self) -> u128 {
        let mut hasher = Sha256::new();
        hasher.update(format!("{:?}\n{:?}\n", self.node, self.profile));
        hasher.update(self.what);
        let digest: [u8; 32] = hasher.finalize().into();
        digest[..16].iter().fold(0, |hash, byte| hash << 8 | u128::from(*byte))
    }
}

/// A file of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cached {
    pub(crate) made: Nanos,
    pub(crate) node: Option<u64>,
    pub(crate) profile: Option<ProfileId>,
    pub(crate) bytes: u64,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: Folder,
    kept: FileCache,
    bytes: u64,
    files: HashMap<u128, Cached>,
}

impl Cache {
    /// Opens the cache; files that are not its own are removed.
    pub(crate) fn open(data: &Path, bytes_max: u64) -> Result<Cache> {
        let folder = Folder::make(data.join("cache"))?;
        let kept = FileCache {
            path: folder.path().to_owned(),
            layout: Layout::Files(""),
            bounds: Bounds { bytes_max, files_max: usize::MAX },
            mode: MODE,
            durability: Durability::Cached,
        };
        let mut cache = Cache { folder, kept, bytes: 0, files: HashMap::default() };
        for (name, kind) in cache.folder.entries()? {
            let size = if kind == EntryKind::File { cache.folder.size(&name) } else { None };
            match (parse(&name), size) {
                (Some((hash, cached)), Some(bytes)) => cache.add(hash, Cached { bytes, ..cached }),
                _ if kind != EntryKind::Folder => {
                    // Best effort: files that cannot be removed are not the cache's and not counted.
                    let _ = cache.folder.remove(&name);
                }
                _ => {}
            }
        }
        cache.make_room(0);
        Ok(cache)
    }

    /// Sizes of all files together.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (u128, &Cached)> {
        self.files.iter().map(|(hash, cached)| (*hash, cached))
    }

    pub(crate) fn get(&mut self, key: &CacheKey<'_>) -> Option<Vec<u8>> {
        let hash = key.hash();
        let name = name(hash, self.files.get(&hash)?);
        match self.folder.read(&name, self.kept.bounds.bytes_max.saturating_add(4)).ok().and_then(checked) {
            Some(content) => Some(content),
            None => {
                self.remove(hash);
                None
            }
        }
    }

    /// Stores a rendering if it is not larger than the limit of the cache; returns whether it did.
    pub(crate) fn put(&mut self, key: &CacheKey<'_>, content: &[u8], now: Nanos) -> Result<bool> {
        let hash = key.hash();
        let bytes = content.len() as u64 + 4;
        if bytes > self.kept.bounds.bytes_max {
            return Ok(false);
        }
        self.remove(hash);
        self.make_room(bytes);
        let cached = Cached { made: now, node: key.node, profile: key.profile, bytes };
        let name = name(hash, &cached);
        let mut file = self.kept.begin(&name)?;
        file.write(&checksum(content))?;
        file.write(content)?;
        self.kept.keep(file, &name)?;
        self.add(hash, cached);
        Ok(true)
    }

    /// Removes a file; returns whether it is gone.
    pub(crate) fn remove(&mut self, hash: u128) -> bool {
        let Some(cached) = self.files.get(&hash) else { return true };
        match self.folder.remove(name(hash, cached)) {
            Ok(_) => {
                self.bytes = self.bytes.saturating_sub(cached.bytes);
                self.files.remove(&hash);
                true
            }
            Err(_) => false,
        }
    }

    /// Removes everything that shows only this profile.
    pub(crate) fn forget(&mut self, profile: ProfileId) {
        let hashes: Vec<u128> =
            self.files().filter(|(_, cached)| cached.profile == Some(profile)).map(|(hash, _)| hash).collect();
        for hash in hashes {
            self.remove(hash);
        }
    }

    fn add(&mut self, hash: u128, cached: Cached) {
        self.bytes += cached.bytes;
        if let Some(replaced) = self.files.insert(hash, cached) {
            self.bytes = self.bytes.saturating_sub(replaced.bytes);
        }
    }

    fn make_room(&mut self, bytes: u64) {
        let bounds = self.kept.bounds;
        if self.bytes.saturating_add(bytes) <= bounds.bytes_max {
            return;
        }
        let files =
            self.files().map(|(hash, cached)| CachedFile { used: cached.made, bytes: cached.bytes, name: hash });
        for hash in surplus(files, (bytes, 1), bounds) {
            self.remove(hash);
        }
    }
}

fn checked(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let sum: Vec<u8> = bytes.get(..4)?.to_vec();
    bytes.drain(..4);
    (checksum(&bytes).as_slice() == sum).then_some(bytes)
}

fn checksum(content: &[u8]) -> [u8; 4] {
    let mut crc = flate2::Crc::new();
    crc.update(content);
    crc.sum().to_le_bytes()
}

fn name(hash: u128, cached: &Cached) -> String {
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "x".to_owned());
    let node = or_none(cached.node.map(|node| node.to_string()));
    let profile = or_none(cached.profile.map(|profile| format!("{:032x}", profile.0)));
    format!("{}-{node}-{profile}-{hash:032x}", cached.made.0.max(0))
}

fn parse(name: &str) -> Option<(u128, Cached)> {
    let mut parts = name.split('-');
    let (made, node, profile, hash) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str| u128::from_str_radix(text, 16).ok();
    let cached = Cached {
        made: Nanos(made.parse().ok()?),
        node: if node == "x" { None } else { Some(node.parse().ok()?) },
        profile: if profile == "x" { None } else { Some(ProfileId(hex(profile)?)) },
        bytes: 0,
    };
    let hash = hex(hash)?;
    // The name as it would be written, so that the file is found again.
    (self::name(hash, &cached) == name).then_some((hash, cached))
}
