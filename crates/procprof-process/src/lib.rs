//! A Linux process as seen from outside or inside: identity, maps, build ids, threads, namespaces.
//!
//! Everything is read from `/proc` when it is requested; nothing is cached but names of users, and nothing is written.
//! A pid alone does not name a process, since pids are reused: [`Process`] keeps the [`Identity`] (pid and start time)
//! it was opened with, and [`Process::check_same`] checks that the pid still belongs to it.
//!
//! The caller must expect every call to fail: processes end between two reads ([`Error::Gone`]),
//! and other users' processes are not readable ([`Error::Permission`]).
//!
//! This crate does not resolve symbols, walk stacks or stop processes.
//!
//! ```
//! use procprof_process::Process;
//!
//! let process = Process::current()?;
//! for mapping in process.maps()?.iter().filter(|mapping| mapping.is_file_code()) {
//!     let build_id = process.build_id_of(mapping)?;
//!     println!("{} {:?}", mapping.name(), build_id.map(|id| id.to_string()));
//! }
//! process.check_same()?;
//! # Ok::<(), procprof_process::Error>(())
//! ```

mod build_id;
mod cgroup;
mod clock;
mod error;
mod identity;
mod image;
pub mod interpreter;
mod mapped_file;
mod maps;
mod namespace;
mod pid;
mod process;
mod process_context;
mod procfs;
mod program;
mod socket;
mod stat;
mod status;
mod thread;
mod users;
mod workload;

pub use build_id::{BuildId, ParseBuildIdError};
pub use cgroup::{Cgroup, ContainerId};
pub use clock::thread_cpu_time;
pub use error::{Error, Result};
pub use identity::Identity;
pub use interpreter::Interpreter;
pub use mapped_file::{MappedFile, Via, open_regular};
pub use maps::{MAPPED_PATHS_BYTES_MAX, MAPPINGS_MAX, MappedRange};
pub use namespace::{NamespaceKind, Namespaces};
pub use pid::{Pid, Tid};
pub use process::{COMMAND_LINE_BYTES_MAX, CommandLine, ENVIRONMENT_BYTES_MAX, Executable, Process, Usage};
pub use process_context::ProcessContext;
pub use program::program_name;
pub use socket::{Listener, SocketOwner, listeners_on};
pub use status::Status;
pub use thread::Thread;
pub use users::user_name;
pub use workload::{Container, Workload};
