//! From the tables of OpenTelemetry to profiles, one for each sample type.

use foldhash::{HashMap, HashSet};

use super::{COMMENT, Data, NAME, OtlpProfile, SPAN_ID, Sample, TRACE_ID, Value, ValueType};
use crate::format::call_tree::{self, CallTree, Labels};
use crate::format::json::Json;
use crate::format::left_out::LeftOut;
use crate::format::{Event, Limits, events};
use crate::{
    Addr, Error, FileOffset, Function, FunctionId, Label, Line, Location, LocationId, Mapping, MappingId, Nanos,
    Result, StringId,
};

pub(super) fn build(
    messages: &[Data<'_>],
    input_bytes: usize,
    limits: &Limits,
    left_out: &mut LeftOut,
) -> Result<Vec<Event>> {
    let mut groups: Vec<Group<'_, '_>> = Vec::new();
    let mut room = AttributeRoom::new(input_bytes);
    for (data, profile) in messages.iter().flat_map(|data| data.profiles.iter().map(move |profile| (data, profile))) {
        let read = Types::read(data, profile);
        let Some(types) = left_out.keep(read)? else { continue };
        let place = match groups.iter().position(|group| group.types == types) {
            Some(place) => place,
            None if groups.len() == events::EVENTS_MAX => {
                return Err(Error::TooLarge {
                    format: NAME,
                    what: "the number of sample types",
                    limit: events::EVENTS_MAX as u64,
                });
            }
            None => {
                groups.push(Group::new(data, types, input_bytes, limits));
                groups.len() - 1
            }
        };
        groups[place].turn_to(data);
        groups[place].add(profile, &mut room, left_out)?;
    }
    let mut events = Vec::new();
    for group in groups {
        let name = if group.types.kind.is_empty() { "samples" } else { group.types.kind };
        let (name, profile) = (events::distinct(&events, name), group.tree.finish()?);
        events.push(Event { name, profile });
    }
    Ok(events)
}

/// Most attributes that all samples may have together, with those of their profile, scope and resource, in times the
/// bytes of the input, and how many are free. Few bytes of a sample can refer to many attributes.
const ATTRIBUTES_MULTIPLE: usize = 4;
const ATTRIBUTES_FREE: usize = 64 << 10;

/// The number of attributes that samples may still have.
struct AttributeRoom {
    left: usize,
    limit: usize,
}

impl AttributeRoom {
    fn new(input_bytes: usize) -> AttributeRoom {
        let limit = input_bytes.saturating_mul(ATTRIBUTES_MULTIPLE).saturating_add(ATTRIBUTES_FREE);
        AttributeRoom { left: limit, limit }
    }

    fn take(&mut self, count: usize) -> Result<()> {
        let what = "the number of attributes of all samples, for an input of its size,";
        let left = self.left.checked_sub(count);
        self.left = left.ok_or(Error::TooLarge { format: NAME, what, limit: self.limit as u64 })?;
        Ok(())
    }
}

/// The types of a profile's values.
#[derive(Clone, Copy, PartialEq)]
struct Types<'d> {
    kind: &'d str,
    unit: &'d str,
    /// Type, unit and length of the period, where it gives a second sample type.
    period: Option<(&'d str, &'d str, i64)>,
}

impl<'d> Types<'d> {
    fn read(data: &'d Data<'_>, profile: &OtlpProfile) -> Result<Types<'d>> {
        let (kind, unit) = named(data, profile.sample_type)?;
        let (period_kind, period_unit) = named(data, profile.period_type)?;
        let has_period = unit == "count" && profile.period > 0 && !period_kind.is_empty() && period_kind != kind;
        Ok(Types { kind, unit, period: has_period.then_some((period_kind, period_unit, profile.period)) })
    }
}

fn named<'d>(data: &'d Data<'_>, kind: ValueType) -> Result<(&'d str, &'d str)> {
    Ok((string(data, kind.kind)?, string(data, kind.unit)?))
}

fn string<'d>(data: &'d Data<'_>, index: i64) -> Result<&'d str> {
    if index == 0 {
        return Ok("");
    }
    entry(&data.dictionary.strings, index, "string").map(AsRef::as_ref)
}

fn entry<'t, T>(table: &'t [T], index: i64, what: &str) -> Result<&'t T> {
    let found = usize::try_from(index).ok().and_then(|index| table.get(index));
    found.ok_or_else(|| Error::invalid(format!("OpenTelemetry's {what} {index} of {}", table.len())))
}

/// The profiles of one sample type.
struct Group<'d, 'a> {
    data: &'d Data<'a>,
    types: Types<'d>,
    tree: CallTree,
    /// Of all messages, so that equal stacks of several are one.
    distinct_locations: HashMap<(Option<MappingId>, Addr, Vec<Line>), LocationId>,
    distinct_mappings: HashMap<Mapping, MappingId>,
    locations: HashMap<i64, LocationId>,
    mappings: HashMap<i64, Option<MappingId>>,
    functions: HashMap<i64, FunctionId>,
    stacks: HashMap<i64, call_tree::NodeId>,
    /// Attributes of this message whose comments are read.
    comment_attributes: HashSet<i64>,
    /// The comments, of which equal ones are one.
    comments: HashSet<StringId>,
}

