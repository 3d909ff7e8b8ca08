//! Redirects calls of C library functions through our hooks, and restores them.
//!
//! A dynamically linked file calls another file's function through a word that the loader has filled in, its entry of
//! the global offset table. Writing our function's address there redirects the calls of that file until it is restored:
//! it costs nothing before and after, needs no special linking, and code that does not wait never passes it. (A
//! function `syscall` of our own, exported by the program, would work as well, but could not be removed again, would
//! intercept every other system call from the start, and could exist only once in a program.) With full RELRO the table
//! can't be written to, so its pages are made writable for the moment of the change: those that *are* read-only by the
//! memory map, for the last page that RELRO names holds the program's variables, too, where it is not filled, and the
//! loader leaves it writable. A page that the loader has yet to protect belongs to a file that is still being loaded,
//! which is left to a later round.
//!
//! Not reached are system calls made without the C library, statically linked programs, and functions found by `dlsym`.

use super::origin::{self, Family};
use crate::cpu::regions::Regions;
use crate::loader;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A function of the C library to be hooked, unless another file defines one of its family.
pub(super) struct Hook {
    pub(super) family: Family,
    pub(super) name: &'static CStr,
    /// Ours.
    pub(super) function: usize,
    /// The C library's; 0 until it is known.
    pub(super) real: &'static AtomicUsize,
}

/// Entries that lead to us.
#[derive(Debug)]
pub(super) struct Patched {
    /// Address of each entry, and its former value.
    entries: Vec<(usize, usize)>,
    /// Entries that led to us after the last look, including those that an ancestor of this process has redirected.
    leading: usize,
    /// Looks in a row at which the loader was not done with some file.
    unfinished: u32,
}

/// Looks after which a page that is still writable stays so: ten a second.
const MOST_UNFINISHED: u32 = 50;

/// The result of writing an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Done,
    Refused,
    /// The loader is at work on it.
    NotYet,
}

/// The loaded file while the loader holds it.
struct Image<'a> {
    base: usize,
    headers: &'a [libc::Elf64_Phdr],
}

/// Words of the dynamic section that are of interest.
#[derive(Default)]
struct Dynamic {
    symbols: usize,
    strings: usize,
    /// The two relocation tables: where, and their bytes.
    relocations: [(usize, usize); 2],
}

#[cfg(target_arch = "x86_64")]
const ENTRY_KINDS: [u64; 2] = [6, 7];
#[cfg(not(target_arch = "x86_64"))]
const ENTRY_KINDS: [u64; 2] = [1025, 1026];

impl Patched {
    pub(super) const fn new() -> Self {
        Self { entries: Vec::new(), leading: 0, unfinished: 0 }
    }

    /// Leads all files that are loaded now through the hooks; those that are led already stay so.
    pub(super) fn extend(&mut self, hooks: &[Hook]) {
        let others: Vec<Family> = origin::defined_by_others(hooks).map(|hook| hook.family).collect();
        for hook in hooks.iter().filter(|hook| hook.real.load(Ordering::Relaxed) == 0 && !others.contains(&hook.family))
        {
            if let Some(real) = origin::of_the_c_library(hook.name) {
                hook.real.store(real, Ordering::SeqCst);
            }
        }
        let (entries, pages) = (&mut self.entries, Pages::now(self.unfinished >= MOST_UNFINISHED));
        let (mut leading, mut is_unfinished) = (0, false);
        each_image(|image| {
            image.each_entry(hooks, &mut |place, hook| {
                if hook.real.load(Ordering::Relaxed) == 0 {
                    return;
                }
                // SAFETY: an entry of a loaded file, while the loader holds it.
                let former = unsafe { (*(place as *const AtomicUsize)).load(Ordering::SeqCst) };
                if former == hook.function {
                    leading += 1;
                    return;
                }
                let written = if image.is_relocated(former) {
                    image.write(place, hook.function, &pages)
                } else {
                    Written::NotYet
                };
                is_unfinished |= written == Written::NotYet;
                if written == Written::Done {
                    leading += 1;
                    entries.push((place, former));
                }
            });
        });
        self.leading = leading;
        self.unfinished = if is_unfinished && self.unfinished < MOST_UNFINISHED { self.unfinished + 1 } else { 0 };
    }

    /// Whether the loader was not done with all files at the last look.
    pub(super) fn is_unfinished(&self) -> bool {
        self.unfinished > 0
    }

    /// Restores the former values in the entries of files that are still loaded.
    pub(super) fn undo(&mut self, hooks: &[Hook]) {
        let (entries, pages) = (std::mem::take(&mut self.entries), Pages::now(true));
        self.leading = 0;
        each_image(|image| {
            image.each_entry(hooks, &mut |place, hook| {
                // SAFETY: an entry of a loaded file, while the loader holds it.
                let now = unsafe { (*(place as *const AtomicUsize)).load(Ordering::SeqCst) };
                if now == hook.function {
                    let former = entries.iter().rev().find(|(known, _)| *known == place).map(|(_, former)| *former);
                    image.write(place, former.unwrap_or(hook.real.load(Ordering::Relaxed)), &pages);
                }
            });
        });
    }

    /// How many entries lead to us.
    pub(super) fn count(&self) -> usize {
        self.leading
    }
}

