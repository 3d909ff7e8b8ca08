//! The files whose code processes have mapped, with their unwind tables; each once, however many processes have it.
//!
//! A file is opened when a stack first leads into it, and proven to be the mapped one: by the
//! kernel's own link to it, by device and inode, or by build id. Of its tables, regions are compiled as stacks need
//! them.

mod calls;
mod content;
mod debug_frame;
mod go_frames;
mod kept_tables;
mod limited_reads;
mod section_bytes;

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashSet};
use procprof_process::{BuildId, Pid, Process, open_regular, thread_cpu_time};
use procprof_profile::perf_event::{FileIdentity, ImageId, ImageKey, MappedCode};
use procprof_symbolize::ProvenFile;
use procprof_unwind::{Architecture, Code, Source, Table};

pub(crate) use self::calls::KnownCalls;
pub use self::content::SECTION_BYTES_MAX;
use self::content::{CodeSegment, Content, Layout, MadeTable, Sections};
pub(crate) use self::go_frames::{GoCode, StackRole};
use self::kept_tables::{FileKey, FileTables, KeptTables};

/// Most bytes of sections kept in memory between two compilations.
const KEPT_SECTION_BYTES: usize = 32 << 20;

/// Files in memory that are known to be no images.
const GENERATED_MAX: usize = 4096;

/// Where an image was seen: the place to open it from.
#[derive(Clone, Copy, Debug)]
struct Seen {
    pid: u32,
    start: u64,
}

#[derive(Debug)]
struct Image {
    key: ImageKey,
    /// `None` in a recording made before by `perf record`.
    seen: Option<Seen>,
    state: State,
}

#[derive(Debug)]
enum State {
    NotOpened,
    /// Memory without a file, or a file that could not be opened.
    Closed,
    Open(Box<Open>),
}

#[derive(Debug)]
struct Open {
    content: Content,
    build_id: Option<BuildId>,
    layout: Layout,
    table: Option<Arc<Table>>,
    sections: Option<Sections>,
    /// The search table, if it was made since the file has none.
    made: Option<MadeTable>,
    go: Option<GoCode>,
    /// The cut before which it had samples last.
    used: u64,
}

/// A file as the profile has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileFacts {
    pub(crate) path: String,
    /// In hexadecimal; empty if there is none.
    pub(crate) build_id: String,
    /// The process whose memory without a file it is.
    pub(crate) memory_of: Option<u32>,
}

/// The files of the images with samples.
pub(crate) type Files = HashMap<ImageId, FileFacts>;

/// All images.
#[derive(Debug)]
pub(crate) struct Images {
    architecture: Architecture,
    all: Vec<Image>,
    by_key: HashMap<ImageKey, ImageId>,
    /// Numbers of images that were forgotten.
    free: Vec<ImageId>,
    /// Files in memory that are no images.
    generated: HashSet<ImageKey>,
    kept_bytes: usize,
    /// Uses of sections, and cuts.
    uses: u64,
    cuts: u64,
    kept: KeptTables,
    /// CPU time for opening files and making their tables, since the beginning.
    pub(crate) preparation: Duration,
    /// Return addresses, as places in images, and whether a call precedes them.
    pub(crate) calls: KnownCalls,
}

impl Images {
    pub(crate) fn new(architecture: Architecture) -> Self {
        Self {
            architecture,
            all: Vec::new(),
            by_key: HashMap::default(),
            free: Vec::new(),
            generated: HashSet::default(),
            kept_bytes: 0,
            uses: 0,
            cuts: 0,
            kept: KeptTables::default(),
            preparation: Duration::ZERO,
            calls: KnownCalls::default(),
        }
    }

    /// The image of a mapping that a record or `/proc` tells of.
    pub(crate) fn mapped(&mut self, pid: u32, start: u64, identity: FileIdentity<'_>, path: &Path) -> ImageId {
        let seen = Some(Seen { pid, start });
        let key = self.memory_file(pid, start, identity, path).unwrap_or_else(|| ImageKey::new(pid, identity, path));
        if let Some(id) = self.by_key.get(&key) {
            let image = &mut self.all[id.0 as usize];
            // What one process no longer gives another one may.
            if matches!(image.state, State::NotOpened | State::Closed) {
                (image.seen, image.state) = (seen, State::NotOpened);
            }
            return *id;
        }
        let image = Image { key: key.clone(), seen, state: State::NotOpened };
        let id = self.free.pop().unwrap_or(ImageId(self.all.len() as u32));
        match self.all.get_mut(id.0 as usize) {
            Some(forgotten) => *forgotten = image,
            None => self.all.push(image),
        }
        self.by_key.insert(key, id);
        id
    }

