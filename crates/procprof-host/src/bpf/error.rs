//! Why waits can't be measured by BPF programs.

use std::io;

use crate::btf::BtfError;
use crate::kernel::Rejected;

use super::assembler::AssemblyError;

/// Why waits can't be measured by BPF programs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The system call is refused.
    #[error("bpf(2) is not permitted; it takes CAP_BPF and CAP_PERFMON")]
    NotPermitted,
    /// The kernel has no description of its types that can be read.
    #[error("/sys/kernel/btf/vmlinux can't be read: {0}")]
    NoTypes(#[source] io::Error),
    /// The description is malformed.
    #[error("/sys/kernel/btf/vmlinux: {0}")]
    Types(#[from] BtfError),
    /// The kernel has no such tracepoint.
    #[error("this kernel has no tracepoint {name}{}", since(.name))]
    NoTracepoint {
        /// Its name.
        name: &'static str,
    },
    /// A structure of the kernel has no such field.
    #[error("this kernel's {structure} has no field {name}")]
    NoField {
        /// The structure.
        structure: &'static str,
        /// The field.
        name: &'static str,
    },
    /// Processes have other numbers here than for programs in the kernel.
    #[error("this process is in a pid namespace of its own")]
    PidNamespace,
    /// The kernel does not load a program, for a reason that its last lines tell.
    #[error("the kernel rejects the program {program}: {reason}")]
    Rejected {
        /// The name of the program.
        program: &'static str,
        /// The error, and the last lines of the verifier's log.
        reason: String,
    },
    /// A program does not fit into the kernel's instructions, of a kernel with other structures than known.
    #[error("the program {program} can't be assembled: {reason}")]
    Assembly {
        /// The name of the program.
        program: &'static str,
        /// What does not fit.
        reason: String,
    },
    /// Another call to the system fails.
    #[error("{what}: {source}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

fn since(tracepoint: &str) -> &'static str {
    if tracepoint == "sched_exit_tp" { " (Linux 6.17 and later have it)" } else { "" }
}

impl BpfError {
    pub(crate) fn system(what: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted,
            _ => Self::System { what, source },
        }
    }

    pub(super) fn rejected(program: &'static str, rejected: &Rejected) -> Self {
        let is_refused = rejected.source.raw_os_error() == Some(libc::EPERM) && rejected.log.is_empty();
        if is_refused { Self::NotPermitted } else { Self::Rejected { program, reason: rejected.to_string() } }
    }

    pub(super) fn assembly(program: &'static str, error: AssemblyError) -> Self {
        Self::Assembly { program, reason: error.to_string() }
    }
}
