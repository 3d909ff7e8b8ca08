//! [`Snapshot`]: a reader in a transaction.

use std::ops::Deref;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use super::Catalog;
use super::error::failed;
use crate::Result;
use crate::mutex::lock;

/// A read-only connection in a transaction, which sees all rows as they were when it was first used.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Returned on drop.
    reader: Option<Connection>,
    idle: Arc<Mutex<Vec<Connection>>>,
    idle_max: usize,
}

impl Catalog {
    /// Begins a snapshot.
    pub(super) fn snapshot(&self) -> Result<Snapshot> {
        let (reader, idle) = self.lend(&self.connections())?;
        reader.execute_batch("BEGIN").map_err(|source| failed("begin to read", source))?;
        Ok(Snapshot { reader: Some(reader), idle, idle_max: self.readers_max })
    }
}

impl Deref for Snapshot {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.reader.as_ref().expect("it is given back only when this is dropped")
    }
}

impl Drop for Snapshot {
    /// Returns the reader to its pool; one that cannot end its transaction is closed instead.
    fn drop(&mut self) {
        let Some(reader) = self.reader.take() else { return };
        if reader.is_autocommit() || reader.execute_batch("ROLLBACK").is_ok() {
            let mut idle = lock(&self.idle);
            if idle.len() < self.idle_max {
                idle.push(reader);
            }
        }
    }
}
