//! One ELF file with its symbols.

use std::fs::File;
use std::path::{Path, PathBuf};

use object::Object;
use procprof_process::{BuildId, open_regular};
use procprof_profile::{FileOffset, SymbolAddr};

use super::debug_file::{self, DebugFile, Supplement};
use super::file_bytes::FileBytes;
use super::header::{has_dwarf, parse_elf};
use super::image_cache::ImageCache;
use super::layout::{LayoutKey, Segment, layout_key};
use super::split_folders::SplitFolders;
use crate::{Error, ImageOptions, MemoryBudget, Refusal, Result};

/// One ELF file with its symbols. It stays mapped while the value lives.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    pub(crate) bytes: FileBytes,
    build_id: Option<BuildId>,
    segments: Vec<Segment>,
    layout_key: LayoutKey,
    pub(crate) debug: Option<Supplement<DebugFile>>,
    /// The file that the debug information shares parts with (`.gnu_debugaltlink`).
    pub(crate) shared: Option<Supplement<PathBuf>>,
    /// The units that were split off (`.dwp`).
    pub(crate) package: Option<Supplement<PathBuf>>,
    /// The folders of split off units that are not packaged.
    pub(crate) split_folders: SplitFolders,
    /// The debug files that exist and were not used.
    pub(crate) refused: Vec<Refusal>,
    pub(crate) decompressed_bytes_max: u64,
    pub(crate) memory: Option<MemoryBudget>,
    pub(crate) cache: Option<ImageCache>,
}

impl Image {
    /// Opens an ELF file and the separate debug file that belongs to it, if there is one.
    pub fn open(path: &Path, options: &ImageOptions) -> Result<Self> {
        let file = open_regular(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        Self::from_file(&file, path, options)
    }

    /// As [`Image::open`], for a file that is open already. `path` is its name, beside which the file of a debug link
    /// is searched; it is not opened.
    pub fn from_file(file: &File, path: &Path, options: &ImageOptions) -> Result<Self> {
        let bytes = FileBytes::map(file, path, options.file_bytes_max)?;
        let object = parse_elf(&bytes, path)?;
        let segments: Vec<Segment> = object.segments().map(|segment| Segment::from_object(&segment)).collect();
        let layout_key = layout_key(&object);
        let build_id = object.build_id().ok().flatten().and_then(BuildId::new);
        let mut refused = Vec::new();
        let debug = if has_dwarf(&object) {
            None
        } else {
            debug_file::find(&object, build_id.as_ref(), path, options, &mut refused)
        };
        let shared = match &debug {
            Some(debug) => parse_elf(&debug.bytes, &debug.file.path)
                .ok()
                .and_then(|object| debug_file::find_shared(&object, &debug.file.path, options)),
            None => debug_file::find_shared(&object, path, options),
        };
        let package = debug_file::find_package(path, options);
        let split_folders = SplitFolders::new(path, options);
        let decompressed_bytes_max = options.decompressed_bytes_max;
        let others = [debug.as_ref().map(|debug| &debug.bytes), shared.as_ref().map(|shared| &shared.bytes)];
        let others = others.into_iter().chain([package.as_ref().map(|package| &package.bytes)]);
        let sizes: Vec<u64> =
            [Some(&bytes)].into_iter().chain(others).map(|file| file.map_or(0, |bytes| bytes.len() as u64)).collect();
        let cache = ImageCache::new(build_id.as_ref(), &sizes, options.cache.as_ref());
        Ok(Self {
            path: path.to_owned(),
            build_id,
            segments,
            layout_key,
            debug,
            shared,
            package,
            split_folders,
            refused,
            decompressed_bytes_max,
            memory: options.memory.clone(),
            cache,
            bytes,
        })
    }

    /// The name it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its build id; `None` if it has none.
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// The separate debug file in use; `None` if the file has its own debug information, or if no
    /// debug file was found.
    pub fn debug_file(&self) -> Option<&DebugFile> {
        self.debug.as_ref().map(|debug| &debug.file)
    }

    /// Whether it has debug information, its own or a debug file's, and not only symbols.
    pub fn has_debug_info(&self) -> bool {
        let has = |bytes: &FileBytes, path: &Path| parse_elf(bytes, path).is_ok_and(|object| has_dwarf(&object));
        has(&self.bytes, &self.path) || self.debug.as_ref().is_some_and(|debug| has(&debug.bytes, &debug.file.path))
    }

    /// The build id of the file that its debug information shares parts with, if that file was not found.
    pub(crate) fn missing_shared(&self) -> Option<BuildId> {
        if self.shared.is_some() {
            return None;
        }
        let (bytes, path) = match &self.debug {
            Some(debug) => (&debug.bytes, debug.file.path.as_path()),
            None => (&self.bytes, self.path()),
        };
        let object = parse_elf(bytes, path).ok()?;
        let (_, build_id) = object.gnu_debugaltlink().ok()??;
        BuildId::new(build_id)
    }

    /// Distinguishes the file from others if it has no build id; its debug file has the same.
    pub fn layout_key(&self) -> LayoutKey {
        self.layout_key
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The address in the image of a byte of the file; `None` if it isn't loaded. If two segments share a byte, the
    /// executable one is used.
    pub fn symbol_addr(&self, offset: FileOffset) -> Option<SymbolAddr> {
        Segment::symbol_addr(&self.segments, offset)
    }

    /// The address in the image of a byte of a mapping: the one `distance` behind the
    /// byte of the file at `start`, at which the mapping begins.
    ///
    /// As [`Image::symbol_addr`], but also works for a separate debug file that was opened instead of its binary. Such
    /// a file no longer contains where the binary's bytes were, but the mapping of its code can be only one, or all of
    /// the image from its beginning.
    pub fn symbol_addr_in(&self, start: FileOffset, distance: u64) -> Option<SymbolAddr> {
        Segment::symbol_addr_in(&self.segments, start, distance)
    }
}