    /// The key of a file in memory that is an ELF image.
    fn memory_file(&mut self, pid: u32, start: u64, identity: FileIdentity<'_>, path: &Path) -> Option<ImageKey> {
        let key = ImageKey::memory_file(identity, path)?;
        if self.by_key.contains_key(&key) {
            return Some(key);
        }
        let generated = &mut self.generated;
        if generated.contains(&key) {
            return None;
        }
        let image = Image { key, seen: Some(Seen { pid, start }), state: State::NotOpened };
        let begun = thread_cpu_time();
        let is_image = image.open().is_some();
        self.preparation += thread_cpu_time().saturating_sub(begun);
        if is_image {
            return Some(image.key);
        }
        if generated.len() < GENERATED_MAX {
            generated.insert(image.key);
        }
        None
    }

    /// Adds the images of a recording that are not known yet; nothing but a build id proves those of another host.
    pub(crate) fn add(&mut self, keys: &[ImageKey], is_of_this_host: bool) {
        for key in keys.iter().skip(self.all.len()) {
            let is_provable = is_of_this_host || matches!(key, ImageKey::BuildId(..));
            let state = if is_provable { State::NotOpened } else { State::Closed };
            self.all.push(Image { key: key.clone(), seen: None, state });
        }
    }

    /// The build id of an image's file, if it can be opened and has one.
    pub(crate) fn read_build_id(&mut self, id: ImageId) -> Option<Box<[u8]>> {
        match &self.opened(id).state {
            State::Open(open) => open.build_id.as_ref().map(|id| id.as_bytes().into()),
            State::NotOpened | State::Closed => None,
        }
    }

    /// An image, opened if that was not tried.
    fn opened(&mut self, id: ImageId) -> &Image {
        if matches!(self.all[id.0 as usize].state, State::NotOpened) {
            self.prepare(|images| images.open(id));
        }
        &self.all[id.0 as usize]
    }

    fn open(&mut self, id: ImageId) {
        let (architecture, cuts) = (self.architecture, self.cuts);
        let image = &mut self.all[id.0 as usize];
        image.state = image.open().map_or(State::Closed, |open| State::Open(Box::new(open)));
        let State::Open(open) = &mut image.state else { return };
        open.used = cuts;
        match open.key().and_then(|key| self.kept.take(&key)) {
            Some(FileTables { table, made, .. }) if Some(table.range()) == open.table_range(architecture) => {
                (open.table, open.made) = (Some(table), made);
            }
            _ => open.share_table(architecture),
        }
    }

