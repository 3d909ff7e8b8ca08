//! The catalog's tables. Any change here changes [`VERSION`]. A catalog of a version before gets what was added since
//! ([`ADDED`]); one of any other version is rebuilt from the files.

use rusqlite::Connection;

/// The database's `user_version`, written with the first complete filling.
pub(crate) const VERSION: i64 = 10;

/// `profiles` has the columns to filter, sort and sum by, `profile_details` those to show, with the same `seq`: they
/// are ten times as long, and reading 100,000 rows would read them, too.
///
/// `facts` is the JSON of the file's header, from which entries are read; `samples`, `totals` (JSON), `top_function`
/// and `threads` are of its summary; `total` is the sum of the sample type that is shown, `instance` the start of the
/// process, each 0 where it is unknown. `labels` is `\nkey=value\n…\n`, `words` the lower-case text that is searched.
/// `lost` is -1 where it is unknown. `functions` is their number or why there are none
/// ([`Known`](super::functions::Known)); `function_heads` and `function_rests` have them, packed, with names by their
/// ids in `names`.
/// `pieces` has what [`PIECE_ROWS`] neighbours by `seq` have in common: a `version` that only this state of them has,
/// their number, and moments between which they were completed.
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
CREATE TABLE pieces (
    piece INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    least INTEGER NOT NULL,
    most INTEGER NOT NULL
) STRICT;
CREATE TRIGGER piece_comes AFTER INSERT ON profiles BEGIN
    INSERT OR IGNORE INTO pieces VALUES (new.seq / 4096, 0, 0, new.completed, new.completed);
    UPDATE pieces SET version = random(), rows = rows + 1, least = min(least, new.completed),
        most = max(most, new.completed) WHERE piece = new.seq / 4096;
END;
CREATE TRIGGER piece_changes AFTER UPDATE ON profiles BEGIN
    UPDATE pieces SET version = random(), least = min(least, new.completed), most = max(most, new.completed)
        WHERE piece = new.seq / 4096;
END;
CREATE TRIGGER piece_goes AFTER DELETE ON profiles BEGIN
    UPDATE pieces SET version = random(), rows = rows - 1 WHERE piece = old.seq / 4096;
    DELETE FROM pieces WHERE piece = old.seq / 4096 AND rows = 0;
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

/// The additions of each version to [`TABLES`].
///
/// `stamp` is that of the file when the row was made, 0 where it is unknown. `retired_names` has the last 100,000 names
/// whose rows have gone: no new file gets one of them.
const ADDED: [(i64, &str); 1] = [(
    10,
    "
ALTER TABLE profiles ADD COLUMN stamp INTEGER NOT NULL DEFAULT 0;
CREATE TABLE retired_names (
    number INTEGER PRIMARY KEY,
    node INTEGER NOT NULL,
    file TEXT NOT NULL,
    UNIQUE (node, file)
) STRICT;
CREATE TRIGGER name_retires AFTER DELETE ON profiles BEGIN
    INSERT OR IGNORE INTO retired_names (node, file) VALUES (old.node, old.file);
END;
CREATE TRIGGER retired_names_end AFTER INSERT ON retired_names BEGIN
    DELETE FROM retired_names WHERE number <= new.number - 100000;
END;
",
)];

/// Values of `seq` in a piece, as the triggers have it.
pub(crate) const PIECE_ROWS: i64 = 4096;

/// The columns of an entry.
pub(crate) const COLUMNS: &str = "id, node, file, completed, bytes, facts, strip";
/// The tables with these columns. A row without details has NULL facts.
pub(crate) const ENTRIES: &str = "profiles LEFT JOIN profile_details USING (seq)";

/// Creates the tables of an empty database.
pub(crate) fn create(connection: &Connection) -> rusqlite::Result<()> {
    let added: String = ADDED.iter().map(|(_, tables)| *tables).collect();
    // One transaction, so that the log has each page once.
    connection.execute_batch(&format!("BEGIN; {TABLES} {added} COMMIT;"))
}

/// Adds to a database what came after its version; returns whether there is a way from that version to this one.
pub(crate) fn upgrade(connection: &Connection, version: i64) -> rusqlite::Result<bool> {
    let Some(first) = ADDED.iter().position(|(added, _)| *added == version + 1) else { return Ok(false) };
    let added: String = ADDED[first..].iter().map(|(_, tables)| *tables).collect();
    connection.execute_batch(&format!("BEGIN; {added} PRAGMA user_version = {VERSION}; COMMIT;"))?;
    Ok(true)
}

/// The version of a database; 0 when it was never filled.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Marks a database as filled.
pub(crate) fn set_version(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "user_version", VERSION)
}
