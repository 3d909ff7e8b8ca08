//! The modules of a process where they are mapped, for this crate and for framehop.

use crate::modules::Module;
use framehop::x86_64::UnwinderX86_64;
use framehop::{ExplicitModuleSectionInfo, Unwinder};
use procprof_unwind::Code;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// The modules of a process for both unwinders.
pub(crate) struct Mapped {
    /// Each module's file and where it is; in the same order as the code.
    pub(crate) files: Vec<(PathBuf, Range<u64>)>,
    pub(crate) code: Vec<Code>,
    /// Not used by the benchmark.
    #[allow(dead_code)]
    pub(crate) modules: Vec<Module>,
    pub(crate) framehop: UnwinderX86_64<Vec<u8>>,
}

impl Mapped {
    /// Reads all modules that `/proc/PID/maps` of this text names. What has no file, the kernel's own code, is taken
    /// from the process by `copy`.
    pub(crate) fn read(maps: &str, copy: impl Fn(Range<u64>) -> Vec<u8>) -> Self {
        let files: Vec<(PathBuf, Range<u64>)> = ranges(maps).into_iter().collect();
        let (mut code, mut modules, mut framehop) = (Vec::new(), Vec::new(), UnwinderX86_64::new());
        for (path, range) in &files {
            let module = if path.starts_with("/") { Module::read(path) } else { Module::parse(&copy(range.clone())) };
            let bias = range.start - module.span.start / 4096 * 4096;
            let table = Arc::new(module.table(&module.source()));
            framehop.add_module(framehop::Module::new(
                path.display().to_string(),
                range.clone(),
                range.start,
                sections(&module, range.start - bias),
            ));
            code.push(Code { range: range.clone(), bias, table: Some(table) });
            modules.push(module);
        }
        Self { files, code, modules, framehop }
    }
}

/// From the first to the last address of each module.
fn ranges(maps: &str) -> BTreeMap<PathBuf, Range<u64>> {
    let mut files: BTreeMap<PathBuf, Range<u64>> = BTreeMap::new();
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let Some(path) = fields.get(5).filter(|path| path.starts_with('/') || **path == "[vdso]") else { continue };
        let (start, end) = fields[0].split_once('-').unwrap();
        let (start, end) = (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
        files.entry(path.into()).and_modify(|range| range.end = end).or_insert(start..end);
    }
    files
}

fn sections(module: &Module, base_svma: u64) -> ExplicitModuleSectionInfo<Vec<u8>> {
    let svma = |section: &(u64, Vec<u8>)| section.0..section.0 + section.1.len() as u64;
    ExplicitModuleSectionInfo {
        base_svma,
        text_svma: Some(svma(&module.text)),
        text: Some(module.text.1.clone()),
        eh_frame_svma: Some(svma(&module.eh_frame)),
        eh_frame: Some(module.eh_frame.1.clone()),
        eh_frame_hdr_svma: Some(svma(&module.eh_frame_hdr)),
        eh_frame_hdr: Some(module.eh_frame_hdr.1.clone()),
        ..Default::default()
    }
}
