//! `DATA/catalog.sqlite`: an index over the files, never the truth. It may be deleted at any time while no server runs.
//!
//! Write-ahead logging, one writing connection, and a few read-only ones, so that listing never waits for a put.
//! Commits are not synced: after a power cut rows may be missing or too many, and opening compares them with the
//! folder.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use procprof_profile::{Nanos, ProfileId, ProfileType};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params, params_from_iter};

use self::condition::Condition;
use self::database::{Unfit, check, create, open_checked, open_reader, open_writer, remove_files};
use self::error::failed;
use self::pieces::ColumnCache;
use self::schema::{COLUMNS, ENTRIES};
use crate::mutex::lock;
use crate::{Cursor, Entry, Error, Filter, NodeUsage, PAGE_MAX, Page, PageRequest, Result};

mod condition;
mod database;
mod error;
mod functions;
mod pieces;
mod row;
mod rows;
mod schema;
mod snapshot;

pub use functions::FunctionRows;
use functions::Names;
pub(crate) use row::{Brief, KnownFile, NewRow};
use row::{Json, Raw, blob, brief, id, insert, known_file, raw, remove_file};
pub use rows::Rows;

/// The catalog.
#[derive(Debug)]
pub(crate) struct Catalog {
    path: PathBuf,
    readers_max: usize,
    connections: RwLock<Connections>,
    /// The number of times it was replaced.
    generation: AtomicU64,
    /// Whether it was read through since it was opened, or made since.
    checked: AtomicBool,
}

/// Closed in this order: the last one closed writes the log back into the database, which a reader cannot.
#[derive(Debug)]
struct Connections {
    readers: Arc<Mutex<Vec<Connection>>>,
    columns: Arc<ColumnCache>,
    writer: Mutex<Writer>,
}

#[derive(Debug)]
struct Writer {
    connection: Connection,
    names: Names,
}

impl Catalog {
    /// Opens the catalog; a missing or broken one, or one of another version, is replaced by an empty one, and the
    /// reason returned.
    pub(crate) fn open(path: &Path, readers_max: usize) -> Result<(Catalog, Option<String>)> {
        let ((writer, checked), replaced) = match open_checked(path) {
            Ok(opened) => (opened, None),
            Err(Unfit::Error(error)) => return Err(error),
            Err(Unfit::Because(why)) => ((create(path)?, true), Some(why)),
        };
        let catalog = Catalog::new(path, readers_max, writer);
        catalog.checked.store(checked, Ordering::Relaxed);
        Ok((catalog, replaced))
    }

