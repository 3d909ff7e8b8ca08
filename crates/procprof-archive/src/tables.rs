//! The files of a part: its tables as Parquet.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, MapBuilder, MapFieldNames, StringBuilder};
use arrow_array::{ArrayRef, BooleanArray, Int64Array, MapArray, RecordBatch, StringArray, TimestampMicrosecondArray};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::errors::ParquetError;
use procprof_profile::{Nanos, StringId};

use crate::frames::Frame;
use crate::header::Header;
use crate::objects::Objects;
use crate::part::Span;
use crate::rollup::{NodeHour, RolledUp, roll_up};
use crate::tree::Ordered;
use crate::write::{PartWriter, Row, Written};
use crate::{Error, Hour, Part, Result, Table};

/// Rows that are put together at a time.
const BATCH: usize = 1 << 14;
/// Compression level of zstd for what is written each hour, and for what compaction writes once a day, which stays.
const LEVEL: i32 = 9;
const COMPACTED_LEVEL: i32 = 17;

impl PartWriter {
    /// Writes the files of a part, that of the profiles last: with it the part is there.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge) when its ids do not suffice for what was added. The storage's; what
    /// was written before it may remain, and is replaced when the same part is written again.
    pub fn write(self, objects: &dyn Objects, part: Part) -> Result<Written> {
        self.check()?;
        let mut written = Written { profiles: self.headers.len() as u64, rows: self.rows.len() as u64, bytes: 0 };
        for (table, bytes) in encode(&self, part, None)? {
            objects.put(&part.path(table), &bytes)?;
            written.bytes += bytes.len() as u64;
        }
        Ok(written)
    }

    /// The files of a part with those of its hours, in the order in which they are written.
    pub(crate) fn encode_rolled_up(&self, part: Part) -> Result<Vec<(Table, Vec<u8>)>> {
        let order = profile_order(&self.headers);
        encode(self, part, roll_up(&self.headers, &order.things, &self.rows))
    }
}

fn encode(part: &PartWriter, name: Part, rolled_up: Option<RolledUp>) -> Result<Vec<(Table, Vec<u8>)>> {
    let order = part.stacks.ordered();
    let mut ranks = vec![0_u32; order.len()];
    for (at, stack) in order.iter().enumerate() {
        ranks[stack.stack as usize] = at as u32;
    }
    let frame_order = frame_order(part, &order);
    let profile_order = profile_order(&part.headers);
    let ids = Ids { base: name.base(), span: name.span };
    let mut files = vec![
        (Table::Frames, frames(part, &frame_order, ids)?),
        (Table::Stacks, stacks(part, &order, &frame_order, ids)?),
        (Table::Labels, labels(part, ids)?),
    ];
    let headers: Vec<&Header> = part.headers.iter().collect();
    let values = ValueRows { headers: &headers, places: &profile_order.places };
    files.push((Table::Samples, values.encode(Table::Samples, part.rows.clone(), &ranks, ids)?));
    if let Some(RolledUp { hours, rows }) = rolled_up {
        let headers: Vec<&Header> = hours.iter().map(|hour| &hour.header).collect();
        let places: Vec<u32> = (0..headers.len() as u32).collect();
        let values = ValueRows { headers: &headers, places: &places };
        files.push((Table::Rollups, values.encode(Table::Rollups, rows, &ranks, ids)?));
        files.push((Table::Hours, node_hours(&hours, ids)?));
    }
    files.push((Table::Profiles, profiles(part, &profile_order, ids)?));
    Ok(files)
}

/// Things in the order in which they are written.
struct Order {
    /// What is at each place.
    things: Vec<u32>,
    /// The place of each thing.
    places: Vec<u32>,
}

impl Order {
    fn new(things: Vec<u32>) -> Order {
        let mut places = vec![0; things.len()];
        for (place, thing) in things.iter().enumerate() {
            places[*thing as usize] = place as u32;
        }
        Order { things, places }
    }
}

/// Frames in the order in which the stacks have them first, so that ids in neighbouring rows are near each other.
fn frame_order(part: &PartWriter, stacks: &[Ordered]) -> Order {
    let mut is_there = vec![false; part.frames.len()];
    let leaves = stacks.iter().filter_map(|stack| part.stacks.leaf(stack.stack)).map(|(_, frame)| frame);
    let mut things: Vec<u32> =
        leaves.filter(|frame| !std::mem::replace(&mut is_there[*frame as usize], true)).collect();
    // Of locations that no sample has.
    things.extend((0..part.frames.len() as u32).filter(|frame| !is_there[*frame as usize]));
    Order::new(things)
}