impl<'d, 'a> Group<'d, 'a> {
    fn new(data: &'d Data<'a>, types: Types<'d>, input_bytes: usize, limits: &Limits) -> Group<'d, 'a> {
        let second = types.period.map(|(kind, unit, _)| (kind, unit));
        let sample_types: Vec<(&str, &str)> = std::iter::once((types.kind, types.unit)).chain(second).collect();
        let tree = CallTree::new(NAME, &sample_types, input_bytes, limits);
        let (distinct_locations, distinct_mappings) = Default::default();
        let (locations, mappings, functions, stacks) = Default::default();
        let (comment_attributes, comments) = Default::default();
        Group {
            data,
            types,
            tree,
            distinct_locations,
            distinct_mappings,
            locations,
            mappings,
            functions,
            stacks,
            comment_attributes,
            comments,
        }
    }

    /// Reads profiles of this message from here on, whose tables are its own.
    fn turn_to(&mut self, data: &'d Data<'a>) {
        if !std::ptr::eq(self.data, data) {
            self.data = data;
            (self.locations, self.mappings, self.functions, self.stacks) = Default::default();
            self.comment_attributes = HashSet::default();
        }
    }

    fn add(&mut self, profile: &OtlpProfile, room: &mut AttributeRoom, left_out: &mut LeftOut) -> Result<()> {
        self.add_comments(profile);
        let (period_kind, period_unit) = named(self.data, profile.period_type)?;
        let builder = &mut self.tree.builder;
        if builder.parts_mut().period == 0 && profile.period > 0 {
            builder.period(period_kind, period_unit, profile.period);
        }
        let (time, duration) = (builder.parts_mut().time.0, builder.parts_mut().duration.0);
        let first = if time == 0 || profile.time == 0 { time.max(profile.time) } else { time.min(profile.time) };
        builder.time(Nanos(first), Nanos(duration.max(profile.duration)));
        for sample in profile.samples.slice(&self.data.samples) {
            let read = self.stack(sample.stack).and_then(|node| Ok((node, self.labels(profile, sample, room)?)));
            let Some((node, labels)) = left_out.keep(read)? else { continue };
            let unit_of_one = if self.types.unit == "count" { 1 } else { profile.period.max(1) };
            let value = sample.value.unwrap_or_else(|| sample.timestamps.saturating_mul(unit_of_one));
            match self.types.period {
                Some((_, _, period)) => self.tree.add(node, labels, &[value, value.saturating_mul(period)]),
                None => self.tree.add(node, labels, &[value]),
            }
        }
        Ok(())
    }

    fn add_comments(&mut self, profile: &OtlpProfile) {
        for index in profile.attributes.slice(&self.data.profile_attributes) {
            // An attribute that is not there is an error of each sample.
            let Ok((COMMENT, Attribute::Text(text), _)) = self.attribute(*index) else { continue };
            if !self.comment_attributes.insert(*index) {
                continue;
            }
            for comment in comments(text) {
                let id = self.tree.builder.intern(&comment);
                if self.comments.insert(id) {
                    self.tree.builder.parts_mut().comments.push(id);
                }
            }
        }
    }

    fn stack(&mut self, index: i64) -> Result<call_tree::NodeId> {
        if let Some(node) = self.stacks.get(&index) {
            return Ok(*node);
        }
        let mut node = call_tree::ROOT;
        if index != 0 {
            let stack = entry(&self.data.dictionary.stacks, index, "stack")?;
            for location in stack.slice(&self.data.dictionary.stack_locations).iter().rev() {
                let location = self.location(*location)?;
                node = self.tree.child(node, location)?;
            }
        }
        self.stacks.insert(index, node);
        Ok(node)
    }

    fn location(&mut self, index: i64) -> Result<LocationId> {
        if let Some(id) = self.locations.get(&index) {
            return Ok(*id);
        }
        let location = entry(&self.data.dictionary.locations, index, "location")?;
        let mapping = self.mapping(location.mapping)?;
        let mut lines = Vec::new();
        for line in location.lines.slice(&self.data.dictionary.lines) {
            lines.push(Line { function: self.function(line.function)?, line: line.line, column: line.column });
        }
        if let (Some(id), false) = (mapping, lines.is_empty()) {
            self.tree.builder.parts_mut().mappings[id.index()].has_functions = true;
        }
        let key = (mapping, Addr(location.address), lines);
        let id = match self.distinct_locations.get(&key) {
            Some(id) => *id,
            None => {
                let id = self.tree.builder.location(Location::new(key.0, key.1), &key.2);
                self.distinct_locations.insert(key, id);
                id
            }
        };
        self.locations.insert(index, id);
        Ok(id)
    }

