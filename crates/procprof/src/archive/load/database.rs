//! [`Database`]: the tables that an archive is loaded into.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use procprof_archive::{Archive, Part, Table};

use super::connection::Connection;
use super::plan::Step;
use super::rows::{Format, Piece, PieceLimits};
use super::stream_load::StreamLoad;
use super::tables::{self, Dialect, PARTS};
use super::target::{Security, Target};

/// Bytes of an `INSERT`.
const INSERT_BYTES: usize = 4 << 20;
/// Rows of an `INSERT`.
const INSERT_ROWS: u64 = 16_384;
/// Bytes of a stream load.
const LOAD_BYTES: usize = 16 << 20;
/// Bytes of a row of a stream load.
const LOAD_ROW_BYTES: usize = 64 << 20;
/// Seconds to wait for another load of the database, or for the server to see that one has died.
const LOCK_SECONDS: u32 = 60;
/// Collations that tell all texts apart, trailing spaces included, best first; the last one only without these.
const COLLATIONS: [&str; 3] = ["utf8mb4_0900_bin", "utf8mb4_nopad_bin", "utf8mb4_bin"];

/// A database that is loaded into.
pub(super) struct Database {
    connection: Connection,
    dialect: Dialect,
    limits: PieceLimits,
    stream_load: Option<StreamLoad>,
    /// What tells the labels of this run from those of others.
    run: String,
}

/// What a step has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl Database {
    /// Connects, waits for other loads to end, and makes the tables that are missing.
    ///
    /// # Errors
    /// The server's; another load; tables with other columns.
    pub(super) fn open(target: &Target, security: &Security) -> Result<Database> {
        let http = target.http.as_ref();
        let stream_load = http.map(|http| StreamLoad::new(target, http, security)).transpose()?;
        let mut connection = Connection::open(target, security)?;
        let (dialect, limits) = match stream_load {
            Some(_) => {
                connection.run("SET time_zone = 'UTC'")?;
                (Dialect::StarRocks, (LOAD_BYTES, u64::MAX, LOAD_ROW_BYTES))
            }
            None => {
                let other = "prepare the session; mysql:// is for MariaDB, MySQL and TiDB";
                let dialect = Dialect::MySql { collation: collation(&mut connection).context(other)? };
                (dialect, (INSERT_BYTES, INSERT_ROWS, mysql_session(&mut connection).context(other)?))
            }
        };
        let (bytes, rows, row_bytes) = limits;
        let limits = PieceLimits { bytes: bytes.min(row_bytes), rows, row_bytes, text_bytes: dialect.text_bytes_max() };
        let run = uuid::Uuid::now_v7().simple().to_string();
        let mut database = Database { connection, dialect, limits, stream_load, run };
        database.make_tables().with_context(|| target.to_string())?;
        Ok(database)
    }

    fn make_tables(&mut self) -> Result<()> {
        let there: BTreeSet<String> = self.connection.rows("SHOW TABLES")?.into_iter().collect();
        if there.contains(PARTS) {
            let parts: Vec<String> = self.connection.rows(&format!("SELECT `name` FROM `{PARTS}`"))?;
            let missing = Table::BASE.map(tables::name).into_iter().find(|name| !there.contains(name));
            if let (Some(missing), false) = (missing, parts.is_empty()) {
                bail!(
                    "table {missing} is missing, of which {PARTS} lists {} parts; drop {PARTS} to load them again",
                    parts.len()
                );
            }
        } else {
            self.connection.run(&tables::create_parts(&self.dialect))?;
        }
        for table in Table::BASE {
            let name = tables::name(table);
            if !there.contains(&name) {
                self.connection.run(&tables::create(table, &self.dialect)).with_context(|| format!("make {name}"))?;
            }
            let shown: Vec<mysql_async::Row> = self.connection.rows(&format!("SHOW COLUMNS FROM `{name}`"))?;
            let shown: Option<Vec<(String, String)>> =
                shown.iter().map(|row| Some((row.get_opt(0)?.ok()?, row.get_opt(1)?.ok()?))).collect();
            tables::check(table, &self.dialect, &shown.with_context(|| format!("the columns of {name}"))?)?;
        }
        Ok(())
    }

    /// The parts that are loaded whole.
    pub(super) fn parts(&mut self) -> Result<BTreeSet<Part>> {
        self.listed(&tables::whole_parts())
    }

    /// The parts whose load was interrupted, of which some rows may be there.
    pub(super) fn begun_parts(&mut self) -> Result<BTreeSet<Part>> {
        self.listed(&tables::begun_parts())
    }

    fn listed(&mut self, query: &str) -> Result<BTreeSet<Part>> {
        let names: Vec<String> = self.connection.rows(query)?;
        let part = |name: &String| Part::from_name(name).with_context(|| format!("{PARTS}: {name:?} is no part"));
        names.iter().map(part).collect()
    }

    /// Loads and removes the parts of a step: all of it or nothing, where the engine has transactions.
    ///
    /// # Errors
    /// The archive's, the server's, values that do not fit; with the part.
    pub(super) fn run(&mut self, archive: &Archive, step: &Step) -> Result<Moved> {
        if self.stream_load.is_some() {
            return self.steps(archive, step);
        }
        self.connection.run("START TRANSACTION")?;
        let done = self.steps(archive, step);
        match done {
            Ok(moved) => self.connection.run("COMMIT").map(|()| moved),
            Err(error) => {
                self.connection.run("ROLLBACK")?;
                Err(error)
            }
        }
    }

    fn steps(&mut self, archive: &Archive, step: &Step) -> Result<Moved> {
        let mut moved = Moved::default();
        for part in &step.add {
            self.add(archive, *part, &mut moved).map_err(|error| FailedPart::new(*part, error))?;
        }
        for part in &step.remove {
            for statement in tables::delete(*part).iter().chain([&tables::forget(*part)]) {
                self.connection.run(statement).with_context(|| format!("remove {}", part.name()))?;
            }
        }
        Ok(moved)
    }

    /// Loads a part. What a load that was killed has left of it is deleted before; StarRocks puts the same rows in its
    /// place by their key, since it has no lock that keeps another load from doing the same meanwhile.
    fn add(&mut self, archive: &Archive, part: Part, moved: &mut Moved) -> Result<()> {
        if self.stream_load.is_none() {
            for statement in tables::delete(part) {
                self.connection.run(&statement)?;
            }
        }
        // Where there are no transactions, whoever comes next knows of rows that are left behind.
        self.connection.run(&tables::remember(part, None, &self.dialect))?;
        let mut rows = [0; 5];
        for (table, rows) in Table::BASE.into_iter().zip(&mut rows) {
            *rows = self.add_table(archive, part, table, &mut moved.bytes)?;
            moved.rows += *rows;
        }
        let now = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S").to_string();
        self.connection.run(&tables::remember(part, Some((&rows, &now)), &self.dialect))
    }

    fn add_table(&mut self, archive: &Archive, part: Part, table: Table, bytes: &mut u64) -> Result<u64> {
        let format = if self.stream_load.is_some() { Format::Json } else { Format::Insert };
        let mut piece = Piece::new(format, self.limits, table, part);
        let (mut number, name) = (0, tables::name(table));
        let Database { connection, stream_load, run, .. } = self;
        let mut send = |text: &str, rows: u64| {
            *bytes += text.len() as u64;
            number += 1;
            match stream_load {
                None => connection.run(text).with_context(|| format!("insert into {name}")),
                Some(stream_load) => {
                    let label = format!("procprof-{run}-{:x}-{name}-{number}", part.ids().start());
                    connection.runtime().block_on(stream_load.load(&name, &label, rows, text))
                }
            }
        };
        archive.rows::<anyhow::Error>(part, table, &mut |cells| piece.add(cells, &mut send))?;
        piece.finish(&mut send)
    }

    /// Has the engine count the rows, so that it finds good plans at once.
    ///
    /// # Errors
    /// The server's.
    pub(super) fn analyze(&mut self) -> Result<()> {
        let Some(statement) = tables::analyze(&self.dialect) else { return Ok(()) };
        let told: Vec<mysql_async::Row> = self.connection.rows(&statement).context("analyze the tables")?;
        // The table, the operation, the kind of the message, and the message.
        let text = |row: &mysql_async::Row, at| row.get_opt::<String, _>(at).and_then(Result::ok).unwrap_or_default();
        match told.iter().find(|row| text(row, 2).eq_ignore_ascii_case("error")) {
            Some(row) => bail!("analyze {}: {}", text(row, 0), text(row, 3)),
            None => Ok(()),
        }
    }

    /// Ends the connection.
    pub(super) fn close(self) -> Result<()> {
        self.connection.close()
    }
}