    /// Does work whose cost does not depend on the number of samples, and adds its CPU time.
    fn prepare<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let begun = thread_cpu_time();
        let result = work(self);
        self.preparation += thread_cpu_time().saturating_sub(begun);
        result
    }

    /// Opens an image if that was not tried; whether it is open.
    pub(crate) fn is_opened(&mut self, id: ImageId) -> bool {
        matches!(self.opened(id).state, State::Open(_))
    }

    /// Whether an image is open.
    pub(crate) fn is_open(&self, id: ImageId) -> bool {
        matches!(self.all[id.0 as usize].state, State::Open(_))
    }

    /// The unwind tables of mapped code, if its image is open.
    pub(crate) fn code(&self, mapped: &MappedCode) -> Code {
        let none = Code { range: mapped.range.clone(), bias: 0, table: None };
        let State::Open(open) = &self.all[mapped.image.0 as usize].state else { return none };
        let Some(bias) = open.layout.bias(mapped) else { return none };
        Code { bias, table: open.table.clone(), ..none }
    }

    /// Calls a function with the unwind sections of mapped code, as far as a look-up of an address needs them, and the
    /// distance of its addresses from those of the image; `None` if there are none.
    pub(crate) fn with_source<T>(
        &mut self,
        mapped: &MappedCode,
        address: u64,
        function: impl FnOnce(&Source<'_>, u64) -> T,
    ) -> Option<T> {
        let architecture = self.architecture;
        let State::Open(open) = &self.all[mapped.image.0 as usize].state else { return None };
        let bias = open.layout.bias(mapped).filter(|_| open.table.is_some())?;
        let in_file = address.wrapping_sub(bias);
        self.prepare(|images| images.require(mapped.image, in_file..in_file.saturating_add(1)));
        let State::Open(open) = &self.all[mapped.image.0 as usize].state else { return None };
        open.sections.as_ref().map(|sections| function(&sections.source(architecture), bias))
    }

    /// Reads of an open image's sections what a look-up of addresses of the file needs.
    fn require(&mut self, id: ImageId, addresses: Range<u64>) {
        self.uses += 1;
        let State::Open(open) = &mut self.all[id.0 as usize].state else { return };
        let Open { content, layout, made, sections, .. } = &mut **open;
        let sections = sections.get_or_insert_with(|| content.sections(layout, made));
        let before = self.kept_bytes.saturating_sub(sections.counted);
        sections.prepare(content.file(), &addresses);
        (sections.used, sections.counted) = (self.uses, sections.bytes());
        self.kept_bytes = before + sections.counted;
        if self.kept_bytes > KEPT_SECTION_BYTES {
            self.drop_sections_except(id);
        }
    }

    /// Whether an image is memory without a file.
    pub(crate) fn is_anonymous(&self, id: ImageId) -> bool {
        matches!(self.all[id.0 as usize].key, ImageKey::Anonymous(_))
    }

    /// Reads code from the file of an image, from an address on: up to the end of the mapping; the number of bytes.
    pub(crate) fn read_code(&mut self, mapped: &MappedCode, address: u64, into: &mut [u8]) -> Option<usize> {
        let length = usize::try_from(mapped.range.end.checked_sub(address)?).unwrap_or(usize::MAX).min(into.len());
        match &self.opened(mapped.image).state {
            State::Open(open) => open.content.read_at(mapped.place_of(address), into.get_mut(..length)?),
            State::NotOpened | State::Closed => None,
        }
    }

    /// The code of Go in an image that was opened.
    pub(crate) fn go_code(&self, id: ImageId) -> Option<&GoCode> {
        match &self.all[id.0 as usize].state {
            State::Open(open) => open.go.as_ref(),
            State::NotOpened | State::Closed => None,
        }
    }

    /// The bytes of code at an address of an open image.
    pub(crate) fn code_bytes<const BYTES: usize>(&self, id: ImageId, address: u64) -> Option<[u8; BYTES]> {
        match &self.all[id.0 as usize].state {
            State::Open(open) => open.content.code_bytes(&open.layout, address),
            State::NotOpened | State::Closed => None,
        }
    }

    /// Compiles what look-ups have asked for in an image; whether that was anything.
    pub(crate) fn compile_wanted(&mut self, id: ImageId) -> bool {
        let architecture = self.architecture;
        let State::Open(open) = &self.all[id.0 as usize].state else { return false };
        let Some(table) = open.table.clone().filter(|table| table.is_wanted()) else { return false };
        self.prepare(|images| {
            for region in table.take_wanted() {
                images.require(id, region.clone());
                let State::Open(open) = &images.all[id.0 as usize].state else { return };
                if let Some(sections) = &open.sections {
                    table.compile(&sections.source(architecture), region);
                }
            }
        });
        true
    }

    /// The addresses of the function that contains one, by the unwind tables of an open image.
    pub(crate) fn function_at(&mut self, id: ImageId, address: u64) -> Option<Range<u64>> {
        let architecture = self.architecture;
        self.prepare(|images| images.require(id, address..address.saturating_add(1)));
        let State::Open(open) = &self.all[id.0 as usize].state else { return None };
        open.sections.as_ref()?.source(architecture).function(address)
    }

    /// Drops sections, the least recently used first, until the rest takes half of what may be kept.
    fn drop_sections_except(&mut self, kept: ImageId) {
        let mut by_use: Vec<(u64, usize)> = Vec::new();
        for (place, image) in self.all.iter().enumerate() {
            if let State::Open(open) = &image.state
                && let Some(sections) = open.sections.as_ref().filter(|_| place != kept.0 as usize)
            {
                by_use.push((sections.used, place));
            }
        }
        by_use.sort_unstable();
        for (_, place) in by_use {
            if self.kept_bytes <= KEPT_SECTION_BYTES / 2 {
                break;
            }
            self.drop_sections(place);
        }
    }

    fn drop_sections(&mut self, place: usize) {
        if let State::Open(open) = &mut self.all[place].state {
            let counted = open.sections.take().map_or(0, |sections| sections.counted);
            self.kept_bytes = self.kept_bytes.saturating_sub(counted);
        }
    }

    /// What the profile has of an image's file.
    pub(crate) fn facts(&self, id: ImageId) -> FileFacts {
        let image = &self.all[id.0 as usize];
        let memory_of = if let ImageKey::Anonymous(pid) = image.key { Some(pid) } else { None };
        let path = image.key.path().to_string_lossy().into_owned();
        FileFacts { path, build_id: self.build_id(id), memory_of }
    }

    /// The build id in hexadecimal; empty if there is none, or the file could not be opened to read it.
    fn build_id(&self, id: ImageId) -> String {
        let image = &self.all[id.0 as usize];
        let known = match &image.key {
            ImageKey::BuildId(id, _) => BuildId::new(id),
            _ => None,
        };
        let read = match &image.state {
            State::Open(open) => open.build_id.clone(),
            _ => None,
        };
        read.or(known).map_or_else(String::new, |id| id.to_string())
    }

    /// The open file with a build id, in hexadecimal.
    pub(crate) fn file(&self, build_id: &str) -> Option<ProvenFile> {
        self.all.iter().find_map(|image| {
            let State::Open(open) = &image.state else { return None };
            let is_it = open.build_id.as_ref().is_some_and(|id| id.to_string() == build_id);
            let file = open.content.file().filter(|_| is_it)?.try_clone().ok()?;
            Some(ProvenFile { path: image.key.path().to_owned(), file })
        })
    }

    /// Notes that an image had samples before this cut.
    pub(crate) fn note_use(&mut self, id: ImageId) {
        let cuts = self.cuts;
        if let State::Open(open) = &mut self.all[id.0 as usize].state {
            open.used = cuts;
        }
    }

    /// Forgets the images that are not in use; their numbers are given to others. Their tables are kept for a while.
    pub(crate) fn forget(&mut self, is_used: impl Fn(ImageId) -> bool) {
        self.cuts += 1;
        for place in 0..self.all.len() {
            let id = ImageId(place as u32);
            if is_used(id) || self.by_key.get(&self.all[place].key) != Some(&id) {
                continue;
            }
            self.drop_sections(place);
            let image = &mut self.all[place];
            self.by_key.remove(&image.key);
            if let State::Open(open) = std::mem::replace(&mut image.state, State::Closed)
                && let Some((key, tables)) = open.into_tables()
            {
                self.kept.keep(key, tables);
            }
            self.free.push(id);
        }
        self.calls.clear();
        self.generated.clear();
    }

    /// Forgets unwind tables, the least recently used first, until the rest takes at most so many bytes; they are made
    /// again as stacks need them. Whether tables are gone that address spaces still have.
    pub(crate) fn shrink_tables(&mut self, bytes_max: usize) -> bool {
        let of_open: usize = self.all.iter().map(Image::table_memory).sum();
        self.kept.shrink(bytes_max.saturating_sub(of_open));
        let mut bytes = of_open;
        if bytes <= bytes_max {
            return false;
        }
        let used = |image: &Image| if let State::Open(open) = &image.state { open.used } else { 0 };
        let mut by_use: Vec<(u64, usize)> =
            self.all.iter().enumerate().map(|(place, image)| (used(image), place)).collect();
        by_use.sort_unstable();
        for (_, place) in by_use {
            if bytes <= bytes_max {
                break;
            }
            bytes -= self.all[place].table_memory();
            self.drop_sections(place);
            if let State::Open(open) = &mut self.all[place].state {
                open.made = None;
                open.share_table(self.architecture);
            }
        }
        true
    }

    /// Forgets all unwind tables; they are made again as stacks need them.
    pub(crate) fn forget_tables(&mut self) {
        self.kept.clear();
        for place in 0..self.all.len() {
            self.drop_sections(place);
            if let State::Open(open) = &mut self.all[place].state {
                open.made = None;
                open.share_table(self.architecture);
            }
        }
    }

    /// Bytes that tables and sections take.
    pub(crate) fn memory(&self) -> usize {
        self.kept_bytes + self.kept.memory() + self.all.iter().map(Image::table_memory).sum::<usize>()
    }

    /// The files for names, open since they were proven. One without a build id is left out if another had the same
    /// path.
    pub(crate) fn into_proven_files(self) -> Vec<ProvenFile> {
        let mut users: HashMap<PathBuf, usize> = HashMap::default();
        for image in
            self.all.iter().filter(|image| matches!(&image.state, State::Open(open) if open.build_id.is_none()))
        {
            *users.entry(image.key.path().to_owned()).or_default() += 1;
        }
        let file = |image: Image| {
            let path = image.key.path().to_owned();
            let State::Open(open) = image.state else { return None };
            let is_known = open.build_id.is_some() || users.get(&path) == Some(&1);
            let file = open.content.into_file().filter(|_| is_known)?;
            Some(ProvenFile { path, file })
        };
        self.all.into_iter().filter_map(file).collect()
    }
}