/// Profiles by node and type, then by time: samples are sorted so, too, and the ids of neighbouring rows are then near
/// each other.
fn profile_order(headers: &[Header]) -> Order {
    let mut things: Vec<u32> = (0..headers.len() as u32).collect();
    things.sort_by(|one, other| {
        let key = |at: &u32| {
            let identity = &headers[*at as usize].identity;
            (identity.node, &identity.profile_type, identity.completed, identity.id)
        };
        key(one).cmp(&key(other))
    });
    Order::new(things)
}

/// When the hour began in which a profile, or the last one of an hour, was complete.
fn hour_of(header: &Header) -> Nanos {
    Hour::containing(header.identity.completed).start()
}

/// The ids of a part's rows, and how long its time is.
#[derive(Clone, Copy)]
struct Ids {
    base: i64,
    span: Span,
}

impl Ids {
    fn id(self, row: u32) -> i64 {
        self.base + i64::from(row)
    }
}

fn frames(part: &PartWriter, order: &Order, ids: Ids) -> Result<Vec<u8>> {
    let rows = order.things.iter().map(|frame| part.frames.get(*frame));
    let rows: Vec<&Frame> = rows.collect();
    write(Table::Frames, ids.span, rows.len(), |range| {
        let rows = &rows[range.clone()];
        let text = |of: &dyn Fn(&Frame) -> procprof_profile::StringId| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(rows.iter().map(|frame| part.frames.text(of(frame)))))
        };
        let flag = |of: &dyn Fn(&Frame) -> bool| -> ArrayRef {
            Arc::new(BooleanArray::from(rows.iter().map(|frame| of(frame)).collect::<Vec<_>>()))
        };
        vec![
            integers(range.map(|at| ids.id(at as u32))),
            text(&|frame| frame.function),
            Arc::new(StringArray::from_iter(
                rows.iter()
                    .map(|frame| (frame.system_name != frame.function).then(|| part.frames.text(frame.system_name))),
            )),
            text(&|frame| frame.file),
            integers(rows.iter().map(|frame| frame.start_line)),
            integers(rows.iter().map(|frame| frame.line)),
            integers(rows.iter().map(|frame| frame.column)),
            flag(&|frame| frame.inlined),
            text(&|frame| frame.mapping),
            text(&|frame| frame.build_id),
            integers(rows.iter().map(|frame| frame.address.cast_signed())),
            flag(&|frame| frame.folded),
        ]
    })
}

fn stacks(part: &PartWriter, order: &[Ordered], frames: &Order, ids: Ids) -> Result<Vec<u8>> {
    let recursive = recursive(part, order);
    write(Table::Stacks, ids.span, order.len(), |range| {
        let rows = &order[range.clone()];
        let frame = |stack: u32| part.stacks.leaf(stack).map(|(_, frame)| ids.id(frames.places[frame as usize]));
        vec![
            integers(range.clone().map(|at| ids.id(at as u32))),
            integers(range.clone().zip(rows).map(|(at, row)| at as i64 - i64::from(row.parent))),
            integers(rows.iter().map(|row| ids.id(row.last))),
            Arc::new(Int64Array::from_iter(rows.iter().map(|row| frame(row.stack)))),
            Arc::new(BooleanArray::from(recursive[range].to_vec())),
        ]
    })
}

/// Whether each stack's leaf has a function, or without one an address of a binary, that is among its callers, too.
fn recursive(part: &PartWriter, order: &[Ordered]) -> Vec<bool> {
    let mut path: Vec<&Frame> = Vec::new();
    let mut open: foldhash::HashMap<(StringId, StringId, u64), u32> = foldhash::HashMap::default();
    let key = |frame: &Frame| match frame.is_unnamed() {
        true => (frame.function, frame.mapping, frame.address),
        false => (frame.function, StringId::default(), 0),
    };
    let mut found = Vec::with_capacity(order.len());
    for row in order {
        let Some((_, frame)) = part.stacks.leaf(row.stack) else {
            found.push(false);
            continue;
        };
        while path.len() >= row.depth as usize {
            let Some(left) = path.pop() else { break };
            if let Some(count) = open.get_mut(&key(left)) {
                *count -= 1;
            }
        }
        let frame = part.frames.get(frame);
        let count = open.entry(key(frame)).or_insert(0);
        found.push(*count > 0);
        *count += 1;
        path.push(frame);
    }
    found
}

fn labels(part: &PartWriter, ids: Ids) -> Result<Vec<u8>> {
    let sets = 1..=part.label_sets.len() as u32;
    let rows: Vec<_> = sets.flat_map(|set| part.label_sets.get(set).iter().map(move |label| (set, *label))).collect();
    write(Table::Labels, ids.span, rows.len(), |range| {
        let rows = &rows[range];
        let text = |id| part.frames.text(id);
        vec![
            integers(rows.iter().map(|(set, _)| ids.id(*set))),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|(_, label)| text(label.0)))),
            Arc::new(StringArray::from_iter(rows.iter().map(|(_, label)| label.1.map(text)))),
            Arc::new(Int64Array::from_iter(rows.iter().map(|(_, label)| label.2))),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|(_, label)| text(label.3)))),
        ]
    })
}