/// A part that was not loaded.
#[derive(Debug, thiserror::Error)]
#[error("{}", .part.name())]
pub(super) struct FailedPart {
    pub(super) part: Part,
    #[source]
    pub(super) error: Box<dyn std::error::Error + Send + Sync>,
    /// Whether the archive is at fault.
    pub(super) is_of_archive: bool,
    /// Whether nothing else can be done either.
    pub(super) is_end: bool,
}

impl FailedPart {
    fn new(part: Part, error: anyhow::Error) -> FailedPart {
        let is_of_archive = error.downcast_ref::<procprof_archive::Error>().is_some();
        let is_end = error.downcast_ref::<super::connection::Unreachable>().is_some();
        FailedPart { part, error: error.into(), is_of_archive, is_end }
    }
}

/// The collation for texts of the server.
fn collation(connection: &mut Connection) -> Result<String> {
    let shown: Vec<mysql_async::Row> = connection.rows("SHOW COLLATION WHERE `Charset` = 'utf8mb4'")?;
    let shown: BTreeSet<String> = shown.iter().filter_map(|row| row.get_opt(0)?.ok()).collect();
    let found = COLLATIONS.into_iter().find(|name| shown.contains(*name));
    Ok(found.context("the server has no binary collation of utf8mb4")?.to_owned())
}

/// Prepares a session and takes the lock of the database; the bytes of a statement that the server takes.
fn mysql_session(connection: &mut Connection) -> Result<usize> {
    connection.run("SET NAMES utf8mb4")?;
    connection.run(
        "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1",
    )?;
    let packet: Vec<u64> = connection.rows("SELECT @@max_allowed_packet")?;
    let packet = packet.first().copied().context("the server's max_allowed_packet")?;
    // Its digest, since the name of a lock may have no more characters than that of a database alone.
    let lock = format!("SELECT GET_LOCK(CONCAT('procprof.load.', MD5(DATABASE())), {LOCK_SECONDS})");
    let locked: Vec<Option<i64>> = connection.rows(&lock)?;
    ensure!(
        locked.first() == Some(&Some(1)),
        "another load of this database runs, or has died and is being rolled back; tried for {LOCK_SECONDS} s"
    );
    // The packet has a command beside the statement.
    usize::try_from(packet.saturating_sub(16)).context("the server's max_allowed_packet")
}