impl Image {
    /// Opens the file; `None` if none is proven to be the mapped one.
    fn open(&self) -> Option<Open> {
        match &self.key {
            ImageKey::Anonymous(_) | ImageKey::Path(_) => None,
            ImageKey::Vdso => Open::new(Content::own_vdso()?),
            ImageKey::BuildId(id, path) => {
                let wanted = BuildId::new(id)?;
                let is_it = |file: &File| BuildId::of_file(file).ok().flatten().as_ref() == Some(&wanted);
                let own = open_regular(path).ok().filter(is_it);
                Open::new(Content::File(own.or_else(|| self.open_through_process().filter(is_it))?))
            }
            ImageKey::Inode(device, inode, path) => {
                let is_it = |file: &File| {
                    use std::os::unix::fs::MetadataExt;
                    let metadata = file.metadata().ok();
                    metadata.is_some_and(|metadata| {
                        let found = metadata.dev();
                        (rustix::fs::major(found), rustix::fs::minor(found)) == *device && metadata.ino() == *inode
                    })
                };
                let own = open_regular(path).ok().filter(is_it);
                Open::new(Content::File(own.or_else(|| self.open_through_process())?))
            }
        }
    }

    /// The file that the process has mapped where the image was seen, by the links of `/proc`.
    fn open_through_process(&self) -> Option<File> {
        let Seen { pid, start } = self.seen?;
        let process = Process::open(Pid(pid)).ok()?;
        let maps = process.maps().ok()?;
        let range = maps.iter().find(|range| (range.start.0..range.limit.0).contains(&start))?;
        let is_it = match &self.key {
            ImageKey::Inode(device, inode, _) => (range.device, range.inode) == (*device, *inode),
            _ => true,
        };
        process.open_mapped(range).ok().filter(|_| is_it).map(|mapped| mapped.file)
    }

