//! The catalog's tables. Any change here changes [`VERSION`], and a catalog of another version is made anew from the files.

use rusqlite::Connection;

/// Stands in the database's `user_version`, written with the first complete filling.
pub(crate) const VERSION: i64 = 4;

/// `facts` is the JSON of the file's header, from which entries are read; the columns before it are what lists filter and sort by.
/// `labels` is `\nkey=value\n…\n`, `words` the lower-case text that is searched. What a list may filter by, but for `words`, is in `by_time`,
/// so that rows that do not match are passed over without being read. The indexes end in what is summed up over many rows: reading 100,000 rows for
/// that takes 150 ms, reading an index 10 ms.
const TABLES: &str = "
CREATE TABLE profiles (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    node INTEGER NOT NULL,
    type TEXT NOT NULL,
    file TEXT NOT NULL,
    completed INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    started INTEGER NOT NULL,
    duration INTEGER NOT NULL,
    trigger TEXT NOT NULL,
    cluster TEXT NOT NULL,
    labels TEXT NOT NULL,
    words TEXT NOT NULL,
    facts TEXT NOT NULL,
    strip BLOB NOT NULL,
    UNIQUE (node, file)
) STRICT;
CREATE INDEX by_time ON profiles (completed, id, node, type, trigger, cluster, labels, bytes, started, duration);
CREATE INDEX by_node ON profiles (node, completed, id, type, bytes);
CREATE INDEX by_type ON profiles (type, completed, id, node, bytes, started, duration);
CREATE INDEX by_node_and_type ON profiles (node, type, completed, id, bytes, started, duration);
";

/// Makes the tables of an empty database.
pub(crate) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(TABLES)
}

/// The version of a database; 0 when it was never filled.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Marks a database as filled.
pub(crate) fn set_version(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "user_version", VERSION)
}
