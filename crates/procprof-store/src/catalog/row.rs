//! Rows of the catalog, written and read.

use std::borrow::Cow;

use procprof_profile::{Nanos, ProfileId, ProfileType};
use rusqlite::{Connection, Row, Transaction, params};

use super::functions::{self, Names};
use crate::stored::{Facts, FileName};
use crate::{Entry, Error, Format, FunctionTable, Result, Stamp};

/// One row to be written.
#[derive(Clone, Debug)]
pub(crate) struct NewRow<'a> {
    pub(crate) id: ProfileId,
    pub(crate) node: u64,
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// Stamp of the file.
    pub(crate) stamp: Stamp,
    pub(crate) facts: Cow<'a, Facts>,
    /// What its functions take, if that is known.
    pub(crate) functions: Option<Cow<'a, FunctionTable>>,
}

/// The JSON columns of a row.
pub(super) struct Json {
    facts: String,
    totals: String,
}

impl NewRow<'_> {
    pub(super) fn json(&self) -> Result<Json> {
        let totals = serde_json::to_string(&self.facts.summary.totals)
            .map_err(|error| Error::malformed("totals", error.to_string()))?;
        Ok(Json { facts: self.facts.to_json()?, totals })
    }

    /// The entry that is read from the catalog once the row is there.
    pub(crate) fn entry(self) -> Result<Entry> {
        let completed = self.facts.completed();
        entry(self.id, self.node, self.file, completed, self.bytes, self.facts.into_owned())
    }
}

/// The columns of a row for retention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Brief {
    pub(crate) id: ProfileId,
    pub(crate) node: u64,
    pub(crate) profile_type: ProfileType,
    pub(crate) completed: Nanos,
    pub(crate) bytes: u64,
}

/// A file as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownFile {
    pub(crate) node: u64,
    pub(crate) file: String,
    pub(crate) stamp: Stamp,
}

/// Removes the row of a file.
pub(super) fn remove_file(connection: &Connection, node: u64, file: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("DELETE FROM profiles WHERE node = ? AND file = ?")?;
    statement.execute(params![node.cast_signed(), file]).map(drop)
}

/// Adds a row; false when its id or file is there already.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    names: &mut Names,
    row: &NewRow<'_>,
    json: &Json,
) -> rusqlite::Result<bool> {
    let (meta, summary) = (&row.facts.meta, &row.facts.summary);
    let labels: String = meta.labels.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    let profile_type = row_type(row);
    let has_samples = FileName::parse(&row.file).is_some_and(|name| name.format == Format::Pprof);
    let sql = "INSERT OR IGNORE INTO profiles (id, node, type, file, completed, bytes, started, duration, trigger, \
               cluster, labels, samples, totals, top_function, total, instance, threads, functions, engine, lost, \
               stamp) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let added = transaction.prepare_cached(sql)?.execute(params![
        blob(row.id),
        row.node.cast_signed(),
        profile_type.name(),
        row.file,
        row.facts.completed().0,
        row.bytes.cast_signed(),
        row.facts.start.0,
        row.facts.duration.0,
        meta.trigger,
        meta.cluster,
        format!("\n{labels}"),
        summary.samples.cast_signed(),
        json.totals,
        summary.top.first().map(|function| &function.name),
        summary.shown(meta).map_or(0, |total| total.value),
        meta.instance_start.map_or(0, |start| start.0),
        summary.threads.cast_signed(),
        functions::known(row.functions.as_deref(), has_samples).number(),
        meta.engine,
        meta.lost.and_then(|lost| i64::try_from(lost).ok()).unwrap_or(-1),
        row.stamp.0.cast_signed(),
    ])?;
    if added == 0 {
        return Ok(false);
    }
    let seq = transaction.last_insert_rowid();
    let mut words =
        format!("{}\n{profile_type}\n{}\n{}\n{}\n{labels}", row.file, meta.node_name, meta.cluster, meta.engine);
    for function in &summary.top {
        for name in [&function.name, &function.leaf] {
            words.push_str(name);
            words.push('\n');
        }
    }
    let mut details =
        transaction.prepare_cached("INSERT INTO profile_details (seq, words, facts, strip) VALUES (?, ?, ?, ?)")?;
    details.execute(params![seq, words.to_lowercase(), json.facts, summary.thumbnail])?;
    functions::insert_known(transaction, names, seq, row.functions.as_deref())?;
    Ok(true)
}

fn row_type(row: &NewRow<'_>) -> ProfileType {
    let named = || FileName::parse(&row.file).map(|name| name.profile_type);
    row.facts.meta.profile_type.clone().or_else(named).unwrap_or_else(|| ProfileType::Other("other".to_owned()))
}

/// An id in the form of the database.
pub(super) fn blob(id: ProfileId) -> [u8; 16] {
    id.0.to_be_bytes()
}

/// The id in a column.
pub(super) fn id(row: &Row<'_>, at: usize) -> rusqlite::Result<ProfileId> {
    row.get::<_, [u8; 16]>(at).map(|bytes| ProfileId(u128::from_be_bytes(bytes)))
}

/// Reads `id, node, type, completed, bytes`.
pub(super) fn brief(row: &Row<'_>) -> rusqlite::Result<Brief> {
    Ok(Brief {
        id: id(row, 0)?,
        node: row.get::<_, i64>(1)?.cast_unsigned(),
        profile_type: row.get::<_, String>(2)?.parse().unwrap_or_else(|_| ProfileType::Other("other".to_owned())),
        completed: Nanos(row.get(3)?),
        bytes: row.get::<_, i64>(4)?.cast_unsigned(),
    })
}

/// Reads `node, file, stamp`.
pub(super) fn known_file(row: &Row<'_>) -> rusqlite::Result<KnownFile> {
    Ok(KnownFile {
        node: row.get::<_, i64>(0)?.cast_unsigned(),
        file: row.get(1)?,
        stamp: Stamp(row.get::<_, i64>(2)?.cast_unsigned()),
    })
}

/// A row before its facts are parsed.
pub(super) struct Raw {
    id: ProfileId,
    node: u64,
    file: String,
    completed: Nanos,
    bytes: u64,
    facts: String,
    strip: Vec<u8>,
}

/// Reads [`COLUMNS`](super::schema::COLUMNS).
pub(super) fn raw(row: &Row<'_>) -> rusqlite::Result<Raw> {
    Ok(Raw {
        id: id(row, 0)?,
        node: row.get::<_, i64>(1)?.cast_unsigned(),
        file: row.get(2)?,
        completed: Nanos(row.get(3)?),
        bytes: row.get::<_, i64>(4)?.cast_unsigned(),
        facts: row.get(5)?,
        strip: row.get(6)?,
    })
}

impl Raw {
    pub(super) fn entry(self) -> Result<Entry> {
        let facts = Facts::from_json(self.facts.as_bytes(), &self.strip)
            .map_err(|error| Error::CatalogRow { id: self.id, why: error.to_string() })?;
        entry(self.id, self.node, self.file, self.completed, self.bytes, facts)
    }
}

fn entry(id: ProfileId, node: u64, file_name: String, completed: Nanos, bytes: u64, facts: Facts) -> Result<Entry> {
    let name = FileName::parse(&file_name)
        .ok_or_else(|| Error::CatalogRow { id, why: format!("{file_name:?} is no profile's file name") })?;
    Ok(Entry {
        id,
        node,
        profile_type: facts.meta.profile_type.clone().unwrap_or(name.profile_type),
        start: facts.start,
        duration: facts.duration,
        completed,
        bytes,
        file_name,
        format: name.format,
        pinned: false,
        summary: facts.summary,
        meta: facts.meta,
    })
}