    /// Bytes of its compiled regions and of a search table that was made.
    fn table_memory(&self) -> usize {
        match &self.state {
            State::Open(open) => {
                let made = open.made.as_ref().map_or(0, |(table, _)| table.len());
                made + open.table.as_ref().map_or(0, |table| table.memory())
            }
            State::NotOpened | State::Closed => 0,
        }
    }
}

impl Open {
    fn new(content: Content) -> Option<Self> {
        let layout = content.layout()?;
        let build_id = content.build_id();
        let go = content.go_code(&layout);
        Some(Self { content, build_id, layout, table: None, sections: None, made: None, go, used: 0 })
    }

    /// The identity of its file.
    fn key(&self) -> Option<FileKey> {
        FileKey::new(self.content.file()?, self.build_id.as_ref()?)
    }

    /// The addresses that a table for it has.
    fn table_range(&self, architecture: Architecture) -> Option<Range<u64>> {
        let code = self.layout.code_range().filter(|_| self.layout.architecture == Some(architecture))?;
        Some(Table::new(code).range())
    }

    fn share_table(&mut self, architecture: Architecture) {
        let code = self.layout.code_range().filter(|_| self.layout.architecture == Some(architecture));
        self.table = code.map(|code| Arc::new(Table::new(code)));
    }

    /// The tables made of its file, if that is worth keeping.
    fn into_tables(self) -> Option<(FileKey, FileTables)> {
        let key = self.key()?;
        let table = self.table?;
        Some((key, FileTables { table, made: self.made, used: self.used }))
    }
}

impl Layout {
    /// The distance of a mapping's addresses from those of the image.
    fn bias(&self, mapped: &MappedCode) -> Option<u64> {
        let segment = self.segment_at(mapped.file_offset)?;
        let address = segment.address.wrapping_add(mapped.file_offset.wrapping_sub(segment.offset));
        Some(mapped.range.start.wrapping_sub(address))
    }

    /// The segment of code that a mapping from that place in the file on belongs to.
    fn segment_at(&self, offset: u64) -> Option<&CodeSegment> {
        const PAGE: u64 = 4096;
        self.code.iter().find(|segment| {
            offset >= segment.offset / PAGE * PAGE && offset < segment.offset.saturating_add(segment.size.max(1))
        })
    }
}