    /// Reads the catalog through, if that was not done when it was opened because it is too large.
    pub(crate) fn check_once(&self) -> Result<()> {
        if !self.checked.load(Ordering::Relaxed) {
            self.read("check", check)?;
            self.checked.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn new(path: &Path, readers_max: usize, writer: Connection) -> Catalog {
        let connections = RwLock::new(Connections::new(writer));
        Catalog {
            path: path.to_owned(),
            readers_max,
            connections,
            generation: AtomicU64::new(0),
            checked: AtomicBool::new(true),
        }
    }

    /// Replaces the catalog by one that `fill` fills. Until then the old one is read.
    pub(crate) fn replace<T>(&self, fill: impl FnOnce(&Catalog) -> Result<T>) -> Result<T> {
        let beside = self.path.with_extension("new.sqlite");
        let filled = || {
            let fresh = Catalog::new(&beside, 0, create(&beside)?);
            let done = fill(&fresh)?;
            // A broken catalog may have none.
            fresh.retire(&self.retired_names().unwrap_or_default())?;
            fresh.set_complete().map(|()| done)
        };
        let done = match filled() {
            Ok(done) => done,
            Err(error) => {
                remove_files(&beside)?;
                return Err(error);
            }
        };
        let mut connections = self.connections.write().unwrap_or_else(PoisonError::into_inner);
        // The old connections are closed before their files go. If the process ended here, the next opening would find
        // no catalog.
        let nowhere = Connection::open_in_memory().map_err(|source| failed("open", source))?;
        *connections = Connections::new(nowhere);
        remove_files(&self.path)?;
        std::fs::rename(&beside, &self.path).map_err(|source| Error::io("rename to", &self.path, source))?;
        *connections = Connections::new(open_writer(&self.path).map_err(|source| failed("open", source))?);
        self.checked.store(true, Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::SeqCst);
        Ok(done)
    }

    /// The number of times it was replaced.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Marks the catalog as complete.
    pub(crate) fn set_complete(&self) -> Result<()> {
        self.write("mark as complete", |writer| schema::set_version(writer))
    }

    /// Adds the row of a file just written. A row of that name belongs to a file that was removed from outside, and is
    /// replaced.
    pub(crate) fn insert(&self, row: &NewRow<'_>) -> Result<()> {
        let json = row.json()?;
        self.write_named("add", |transaction, names| {
            remove_file(transaction, row.node, &row.file)?;
            insert(transaction, names, row, &json).map(drop)
        })
    }

    /// Adds rows in one transaction. Returns those that could not be added because their id or file is there already.
    pub(crate) fn insert_all<'a, 'b>(&self, rows: &'a [NewRow<'b>]) -> Result<Vec<&'a NewRow<'b>>> {
        let json: Vec<Json> = rows.iter().map(NewRow::json).collect::<Result<_>>()?;
        self.write_named("add", |transaction, names| {
            let mut refused = Vec::new();
            for (row, json) in rows.iter().zip(&json) {
                if !insert(transaction, names, row, json)? {
                    refused.push(row);
                }
            }
            Ok(refused)
        })
    }

    /// Removes the row of a file.
    pub(crate) fn remove_file(&self, node: u64, file: &str) -> Result<()> {
        self.write("remove", |writer| remove_file(writer, node, file))
    }

    /// Removes a row; returns whether it existed.
    pub(crate) fn remove(&self, id: ProfileId) -> Result<bool> {
        self.write("remove", |writer| {
            Ok(writer.prepare_cached("DELETE FROM profiles WHERE id = ?")?.execute([blob(id)])? > 0)
        })
    }

    pub(crate) fn get(&self, id: ProfileId) -> Result<Option<Entry>> {
        self.one("id = ?", params![blob(id)])
    }

    pub(crate) fn by_name(&self, node: u64, file: &str) -> Result<Option<Entry>> {
        self.one("node = ? AND file = ?", params![node.cast_signed(), file])
    }

    pub(crate) fn newest(&self, node: u64, profile_type: &ProfileType) -> Result<Option<Entry>> {
        let condition = "node = ? AND type = ? ORDER BY completed DESC, id DESC LIMIT 1";
        self.one(condition, params![node.cast_signed(), profile_type.name()])
    }

    pub(crate) fn list(&self, filter: &Filter, page: &PageRequest<Cursor>) -> Result<Page<Entry, Cursor>> {
        let limit = page.limit.clamp(1, PAGE_MAX);
        filter.check()?;
        let until = if filter.text.is_some() { self.search_end(filter, page.after)? } else { None };
        let condition = Condition::new(filter, page.after, until);
        let sql = format!(
            "SELECT {COLUMNS} FROM {ENTRIES} WHERE {} ORDER BY completed DESC, id DESC LIMIT {}",
            condition.sql,
            limit + 1
        );
        let mut rows = self.read("list", |reader| {
            let mut statement = reader.prepare_cached(&sql)?;
            let rows = statement.query_map(params_from_iter(&condition.values), raw)?;
            rows.collect::<rusqlite::Result<Vec<Raw>>>()
        })?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let rows: Vec<Entry> = rows.into_iter().map(Raw::entry).collect::<Result<_>>()?;
        let next = match rows.last().filter(|_| more) {
            Some(entry) => Some(Cursor { completed: entry.completed, id: entry.id }),
            None => until,
        };
        Ok(Page { rows, next })
    }

    /// The last of the profiles that one page searches for a text; `None` if it searches all remaining ones.
    fn search_end(&self, filter: &Filter, after: Option<Cursor>) -> Result<Option<Cursor>> {
        let Condition { sql, values } = Condition::without_text(filter, after);
        let offset = Filter::SEARCHED_MAX - 1;
        let sql = format!(
            "SELECT completed, id FROM profiles WHERE {sql} ORDER BY completed DESC, id DESC LIMIT 1 OFFSET {offset}"
        );
        self.read("list", |reader| {
            let cursor = |row: &Row<'_>| Ok(Cursor { completed: Nanos(row.get(0)?), id: id(row, 1)? });
            reader.prepare_cached(&sql)?.query_row(params_from_iter(&values), cursor).optional()
        })
    }

    /// All rows, for retention.
    pub(crate) fn briefs(&self) -> Result<Vec<Brief>> {
        self.read("read for retention", |reader| {
            let mut statement =
                reader.prepare_cached("SELECT id, node, type, completed, bytes FROM profiles INDEXED BY by_node")?;
            let rows = statement.query_map([], brief)?;
            rows.collect()
        })
    }

    /// The file of a profile.
    pub(crate) fn file_of(&self, id: ProfileId) -> Result<Option<KnownFile>> {
        self.read("look up", |reader| {
            let mut statement = reader.prepare_cached("SELECT node, file, stamp FROM profiles WHERE id = ?")?;
            statement.query_row([blob(id)], known_file).optional()
        })
    }

    /// Notes the stamps of files whose rows are right.
    pub(crate) fn set_stamps(&self, files: &[KnownFile]) -> Result<()> {
        self.write_named("note stamps of files", |transaction, _| {
            let mut statement =
                transaction.prepare_cached("UPDATE profiles SET stamp = ? WHERE node = ? AND file = ?")?;
            for KnownFile { node, file, stamp } in files {
                statement.execute(params![stamp.0.cast_signed(), node.cast_signed(), file])?;
            }
            Ok(())
        })
    }

    /// Whether a file of that name has gone.
    pub(crate) fn is_retired(&self, node: u64, file: &str) -> Result<bool> {
        self.read("look up", |reader| {
            let mut statement = reader.prepare_cached("SELECT 1 FROM retired_names WHERE node = ? AND file = ?")?;
            statement.exists(params![node.cast_signed(), file])
        })
    }

    /// Names of files that have gone, by node, the oldest first.
    fn retired_names(&self) -> Result<Vec<(i64, String)>> {
        self.read("look up", |reader| {
            let mut statement = reader.prepare("SELECT node, file FROM retired_names ORDER BY number")?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
    }

    fn retire(&self, names: &[(i64, String)]) -> Result<()> {
        self.write_named("add", |transaction, _| {
            let mut statement =
                transaction.prepare("INSERT OR IGNORE INTO retired_names (node, file) VALUES (?, ?)")?;
            for (node, file) in names {
                statement.execute(params![node, file])?;
            }
            Ok(())
        })
    }

    /// Sizes of its files together, in bytes; missing ones count as 0.
    pub(crate) fn bytes(&self) -> u64 {
        database::bytes(&self.path)
    }

    /// The file of every row.
    pub(crate) fn files(&self) -> Result<Vec<KnownFile>> {
        self.read("compare with the folder", |reader| {
            let mut statement = reader.prepare("SELECT node, file, stamp FROM profiles")?;
            statement.query_map([], known_file)?.collect()
        })
    }

    /// The usage of each node, ascending by node.
    pub(crate) fn sums(&self) -> Result<Vec<NodeUsage>> {
        let sql = "SELECT node, count(*), sum(bytes), min(completed), max(completed) FROM profiles GROUP BY node ORDER \
            BY node";
        self.read("sum up", |reader| {
            let mut statement = reader.prepare_cached(sql)?;
            let rows = statement.query_map([], |row| {
                let number = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
                let (oldest, newest) = (Nanos(row.get(3)?), Nanos(row.get(4)?));
                Ok(NodeUsage { node: number(0)?, profiles: number(1)?, bytes: number(2)?, oldest, newest })
            })?;
            rows.collect()
        })
    }

    fn one(&self, condition: &str, values: impl rusqlite::Params) -> Result<Option<Entry>> {
        let sql = format!("SELECT {COLUMNS} FROM {ENTRIES} WHERE {condition}");
        let found = self.read("look up", |reader| reader.prepare_cached(&sql)?.query_row(values, raw).optional())?;
        found.map(Raw::entry).transpose()
    }

    fn write<T>(&self, doing: &'static str, job: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T> {
        self.write_with_names(doing, |writer, _| job(writer))
    }

    /// Writes in one transaction, with the dictionary of names.
    fn write_named<T>(
        &self,
        doing: &'static str,
        job: impl FnOnce(&Transaction<'_>, &mut Names) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.write_with_names(doing, |writer, names| {
            let transaction = writer.transaction()?;
            let done = job(&transaction, names).and_then(|done| transaction.commit().map(|()| done));
            // What the transaction had added is not there.
            done.inspect_err(|_| names.forget())
        })
    }

    fn write_with_names<T>(
        &self,
        doing: &'static str,
        job: impl FnOnce(&mut Connection, &mut Names) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let connections = self.connections();
        let mut writer = lock(&connections.writer);
        let Writer { connection, names } = &mut *writer;
        job(connection, names).map_err(|source| failed(doing, source))
    }

    fn read<T>(&self, doing: &'static str, job: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        // Held until the job is done, so that no other catalog takes this one's place meanwhile.
        let connections = self.connections();
        let (reader, idle) = self.lend(&connections)?;
        let answer = job(&reader).map_err(|source| failed(doing, source))?;
        let mut idle = lock(&idle);
        if idle.len() < self.readers_max {
            idle.push(reader);
        }
        Ok(answer)
    }

    /// A read-only connection, and the pool it returns to.
    fn lend(&self, connections: &Connections) -> Result<(Connection, Arc<Mutex<Vec<Connection>>>)> {
        let idle = lock(&connections.readers).pop();
        let reader = match idle {
            Some(reader) => reader,
            None => open_reader(&self.path).map_err(|source| failed("open", source))?,
        };
        Ok((reader, Arc::clone(&connections.readers)))
    }

    fn connections(&self) -> RwLockReadGuard<'_, Connections> {
        self.connections.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    fn new(writer: Connection) -> Connections {
        Connections {
            readers: Arc::default(),
            columns: Arc::default(),
            writer: Mutex::new(Writer { connection: writer, names: Names::default() }),
        }
    }
}

#[cfg(test)]
mod tests;
