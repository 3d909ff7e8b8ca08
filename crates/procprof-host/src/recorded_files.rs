//! The files of a recording made by `perf record`, on this machine: their unwind tables and build ids.

use foldhash::HashMap;
use procprof_profile::format::perf_data::{Code, CodeFiles, Machine, StackEnd};
use procprof_profile::perf_event::{ImageId, ImageKey, Sample};
use procprof_unwind::{Architecture, Cache};

use crate::ending::Ending;
use crate::images::Images;
use crate::processes::Unwinding;
use crate::session::WalkOutcome;

/// Most processes whose tables are kept.
const PROCESSES_MAX: usize = 1024;

/// Unwinds the copied stacks of recordings by the files on this machine, each proven to be the recorded one: by build
/// id, or on the machine that it was recorded on by device and inode.
#[derive(Debug, Default)]
pub struct RecordedFiles {
    opened: Option<Opened>,
}

#[derive(Debug)]
struct Opened {
    architecture: Architecture,
    is_this_host: bool,
    images: Images,
    cache: Cache,
    /// The tables of a process's code of some version.
    processes: HashMap<u32, (u64, Unwinding)>,
    generation: u16,
}

impl CodeFiles for RecordedFiles {
    fn recorded_on(&mut self, machine: &Machine) {
        let architecture = match machine.architecture.as_str() {
            "x86_64" => Some(Architecture::X86_64),
            "aarch64" => Some(Architecture::Aarch64),
            // An unfinished recording does not tell.
            "" => Architecture::native(),
            _ => None,
        };
        let own = rustix::system::uname();
        let is_this_host = own.nodename().to_bytes() == machine.host.as_bytes() || machine.host.is_empty();
        self.opened = architecture.map(|architecture| Opened {
            architecture,
            is_this_host,
            images: Images::new(architecture),
            cache: Cache::new(),
            processes: HashMap::default(),
            generation: 0,
        });
    }

    fn unwind(&mut self, code: Code<'_>, sample: &Sample<'_>, addresses: &mut Vec<u64>) -> StackEnd {
        let Some(opened) = &mut self.opened else { return StackEnd::NotUnwound };
        match opened.walk(code, sample, addresses) {
            Ending::Root => StackEnd::Root,
            Ending::Cut => StackEnd::Cut,
            Ending::Deep => StackEnd::Deep,
            Ending::Lost(_) | Ending::NoRegisters => StackEnd::Broken,
        }
    }

    fn build_id(&mut self, image: ImageId, images: &[ImageKey]) -> Option<Box<[u8]>> {
        let opened = self.opened.as_mut()?;
        opened.images.add(images, opened.is_this_host);
        opened.images.read_build_id(image)
    }
}

impl Opened {
    fn walk(&mut self, code: Code<'_>, sample: &Sample<'_>, addresses: &mut Vec<u64>) -> Ending {
        let version = self.processes.get(&code.pid).map(|(version, _)| *version);
        if version != Some(code.version) {
            let Some(generation) = self.generation.checked_add(1).filter(|_| self.processes.len() < PROCESSES_MAX)
            else {
                // All numbers of address spaces are used: begin anew, with nothing that remembers the old ones.
                (self.generation, self.cache) = (0, Cache::new());
                self.processes.clear();
                return self.walk(code, sample, addresses);
            };
            self.generation = generation;
            self.images.add(code.images, self.is_this_host);
            let unwinding = Unwinding::new(code.space, &self.images, generation);
            self.processes.insert(code.pid, (code.version, unwinding));
        }
        let Some((_, unwinding)) = self.processes.get(&code.pid) else { return Ending::NoRegisters };
        let Self { architecture, images, cache, .. } = self;
        match unwinding.walk(*architecture, code.space, images, cache, None, sample, addresses) {
            WalkOutcome::Whole(unwound) => unwound.ending,
            WalkOutcome::Opened => {
                self.processes.remove(&code.pid);
                self.walk(code, sample, addresses)
            }
        }
    }
}
