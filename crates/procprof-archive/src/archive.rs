//! [`Archive`]: its parts, their profiles, sums of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;
use procprof_profile::{Nanos, ProfileId, ProfileType};

use crate::changes::{list_with_log, names_used};
use crate::header::{FrameFacts, Header, Identity, Total};
use crate::objects::Objects;
use crate::part::{LOCAL_BITS, Span};
use crate::read::{ReadLimits, Rows, TableFile, check_size};
use crate::rollup::Grain;
use crate::selection::Selection;
use crate::{Error, Hour, Part, Result, Table, Writer};

/// An archive that is read.
#[derive(Clone, Debug)]
pub struct Archive {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) limits: ReadLimits,
}

/// The parts of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Whole parts, in their order, with the bytes of their files.
    pub whole: BTreeMap<Part, u64>,
    /// Those of them whose hours are rolled up. No two of them have the same profile.
    pub rolled: BTreeSet<Part>,
    /// Parts that compaction has replaced or dropped, and whose files will be removed, with the bytes that are left.
    pub replaced: BTreeMap<Part, u64>,
    /// Parts whose writer ended before it wrote the profiles. Their samples belong to no profile.
    pub unfinished: Vec<Part>,
    /// The days whose parts are in none of these, since a change of theirs cannot be read, and why: which of their
    /// parts are replaced is not known.
    pub unclear: BTreeMap<Hour, String>,
    /// Paths of objects that are no files of an archive.
    pub odd: Vec<String>,
}

impl Parts {
    /// Bytes of the whole parts.
    pub fn bytes(&self) -> u64 {
        self.whole.values().sum()
    }

    /// Fails for a day whose parts are left out.
    ///
    /// # Errors
    /// [`Error::UnclearDay`], with the reason.
    pub fn check_day(&self, day: Hour) -> Result<()> {
        match self.unclear.get(&day) {
            Some(why) => Err(Error::UnclearDay { day, why: why.clone() }),
            None => Ok(()),
        }
    }

    /// What is wrong with it, as sentences: days that are left out, and objects that are no files of an archive.
    pub fn wrong(&self) -> Vec<String> {
        let odd = self.odd.iter().map(|path| format!("{path}: no file of an archive"));
        odd.chain(self.unclear_days().map(|(_, error)| error.to_string())).collect()
    }

    /// The days that are left out, each with the reason.
    pub fn unclear_days(&self) -> impl Iterator<Item = (Hour, Error)> + '_ {
        self.unclear.iter().map(|(day, why)| (*day, Error::UnclearDay { day: *day, why: why.clone() }))
    }
}

/// A profile of a part, or an hour of a node, as a list has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its number, as samples or roll-ups name it.
    pub number: i64,
    /// Its id; 0 for an hour.
    pub id: ProfileId,
    /// Its type.
    pub profile_type: ProfileType,
    /// The node's cluster.
    pub cluster: Arc<str>,
    /// The node.
    pub node: u64,
    /// When it was complete, or the last profile of the hour.
    pub completed: Nanos,
    /// When the first profile of the hour was complete.
    pub first: Nanos,
    /// How long it took.
    pub duration: Nanos,
    /// Number of its samples.
    pub samples: u64,
    /// The number of profiles: one, but for an hour.
    pub profiles: u64,
    /// Those whose duration is not known.
    pub untimed: u64,
}

/// The profile with a number, as samples name it, or the hour that roll-ups name.
pub type Numbered = (i64, Header);

/// The sum of each kind of value of a profile.
pub type KindSums = BTreeMap<String, i128>;

impl Archive {
    /// The archive in a storage.
    pub fn new(objects: Arc<dyn Objects>, limits: ReadLimits) -> Archive {
        Archive { objects, limits }
    }

    /// Where its objects are.
    pub fn objects(&self) -> &dyn Objects {
        &*self.objects
    }

    /// The limits within which it is read.
    pub fn limits(&self) -> ReadLimits {
        self.limits
    }

    /// All its parts.
    ///
    /// # Errors
    /// The storage's.
    pub fn parts(&self) -> Result<Parts> {
        self.parts_of(None)
    }

