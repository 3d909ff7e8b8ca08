//! Return addresses: an address counts as one only if a call precedes it.

use foldhash::HashMap;
use procprof_profile::perf_event::{ImageId, MappedCode};
use procprof_unwind::{Architecture, CALL_BYTES, Call};

use super::Images;

/// Return addresses whose check is remembered.
const KNOWN_MAX: usize = 1 << 17;

/// Bytes read behind a return address.
const BEHIND: usize = 32;

/// Return addresses that were checked.
#[derive(Debug, Default)]
pub(crate) struct KnownCalls(HashMap<(ImageId, u64), bool>);

impl KnownCalls {
    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    fn insert(&mut self, key: (ImageId, u64), follows_call: bool) {
        if self.0.len() >= KNOWN_MAX {
            self.clear();
        }
        self.0.insert(key, follows_call);
    }
}

/// The code around a return address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeAround {
    bytes: [u8; CALL_BYTES + BEHIND],
    before: usize,
    length: usize,
}

impl CodeAround {
    /// Reads code by a function that reads at an address and returns the number of bytes.
    fn read(mapped: &MappedCode, address: u64, read: impl FnOnce(u64, &mut [u8]) -> Option<usize>) -> Option<Self> {
        let before = address.checked_sub(mapped.range.start)?.min(CALL_BYTES as u64);
        let mut bytes = [0; CALL_BYTES + BEHIND];
        let length = read(address - before, &mut bytes)?;
        let before = before as usize;
        (length >= before).then_some(Self { bytes, before, length })
    }

    fn before(&self) -> &[u8] {
        self.bytes.get(..self.before).unwrap_or_default()
    }

    /// The code at the address.
    pub(crate) fn behind(&self) -> &[u8] {
        self.bytes.get(self.before..self.length).unwrap_or_default()
    }

    /// The call before the address.
    pub(crate) fn call(&self, architecture: Architecture) -> Option<Call> {
        Call::before(architecture, self.before())
    }

    /// Whether a thread may return to the address: behind a call, or the second instruction of Go's `goexit`, to which
    /// the first function of a goroutine returns: `nop`, `call goexit1`.
    fn is_return_address(&self, architecture: Architecture) -> bool {
        let is_goexit = || {
            let (before, behind) = (self.before(), self.behind());
            match architecture {
                Architecture::X86_64 => before.last() == Some(&0x90) && behind.first() == Some(&0xe8),
                Architecture::Aarch64 => {
                    let word = |bytes: Option<&[u8; 4]>| bytes.map(|bytes| u32::from_le_bytes(*bytes));
                    word(before.last_chunk()) == Some(0xd503_201f)
                        && word(behind.first_chunk()).is_some_and(|instruction| instruction >> 26 == 0b10_0101)
                }
            }
        };
        self.call(architecture).is_some() || is_goexit()
    }
}

impl Images {
    /// The code around an address: that of the file, or else of the process, which `process` reads at an address.
    pub(crate) fn code_around(
        &mut self,
        mapped: &MappedCode,
        address: u64,
        process: impl FnOnce(u64, &mut [u8]) -> Option<usize>,
    ) -> Option<CodeAround> {
        CodeAround::read(mapped, address, |start, into| self.read_code(mapped, start, into))
            .or_else(|| CodeAround::read(mapped, address, process))
    }

    /// Whether a thread may return to an address: a call precedes it, in the file or in the process, whose code may have
    /// been changed; or neither can be read.
    pub(crate) fn is_return_address(
        &mut self,
        mapped: &MappedCode,
        address: u64,
        process: impl FnOnce(u64, &mut [u8]) -> Option<usize>,
    ) -> bool {
        let key = (mapped.image, mapped.place_of(address));
        if let Some(known) = self.calls.0.get(&key) {
            return *known;
        }
        let architecture = self.architecture;
        let is_call = |code: &CodeAround| code.is_return_address(architecture);
        let in_file = CodeAround::read(mapped, address, |start, into| self.read_code(mapped, start, into));
        let is_file = in_file.is_some();
        let follows_call = match in_file {
            Some(code) if is_call(&code) => true,
            _ => CodeAround::read(mapped, address, process).map_or(!is_file, |code| is_call(&code)),
        };
        // Code without a file changes.
        if follows_call || is_file {
            self.calls.insert(key, follows_call);
        }
        follows_call
    }
}
