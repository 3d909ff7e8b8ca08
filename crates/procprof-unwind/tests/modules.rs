//! ELF files to look at: their unwind sections, and gimli's reading of them.

use object::{Object, ObjectSection, ObjectSegment};
use procprof_unwind::{Architecture, Section, Source, Table};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file's sections that matter here.
pub(crate) struct Module {
    pub(crate) eh_frame: (u64, Vec<u8>),
    pub(crate) eh_frame_hdr: (u64, Vec<u8>),
    /// For framehop, which is compared on this architecture alone.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
    pub(crate) text: (u64, Vec<u8>),
    /// The architecture of the code: not always this machine's.
    pub(crate) architecture: Architecture,
    /// First and last loaded address.
    pub(crate) span: std::ops::Range<u64>,
}

impl Module {
    pub(crate) fn read(path: &Path) -> Self {
        Self::parse(&std::fs::read(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display())))
    }

    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let file = object::File::parse(bytes).unwrap();
        let section = |name: &str| {
            let section = file.section_by_name(name);
            section.map_or((0, Vec::new()), |section| (section.address(), section.data().unwrap().to_vec()))
        };
        let start = file.segments().map(|segment| segment.address()).min().unwrap();
        let end = file.segments().map(|segment| segment.address() + segment.size()).max().unwrap();
        let architecture = match file.architecture() {
            object::Architecture::Aarch64 => Architecture::Aarch64,
            _ => Architecture::X86_64,
        };
        let (eh_frame, eh_frame_hdr, text) = (section(".eh_frame"), section(".eh_frame_hdr"), section(".text"));
        Self { eh_frame, eh_frame_hdr, text, architecture, span: start..end }
    }

    pub(crate) fn source(&self) -> Source<'_> {
        Source::new(
            self.architecture,
            Section { bytes: &self.eh_frame.1, address: self.eh_frame.0 },
            Section { bytes: &self.eh_frame_hdr.1, address: self.eh_frame_hdr.0 },
        )
    }

    /// The same without the search table.
    pub(crate) fn source_without_index(&self) -> Source<'_> {
        Source::new(
            self.architecture,
            Section { bytes: &self.eh_frame.1, address: self.eh_frame.0 },
            Section::default(),
        )
    }

    pub(crate) fn table(&self, source: &Source<'_>) -> Table {
        let table = Table::new(self.span.clone());
        table.compile(source, self.span.clone());
        table
    }
}

/// The files this process has loaded, itself first.
pub(crate) fn loaded() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths = vec![std::env::current_exe().unwrap()];
    for path in
        maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5)).filter(|path| path.starts_with('/'))
    {
        if !paths.iter().any(|known| known == Path::new(path)) {
            paths.push(path.into());
        }
    }
    paths
}

/// A file that gcc would link.
pub(crate) fn gcc_file(name: &str) -> PathBuf {
    let output = Command::new("gcc").arg(format!("-print-file-name={name}")).output().expect("gcc is needed");
    String::from_utf8(output.stdout).unwrap().trim().into()
}
