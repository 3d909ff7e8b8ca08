//! [`Reader`]: the catalog for who asks it in SQL.

use rusqlite::Connection;

use crate::{Result, Store};

/// A connection to the catalog that cannot write to it.
///
/// Its table `profiles` has a row for each profile: `id` (16 bytes), `node`, `type`, `file`, `completed`, `started` and `duration` (nanoseconds),
/// `bytes`, `trigger`, `cluster`, `labels` (`\nkey=value\n…\n`), `samples`, `totals` (JSON) and `top_function`. Nothing here keeps a statement from
/// taking long or from opening other files: that is for who runs statements of strangers to forbid.
#[derive(Debug)]
pub struct Reader {
    /// The connection.
    pub connection: Connection,
    generation: u64,
}

impl Store {
    /// A connection of the caller's own. Rows in it are read while others are written.
    ///
    /// # Errors
    /// The catalog cannot be opened.
    pub fn reader(&self) -> Result<Reader> {
        let (connection, generation) = self.catalog.reader()?;
        Ok(Reader { connection, generation })
    }

    /// Whether a connection still reads the catalog there is: it may have been made anew since.
    pub fn is_current(&self, reader: &Reader) -> bool {
        reader.generation == self.catalog.generation()
    }
}
