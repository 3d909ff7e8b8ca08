//! Calls of the C library led through our functions, and back.
//!
//! A dynamically linked file calls another file's function through a word that the loader has filled in, its entry of the global offset table. Writing
//! our function's address there takes the calls of that file over, for as long as it stands there: nothing costs anything before and after, nobody has
//! to link differently, and code that does not wait never comes by. (A function `syscall` of our own, exported by the program, would do as well, but
//! could not be taken back, would be in the way of every other system call from the start, and could be there only once in a program.) With full RELRO
//! the table can't be written to, so its pages are made writable for the moment of the change.
//!
//! Not reached are system calls made without the C library, statically linked programs, and functions asked for by `dlsym`.

use super::origin::{self, Family};
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A function of the C library that is taken over, unless another file's stands in the place of one of its family.
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
    /// Where, and what stood there.
    entries: Vec<(usize, usize)>,
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
        Self { entries: Vec::new() }
    }

    /// Leads all files that are loaded now through the hooks; those that are led already stay so.
    pub(super) fn extend(&mut self, hooks: &[Hook]) {
        let others: Vec<Family> = origin::defined_by_others(hooks).map(|hook| hook.family).collect();
        for hook in hooks.iter().filter(|hook| hook.real.load(Ordering::Relaxed) == 0 && !others.contains(&hook.family)) {
            if let Some(real) = origin::of_the_c_library(hook.name) {
                hook.real.store(real, Ordering::SeqCst);
            }
        }
        let entries = &mut self.entries;
        each_image(&mut |image| {
            image.each_entry(hooks, &mut |place, hook| {
                let is_known = hook.real.load(Ordering::Relaxed) != 0;
                // SAFETY: an entry of a loaded file, while the loader holds it.
                let former = unsafe { (*(place as *const AtomicUsize)).load(Ordering::SeqCst) };
                if is_known && former != hook.function && image.write(place, hook.function) {
                    entries.push((place, former));
                }
            });
        });
    }

    /// Puts back what stood in the entries of files that are still loaded.
    pub(super) fn undo(&mut self, hooks: &[Hook]) {
        let entries = std::mem::take(&mut self.entries);
        each_image(&mut |image| {
            image.each_entry(hooks, &mut |place, hook| {
                // SAFETY: an entry of a loaded file, while the loader holds it.
                let now = unsafe { (*(place as *const AtomicUsize)).load(Ordering::SeqCst) };
                if now == hook.function {
                    let former = entries.iter().rev().find(|(known, _)| *known == place).map(|(_, former)| *former);
                    image.write(place, former.unwrap_or(hook.real.load(Ordering::Relaxed)));
                }
            });
        });
    }

    /// How many entries lead to us.
    pub(super) fn count(&self) -> usize {
        self.entries.len()
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
            let symbol = unsafe { (dynamic.symbols as *const libc::Elf64_Sym).add((relocation.r_info >> 32) as usize).read_unaligned() };
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

    /// Writes an entry; false if its page can't be made writable.
    fn write(&self, place: usize, value: usize) -> bool {
        let page_bytes = page_bytes();
        let page = (place & !(page_bytes - 1)) as *mut c_void;
        let is_protected = self.headers.iter().filter(|header| header.p_type == libc::PT_GNU_RELRO).any(|header| {
            let start = self.base.wrapping_add(header.p_vaddr as usize);
            (start..start + header.p_memsz as usize).contains(&place)
        });
        // SAFETY: the page of a loaded file's table; it gets back the protection that the loader gave it.
        unsafe {
            if is_protected && libc::mprotect(page, page_bytes, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                return false;
            }
            (*(place as *const AtomicUsize)).store(value, Ordering::SeqCst);
            // RELRO ends before the first page it does not fill, so the whole page was protected.
            if is_protected {
                libc::mprotect(page, page_bytes, libc::PROT_READ);
            }
        }
        true
    }
}

fn page_bytes() -> usize {
    // SAFETY: asks for a constant of the system.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

type Each<'a> = &'a mut dyn FnMut(&Image<'_>);

/// Hands every loaded file over.
fn each_image(mut each: Each<'_>) {
    // SAFETY: the callback gets back the pointer to `each`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(on_image), (&raw mut each).cast()) };
}

unsafe extern "C" fn on_image(info: *mut libc::dl_phdr_info, _size: usize, each: *mut c_void) -> c_int {
    // SAFETY: `dl_iterate_phdr` hands a valid image; `each` is what `each_image` gave it, used by nobody else meanwhile.
    let (info, each) = unsafe { (&*info, &mut *each.cast::<Each<'_>>()) };
    if !info.dlpi_phdr.is_null() {
        // SAFETY: the loader's own table of that many headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        each(&Image { base: info.dlpi_addr as usize, headers });
    }
    0
}