    fn function(&mut self, index: i64) -> Result<FunctionId> {
        if let Some(id) = self.functions.get(&index) {
            return Ok(*id);
        }
        let function = entry(&self.data.dictionary.functions, index, "function")?;
        let name = string(self.data, function.name)?;
        let system_name = string(self.data, function.system_name)?;
        let filename = string(self.data, function.file)?;
        let builder = &mut self.tree.builder;
        let [name, system_name, filename] = [
            if name.is_empty() { system_name } else { name },
            if system_name.is_empty() { name } else { system_name },
            filename,
        ]
        .map(|text| builder.intern(text));
        let id = builder.function(Function { name, system_name, filename, start_line: function.start_line });
        self.functions.insert(index, id);
        Ok(id)
    }

    fn mapping(&mut self, index: i64) -> Result<Option<MappingId>> {
        if let Some(known) = self.mappings.get(&index) {
            return Ok(*known);
        }
        // Entry 0 is no mapping.
        let mut id = None;
        if index != 0 {
            let mapping = entry(&self.data.dictionary.mappings, index, "mapping")?;
            let mut build_id = String::new();
            for attribute in mapping.attributes.slice(&self.data.dictionary.mapping_attributes) {
                let (key, value, _) = self.attribute(*attribute)?;
                if let (super::BUILD_ID, Attribute::Text(text)) = (key, value) {
                    build_id = text.to_owned();
                }
            }
            let file = string(self.data, mapping.file)?;
            let (filename, build_id) = (self.tree.builder.intern(file), self.tree.builder.intern(&build_id));
            let (start, limit, file_offset) = (Addr(mapping.start), Addr(mapping.limit), FileOffset(mapping.offset));
            let mapping = Mapping { start, limit, file_offset, filename, build_id, ..Mapping::default() };
            let builder = &mut self.tree.builder;
            id = Some(*self.distinct_mappings.entry(mapping).or_insert_with(|| builder.mapping(mapping)));
        }
        self.mappings.insert(index, id);
        Ok(id)
    }

    /// Key, value and unit of an attribute.
    fn attribute(&self, index: i64) -> Result<(&'d str, Attribute<'d>, &'d str)> {
        let attribute = entry(&self.data.dictionary.attributes, index, "attribute")?;
        Ok((string(self.data, attribute.key)?, self.value(&attribute.value)?, string(self.data, attribute.unit)?))
    }

    fn value(&self, value: &'d Value<'_>) -> Result<Attribute<'d>> {
        Ok(match value {
            Value::None => Attribute::None,
            Value::Text(text) => Attribute::Text(text),
            Value::String(index) => Attribute::Text(string(self.data, *index)?),
            Value::Number(number) => Attribute::Number(*number),
        })
    }

    fn labels(&mut self, profile: &OtlpProfile, sample: &Sample, room: &mut AttributeRoom) -> Result<Labels> {
        let data = self.data;
        let mut labels = Vec::new();
        let of_sample = sample.attributes.slice(&data.sample_attributes);
        let of_profile = profile.attributes.slice(&data.profile_attributes);
        let (of_scope, of_resource) = (profile.scope.slice(&data.scopes), profile.resource.slice(&data.resources));
        room.take(of_sample.len() + of_profile.len() + of_scope.len() + of_resource.len())?;
        for index in of_sample.iter().chain(of_profile) {
            let (key, value, unit) = self.attribute(*index)?;
            if key != COMMENT {
                labels.extend(self.label(key, value, unit));
            }
        }
        // Entry 0 is no link.
        if sample.link != 0 {
            let link = entry(&data.dictionary.links, sample.link, "link")?;
            let ids = [
                (TRACE_ID, link.trace != 0, format!("{:032x}", link.trace)),
                (SPAN_ID, link.span != 0, format!("{:016x}", link.span)),
            ];
            let ids = ids.iter().filter(|(_, is_there, _)| *is_there);
            labels.extend(ids.map(|(key, _, id)| self.tree.builder.text_label(key, id)));
        }
        for (key, value) in of_scope.iter().chain(of_resource) {
            let (Attribute::Text(key), value) = (self.value(key)?, self.value(value)?) else { continue };
            labels.extend(self.label(key, value, ""));
        }
        Ok(self.tree.labels(&labels))
    }

    fn label(&mut self, key: &str, value: Attribute<'_>, unit: &str) -> Option<Label> {
        match value {
            _ if key.is_empty() => None,
            Attribute::None => None,
            Attribute::Text(text) => Some(self.tree.builder.text_label(key, text)),
            Attribute::Number(number) => Some(self.tree.builder.number_label(key, number, unit)),
        }
    }
}

/// The comments in the value of their attribute: the texts of an array, which is written as JSON, or a text.
fn comments(text: &str) -> Vec<String> {
    let mut comments = Vec::new();
    let array = Json::new(NAME, text.as_bytes()).array(|json| {
        comments.push(json.text()?.into_owned());
        Ok(())
    });
    if array.is_ok() { comments } else { vec![text.to_owned()] }
}

/// The value of an attribute, its text at hand.
#[derive(Clone, Copy)]
enum Attribute<'d> {
    None,
    Text(&'d str),
    Number(i64),
}
