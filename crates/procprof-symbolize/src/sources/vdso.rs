//! The code the kernel maps into each process as `[vdso]`: this process's own copy is read, if it is
//! the one that was profiled.

use std::os::unix::fs::FileExt;

use object::Object;
use procprof_process::{BuildId, Process};

use super::Sources;
use super::inquiry::{Inquiries, Memory};
use crate::elf::Symbols;
use crate::outcome::{Proof, Source, UsedFile};
use crate::{Frame, Reason, Resolved, demangle};

/// Largest vdso that is read, in bytes; they have a few pages.
const BYTES_MAX: u64 = 1 << 20;

/// Looks up addresses in the vdso.
pub(super) fn ask(inquiries: &mut Inquiries<'_>, _: &mut Sources<'_>) {
    if inquiries.unknown_in(Memory::Vdso).next().is_none() {
        return;
    }
    let Some(bytes) = own_bytes() else {
        return;
    };
    let (Some(build_id), Ok(object)) = (BuildId::of_bytes(&bytes), object::File::parse(&*bytes)) else {
        return;
    };
    let of_live = inquiries.live.as_ref().and_then(super::live::Live::vdso_build_id);
    for inquiry in inquiries.unknown_in(Memory::Vdso) {
        let wanted = inquiry.wanted.build_id.clone().or_else(|| of_live.clone());
        if wanted.as_ref() != Some(&build_id) {
            continue;
        }
        let starts: Vec<u64> =
            inquiry.wanted.mappings.iter().map(|mapping| mapping.start.0.wrapping_sub(mapping.file_offset.0)).collect();
        let base = object.relative_address_base();
        let places: Vec<(usize, u64)> = inquiry
            .unknown()
            .into_iter()
            .filter_map(|(position, address)| {
                let start = starts.iter().copied().filter(|start| *start <= address.0).max()?;
                Some((position, address.0 - start + base))
            })
            .collect();
        let mut addresses: Vec<u64> = places.iter().map(|(_, address)| *address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let names = Symbols::at(&[&object], &addresses).names;
        for (position, address) in places {
            let name = addresses.binary_search(&address).ok().and_then(|place| names[place]);
            let resolved = name.map_or(Resolved::Unknown(Reason::Vdso), |name| {
                Resolved::Frames(vec![frame(&String::from_utf8_lossy(name))])
            });
            inquiry.answer(position, Source::Vdso, resolved);
        }
        let path = inquiry.wanted.path().to_owned();
        inquiry.used.push(UsedFile {
            source: Source::Vdso,
            path,
            build_id: wanted,
            debug_file: None,
            proof: Proof::Verified,
        });
    }
}

/// The vdso of this process.
fn own_bytes() -> Option<Vec<u8>> {
    let maps = Process::current().ok()?.maps().ok()?;
    let range = maps.into_iter().find(|range| range.path.as_os_str() == "[vdso]")?;
    let bytes = range.limit.0.checked_sub(range.start.0).filter(|bytes| *bytes <= BYTES_MAX)?;
    let mut image = vec![0; bytes as usize];
    std::fs::File::open("/proc/self/mem").ok()?.read_exact_at(&mut image, range.start.0).ok()?;
    Some(image)
}

fn frame(name: &str) -> Frame {
    Frame {
        name: demangle(name).into(),
        system_name: name.into(),
        start_line: None,
        file: None,
        line: None,
        column: None,
    }
}
