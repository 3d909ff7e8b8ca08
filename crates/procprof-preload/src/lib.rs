//! `libprocprof_preload.so`: the agent in any C or C++ process, by `LD_PRELOAD`.
//!
//! ```console
//! $ LD_PRELOAD=/usr/lib/libprocprof_preload.so PROCPROF_LISTEN=127.0.0.1:6060 ./server
//! $ go tool pprof http://127.0.0.1:6060/debug/pprof/profile
//! $ jeprof ./server http://127.0.0.1:6060/debug/mem
//! ```
//!
//! - `settings`: the variables `PROCPROF_*`;
//! - `start`: the agent and its listener, started before `main`, by a program's own call, or by a child whose parent
//!   has ended (`deferred`);
//! - `heap`: the `malloc` family and C++'s operators, sampled;
//! - `signals`: SIGPROF shared with the program, and the ways out of the process;
//! - `births`: threads that arm themselves while CPU time is sampled;
//! - `waits`: functions in which servers wait, and a forked worker joins a capture;
//! - `glibc`: what older C libraries lack;
//! - `thread`: the state of each thread;
//! - `destructors`: handling of this library's own thread-local variables when a thread ends;
//! - `c_api`: the functions that a program may call, declared in `include/procprof.h`.
//!
//! Without `PROCPROF_LISTEN` nothing is started: allocations pass through at the cost of a subtraction and a jump.
//!
//! This is a crate of its own because it exports `malloc`: linked into a Rust program it would take over the program's
//! own allocations. It needs no glibc symbol newer than 2.17, see `build.rs`. Elsewhere than on Linux with glibc it is
//! empty.

#![allow(unsafe_code)]
#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod at_end;
mod births;
mod c_api;
mod deferred;
mod destructors;
mod glibc;
mod heap;
mod next;
mod settings;
mod signals;
mod start;
mod stderr;
mod thread;
mod waits;

/// Called by the loader before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = start::at_load;

/// Allocations of the agent are not the program's.
#[global_allocator]
static ALLOCATOR: heap::Unseen = heap::Unseen;
