//! The unwind tables of all loaded images, kept up to date by the engine's thread.
//!
//! Sections are read where the loader has mapped them, only while the loader keeps them from being unmapped, so they
//! are those of the running code. Small images are compiled when they are first seen; of large ones, the regions that a
//! handler has requested. A table lives as long as its image is loaded or a snapshot that handlers may search holds it.

use crate::loader;
use procprof_unwind::{Architecture, Code, Section, Source, Space, Table};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

/// Functions compiled without a request, over all images: about 25 ms and 4 MB. Images beyond are compiled as handlers
/// request.
const EAGER_FUNCTIONS: usize = 150_000;

/// Regions of 64 KiB compiled in one go: about 10 ms, during which the loader's list is held.
const REGIONS_AT_ONCE: usize = 128;

/// Distinguishes the spaces of this process in the caches of its threads.
static GENERATION: AtomicU16 = AtomicU16::new(0);

/// A loaded image that has an `.eh_frame_hdr`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Image {
    /// Name, place and the beginning of the search table: another image in the same place differs.
    name: Vec<u8>,
    span: Range<u64>,
    code: Vec<Range<u64>>,
    eh_frame_hdr: Range<u64>,
    beginning: Vec<u8>,
}

/// The tables of this process.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    images: Vec<(Image, Arc<Table>)>,
    space: Arc<Space>,
    /// The executable ranges `space` was made of.
    executable: Vec<Range<u64>>,
    /// Images ever loaded and unloaded, by the loader's count; `None` before the first look.
    changes: Option<u64>,
    compiled: usize,
}

impl Tables {
    /// Whether images were loaded or unloaded since the last [`Tables::space`].
    pub(crate) fn are_stale(&self) -> bool {
        self.changes != Some(changes())
    }

    /// The code of this process, whose executable ranges are given; the same as before where nothing has changed.
    pub(crate) fn space(&mut self, executable: &[Range<u64>]) -> Arc<Space> {
        if self.are_stale() || self.executable != executable {
            self.changes = Some(changes());
            self.read_images();
            self.executable = executable.to_vec();
            let generation = GENERATION.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            self.space = Arc::new(Space::new(self.code(executable), generation));
        }
        self.space.clone()
    }

    /// Compiles the regions that handlers have requested since the last call, in portions.
    pub(crate) fn compile_wanted(&mut self) {
        let Some(architecture) = Architecture::native() else { return };
        if !self.images.iter().any(|(_, table)| table.is_wanted()) {
            return;
        }
        let images = &self.images;
        let mut most = REGIONS_AT_ONCE;
        each_image(|loaded| {
            let Some(image) = loaded.image() else { return };
            let wanted = images.iter().find(|(known, table)| *known == image && table.is_wanted());
            if let Some((_, table)) = wanted
                && let Some(source) = loaded.source(&image, architecture)
            {
                most = most.saturating_sub(table.compile_wanted(&source, most).regions);
            }
        });
    }

    /// Finds loaded images, keeping the tables of those known before.
    fn read_images(&mut self) {
        let Some(architecture) = Architecture::native() else { return };
        let mut former = std::mem::take(&mut self.images);
        let (images, compiled) = (&mut self.images, &mut self.compiled);
        each_image(|loaded| {
            let Some(image) = loaded.image() else { return };
            if let Some(known) = former.iter().position(|(known, _)| *known == image) {
                images.push(former.swap_remove(known));
                return;
            }
            let Some(source) = loaded.source(&image, architecture) else { return };
            let Some(code) = hull(image.code.iter().cloned()) else { return };
            let table = Table::new(code.clone());
            if *compiled + source.functions() <= EAGER_FUNCTIONS {
                *compiled += source.functions();
                table.compile(&source, code);
            }
            images.push((image, Arc::new(table)));
        });
    }

    /// Executable ranges with the tables of the images they belong to.
    fn code(&self, executable: &[Range<u64>]) -> Vec<Code> {
        let mut parts: Vec<(Range<u64>, &Arc<Table>)> = self
            .images
            .iter()
            .flat_map(|(image, table)| image.code.iter().map(move |code| (code.clone(), table)))
            .collect();
        parts.sort_by_key(|(range, _)| range.start);
        let mut all = Vec::new();
        for range in executable {
            let mut at = range.start;
            for (part, table) in &parts {
                let (start, end) = (part.start.max(at), part.end.min(range.end));
                if start >= end {
                    continue;
                }
                all.push(Code { range: at..start, bias: 0, table: None });
                all.push(Code { range: start..end, bias: 0, table: Some(Arc::clone(table)) });
                at = end;
            }
            all.push(Code { range: at..range.end, bias: 0, table: None });
        }
        all
    }
}

/// An image while the loader holds it.
struct Loaded<'a> {
    info: &'a libc::dl_phdr_info,
    headers: &'a [libc::Elf64_Phdr],
}

