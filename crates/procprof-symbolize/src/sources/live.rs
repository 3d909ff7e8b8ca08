//! The process that was profiled, as long as it is the same process.

use std::path::{Path, PathBuf};

use procprof_process::{BuildId, Identity, MappedRange, NamespaceKind, Namespaces, Process, Via};

use super::inquiry::Wanted;
use crate::{Image, ImageOptions, Reason, Refusal};

/// The process that was profiled, with its maps, as long as it is the same process.
pub(crate) struct Live {
    process: Process,
    maps: Vec<MappedRange>,
    /// `/proc/PID/root`, if it sees other files than this process.
    root: Option<PathBuf>,
}

impl Live {
    /// Errs if the process ended, restarted or can't be read.
    pub(crate) fn open(identity: &Identity) -> procprof_process::Result<Self> {
        let process = Process::open(identity.pid)?;
        let maps = process.maps()?;
        process.check_same()?;
        if !process.identity().is_same(identity) {
            return Err(procprof_process::Error::Gone { pid: identity.pid });
        }
        let shares = |theirs: Namespaces| {
            let own = Process::current().and_then(|own| own.namespaces());
            own.is_ok_and(|own| own.share(&theirs, NamespaceKind::Mount))
        };
        let is_elsewhere = !process.namespaces().is_ok_and(shares);
        let root = is_elsewhere.then(|| PathBuf::from(format!("/proc/{}/root", identity.pid)));
        Ok(Self { process, maps, root })
    }

    /// Whether it is still the process that was profiled.
    pub(crate) fn is_same(&self) -> bool {
        self.process.check_same().is_ok()
    }

    /// The build id of the file the process has mapped there, from the file or from memory.
    pub(crate) fn build_id(&self, wanted: &Wanted<'_>) -> Option<BuildId> {
        self.process.build_id_of(self.range(wanted)?).ok().flatten().filter(|_| self.is_same())
    }

    /// The build id of its vdso.
    pub(crate) fn vdso_build_id(&self) -> Option<BuildId> {
        let range = self.maps.iter().find(|range| range.path.as_os_str() == "[vdso]")?;
        self.process.build_id_of(range).ok().flatten().filter(|_| self.is_same())
    }

    /// Paths of its perf maps: in its own mount namespace by its pid there, and in that of this process by its pid
    /// here.
    pub(crate) fn perf_maps(&self) -> Vec<PathBuf> {
        let pid = self.process.pid();
        let status = self.process.status();
        let inner = status.ok().and_then(|status| status.namespace_pids.last().copied()).unwrap_or(pid);
        let inside = self.root.iter().map(|root| root.join(format!("tmp/perf-{inner}.map")));
        inside.chain([PathBuf::from(format!("/tmp/perf-{pid}.map"))]).collect()
    }

    /// The user it runs as.
    pub(crate) fn user(&self) -> Option<u32> {
        self.process.status().ok().map(|status| status.uid)
    }

    /// The range that has what one of the profile's mappings had: the same file, with its bytes at
    /// the same addresses. The profile may have joined or widened the range.
    fn range(&self, wanted: &Wanted<'_>) -> Option<&MappedRange> {
        let is_mapped = |range: &&MappedRange| {
            let bias = range.start.0.wrapping_sub(range.file_offset.0);
            *range.path == *wanted.path()
                && wanted.mappings.iter().any(|mapping| mapping.start.0.wrapping_sub(mapping.file_offset.0) == bias)
        };
        self.maps.iter().find(is_mapped)
    }

    /// Opens the file the process has mapped there, with the debug files that are in its container.
    pub(crate) fn open_image(&self, wanted: &Wanted<'_>, options: &ImageOptions) -> Option<Result<Image, Refusal>> {
        let range = self.range(wanted)?;
        let refusal = |reason| Refusal { path: range.path.to_path_buf(), build_id: None, reason };
        let mapped = match self.process.open_mapped(range) {
            Ok(mapped) => mapped,
            Err(procprof_process::Error::Unreachable { .. }) => return Some(Err(refusal(Reason::Unproven))),
            Err(_) => return Some(Err(refusal(Reason::FileUnreadable))),
        };
        // The path leads to a debug file beside the binary; the link of `/proc` does not.
        let name = match (&self.root, mapped.via) {
            (_, Via::Root) => mapped.path,
            (Some(root), _) => below(root, &range.path),
            (None, _) => range.path.to_path_buf(),
        };
        let image = Image::from_file(&mapped.file, &name, &self.options(options));
        Some(image.map_err(|error| Refusal { path: name, build_id: None, reason: error.reason() }))
    }

    /// The options with the debug folders of the process's own container.
    fn options(&self, options: &ImageOptions) -> ImageOptions {
        let mut options = options.clone();
        if let Some(root) = &self.root {
            let inside: Vec<PathBuf> =
                options.debug_dirs.iter().filter(|dir| dir.is_absolute()).map(|dir| below(root, dir)).collect();
            options.debug_dirs.extend(inside);
        }
        options
    }
}

/// An absolute path as seen in another root.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