    /// The parts of a day, or all.
    pub(crate) fn parts_of(&self, day: Option<Hour>) -> Result<Parts> {
        let below = day.map_or(String::new(), |day| format!("/{}", day.date()));
        let (objects, log) = list_with_log(&*self.objects, day, || {
            let lists = Table::ALL.into_iter().map(|table| self.objects.list(&format!("{}{below}", table.name())));
            lists.collect::<Result<Vec<_>>>()
        })?;
        let mut parts = Parts::default();
        parts.unclear.extend(log.unclear.iter().map(|(id, why)| (id.day, why.clone())));
        let mut bytes: BTreeMap<Part, u64> = BTreeMap::new();
        for object in objects.into_iter().flatten() {
            match Part::from_path(&object.path) {
                Some((_, part)) if parts.unclear.contains_key(&part.hour.day()) => {}
                Some((table, part)) => {
                    *bytes.entry(part).or_default() += object.bytes;
                    match table {
                        Table::Profiles => drop(parts.whole.insert(part, 0)),
                        Table::Hours => drop(parts.rolled.insert(part)),
                        _ => {}
                    }
                }
                None => parts.odd.push(object.path),
            }
        }
        let replaced = log.replaced(|part| parts.whole.contains_key(part));
        for (part, size) in bytes {
            let is_whole = parts.whole.contains_key(&part);
            if replaced.contains(&part) {
                parts.whole.remove(&part);
                parts.replaced.insert(part, size);
            } else if is_whole {
                parts.whole.insert(part, size);
            } else {
                parts.unfinished.push(part);
            }
        }
        parts.rolled.retain(|part| parts.whole.contains_key(part));
        Ok(parts)
    }

    /// The parts that may have profiles of an hour: those of the hour, and of its day.
    ///
    /// # Errors
    /// The storage's; [`Error::UnclearDay`].
    pub fn parts_of_hour(&self, hour: Hour) -> Result<Vec<Part>> {
        let parts = self.parts_of(Some(hour.day()))?;
        parts.check_day(hour.day())?;
        let parts = parts.whole.into_keys();
        Ok(parts.filter(|part| part.start() <= hour.start() && hour.end() <= part.end()).collect())
    }

    /// Those of the parts that the archive has had and that compaction has replaced or dropped.
    ///
    /// # Errors
    /// The storage's, or a change that cannot be read.
    pub fn were_replaced(&self, parts: &BTreeSet<Part>) -> Result<BTreeSet<Part>> {
        let days: BTreeSet<Hour> = parts.iter().map(|part| part.hour.day()).collect();
        let mut replaced = BTreeSet::new();
        for day in days {
            replaced.extend(names_used(&*self.objects, day)?.into_iter().filter(|part| parts.contains(part)));
        }
        Ok(replaced)
    }

    /// The part that a writer writes next for an hour: no part of the hour has had its name.
    ///
    /// # Errors
    /// The storage's.
    pub fn next_part(&self, hour: Hour, writer: Writer) -> Result<Part> {
        let mut used = names_used(&*self.objects, hour.day())?;
        let objects = self.objects.list(&format!("{}/{hour}", Table::Profiles.name()))?;
        used.extend(objects.iter().filter_map(|object| Part::from_path(&object.path)).map(|(_, part)| part));
        let ours = used.iter().filter(|part| part.hour == hour && part.span == Span::Hour && part.writer == writer);
        Ok(Part::of_hour(hour, writer, ours.map(|part| part.number.saturating_add(1)).max().unwrap_or(0)))
    }

    /// Removes the files of a part, that of the profiles first.
    ///
    /// # Errors
    /// The storage's.
    pub fn remove(&self, part: Part) -> Result<()> {
        Table::ALL.into_iter().rev().try_for_each(|table| self.objects.delete(&part.path(table)))
    }

