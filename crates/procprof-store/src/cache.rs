//! `DATA/cache/`: renderings kept to be given again. Safe to delete at any time.
//!
//! A file is named `<made>-<node>-<profile>-<hash of the key>` (`x` where there is none) and holds the CRC-32 of the content (4 bytes, little
//! endian), then the content. Nothing is synced: a file that does not agree with its checksum is a miss.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use foldhash::HashMap;
use procprof_profile::{Nanos, ProfileId};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use sha2::{Digest, Sha256};

use crate::folder::{entries, make_folder, open_folder, open_regular, read_whole};
use crate::{Error, Result};

/// What a cached rendering is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheKey<'a> {
    /// The node it counts for; `None` when it shows several nodes' profiles.
    pub node: Option<u64>,
    /// The profile it shows; it goes when that profile goes. `None` when it shows several.
    pub profile: Option<ProfileId>,
    /// Everything else that decides what it looks like: report, options, version.
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
    dir: OwnedFd,
    path: PathBuf,
    bytes_max: u64,
    bytes: u64,
    files: HashMap<u128, Cached>,
}

impl Cache {
    /// Opens the cache; files that are not its own are removed.
    pub(crate) fn open(data: &Path, bytes_max: u64) -> Result<Cache> {
        let path = data.join("cache");
        make_folder(rustix::fs::CWD, &path, &path)?;
        let dir = open_folder(&path)?;
        let mut cache = Cache { dir, path, bytes_max, bytes: 0, files: HashMap::default() };
        for (name, kind) in entries(&cache.dir, &cache.path)? {
            let state = rustix::fs::statat(&cache.dir, &name, AtFlags::SYMLINK_NOFOLLOW).ok();
            match (parse(&name), state) {
                (Some((hash, cached)), Some(state)) if kind == FileType::RegularFile => {
                    cache.add(hash, Cached { bytes: state.st_size.unsigned_abs(), ..cached });
                }
                _ if kind != FileType::Directory => {
                    // Best effort: what cannot be removed is not the cache's and not counted.
                    let _ = rustix::fs::unlinkat(&cache.dir, &name, AtFlags::empty());
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
        let path = self.path.join(&name);
        let max = self.bytes_max.saturating_add(4);
        let bytes = open_regular(&self.dir, &name, &path, max).and_then(|(file, size)| read_whole(file, size, max, &path));
        match bytes.ok().and_then(checked) {
            Some(content) => Some(content),
            None => {
                self.remove(hash);
                None
            }
        }
    }

    /// Keeps a rendering, when it is not larger than the whole cache may be; tells whether it did.
    pub(crate) fn put(&mut self, key: &CacheKey<'_>, content: &[u8], now: Nanos) -> Result<bool> {
        let hash = key.hash();
        let bytes = content.len() as u64 + 4;
        if bytes > self.bytes_max {
            return Ok(false);
        }
        self.remove(hash);
        self.make_room(bytes);
        let cached = Cached { made: now, node: key.node, profile: key.profile, bytes };
        let name = name(hash, &cached);
        if let Err(error) = self.write(&name, content) {
            // Best effort: opening removes what is not whole.
            let _ = rustix::fs::unlinkat(&self.dir, &name, AtFlags::empty());
            return Err(error);
        }
        self.add(hash, cached);
        Ok(true)
    }

    /// Removes a file; whether it is gone.
    pub(crate) fn remove(&mut self, hash: u128) -> bool {
        let Some(cached) = self.files.get(&hash) else { return true };
        match rustix::fs::unlinkat(&self.dir, name(hash, cached), AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {
                self.bytes = self.bytes.saturating_sub(cached.bytes);
                self.files.remove(&hash);
                true
            }
            Err(_) => false,
        }
    }

    /// Removes everything that shows only this profile.
    pub(crate) fn forget(&mut self, profile: ProfileId) {
        let hashes: Vec<u128> = self.files().filter(|(_, cached)| cached.profile == Some(profile)).map(|(hash, _)| hash).collect();
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
        if self.bytes.saturating_add(bytes) <= self.bytes_max {
            return;
        }
        let mut oldest_first: Vec<(Nanos, u128)> = self.files().map(|(hash, cached)| (cached.made, hash)).collect();
        oldest_first.sort_unstable();
        for (_, hash) in oldest_first {
            if self.bytes.saturating_add(bytes) <= self.bytes_max {
                return;
            }
            self.remove(hash);
        }
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        use std::io::Write;
        let error = |source: std::io::Error| Error::io("write", self.path.join(name), source);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, name, flags, Mode::from_raw_mode(0o640)).map_err(|errno| error(errno.into()))?;
        let mut file = std::fs::File::from(file);
        file.write_all(&checksum(content)).and_then(|()| file.write_all(content)).map_err(error)
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
    // Spelled as it would be written, so that it is found under that name again.
    (self::name(hash, &cached) == name).then_some((hash, cached))
}
