//! The executable mappings of this process and their build ids.
//!
//! Build ids are read from the loaded images' own notes, not from files: so they are those of the code that runs, also
//! when the file was replaced or deleted since.

#[cfg(target_os = "linux")]
use crate::loader;
use procprof_profile::maps::{self, MapsEntry};
#[cfg(target_os = "linux")]
use procprof_profile::{Addr, FileOffset, Mapping, MappingId, ProfileBuilder};
use procprof_profile::{Parts, StringId};
use std::ops::Range;

/// One executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) range: Range<u64>,
    pub(crate) file_offset: u64,
    /// Path or bracketed name; empty for anonymous code.
    pub(crate) path: String,
    /// Lower-case hexadecimal; empty when there is none.
    pub(crate) build_id: String,
}

/// All executable mappings, by address.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    modules: Vec<Module>,
    main: Option<usize>,
}

impl Modules {
    /// The mappings now.
    pub(crate) fn of_this_process() -> Self {
        let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
        let mut modules: Vec<Module> = maps::parse(&maps).into_iter().filter_map(module_of).collect();
        for (code, build_id) in loaded_build_ids() {
            for module in modules.iter_mut().filter(|module| module.range.contains(&code)) {
                module.build_id.clone_from(&build_id);
            }
        }
        let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        let program = program.to_string_lossy();
        let program = program.strip_suffix(" (deleted)").unwrap_or(&program);
        let main = modules.iter().position(|module| module.path == program);
        Self { modules, main }
    }

    /// Position of the mapping that holds an address.
    #[cfg(target_os = "linux")]
    pub(crate) fn find(&self, address: u64) -> Option<usize> {
        let after = self.modules.partition_point(|module| module.range.start <= address);
        let index = after.checked_sub(1)?;
        self.modules[index].range.contains(&address).then_some(index)
    }

    /// The mapping at a position.
    #[cfg(all(feature = "contention", target_os = "linux"))]
    pub(crate) fn get(&self, position: usize) -> &Module {
        &self.modules[position]
    }

    /// The program's own build id; empty when it has none.
    pub(crate) fn main_build_id(&self) -> &str {
        self.main.map_or("", |index| &self.modules[index].build_id)
    }

    /// Adds the build ids that a profile of this process lacks, for the mappings that are still there.
    pub(crate) fn add_build_ids(&self, parts: &mut Parts) {
        for mapping in parts.mappings.iter_mut().filter(|mapping| mapping.build_id == StringId::default()) {
            let path = parts.strings.get(mapping.filename);
            let is_same = |module: &&Module| module.range.start == mapping.start.0 && Some(&*module.path) == path;
            if let Some(module) = self.modules.iter().find(is_same) {
                mapping.build_id = parts.strings.push(&module.build_id).unwrap_or_default();
            }
        }
    }

    /// Adds all mappings to a profile, the program's first as pprof expects it; returns their ids by position here.
    #[cfg(target_os = "linux")]
    pub(crate) fn add_to(&self, builder: &mut ProfileBuilder) -> Vec<MappingId> {
        let mut ids = vec![MappingId(0); self.modules.len()];
        let others = (0..self.modules.len()).filter(|index| Some(*index) != self.main);
        for index in self.main.into_iter().chain(others) {
            let module = &self.modules[index];
            let (filename, build_id) = (builder.intern(&module.path), builder.intern(&module.build_id));
            ids[index] = builder.mapping(Mapping {
                start: Addr(module.range.start),
                limit: Addr(module.range.end),
                file_offset: FileOffset(module.file_offset),
                filename,
                build_id,
                ..Mapping::default()
            });
        }
        ids
    }
}

/// An executable entry; others are of no interest.
fn module_of(entry: MapsEntry) -> Option<Module> {
    let range = entry.start.0..entry.limit.0;
    let (file_offset, path, build_id) = (entry.offset.0, entry.path, String::new());
    (entry.executable == Some(true)).then_some(Module { range, file_offset, path, build_id })
}

/// None: they are read on Linux only.
#[cfg(not(target_os = "linux"))]
fn loaded_build_ids() -> Vec<(u64, String)> {
    Vec::new()
}

/// An address in the code of each loaded image, and the image's build id.
#[cfg(target_os = "linux")]
fn loaded_build_ids() -> Vec<(u64, String)> {
    let mut found = Vec::new();
    loader::each_image(|info| {
        add_build_id(info, &mut found);
        true
    });
    found
}

#[cfg(target_os = "linux")]
fn add_build_id(info: &libc::dl_phdr_info, found: &mut Vec<(u64, String)>) {
    let headers = loader::headers(info);
    let base = info.dlpi_addr;
    let span = |header: &libc::Elf64_Phdr| {
        base.wrapping_add(header.p_vaddr)..base.wrapping_add(header.p_vaddr + header.p_memsz)
    };
    let loaded = |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_LOAD;
    let note_is_loaded = |note: &Range<u64>| {
        headers.iter().filter(loaded).any(|header| span(header).start <= note.start && note.end <= span(header).end)
    };
    let build_id =
        headers.iter().filter(|header| header.p_type == libc::PT_NOTE).map(span).filter(note_is_loaded).find_map(
            |note| {
                let length = (note.end - note.start) as usize;
                // SAFETY: inside a segment that the loader has mapped readable for as long as it is handed over.
                build_id_in(unsafe { std::slice::from_raw_parts(note.start as *const u8, length) })
            },
        );
    if let Some(build_id) = build_id {
        let code = headers.iter().filter(loaded).filter(|header| header.p_flags & libc::PF_X != 0);
        found.extend(code.map(|header| (span(header).start, build_id.clone())));
    }
}

/// The description of the note `GNU`, type 3, in a note segment (name and description padded to 4 bytes).
#[cfg(target_os = "linux")]
fn build_id_in(mut notes: &[u8]) -> Option<String> {
    const BUILD_ID: u32 = 3;
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).map(|bytes| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    loop {
        let (name_length, length, kind) = (word(notes, 0)? as usize, word(notes, 4)? as usize, word(notes, 8)?);
        let description = 12 + name_length.next_multiple_of(4);
        let bytes = notes.get(description..description.checked_add(length)?)?;
        if kind == BUILD_ID && notes.get(12..16) == Some(b"GNU\0") && !bytes.is_empty() {
            return Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = notes.get(description + length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_code_is_found_with_the_build_id_of_the_file() {
        let modules = Modules::of_this_process();
        let own = &modules.modules[modules.find(module_of as *const () as u64).unwrap()];
        assert_eq!(Some(own.path.as_str()), std::env::current_exe().unwrap().to_str());
        let notes = std::process::Command::new("readelf")
            .arg("-n")
            .arg(&own.path)
            .output()
            .expect("readelf (binutils) is needed");
        assert!(!own.build_id.is_empty());
        assert!(String::from_utf8_lossy(&notes.stdout).contains(&own.build_id));
        assert_eq!(modules.main_build_id(), own.build_id);
    }

    #[test]
    fn a_hostile_note_is_no_build_id() {
        for notes in [&[][..], &[0xff; 64], &[4, 0, 0, 0, 200, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0, 1]] {
            assert_eq!(build_id_in(notes), None);
        }
    }
}
