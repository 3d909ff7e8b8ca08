//! Keeps the snapshot of memory that handlers search up to date.
//!
//! Reading the memory map takes milliseconds in a large process, and a thread mostly starts on the stack of one that
//! has ended. So for new threads it is read only if the size of the process has changed since, which one short read
//! shows. Changes that this misses are noticed by a sample on an unknown stack.
//!
//! ```text
//! /proc/self/statm   12034 2210 1204 310 0 4402 0       pages: the whole address space, …, sixth: data and stacks
//! ```

use super::handler;
use super::regions::Regions;
use super::slot::Slot;
use super::tables::Tables;
use super::walk::End;
use procprof_unwind::Space;
use std::sync::Arc;

/// The snapshot that one sampler has published, and replaced ones that handlers may still be reading.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    tables: Tables,
    retired: Vec<*mut Regions>,
    published: Option<*mut Regions>,
    space: Arc<Space>,
    is_stale: bool,
    /// The size of the process when it was published.
    size: Option<Size>,
}

/// Pages of the address space, and those of them that hold data and stacks.
type Size = (u64, u64);

// SAFETY: `retired` holds snapshots that only this value frees; nothing in it is bound to a thread. `published` is only
// compared.
unsafe impl Send for Snapshots {}

impl Snapshots {
    /// Compiles the tables that handlers requested, publishes a new snapshot where memory has changed, which is checked
    /// if `has_new_threads`, and frees the snapshots that no handler can be reading.
    pub(crate) fn keep(&mut self, has_new_threads: bool) {
        self.reclaim();
        self.tables.compile_wanted();
        let has_changed = || has_new_threads && (self.size.is_none() || self.size != size_now());
        if self.is_stale || self.published.is_none() || self.tables.are_stale() || has_changed() {
            self.publish();
        }
    }

    /// Publishes again if another sampler has published since: requests of handlers are to reach these tables.
    pub(crate) fn keep_own(&mut self) {
        if self.published.is_some_and(|own| own != handler::published()) {
            self.publish();
        }
    }

    /// Notes how a walk ended: unknown memory makes the snapshot stale.
    pub(crate) fn note(&mut self, end: End) {
        self.is_stale |= matches!(end, End::UnknownStack | End::UnknownCode);
    }

    /// The code that was published last.
    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    fn publish(&mut self) {
        self.is_stale = false;
        // Before the map, so that what changes meanwhile is seen the next time.
        self.size = size_now();
        let regions = Regions::of_this_process(&mut self.tables);
        self.space = regions.space.clone();
        let former = handler::publish(Box::new(regions));
        self.published = Some(handler::published());
        self.retired.push(former);
    }

    /// Frees replaced snapshots once no handler is anywhere.
    pub(crate) fn reclaim(&mut self) {
        if self.retired.is_empty() || Slot::all().any(Slot::is_busy) {
            return;
        }
        for regions in self.retired.drain(..).filter(|regions| !regions.is_null()) {
            // SAFETY: made by `Box::into_raw` and replaced before this check; every handler that entered since reads
            // the new one.
            drop(unsafe { Box::from_raw(regions) });
        }
    }
}

/// The size of this process; `None` where `/proc` can't be read.
fn size_now() -> Option<Size> {
    parse(&std::fs::read_to_string("/proc/self/statm").ok()?)
}

fn parse(statm: &str) -> Option<Size> {
    let column = |number| statm.split_whitespace().nth(number)?.parse().ok();
    Some((column(0)?, column(5)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_is_read_again_where_the_process_has_another_size() {
        assert_eq!((parse("12034 2210 1204 310 0 4402 0\n"), parse("12034 2210")), (Some((12034, 4402)), None));
        let mut snapshots = Snapshots::default();
        // Whether it stays, if the size differs by so much. Other tests map memory meanwhile, and take samples in code
        // that has no table yet: of many times, it stays once.
        let mut is_kept = |has_new_threads, difference| {
            snapshots.size = size_now().map(|(all, data)| (all + difference, data));
            let before = snapshots.published;
            snapshots.keep(has_new_threads);
            snapshots.published == before
        };
        assert!(!is_kept(false, 0), "none is published");
        assert!((0..1000).any(|_| is_kept(false, 1)), "no thread is new");
        assert!(!is_kept(true, 1), "of another size");
        assert!((0..1000).any(|_| is_kept(true, 0)), "of the same size");
    }
}
