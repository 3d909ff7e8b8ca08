//! `epoll_wait` and `accept`, by which servers wait for work: where a forked worker that allocates nothing joins a
//! capture of its process tree; in `epoll_wait` a process without a thread of ours also starts one for a client.
//!
//! Neither can be woken, so they look by themselves whether there is something to do: where they allocate, and here.
//! Not in `poll`, `read` and their kin: these may be called in signal handlers, where no thread can be started. So may
//! `accept`, where no client is looked for.

use libc::{c_int, epoll_event, sigset_t, sockaddr, socklen_t, timespec};
use procprof_agent::ProcessTree;
use procprof_agent::heap_hook::is_quiet;

/// Looks these functions up where that may be done.
pub(crate) fn at_load() {
    next::look_all_up();
}

/// Defines the C library's functions anew: each looks whether there is news, and hands its arguments on.
macro_rules! entries {
    ($($name:ident($($argument:ident: $type:ty),*), $look:path;)*) => {
        mod next {
            use super::*;

            crate::next::next! {
                $($name($($argument: $type),*) -> c_int, or -1;)*
            }
        }

        $(
            /// # Safety
            /// As in the C library.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                if !is_quiet(&crate::thread::current().sampler) {
                    $look();
                }
                // SAFETY: by the caller's promise.
                unsafe { next::$name($($argument),*) }
            }
        )*
    };
}

entries! {
    epoll_wait(epoll: c_int, events: *mut epoll_event, count: c_int, millis: c_int), look;
    epoll_pwait(epoll: c_int, events: *mut epoll_event, count: c_int, millis: c_int, mask: *const sigset_t), look;
    epoll_pwait2(epoll: c_int, events: *mut epoll_event, count: c_int, time: *const timespec, mask: *const sigset_t), look;
    accept(socket: c_int, address: *mut sockaddr, length: *mut socklen_t), ProcessTree::look;
    accept4(socket: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int), ProcessTree::look;
}

/// Looks for orders and for clients.
#[inline]
fn look() {
    ProcessTree::look();
    crate::deferred::look_for_client();
}
