//! Connections that have not sent a whole request yet: the first to go when there are too many.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// All of them, the oldest first.
#[derive(Clone, Default)]
pub(super) struct Newcomers(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, CancellationToken>,
}

/// One connection; dropping it takes it off the table.
pub(super) struct Newcomer {
    all: Newcomers,
    number: u64,
    dropped: CancellationToken,
}

impl Newcomers {
    /// A connection that was just accepted.
    pub(super) fn enter(&self) -> Arc<Newcomer> {
        let dropped = CancellationToken::new();
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        table.open.insert(number, dropped.clone());
        drop(table);
        Arc::new(Newcomer { all: self.clone(), number, dropped })
    }

    /// Gives up the connection that has asked for nothing the longest, if there is one.
    pub(super) fn drop_oldest(&self) {
        if let Some((_, connection)) = self.table().open.pop_first() {
            connection.cancel();
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Newcomer {
    /// A request is there: from now on the connection stays.
    pub(super) fn arrived(&self) {
        self.all.table().open.remove(&self.number);
    }

    /// Waits until the connection is given up.
    pub(super) async fn dropped(&self) {
        self.dropped.cancelled().await;
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        self.arrived();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_without_a_request_goes_first() {
        let all = Newcomers::default();
        let (asked, oldest, gone, last) = (all.enter(), all.enter(), all.enter(), all.enter());
        asked.arrived();
        drop(gone);
        all.drop_oldest();
        assert!(oldest.dropped.is_cancelled() && !asked.dropped.is_cancelled() && !last.dropped.is_cancelled());
        all.drop_oldest();
        all.drop_oldest();
        assert!(last.dropped.is_cancelled() && !asked.dropped.is_cancelled());
    }
}
