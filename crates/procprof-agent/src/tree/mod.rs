//! The processes that were forked from this one, profiled with it.
//!
//! The process that serves the request, the *root*, shares a page of memory with all its forks. A capture is written
//! there as an order; a fork that checks the page ([`ProcessTree::look`], called by the preload library in its slow
//! paths) and finds an order starts a thread, samples itself until the order's end and sends its profile over a local
//! socket. So a fork that is not being profiled has neither a thread nor a descriptor of ours.
//!
//! ```text
//! member -> root    secret (16 bytes) | process id (4) | length (8) | gzip'd pprof     the length is 0 where nothing could be sampled
//! ```
//!
//! - [`page`]: what is shared;
//! - [`member`]: a fork that carries an order out;
//! - [`parting`]: the profile of a fork that ends before the order does;
//! - [`order`]: the root's side, and the sum of all;
//! - [`processes`]: the processes and how much CPU time each has used, so that unsampled time is counted.

mod member;
mod order;
mod page;
mod parting;
mod processes;

pub(crate) use order::Order;

use page::Page;

/// The tree of forks this process belongs to.
///
/// The preload library's; a program that embeds the agent and forks may use it likewise.
#[derive(Clone, Copy, Debug)]
pub struct ProcessTree;

impl ProcessTree {
    /// Makes this process the root of those that are forked from it from now on; false without memory or randomness for
    /// it.
    pub fn begin() -> bool {
        Page::begin()
    }

    /// Carries out the root's order, if there is a new one: a few loads where there is none.
    ///
    /// Not for signal handlers: it may start a thread.
    #[inline]
    pub fn look() {
        if Page::has_news() {
            member::join();
        }
    }

    /// Makes this process the root in the place of `former`, which has ended; false where another process was faster.
    /// True also where there is no tree.
    pub fn inherit(former: i32) -> bool {
        Page::of_this_process().is_none_or(|page| page.inherit(former))
    }

    /// The root, where it is another process than this one.
    pub fn root() -> Option<i32> {
        Page::of_this_process().map(Page::root).filter(|root| *root != page::own_pid())
    }
}
