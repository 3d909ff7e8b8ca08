//! One ELF file with what is known of its symbols.

use std::fs::File;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSegment};
use procprof_process::{BuildId, open_regular};
use procprof_profile::{FileOffset, SymbolAddr};

use crate::debug_file::{self, Supplement};
use crate::dwarf::SplitFolders;
use crate::file_bytes::FileBytes;
use crate::index::{ImageCache, LayoutKey};
use crate::{Error, ImageOptions, MemoryBudget, Refusal, Resolved, Result, batch};

/// How a separate debug file was found.
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
    /// How it was found.
    pub found_by: FoundBy,
}

/// One ELF file with what is known of its symbols. It stays mapped while the value lives.
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
    /// Where split off units that are not packaged may be.
    pub(crate) split_folders: SplitFolders,
    /// The debug files that were there and not used.
    pub(crate) refused: Vec<Refusal>,
    pub(crate) decompressed_bytes_max: u64,
    pub(crate) memory: Option<MemoryBudget>,
    pub(crate) cache: Option<ImageCache>,
}

/// A `PT_LOAD` segment: what of the file is where in the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    pub(crate) file_bytes: u64,
    pub(crate) address: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) executable: bool,
}

impl Image {
    /// Opens an ELF file and the separate debug file that belongs to it, if there is one.
    pub fn open(path: &Path, options: &ImageOptions) -> Result<Self> {
        let file = open_regular(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        Self::from_file(&file, path, options)
    }

    /// As [`Image::open`], for a file that is open already. `path` is its name, beside which a
    /// debug link is looked for; it is not opened.
    pub fn from_file(file: &File, path: &Path, options: &ImageOptions) -> Result<Self> {
        let bytes = FileBytes::map(file, path, options.file_bytes_max)?;
        let object = parse_elf(&bytes, path)?;
        let segments: Vec<Segment> = object.segments().map(|segment| Segment::of(&segment)).collect();
        let layout_key = layout_key(&object);
        let build_id = object.build_id().ok().flatten().and_then(BuildId::new);
        let mut refused = Vec::new();
        let debug = if has_dwarf(&object) { None } else { debug_file::find(&object, build_id.as_ref(), path, options, &mut refused) };
        let shared = match &debug {
            Some(debug) => parse_elf(&debug.bytes, &debug.file.path)
                .ok()
                .and_then(|object| debug_file::find_shared(&object, &debug.file.path, options)),
            None => debug_file::find_shared(&object, path, options),
        };
        let package = debug_file::find_package(path, options);
        let split_folders = SplitFolders::of(path, options);
        let decompressed_bytes_max = options.decompressed_bytes_max;
        let others = [debug.as_ref().map(|debug| &debug.bytes), shared.as_ref().map(|shared| &shared.bytes)];
        let others = others.into_iter().chain([package.as_ref().map(|package| &package.bytes)]);
        let sizes: Vec<u64> = [Some(&bytes)].into_iter().chain(others).map(|file| file.map_or(0, |bytes| bytes.len() as u64)).collect();
        let cache = ImageCache::of(build_id.as_ref(), &sizes, options);
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

    /// What tells the file from others if it has no build id; its debug file has the same.
    pub fn layout_key(&self) -> LayoutKey {
        self.layout_key
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Where a byte of the file is in the image's own addresses; `None` if it isn't loaded. Where
    /// two segments share a byte, the executable one counts.
    pub fn symbol_addr(&self, offset: FileOffset) -> Option<SymbolAddr> {
        Segment::symbol_addr(&self.segments, offset)
    }

    /// Where a byte of a mapping is in the image's own addresses: the one `distance` behind the
    /// byte of the file at `start`, at which the mapping begins.
    ///
    /// As [`Image::symbol_addr`], but answers for a separate debug file that was opened in place of
    /// its binary, too. Such a file tells no more where the binary's bytes were, but the mapping of
    /// its code can be only one, or all of the image from its beginning.
    pub fn symbol_addr_in(&self, start: FileOffset, distance: u64) -> Option<SymbolAddr> {
        Segment::symbol_addr_in(&self.segments, start, distance)
    }

    /// Looks up a batch of addresses; the answers are in the order of the addresses.
    ///
    /// The debug information is indexed anew on each call, so hand over all addresses at once. Works on
    /// as many threads as there are processors, up to 16.
    pub fn resolve(&self, addresses: &[SymbolAddr]) -> Vec<Resolved> {
        batch::resolve(self, addresses)
    }
}

impl Segment {
    fn of(segment: &object::Segment<'_, '_>) -> Self {
        let (offset, file_bytes) = segment.file_range();
        let executable = match segment.flags() {
            object::SegmentFlags::Elf { p_flags, .. } => p_flags.0 & object::elf::PF_X.0 != 0,
            _ => false,
        };
        Self { offset, file_bytes, address: segment.address(), memory_bytes: segment.size(), executable }
    }

    /// See [`Image::symbol_addr`].
    pub(crate) fn symbol_addr(segments: &[Self], offset: FileOffset) -> Option<SymbolAddr> {
        let holds = |segment: &&Segment| offset.0 >= segment.offset && offset.0 - segment.offset < segment.file_bytes;
        let mut holding = segments.iter().filter(holds);
        let first = holding.clone().next()?;
        let segment = holding.find(|segment| segment.executable).unwrap_or(first);
        let distance = offset.0 - segment.offset;
        segment.address.checked_add(distance).map(SymbolAddr)
    }

    /// See [`Image::symbol_addr_in`].
    pub(crate) fn symbol_addr_in(segments: &[Self], start: FileOffset, distance: u64) -> Option<SymbolAddr> {
        if !Self::are_of_debug_file(segments) {
            return Self::symbol_addr(segments, FileOffset(start.0.checked_add(distance)?));
        }
        /// Smallest page of the kernels profiles are from; segments begin at the same place of a
        /// page in file and memory.
        const PAGE_BYTES: u64 = 4096;
        let mut executable = segments.iter().filter(|segment| segment.executable);
        let code = executable.next().filter(|_| executable.next().is_none())?;
        let first = if start.0 == 0 { segments.first()? } else { code };
        let address = (first.address - first.address % PAGE_BYTES).checked_add(distance)?;
        let is_code = address >= code.address && address - code.address < code.memory_bytes;
        is_code.then_some(SymbolAddr(address))
    }

    /// Whether the code was taken away, as `objcopy --only-keep-debug` does.
    fn are_of_debug_file(segments: &[Self]) -> bool {
        let mut executable = segments.iter().filter(|segment| segment.executable).peekable();
        executable.peek().is_some() && executable.all(|segment| segment.file_bytes == 0 && segment.memory_bytes > 0)
    }
}

/// FNV-1a of what a file and its debug file share: machine, entry point, what is loaded where.
fn layout_key(object: &object::File<'_>) -> LayoutKey {
    const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let flags = |segment: &object::Segment<'_, '_>| match segment.flags() {
        object::SegmentFlags::Elf { p_flags, .. } => u64::from(p_flags.0),
        _ => 0,
    };
    let loaded = object.segments().flat_map(|segment| [segment.address(), segment.size(), flags(&segment)]);
    let mut numbers = vec![u64::from(object.is_64()), u64::from(object.is_little_endian()), machine(object), object.entry()];
    numbers.extend(loaded);
    let add = |key: u128, byte: u8| (key ^ u128::from(byte)).wrapping_mul(PRIME);
    let key = numbers.iter().flat_map(|number| number.to_le_bytes()).fold(OFFSET_BASIS, add);
    LayoutKey(key.to_be_bytes())
}

fn machine(object: &object::File<'_>) -> u64 {
    let machine = match object {
        object::File::Elf32(elf) => elf.elf_header().e_machine.get(elf.endian()),
        object::File::Elf64(elf) => elf.elf_header().e_machine.get(elf.endian()),
        _ => return 0,
    };
    u64::from(machine.0)
}

/// Parses the headers of an ELF file.
pub(crate) fn parse_elf<'data>(bytes: &'data FileBytes, path: &Path) -> Result<object::File<'data>> {
    if !bytes.starts_with(b"\x7fELF") {
        return Err(Error::NotElf { path: path.to_owned() });
    }
    object::File::parse(&**bytes).map_err(|error| Error::Damaged { path: path.to_owned(), what: error.to_string() })
}

/// Whether the file has debug information of its own.
pub(crate) fn has_dwarf(object: &object::File<'_>) -> bool {
    object.section_by_name(".debug_info").is_some()
}