/// Rows with the values of profiles, or hours.
struct ValueRows<'a> {
    headers: &'a [&'a Header],
    /// The place of each in its own table.
    places: &'a [u32],
}

impl ValueRows<'_> {
    fn encode(&self, table: Table, mut rows: Vec<Row>, ranks: &[u32], ids: Ids) -> Result<Vec<u8>> {
        let header = |row: &Row| self.headers[row.profile as usize];
        let place_of = |row: &Row| self.places[row.profile as usize];
        rows.sort_by(|one, other| {
            let key = |row: &Row| {
                let Header { identity, totals, .. } = header(row);
                (&identity.profile_type, &totals[row.kind as usize].kind, identity.node)
            };
            let place = |row: &Row| (ranks[row.stack as usize], place_of(row), row.labels);
            key(one).cmp(&key(other)).then_with(|| place(one).cmp(&place(other)))
        });
        write(table, ids.span, rows.len(), |range| {
            let rows = &rows[range];
            let text = |of: &dyn Fn(&Header, &Row) -> String| -> ArrayRef {
                Arc::new(StringArray::from_iter_values(rows.iter().map(|row| of(header(row), row))))
            };
            vec![
                text(&|header, _| header.identity.profile_type.name().to_owned()),
                text(&|header, row| header.totals[row.kind as usize].kind.clone()),
                text(&|header, row| header.totals[row.kind as usize].unit.clone()),
                text(&|header, _| header.meta.cluster.clone()),
                text(&|header, _| header.meta.node_name.clone()),
                integers(rows.iter().map(|row| header(row).identity.node.cast_signed())),
                integers(rows.iter().map(|row| ids.id(ranks[row.stack as usize]))),
                moments(rows.iter().map(|row| hour_of(header(row)))),
                integers(rows.iter().map(|row| ids.id(place_of(row)))),
                Arc::new(Int64Array::from_iter(rows.iter().map(|row| (row.labels > 0).then(|| ids.id(row.labels))))),
                integers(rows.iter().map(|row| row.value)),
            ]
        })
    }
}

fn profiles(part: &PartWriter, order: &Order, ids: Ids) -> Result<Vec<u8>> {
    let rows: Vec<&Header> = order.things.iter().map(|at| &part.headers[*at as usize]).collect();
    write(Table::Profiles, ids.span, rows.len(), |range| {
        let rows = &rows[range.clone()];
        let mut columns = vec![
            integers(range.map(|at| ids.id(at as u32))),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|header| header.identity.id.to_string())))
                as ArrayRef,
        ];
        columns.extend(header_columns(rows, &|header| header.identity.completed));
        columns
    })
}

fn node_hours(hours: &[NodeHour], ids: Ids) -> Result<Vec<u8>> {
    let headers: Vec<&Header> = hours.iter().map(|hour| &hour.header).collect();
    write(Table::Hours, ids.span, hours.len(), |range| {
        let (hours, headers) = (&hours[range.clone()], &headers[range.clone()]);
        let mut columns = vec![
            integers(range.map(|at| ids.id(at as u32))),
            integers(hours.iter().map(|hour| hour.header.profiles as i64)),
            integers(hours.iter().map(|hour| hour.untimed as i64)),
            moments(hours.iter().map(|hour| hour.first)),
            moments(headers.iter().map(|header| header.identity.completed)),
        ];
        columns.extend(header_columns(headers, &hour_of));
        columns
    })
}

