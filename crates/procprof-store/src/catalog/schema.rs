//! The catalog's tables. Any change here changes [`VERSION`], and a catalog of another version is rebuilt from the
//! files.

use rusqlite::Connection;

/// The database's `user_version`, written with the first complete filling.
pub(crate) const VERSION: i64 = 8;

/// `profiles` has the columns to filter, sort and sum by, `profile_details` those to show, with the same `seq`: they
/// are ten times as long, and reading 100,000 rows would read them, too.
///
/// `facts` is the JSON of the file's header, from which entries are read; `samples`, `totals` (JSON), `top_function`
/// and `threads` are of its summary; `total` is the sum of the sample type that is shown, `instance` the start of the
/// process, each 0 where it is unknown. `labels` is `\nkey=value\n…\n`, `words` the lower-case text that is searched.
/// `lost` is -1 where it is unknown. `functions` is their number or why there are none ([`Known`](super::functions::Known)); `function_heads` and
/// `function_rests` have them, packed, with names by their ids in `names`.
/// The columns to filter lists by, except `words`, are in `by_time`, so that rows that do not match are skipped without
/// being read. The indexes end with the columns that are summed over many rows.
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
    samples INTEGER NOT NULL,
    totals TEXT NOT NULL,
    top_function TEXT,
    total INTEGER NOT NULL,
    instance INTEGER NOT NULL,
    threads INTEGER NOT NULL,
    functions INTEGER NOT NULL,
    engine TEXT NOT NULL,
    lost INTEGER NOT NULL,
    UNIQUE (node, file)
) STRICT;
CREATE TABLE profile_details (
    seq INTEGER PRIMARY KEY,
    words TEXT NOT NULL,
    facts TEXT NOT NULL,
    strip BLOB NOT NULL
) STRICT;
CREATE TRIGGER profile_details_go AFTER DELETE ON profiles BEGIN
    DELETE FROM profile_details WHERE seq = old.seq;
    DELETE FROM function_heads WHERE seq = old.seq;
    DELETE FROM function_rests WHERE seq = old.seq;
END;
CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE function_heads (seq INTEGER PRIMARY KEY, head BLOB NOT NULL) STRICT;
CREATE TABLE function_rests (seq INTEGER PRIMARY KEY, rest BLOB NOT NULL) STRICT;
CREATE INDEX by_time ON profiles (completed, id, node, type, trigger, cluster, labels, bytes, started, duration, total);
CREATE INDEX by_node ON profiles (node, completed, id, type, bytes, started, duration, total, instance,
    threads);
CREATE INDEX by_type ON profiles (type, completed, id, node, bytes, started, duration, samples, top_function);
CREATE INDEX by_node_and_type ON profiles (node, type, completed, id, bytes, started, duration);
CREATE INDEX without_functions ON profiles (completed, id, node, type, cluster, trigger, labels, functions)
    WHERE functions < 0;
CREATE INDEX by_top_function ON profiles (top_function, type, node, completed, bytes);
";

/// The columns of an entry.
pub(crate) const COLUMNS: &str = "id, node, file, completed, bytes, facts, strip";
/// The tables with these columns. A row without details has NULL facts.
pub(crate) const ENTRIES: &str = "profiles LEFT JOIN profile_details USING (seq)";

/// Creates the tables of an empty database.
pub(crate) fn create(connection: &Connection) -> rusqlite::Result<()> {
    // One transaction, so that the log has each page once.
    connection.execute_batch(&format!("BEGIN; {TABLES} COMMIT;"))
}

/// The version of a database; 0 when it was never filled.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Marks a database as filled.
pub(crate) fn set_version(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "user_version", VERSION)
}