    /// The ids of a part's profiles.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn ids(&self, part: Part) -> Result<Vec<ProfileId>> {
        let file = self.open(part, Table::Profiles)?;
        let mut ids = Vec::new();
        file.read(&["id"], &|_| true, &mut |rows| {
            for at in 0..rows.len() {
                ids.push(id(rows, at)?);
            }
            self.check_headers(ids.len().saturating_mul(size_of::<ProfileId>()))
        })?;
        Ok(ids)
    }

    /// The profiles of a part, or its hours, as a list has them, in the order of their table.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn list(&self, part: Part, grain: Grain) -> Result<Vec<Listed>> {
        let file = self.open(part, grain.headers())?;
        let common = [grain.number(), "type", "cluster", "node", "duration_nanos", "samples"];
        let own: &[&str] = match grain {
            Grain::Profile => &["id", "time"],
            Grain::Hour => &["profiles", "untimed", "first", "last"],
        };
        let mut found: Vec<Listed> = Vec::new();
        file.read(&[&common, own].concat(), &|_| true, &mut |rows| {
            for at in 0..rows.len() {
                let (kind, cluster) = (rows.texts("type")?.value(at), rows.texts("cluster")?.value(at));
                let before = found.last();
                let profile_type = match before.filter(|before| before.profile_type.name() == kind) {
                    Some(before) => before.profile_type.clone(),
                    None => kind.parse().map_err(|error| rows.wrong("type", error))?,
                };
                let cluster = match before.filter(|before| &*before.cluster == cluster) {
                    Some(before) => Arc::clone(&before.cluster),
                    None => cluster.into(),
                };
                let duration = Nanos(rows.integers("duration_nanos")?.value(at));
                let (completed, first) = completed(rows, at, grain)?;
                let (profiles, untimed) = match grain {
                    Grain::Profile => (1, u64::from(duration.0 <= 0)),
                    Grain::Hour => (profiles(rows, "profiles", at)?, profiles(rows, "untimed", at)?),
                };
                found.push(Listed {
                    number: rows.integers(grain.number())?.value(at),
                    id: id_of(rows, at, grain)?,
                    node: rows.integers("node")?.value(at).cast_unsigned(),
                    samples: count(rows, "samples", at)?,
                    completed,
                    first,
                    duration,
                    profile_type,
                    cluster,
                    profiles,
                    untimed,
                });
            }
            self.check_headers(found.len().saturating_mul(size_of::<Listed>()))
        })?;
        Ok(found)
    }

    /// The names of the nodes of a part's profiles, or of its hours, with their ids. One that was renamed has several.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn node_names(&self, part: Part, grain: Grain) -> Result<BTreeSet<(String, u64)>> {
        let file = self.open(part, grain.headers())?;
        let (mut found, mut bytes) = (BTreeSet::new(), 0_usize);
        file.read(&["node", "node_name"], &|_| true, &mut |rows| {
            let (nodes, names) = (rows.integers("node")?, rows.texts("node_name")?);
            let mut last = None;
            for (at, node) in nodes.values().iter().enumerate() {
                let row = Some((names.value(at), *node));
                if row != last && found.insert((names.value(at).to_owned(), node.cast_unsigned())) {
                    bytes = bytes.saturating_add(rows.bytes(at));
                    self.check_headers(bytes)?;
                }
                last = row;
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The profiles of a part, in the order of their table.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn headers(&self, part: Part) -> Result<Vec<Numbered>> {
        self.headers_of(part, Grain::Profile, &Selection::default())
    }

    /// Those of them that are selected, or the hours all of whose profiles are.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn headers_of(&self, part: Part, grain: Grain, selection: &Selection) -> Result<Vec<Numbered>> {
        let table = grain.headers();
        let file = self.open(part, table)?;
        let columns: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
        let (mut headers, mut bytes) = (Vec::new(), 0_usize);
        file.read(&columns, &|_| true, &mut |rows| {
            for at in 0..rows.len() {
                let identity = identity(rows, at, grain)?;
                let is_whole = grain == Grain::Profile || selection.has_hour(Hour::containing(identity.completed));
                if is_whole && selection.has(&identity, rows.texts("node_name")?.value(at)) {
                    bytes = bytes.saturating_add(size_of::<Header>()).saturating_add(rows.bytes(at));
                    self.check_headers(bytes)?;
                    headers.push((rows.integers(grain.number())?.value(at), header(rows, at, identity, grain)?));
                }
            }
            Ok(())
        })?;
        Ok(headers)
    }

    /// The sums of the values of each profile of a part, or each hour, by its number.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn sums(&self, part: Part, grain: Grain) -> Result<HashMap<i64, KindSums>> {
        let file = self.open(part, grain.values())?;
        let mut sums: HashMap<i64, KindSums> = HashMap::default();
        file.read(&["kind", grain.number(), "value"], &|_| true, &mut |rows| {
            let (kinds, profiles) = (rows.texts("kind")?, rows.integers(grain.number())?);
            for (at, value) in rows.integers("value")?.values().iter().enumerate() {
                let of = sums.entry(profiles.value(at)).or_default();
                let kind = kinds.value(at);
                match of.get_mut(kind) {
                    Some(sum) => *sum += i128::from(*value),
                    None => drop(of.insert(kind.to_owned(), i128::from(*value))),
                }
            }
            Ok(())
        })?;
        Ok(sums)
    }

    fn check_headers(&self, bytes: usize) -> Result<()> {
        check_size("bytes of the profiles of a part", bytes, self.limits.header_bytes)
    }

    pub(crate) fn open(&self, part: Part, table: Table) -> Result<TableFile> {
        TableFile::open(&self.objects, part, table, self.limits)
    }
}