/// The columns that the tables of profiles and of hours have in common, in their order.
fn header_columns(rows: &[&Header], time: &dyn Fn(&Header) -> Nanos) -> Vec<ArrayRef> {
    let text = |of: &dyn Fn(&Header) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(|header| of(header))))
    };
    let number = |of: &dyn Fn(&Header) -> i64| integers(rows.iter().map(|header| of(header)));
    let maybe = |of: &dyn Fn(&Header) -> Option<u64>| -> ArrayRef {
        Arc::new(Int64Array::from_iter(rows.iter().map(|header| of(header).map(u64::cast_signed))))
    };
    let units = |header: &&Header| -> Vec<(String, String)> {
        header.totals.iter().map(|total| (total.kind.clone(), total.unit.clone())).collect()
    };
    vec![
        text(&|header| header.identity.profile_type.name()),
        text(&|header| &header.meta.cluster),
        text(&|header| &header.meta.node_name),
        number(&|header| header.identity.node.cast_signed()),
        text(&|header| &header.meta.role),
        text(&|header| &header.meta.kind),
        moments(rows.iter().map(|header| time(header))),
        moments(rows.iter().map(|header| header.identity.start)),
        number(&|header| header.identity.duration.0),
        text(&|header| &header.meta.trigger),
        text(&|header| &header.meta.engine),
        texts(rows.iter().map(|header| header.meta.labels.clone().into_iter().collect())),
        totals(rows),
        texts(rows.iter().map(units)),
        text(&|header| &header.shown_kind),
        text(&|header| &header.period_type.0),
        text(&|header| &header.period_type.1),
        number(&|header| header.period),
        number(&|header| header.samples as i64),
        maybe(&|header| header.meta.lost),
        maybe(&|header| header.meta.truncated),
        maybe(&|header| header.meta.unsampled),
        texts(rows.iter().map(|header| header.other_facts())),
    ]
}

fn integers(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn moments(values: impl Iterator<Item = Nanos>) -> ArrayRef {
    let micros = values.map(|nanos| nanos.0.div_euclid(1000));
    Arc::new(TimestampMicrosecondArray::from_iter_values(micros).with_timezone("UTC"))
}

fn map_names() -> Option<MapFieldNames> {
    Some(MapFieldNames { entry: "key_value".to_owned(), key: "key".to_owned(), value: "value".to_owned() })
}

fn texts(rows: impl Iterator<Item = Vec<(String, String)>>) -> ArrayRef {
    let mut map = MapBuilder::new(map_names(), StringBuilder::new(), StringBuilder::new())
        .with_values_field(arrow_schema::Field::new("value", arrow_schema::DataType::Utf8, false));
    for entries in rows {
        for (key, value) in entries {
            map.keys().append_value(key);
            map.values().append_value(value);
        }
        // Only of different numbers of keys and values, which were appended in pairs.
        let _ = map.append(true);
    }
    finished(map.finish())
}

fn totals(rows: &[&Header]) -> ArrayRef {
    let mut map = MapBuilder::new(map_names(), StringBuilder::new(), Int64Builder::new())
        .with_values_field(arrow_schema::Field::new("value", arrow_schema::DataType::Int64, false));
    for header in rows {
        for total in &header.totals {
            map.keys().append_value(&total.kind);
            map.values().append_value(total.value);
        }
        let _ = map.append(true);
    }
    finished(map.finish())
}

fn finished(map: MapArray) -> ArrayRef {
    Arc::new(map)
}

/// Writes a table of a part, of so many rows; `columns` makes those of a range of rows.
fn write(
    table: Table,
    span: Span,
    rows: usize,
    columns: impl Fn(std::ops::Range<usize>) -> Vec<ArrayRef>,
) -> Result<Vec<u8>> {
    let wrong = |source: ParquetError| Error::Write { table: table.name(), source };
    let schema = table.schema();
    let level = match span {
        Span::Hour => LEVEL,
        Span::Day => COMPACTED_LEVEL,
    };
    let options = ArrowWriterOptions::new().with_properties(table.properties(level)).with_skip_arrow_metadata(true);
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new_with_options(&mut file, Arc::clone(&schema), options).map_err(wrong)?;
    for start in (0..rows).step_by(BATCH) {
        let columns = columns(start..rows.min(start + BATCH));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(|error| wrong(error.into()))?;
        writer.write(&batch).map_err(wrong)?;
    }
    writer.close().map_err(wrong)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use procprof_profile::{Addr, Mapping, Nanos, ProfileBuilder, ProfileId, ProfileType};

    use super::recursive;
    use crate::{Identity, PartLimits, PartWriter};

    /// Code without names at the same offset of two binaries is no recursion; at one of one binary it is.
    #[test]
    fn code_without_names_recurs_within_its_binary() {
        let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
        let [one, other] = [("/one", 0x10_0000), ("/other", 0x20_0000)].map(|(name, start)| {
            let filename = builder.intern(name);
            let limit = Addr(start + 0x1000);
            let mapping = builder.mapping(Mapping { start: Addr(start), limit, filename, ..Mapping::default() });
            builder.address(Some(mapping), Addr(start + 0x10))
        });
        builder.sample(&[one, other, one], &[1], &[]);
        let mut part = PartWriter::new(PartLimits::default());
        let identity = Identity {
            id: ProfileId(1),
            node: 1,
            profile_type: ProfileType::Cpu,
            start: Nanos(0),
            duration: Nanos(0),
            completed: Nanos(1),
        };
        part.add(identity, builder.finish().unwrap()).unwrap();
        assert_eq!(recursive(&part, &part.stacks.ordered()), [false, false, false, true]);
    }
}
