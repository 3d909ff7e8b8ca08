//! The places of a file's bytes in memory, and the key of files without a build id.

use std::fmt;

use object::{Object, ObjectSegment};
use procprof_profile::{FileOffset, SymbolAddr};

/// Distinguishes files without a build id: a digest of the machine, the entry point and the loaded segments. A stripped
/// binary and its debug file have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayoutKey(pub [u8; 16]);

impl fmt::Display for LayoutKey {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A `PT_LOAD` segment: which bytes of the file are where in the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    pub(crate) file_bytes: u64,
    pub(crate) address: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) executable: bool,
}

impl Segment {
    pub(crate) fn from_object(segment: &object::Segment<'_, '_>) -> Self {
        let (offset, file_bytes) = segment.file_range();
        let executable = match segment.flags() {
            object::SegmentFlags::Elf { p_flags, .. } => p_flags.0 & object::elf::PF_X.0 != 0,
            _ => false,
        };
        Self { offset, file_bytes, address: segment.address(), memory_bytes: segment.size(), executable }
    }

    /// See [`Image::symbol_addr`](crate::Image::symbol_addr).
    pub(crate) fn symbol_addr(segments: &[Self], offset: FileOffset) -> Option<SymbolAddr> {
        let holds = |segment: &&Segment| offset.0 >= segment.offset && offset.0 - segment.offset < segment.file_bytes;
        let mut holding = segments.iter().filter(holds);
        let first = holding.clone().next()?;
        let segment = holding.find(|segment| segment.executable).unwrap_or(first);
        let distance = offset.0 - segment.offset;
        segment.address.checked_add(distance).map(SymbolAddr)
    }

    /// See [`Image::symbol_addr_in`](crate::Image::symbol_addr_in).
    pub(crate) fn symbol_addr_in(segments: &[Self], start: FileOffset, distance: u64) -> Option<SymbolAddr> {
        if !Self::are_of_debug_file(segments) {
            return Self::symbol_addr(segments, FileOffset(start.0.checked_add(distance)?));
        }
        /// Smallest page of the kernels profiles are from; segments begin at the same place of a
        /// page in file and memory.
        const PAGE_BYTES: u64 = 4096;
        let mut executable = segments.iter().filter(|segment| segment.executable);
        let code = executable.next().filter(|_| executable.next().is_none())?;
        let first = if start.0 == 0 { segments.first()? } else { code };
        let address = (first.address - first.address % PAGE_BYTES).checked_add(distance)?;
        let is_code = address >= code.address && address - code.address < code.memory_bytes;
        is_code.then_some(SymbolAddr(address))
    }

    /// Whether the code was removed, as `objcopy --only-keep-debug` does.
    fn are_of_debug_file(segments: &[Self]) -> bool {
        let mut executable = segments.iter().filter(|segment| segment.executable).peekable();
        executable.peek().is_some() && executable.all(|segment| segment.file_bytes == 0 && segment.memory_bytes > 0)
    }
}

/// FNV-1a of what a file and its debug file share: machine, entry point, loaded segments.
pub(crate) fn layout_key(object: &object::File<'_>) -> LayoutKey {
    const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let flags = |segment: &object::Segment<'_, '_>| match segment.flags() {
        object::SegmentFlags::Elf { p_flags, .. } => u64::from(p_flags.0),
        _ => 0,
    };
    let loaded = object.segments().flat_map(|segment| [segment.address(), segment.size(), flags(&segment)]);
    let mut numbers =
        vec![u64::from(object.is_64()), u64::from(object.is_little_endian()), machine(object), object.entry()];
    numbers.extend(loaded);
    let add = |key: u128, byte: u8| (key ^ u128::from(byte)).wrapping_mul(PRIME);
    let key = numbers.iter().flat_map(|number| number.to_le_bytes()).fold(OFFSET_BASIS, add);
    LayoutKey(key.to_be_bytes())
}

fn machine(object: &object::File<'_>) -> u64 {
    let machine = match object {
        object::File::Elf32(elf) => elf.elf_header().e_machine.get(elf.endian()),
        object::File::Elf64(elf) => elf.elf_header().e_machine.get(elf.endian()),
        _ => return 0,
    };
    u64::from(machine.0)
}