impl Image<'_> {
    /// Hands over the entries of hooked functions.
    fn each_entry(&self, hooks: &[Hook], each: &mut dyn FnMut(usize, &Hook)) {
        let Some(dynamic) = self.dynamic() else { return };
        let relocations = dynamic.relocations.iter().flat_map(|(start, bytes)| {
            let count = bytes / size_of::<libc::Elf64_Rela>();
            // SAFETY: the file's own table, mapped as long as the loader holds the file.
            (0..count).map(move |index| unsafe { (*start as *const libc::Elf64_Rela).add(index).read_unaligned() })
        });
        for relocation in relocations.filter(|relocation| ENTRY_KINDS.contains(&(relocation.r_info & 0xffff_ffff))) {
            // SAFETY: the file's own symbol, which its relocation names.
            let symbol = unsafe {
                (dynamic.symbols as *const libc::Elf64_Sym).add((relocation.r_info >> 32) as usize).read_unaligned()
            };
            // SAFETY: the symbol's name in the file's own strings, ended by a zero.
            let name = unsafe { CStr::from_ptr((dynamic.strings + symbol.st_name as usize) as *const libc::c_char) };
            if let Some(hook) = hooks.iter().find(|hook| hook.name == name) {
                each(self.base.wrapping_add(relocation.r_offset as usize), hook);
            }
        }
    }

    /// The tables of a file that has all of them.
    fn dynamic(&self) -> Option<Dynamic> {
        const PLTRELSZ: u64 = 2;
        const STRTAB: u64 = 5;
        const SYMTAB: u64 = 6;
        const RELA: u64 = 7;
        const RELASZ: u64 = 8;
        const JMPREL: u64 = 23;
        let header = self.headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let words = self.base.wrapping_add(header.p_vaddr as usize) as *const [u64; 2];
        let mut dynamic = Dynamic::default();
        for index in 0..header.p_memsz as usize / 16 {
            // SAFETY: the file's own dynamic section, of that many entries.
            let [tag, value] = unsafe { words.add(index).read_unaligned() };
            // Most loaders have put addresses in the place of offsets.
            let place = if (value as usize) < self.base { self.base + value as usize } else { value as usize };
            match tag {
                0 => break,
                STRTAB => dynamic.strings = place,
                SYMTAB => dynamic.symbols = place,
                RELA => dynamic.relocations[0].0 = place,
                RELASZ => dynamic.relocations[0].1 = value as usize,
                JMPREL => dynamic.relocations[1].0 = place,
                PLTRELSZ => dynamic.relocations[1].1 = value as usize,
                _ => (),
            }
        }
        dynamic.relocations.iter_mut().filter(|table| table.0 == 0).for_each(|table| table.1 = 0);
        (dynamic.symbols != 0 && dynamic.strings != 0).then_some(dynamic)
    }

    /// Whether the loader has put an address into an entry: before, there is a place in the file.
    fn is_relocated(&self, entry: usize) -> bool {
        let loaded = self.headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let bytes = loaded.map(|header| header.p_vaddr.saturating_add(header.p_memsz)).max().unwrap_or(0);
        self.base == 0 || entry as u64 >= bytes
    }

    /// Writes an entry.
    fn write(&self, place: usize, value: usize, pages: &Pages) -> Written {
        let page = place & !(pages.bytes - 1);
        let is_writable = pages.regions.stacks.find(place as u64).is_some();
        if is_writable && self.is_sealed(page, pages.bytes) && !pages.are_final {
            return Written::NotYet;
        }
        if !pages.are_known {
            return Written::Refused;
        }
        // SAFETY: the page of a loaded file's table; it gets back the protection it had.
        unsafe {
            if !is_writable && libc::mprotect(page as *mut c_void, pages.bytes, libc::PROT_READ | libc::PROT_WRITE) != 0
            {
                return Written::Refused;
            }
            (*(place as *const AtomicUsize)).store(value, Ordering::SeqCst);
            if !is_writable {
                libc::mprotect(page as *mut c_void, pages.bytes, libc::PROT_READ);
            }
        }
        Written::Done
    }

    /// Whether the loader makes a page read-only once it is done with the file: RELRO ends before the first page it
    /// does not fill.
    fn is_sealed(&self, page: usize, page_bytes: usize) -> bool {
        self.headers.iter().filter(|header| header.p_type == libc::PT_GNU_RELRO).any(|header| {
            let start = self.base.wrapping_add(header.p_vaddr as usize);
            let end = start.wrapping_add(header.p_memsz as usize);
            (start & !(page_bytes - 1)..end & !(page_bytes - 1)).contains(&page)
        })
    }
}

/// The pages of this process as they are.
struct Pages {
    /// Those that can be written to are its `stacks`.
    regions: Regions,
    bytes: usize,
    /// Whether a page that can be written to will stay so.
    are_final: bool,
    /// Whether `/proc` could be read.
    are_known: bool,
}

impl Pages {
    fn now(are_final: bool) -> Self {
        let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
        let regions = Regions::parse(&String::from_utf8_lossy(&maps), 0);
        Self { regions, bytes: page_bytes(), are_final, are_known: !maps.is_empty() }
    }
}

fn page_bytes() -> usize {
    // SAFETY: reads a constant of the system.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Hands every loaded file over.
fn each_image(mut each: impl FnMut(&Image<'_>)) {
    loader::each_image(|info| {
        each(&Image { base: info.dlpi_addr as usize, headers: loader::headers(info) });
        true
    });
}
