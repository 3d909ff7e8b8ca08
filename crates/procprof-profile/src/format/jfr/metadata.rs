//! The metadata of a chunk: which types there are, and the fields of each.
//!
//! ```text
//! event    size, 0, start, duration, number, count of texts, texts, element
//! element  name, count of attributes, (key, value) each, count of elements, elements; names, keys and values are numbers of texts
//!
//! root > metadata > class id="101" name="jdk.ExecutionSample" > field name="stackTrace" class="26" constantPool="true" dimension="1"
//! field > annotation value="TICKS" …
//! ```

use std::ops::Range;

use foldhash::HashMap;

use super::chunk::Chunk;
use super::cursor::Cursor;
use super::text::{self, Text};
use crate::{Result, StringId, StringTable};

/// Deepest nesting of elements; real ones have five levels.
const DEPTH: usize = 16;

/// What a number of time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Ticks,
    Nanos(u32),
}

/// A field of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) name: StringId,
    pub(super) class: u64,
    /// Whether it is the number of a constant of that class.
    pub(super) is_constant: bool,
    pub(super) is_array: bool,
    /// `Ticks` where nothing is said.
    pub(super) unit: Unit,
}

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    name: StringId,
    first_field: u32,
    end_field: u32,
}

/// The classes of a chunk.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    strings: StringTable,
    classes: Vec<Class>,
    fields: Vec<Field>,
    by_id: HashMap<u64, u32>,
}

impl Metadata {
    /// Where in a chunk its metadata are, from the count of texts on; two chunks with the same bytes there have the
    /// same classes.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) when they do not lie in the chunk.
    pub(super) fn range(chunk: &Chunk<'_>) -> Result<Range<usize>> {
        let mut cursor = Cursor::new(chunk.bytes, chunk.metadata);
        let size = cursor.number().filter(|size| *size <= (chunk.bytes.len() - chunk.metadata) as u64);
        let end = size.map(|size| chunk.metadata + size as usize);
        // Type, start, duration, number.
        let start = cursor.skip_numbers(4).map(|()| cursor.at());
        let range = start.zip(end).filter(|(start, end)| start <= end).map(|(start, end)| start..end);
        range.ok_or_else(|| chunk.malformed(chunk.metadata, "the metadata pass the end of their chunk"))
    }

    /// Reads the metadata that lie there.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) with the place.
    pub(super) fn read(chunk: &Chunk<'_>, range: Range<usize>) -> Result<Metadata> {
        let mut reader =
            Reader { cursor: Cursor::new(&chunk.bytes[..range.end], range.start), metadata: Metadata::default() };
        match reader.texts().and_then(|()| reader.element(Parent::Other, DEPTH)) {
            Some(()) => Ok(reader.metadata),
            None => Err(chunk.malformed(reader.cursor.at(), "metadata that cannot be read")),
        }
    }

    /// The number of the class with that name.
    pub(super) fn class_named(&self, name: &str) -> Option<u64> {
        let found = self.by_id.iter().filter(|(_, class)| self.text(self.classes[**class as usize].name) == name);
        found.map(|(id, _)| *id).min()
    }

    /// The name and the fields of a class.
    pub(super) fn class(&self, id: u64) -> Option<(&str, &[Field])> {
        let class = self.classes[*self.by_id.get(&id)? as usize];
        Some((self.text(class.name), &self.fields[class.first_field as usize..class.end_field as usize]))
    }

    /// Numbers and names of all classes, in no order.
    pub(super) fn classes(&self) -> impl Iterator<Item = (u64, &str)> {
        self.by_id.iter().map(|(id, class)| (*id, self.text(self.classes[*class as usize].name)))
    }

    pub(super) fn text(&self, id: StringId) -> &str {
        self.strings.get(id).unwrap_or_default()
    }
}

/// What an element stands in.
#[derive(Clone, Copy)]
enum Parent {
    Class,
    Field(usize),
    Other,
}

struct Reader<'a> {
    cursor: Cursor<'a>,
    metadata: Metadata,
}

impl Reader<'_> {
    fn texts(&mut self) -> Option<()> {
        for _ in 0..self.cursor.number()? {
            let text = match text::read(&mut self.cursor)? {
                Text::Is(text) => text,
                Text::Null => String::new(),
                Text::Constant(_) => return None,
            };
            self.metadata.strings.push(&text)?;
        }
        Some(())
    }

    /// The text of that number; the table's own first one is behind the count.
    fn text(&mut self) -> Option<StringId> {
        let id = StringId(u32::try_from(self.cursor.number()?).ok()?.checked_add(1)?);
        self.metadata.strings.get(id).map(|_| id)
    }

    fn element(&mut self, parent: Parent, depth: usize) -> Option<()> {
        let name = self.text()?;
        let kind = match (self.metadata.text(name), parent) {
            ("class", _) => Kind::Class,
            ("field", Parent::Class) => Kind::Field,
            ("annotation", Parent::Field(field)) => Kind::Annotation(field),
            _ => Kind::Other,
        };
        let (mut id, mut class, mut field) = (None, None, Field::default());
        for _ in 0..self.cursor.number()? {
            let (key, value) = (self.text()?, self.text()?);
            let text = self.metadata.text(value);
            match (&kind, self.metadata.text(key)) {
                (Kind::Class, "id") => id = text.parse().ok(),
                (Kind::Class | Kind::Field, "name") => field.name = value,
                (Kind::Field, "class") => class = text.parse().ok(),
                (Kind::Field, "constantPool") => field.is_constant = text == "true",
                (Kind::Field, "dimension") => field.is_array = text != "0",
                (Kind::Annotation(field), "value") => {
                    if let Some(unit) = unit(text) {
                        self.metadata.fields[*field].unit = unit;
                    }
                }
                _ => {}
            }
        }
        let parent = match kind {
            Kind::Class => {
                let first_field = self.metadata.fields.len() as u32;
                let class = Class { name: field.name, first_field, end_field: first_field };
                self.metadata.by_id.insert(id?, self.metadata.classes.len() as u32);
                self.metadata.classes.push(class);
                Parent::Class
            }
            Kind::Field => {
                self.metadata.fields.push(Field { class: class?, ..field });
                Parent::Field(self.metadata.fields.len() - 1)
            }
            Kind::Annotation(_) | Kind::Other => Parent::Other,
        };
        let class = self.metadata.classes.len();
        for _ in 0..self.cursor.number()? {
            self.element(parent, depth.checked_sub(1)?)?;
        }
        if matches!(kind, Kind::Class) {
            self.metadata.classes[class - 1].end_field = self.metadata.fields.len() as u32;
        }
        Some(())
    }
}

enum Kind {
    Class,
    Field,
    /// Of the field at this position.
    Annotation(usize),
    Other,
}

impl Default for Field {
    fn default() -> Field {
        Field { name: StringId(0), class: 0, is_constant: false, is_array: false, unit: Unit::Ticks }
    }
}

fn unit(text: &str) -> Option<Unit> {
    Some(match text {
        "TICKS" => Unit::Ticks,
        "NANOSECONDS" => Unit::Nanos(1),
        "MICROSECONDS" => Unit::Nanos(1_000),
        "MILLISECONDS" => Unit::Nanos(1_000_000),
        "SECONDS" => Unit::Nanos(1_000_000_000),
        _ => return None,
    })
}
