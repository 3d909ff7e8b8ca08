//! The answer for one address: its frames, or why it is unknown.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use procprof_process::BuildId;

/// The answer for one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// The frames at the address, innermost inlined function first; at least one.
    Frames(Vec<Frame>),
    /// Nothing is known, for that reason.
    Unknown(Reason),
}

/// A file that was tried and not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its path.
    pub path: PathBuf,
    /// Its build id, if it could be read and has one.
    pub build_id: Option<BuildId>,
    /// Why it was not used.
    pub reason: Reason,
}

/// One function at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The readable name: demangled if possible, without symbol versions.
    pub name: Arc<str>,
    /// The name in the symbol table.
    pub system_name: Arc<str>,
    /// The line at which the function begins, from 1.
    pub start_line: Option<u32>,
    /// The source file as in the debug information, made absolute by its compilation folder.
    pub file: Option<Arc<str>>,
    /// The source line, from 1.
    pub line: Option<u32>,
    /// The source column, from 1.
    pub column: Option<u32>,
}

/// Why an address has no symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The address is in no mapping of the profile.
    NoMapping,
    /// The mapping has no file: anonymous memory, code generated at run time.
    NoFile,
    /// The code the kernel maps into every process as `[vdso]`.
    Vdso,
    /// The kernel's `[vsyscall]` page.
    Vsyscall,
    /// Kernel code.
    Kernel,
    /// Kernel code, whose addresses the kernel hides from this user (`kernel.kptr_restrict`).
    KernelHidden,
    /// The file is not on this machine.
    FileMissing,
    /// The file can't be read.
    FileUnreadable,
    /// The file at that path is another build.
    BuildIdMismatch,
    /// The debug file has another checksum than the binary's `.gnu_debuglink`.
    ChecksumMismatch,
    /// The file can't be proven to be the one profiled: the profile or the file has no build
    /// id.
    Unproven,
    /// Several files fit equally well, and nothing proves which one was profiled.
    Ambiguous,
    /// The file is larger than the limit.
    TooLarge,
    /// Reading its debug information would take more memory than the [`crate::MemoryBudget`] has left.
    OverMemory,
    /// The file is no ELF file.
    NotElf,
    /// The file or its debug information is broken.
    Damaged,
    /// The address is in no loaded segment of the file.
    OutsideSegments,
    /// The file has neither debug information nor a table of all its symbols, and no debug file was
    /// found; exported names, if it has any, don't cover the address.
    NoSymbols,
    /// The file is not one of those that were mapped and have unknown addresses.
    NotMapped,
    /// The file has symbols, but none covers the address.
    NotCovered,
}

impl Reason {
    /// The reason in a few words, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoMapping => "no such mapping",
            Self::NoFile => "mapping without a file",
            Self::Vdso => "vdso",
            Self::Vsyscall => "vsyscall",
            Self::Kernel => "kernel",
            Self::KernelHidden => "kernel, its symbols hidden",
            Self::FileMissing => "file missing",
            Self::FileUnreadable => "file not readable",
            Self::BuildIdMismatch => "build id mismatch",
            Self::ChecksumMismatch => "checksum mismatch",
            Self::Unproven => "file not proven to be the one profiled",
            Self::Ambiguous => "one of several that fit",
            Self::TooLarge => "file too large",
            Self::OverMemory => "more memory needed than allowed",
            Self::NotElf => "not an ELF file",
            Self::Damaged => "broken file",
            Self::OutsideSegments => "outside the loaded segments",
            Self::NoSymbols => "no symbols",
            Self::NotMapped => "not a file of this profile that lacks names",
            Self::NotCovered => "not covered by a symbol",
        }
    }

    /// Whether another file, with symbols and of the right build, would help.
    pub fn wants_file(self) -> bool {
        matches!(
            self,
            Self::FileMissing
                | Self::FileUnreadable
                | Self::BuildIdMismatch
                | Self::ChecksumMismatch
                | Self::Unproven
                | Self::Ambiguous
                | Self::TooLarge
                | Self::NotElf
                | Self::Damaged
                | Self::NoSymbols
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
