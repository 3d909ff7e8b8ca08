//! The image in the memory of a process, whatever happened to its file.

use std::fs::File;
use std::io;

use crate::maps::maps_of;
use crate::{BuildId, Error, MappedRange, Pid, Result, procfs};

/// Input/output error, on every Linux.
const EIO: i32 = 5;

/// The build id that the image around `range` has in the process's memory.
pub(crate) fn build_id_in_memory(pid: Pid, range: &MappedRange) -> Result<Option<BuildId>> {
    let path = procfs::path(pid, "mem");
    let sort = |source| Error::of_process(pid, &path, source);
    let Some(start) = image_start(pid, range)? else {
        return Ok(None);
    };
    let memory = File::open(&path).map_err(sort)?;
    match BuildId::of_image(&memory, start.start.0) {
        // The kernel's error for unmapped addresses.
        Err(error) if error.raw_os_error() == Some(EIO) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(sort(error)),
        result => result.map_err(sort),
    }
}

/// The range with the image's ELF header: the nearest one before with file offset 0.
fn image_start(pid: Pid, range: &MappedRange) -> Result<Option<MappedRange>> {
    let maps = maps_of(pid)?;
    let start = maps.into_iter().rev().find(|candidate| {
        candidate.start <= range.start && candidate.file_offset.0 == 0 && candidate.is_same_file(range)
    });
    Ok(start.filter(|start| start.readable))
}
