//! Keeping the snapshot of memory that handlers search true.

use super::handler;
use super::regions::Regions;
use super::slot::Slot;
use super::tables::Tables;
use super::walk::End;

/// What one sampler publishes, and what it has replaced and handlers may still be reading.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    tables: Tables,
    retired: Vec<*mut Regions>,
    published: Option<*mut Regions>,
    is_stale: bool,
}

// SAFETY: `retired` holds snapshots that only this value frees; nothing in it is bound to a thread. `published` is only compared.
unsafe impl Send for Snapshots {}

impl Snapshots {
    /// Compiles what handlers asked for, publishes anew where memory has changed or `has_new_threads`, and frees what no handler can be reading.
    pub(crate) fn keep(&mut self, has_new_threads: bool) {
        self.reclaim();
        self.tables.compile_wanted();
        if has_new_threads || self.is_stale || self.published.is_none() || self.tables.are_stale() {
            self.publish();
        }
    }

    /// Publishes again if another sampler has published since: what handlers ask for is to reach these tables.
    pub(crate) fn keep_own(&mut self) {
        if self.published.is_some_and(|own| own != handler::published()) {
            self.publish();
        }
    }

    /// Notes how a walk ended: unknown memory makes the snapshot stale.
    pub(crate) fn note(&mut self, end: End) {
        self.is_stale |= matches!(end, End::UnknownStack | End::UnknownCode);
    }

    fn publish(&mut self) {
        self.is_stale = false;
        let former = handler::publish(Box::new(Regions::of_this_process(&mut self.tables)));
        self.published = Some(handler::published());
        self.retired.push(former);
    }

    /// Frees replaced snapshots once no handler is anywhere.
    pub(crate) fn reclaim(&mut self) {
        if self.retired.is_empty() || Slot::all().any(Slot::is_busy) {
            return;
        }
        for regions in self.retired.drain(..).filter(|regions| !regions.is_null()) {
            // SAFETY: made by `Box::into_raw` and replaced before this check; every handler that entered since reads the new one.
            drop(unsafe { Box::from_raw(regions) });
        }
    }
}
