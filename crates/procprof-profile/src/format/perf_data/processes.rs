//! The processes of a recording: names, threads and code, as its records tell of them.

use std::path::Path;
use std::sync::Arc;

use foldhash::HashMap;

use super::Code;
use super::features::Features;
use crate::perf_event::{AddressSpace, FileIdentity, ImageId, ImageKey, MappedCode, MappedFile, Task};

/// The kernel keeps so many bytes of a name.
const NAME_BYTES: usize = 15;
/// The name of the process that stands for idle CPUs.
const IDLE: &str = "swapper";

/// The number of a name.
pub(super) type NameId = u32;

#[derive(Clone, Debug, Default)]
struct Process {
    name: NameId,
    threads: HashMap<u32, NameId>,
    space: Arc<AddressSpace>,
    version: u64,
}

/// All processes by pid. One that has ended is kept: other threads of it may still run.
#[derive(Debug)]
pub(super) struct Processes {
    all: HashMap<u32, Process>,
    names: HashMap<String, NameId>,
    pub(super) all_names: Vec<String>,
    by_key: HashMap<ImageKey, ImageId>,
    pub(super) images: Vec<ImageKey>,
    version: u64,
    /// Ranges of code that may still be copied for processes that change what they have in common with their origin.
    copies_left: usize,
    /// Mappings that were more than that, or than a process may have.
    pub(super) mappings_refused: u64,
}

impl Processes {
    /// No processes, of a recording of so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        let mut processes = Self {
            all: HashMap::default(),
            names: HashMap::default(),
            all_names: Vec::new(),
            by_key: HashMap::default(),
            images: Vec::new(),
            version: 0,
            copies_left: bytes / 8 + 256,
            mappings_refused: 0,
        };
        processes.named(0, 0, IDLE.as_bytes(), false);
        processes
    }

    fn name(&mut self, name: &[u8]) -> NameId {
        let text = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES)]).into_owned();
        *self.names.entry(text).or_insert_with_key(|name| {
            self.all_names.push(name.clone());
            self.all_names.len() as NameId - 1
        })
    }

    /// A process has mapped code.
    pub(super) fn mapped(&mut self, mapped: &MappedFile<'_>, features: &Features<'_>) {
        let MappedFile { pid, start, length, offset, identity, path, .. } = *mapped;
        let identity = match (identity, features.build_id(path)) {
            (FileIdentity::BuildId(_), _) | (_, None) => identity,
            (_, Some(id)) => FileIdentity::BuildId(id),
        };
        let path = String::from_utf8_lossy(path);
        let image = self.image(ImageKey::new(pid, identity, Path::new(&*path)));
        let code = MappedCode { range: start..start.saturating_add(length), file_offset: offset, image };
        self.version += 1;
        let process = self.all.entry(pid).or_default();
        let copied = if Arc::strong_count(&process.space) > 1 { process.space.code().len() } else { 0 };
        let left = self.copies_left.checked_sub(copied);
        self.copies_left = left.unwrap_or(self.copies_left);
        if left.is_none() || !Arc::make_mut(&mut process.space).insert(code) {
            self.mappings_refused += 1;
        }
        process.version = self.version;
    }

    fn image(&mut self, key: ImageKey) -> ImageId {
        if let Some(id) = self.by_key.get(&key) {
            return *id;
        }
        let id = ImageId(self.images.len() as u32);
        self.images.push(key.clone());
        self.by_key.insert(key, id);
        id
    }

    /// A thread has a name; with a program executed, the address space begins anew.
    pub(super) fn named(&mut self, pid: u32, tid: u32, name: &[u8], is_exec: bool) {
        let name = self.name(name);
        self.version += 1;
        let process = self.all.entry(pid).or_default();
        if is_exec {
            *process = Process { version: self.version, ..Process::default() };
        }
        if pid == tid {
            process.name = name;
        }
        process.threads.insert(tid, name);
    }

    /// A thread or process begins: it has the name of its origin, a process also its address space.
    pub(super) fn forked(&mut self, task: Task) {
        let Some(parent) = self.all.get_mut(&task.parent) else { return };
        let name = parent.name;
        if task.pid == task.parent {
            parent.threads.entry(task.tid).or_insert(name);
            return;
        }
        let (space, version) = (Arc::clone(&parent.space), parent.version);
        let threads = std::iter::once((task.tid, name)).collect();
        self.all.insert(task.pid, Process { name, threads, space, version });
    }

    /// The names of a process and of its thread, if they are known.
    pub(super) fn names(&self, pid: u32, tid: u32) -> (Option<NameId>, Option<NameId>) {
        let process = self.all.get(&pid);
        let name = process.map(|process| process.name);
        (name, process.and_then(|process| process.threads.get(&tid)).copied().or(name))
    }

    /// The code of a process, if anything is known of it.
    pub(super) fn code(&self, pid: u32) -> Option<Code<'_>> {
        let process = self.all.get(&pid)?;
        Some(Code { pid, version: process.version, space: &process.space, images: &self.images })
    }
}