impl Loaded<'_> {
    fn range(&self, header: &libc::Elf64_Phdr) -> Range<u64> {
        let start = self.info.dlpi_addr.wrapping_add(header.p_vaddr);
        start..start.saturating_add(header.p_memsz)
    }

    fn segments(&self) -> impl Iterator<Item = (&libc::Elf64_Phdr, Range<u64>)> {
        self.headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| (header, self.range(header)))
    }

    /// The identity of the image; `None` without a readable `.eh_frame_hdr`.
    fn image(&self) -> Option<Image> {
        const BEGINNING: u64 = 256;
        let header = self.headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
        let eh_frame_hdr = self.range(header);
        let beginning = self.bytes(eh_frame_hdr.start..eh_frame_hdr.end.min(eh_frame_hdr.start + BEGINNING))?.to_vec();
        let span = hull(self.segments().map(|(_, range)| range))?;
        let code = self
            .segments()
            .filter(|(header, _)| header.p_flags & libc::PF_X != 0)
            .map(|(_, range)| pages(range))
            .collect();
        let name = match self.info.dlpi_name.is_null() {
            true => Vec::new(),
            // SAFETY: the loader's own string, held like the image.
            false => unsafe { std::ffi::CStr::from_ptr(self.info.dlpi_name) }.to_bytes().to_vec(),
        };
        Some(Image { name, span, code, eh_frame_hdr, beginning })
    }

    /// The unwind sections where they are mapped; `.eh_frame` extends to the end of its segment, as its own end is not
    /// recorded.
    fn source(&self, image: &Image, architecture: Architecture) -> Option<Source<'_>> {
        let header = Section { bytes: self.bytes(image.eh_frame_hdr.clone())?, address: image.eh_frame_hdr.start };
        let start = header.eh_frame_address()?;
        let (_, segment) = self.segments().find(|(_, range)| range.contains(&start))?;
        let eh_frame = Section { bytes: self.bytes(start..segment.end)?, address: start };
        Some(Source::new(architecture, eh_frame, header))
    }

    /// Bytes of the image, if they are in one readable segment.
    fn bytes(&self, range: Range<u64>) -> Option<&[u8]> {
        let is_within = |(header, segment): &(&libc::Elf64_Phdr, Range<u64>)| {
            header.p_flags & libc::PF_R != 0
                && segment.start <= range.start
                && range.start <= range.end
                && range.end <= segment.end
        };
        self.segments().find(is_within)?;
        // SAFETY: inside a segment that the loader has mapped readable for as long as it is handed over.
        Some(unsafe { std::slice::from_raw_parts(range.start as *const u8, (range.end - range.start) as usize) })
    }
}

/// From the first address of all ranges to the last; `None` of none.
fn hull(ranges: impl Iterator<Item = Range<u64>>) -> Option<Range<u64>> {
    ranges.reduce(|all, range| all.start.min(range.start)..all.end.max(range.end))
}

/// A segment as it is mapped.
fn pages(range: Range<u64>) -> Range<u64> {
    const PAGE: u64 = 4096;
    range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE)
}

/// Hands every loaded image over.
fn each_image(mut each: impl FnMut(&Loaded<'_>)) {
    loader::each_image(|info| {
        each(&Loaded { info, headers: loader::headers(info) });
        true
    });
}

/// How many images were loaded and unloaded so far.
fn changes() -> u64 {
    let mut count = 0_u64;
    loader::each_image(|info| {
        count = info.dlpi_adds.wrapping_add(info.dlpi_subs);
        false
    });
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use procprof_unwind::Rule;

    fn own_code() -> Vec<Range<u64>> {
        let regions = super::super::regions::Regions::of_this_process(&mut Tables::default());
        regions.space.code().iter().map(|code| code.range.clone()).collect()
    }

    #[test]
    fn own_functions_and_those_of_the_c_library_have_rules_at_once_or_on_request() {
        let mut tables = Tables::default();
        let space = tables.space(&own_code());
        for function in [changes as *const () as u64, libc::qsort as *const () as u64] {
            assert_ne!(space.rule(function).map(|rule| rule.rule()), Some(Rule::Unknown));
            tables.compile_wanted();
            assert!(matches!(space.rule(function).map(|rule| rule.rule()), Some(Rule::Frame { .. })), "{function:#x}");
        }
        // Other tests load libraries meanwhile.
        let is_kept = (0..1000).any(|_| Arc::ptr_eq(&tables.space(&own_code()), &tables.space(&own_code())));
        assert!(is_kept, "nothing has changed");
    }

    #[test]
    fn a_library_that_comes_and_goes_is_followed() {
        let mut tables = Tables::default();
        tables.space(&own_code());
        // SAFETY: loads a library of glibc that has no constructors.
        let library = unsafe { libc::dlopen(c"libresolv.so.2".as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null(), "libresolv is needed");
        assert!(tables.are_stale());
        // SAFETY: looks a name up in an open library.
        let function = unsafe { libc::dlsym(library, c"ns_initparse".as_ptr()) } as u64;
        let space = tables.space(&own_code());
        let _ = space.rule(function);
        tables.compile_wanted();
        assert!(matches!(space.rule(function).map(|rule| rule.rule()), Some(Rule::Frame { .. })));
        // SAFETY: opened above, nothing of it is used any more.
        unsafe { libc::dlclose(library) };
        assert!(tables.are_stale());
        assert_eq!(tables.space(&own_code()).rule(function), None);
    }
}