fn id(rows: &Rows<'_>, at: usize) -> Result<ProfileId> {
    rows.texts("id")?.value(at).parse().map_err(|error| rows.wrong("id", error))
}

fn moment(rows: &Rows<'_>, column: &str, at: usize) -> Result<Nanos> {
    let micros = rows.moments(column)?.value(at);
    micros.checked_mul(1000).map(Nanos).ok_or_else(|| rows.wrong(column, "is no time of this epoch"))
}

fn id_of(rows: &Rows<'_>, at: usize, grain: Grain) -> Result<ProfileId> {
    match grain {
        Grain::Profile => id(rows, at),
        Grain::Hour => Ok(ProfileId(0)),
    }
}

/// When a profile was complete, or the last of an hour, and the first.
fn completed(rows: &Rows<'_>, at: usize, grain: Grain) -> Result<(Nanos, Nanos)> {
    match grain {
        Grain::Profile => moment(rows, "time", at).map(|completed| (completed, completed)),
        Grain::Hour => Ok((moment(rows, "last", at)?, moment(rows, "first", at)?)),
    }
}

fn count(rows: &Rows<'_>, column: &str, at: usize) -> Result<u64> {
    Ok(rows.integers(column)?.value(at).max(0).cast_unsigned())
}

/// A number of profiles of a part, which can have as many as its ids number.
fn profiles(rows: &Rows<'_>, column: &str, at: usize) -> Result<u64> {
    let count = u64::try_from(rows.integers(column)?.value(at)).ok().filter(|count| *count < 1 << LOCAL_BITS);
    count.ok_or_else(|| rows.wrong(column, "is no number of profiles of a part"))
}

fn identity(rows: &Rows<'_>, at: usize, grain: Grain) -> Result<Identity> {
    let number = |column: &str| Ok::<i64, Error>(rows.integers(column)?.value(at));
    let profile_type: ProfileType = rows.texts("type")?.value(at).parse().map_err(|error| rows.wrong("type", error))?;
    Ok(Identity {
        id: id_of(rows, at, grain)?,
        node: number("node")?.cast_unsigned(),
        start: moment(rows, "start", at)?,
        duration: Nanos(number("duration_nanos")?),
        completed: completed(rows, at, grain)?.0,
        profile_type,
    })
}

fn header(rows: &Rows<'_>, at: usize, identity: Identity, grain: Grain) -> Result<Header> {
    let text = |column: &str| Ok::<String, Error>(rows.texts(column)?.value(at).to_owned());
    let number = |column: &str| Ok::<i64, Error>(rows.integers(column)?.value(at));
    let maybe = |column: &str| {
        use arrow_array::Array;
        let values = rows.integers(column)?;
        Ok::<Option<u64>, Error>((!values.is_null(at)).then(|| values.value(at).cast_unsigned()))
    };
    let mut facts = rows.text_map("facts", at)?;
    let frames = FrameFacts::take(&mut facts);
    let mut meta = Header::meta_of(facts.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    meta.id = (grain == Grain::Profile).then_some(identity.id);
    meta.node = Some(identity.node);
    meta.profile_type = Some(identity.profile_type.clone());
    meta.end = Some(identity.completed);
    meta.node_name = text("node_name")?;
    meta.cluster = text("cluster")?;
    meta.role = text("role")?;
    meta.kind = text("node_kind")?;
    meta.trigger = text("trigger")?;
    meta.engine = text("engine")?;
    meta.labels = rows.text_map("labels", at)?.into_iter().collect();
    meta.lost = maybe("lost")?;
    meta.truncated = maybe("truncated")?;
    meta.unsampled = maybe("unsampled_nanos")?;
    let units: BTreeMap<String, String> = rows.text_map("units", at)?.into_iter().collect();
    let mut totals = Vec::new();
    for (kind, value) in rows.integer_map("totals", at)? {
        let unit = units.get(&kind).ok_or_else(|| rows.wrong("units", format!("lacks that of {kind}")))?;
        totals.push(Total { unit: unit.clone(), kind, value });
    }
    if totals.is_empty() {
        return Err(rows.wrong("totals", "is empty"));
    }
    Ok(Header {
        identity,
        meta,
        frames,
        totals,
        shown_kind: text("shown_kind")?,
        period_type: (text("period_kind")?, text("period_unit")?),
        period: number("period")?,
        samples: count(rows, "samples", at)?,
        profiles: if grain == Grain::Hour { profiles(rows, "profiles", at)? } else { 1 },
    })
}
