//! The protobuf encoding.

use std::borrow::Cow;

use super::{
    Attribute, Data, Dictionary, Function, Line, Location, Mapping, NAME, OtlpProfile, Sample, Span, Value, ValueType,
};
use crate::format::Detect;
use crate::format::protobuf::{Fault, FaultKind, Field, Reader, Value as Wire};
use crate::{Error, Place, Result};

type Read<T> = std::result::Result<T, Fault>;

/// Whether all of the bytes are a message, or messages behind their lengths.
pub(super) fn detect(bytes: &[u8]) -> Detect {
    match detect_message(bytes) {
        Detect::No
            if Frames::new(bytes).all(|message| message.is_some_and(|bytes| detect_message(bytes) == Detect::Yes)) =>
        {
            Detect::Yes
        }
        known => known,
    }
}

/// Messages behind their lengths; `None` for one that is cut off.
struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Frames<'a> {
    fn new(bytes: &'a [u8]) -> Frames<'a> {
        Frames { bytes, at: 0 }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let message =
            rest.split_first_chunk::<4>().and_then(|(len, rest)| rest.get(..u32::from_be_bytes(*len) as usize));
        self.at = message.map_or(self.bytes.len(), |message| self.at + 4 + message.len());
        Some(message)
    }
}

/// Whether all of the bytes are resources with their profiles, and one dictionary. Cut off, they may be anything.
fn detect_message(bytes: &[u8]) -> Detect {
    if !bytes.iter().take(1).all(|tag| matches!(tag, 0x0a | 0x12)) {
        return Detect::No;
    }
    let (mut reader, mut has_profiles, mut has_dictionary) = (Reader::new(bytes), false, bytes.is_empty());
    loop {
        match reader.field() {
            Ok(Some(Field { number: 1, value: Wire::Bytes(resource), .. })) if is_message(resource, 3) => {
                has_profiles |= !resource.rest().is_empty()
            }
            Ok(Some(Field { number: 2, value: Wire::Bytes(dictionary), .. })) if is_message(dictionary, 7) => {
                has_dictionary = true
            }
            Ok(None) if has_profiles && has_dictionary => return Detect::Yes,
            Ok(None) if bytes.is_empty() => return Detect::NeedMore,
            Err(Fault { kind: FaultKind::Cut(_), .. }) => return Detect::NeedMore,
            _ => return Detect::No,
        }
    }
}

/// Whether a message has only fields with a length, of numbers up to `most`.
fn is_message(mut message: Reader<'_>, most: u32) -> bool {
    loop {
        match message.field() {
            Ok(Some(Field { number, value: Wire::Bytes(_), .. })) if number <= most => {}
            Ok(None) => return true,
            _ => return false,
        }
    }
}

/// Reads the message, or all behind their lengths.
pub(super) fn read_all(bytes: &[u8]) -> Result<Vec<Data<'_>>> {
    if bytes.first() != Some(&0) {
        return Ok(vec![read(bytes)?]);
    }
    let mut frames = Frames::new(bytes);
    let mut messages = Vec::new();
    while let (start, Some(message)) = (frames.at, frames.next()) {
        let message =
            message.ok_or(Error::Truncated { format: NAME, place: Place::Offset(start), what: "a message" })?;
        messages.push(read(message).map_err(|error| error.shifted(0, start + 4))?);
    }
    Ok(messages)
}

fn read(bytes: &[u8]) -> Result<Data<'_>> {
    read_data(bytes).map_err(|fault| {
        let place = Place::Offset(fault.offset);
        match fault.kind {
            FaultKind::Cut(what) => Error::Truncated { format: NAME, place, what },
            FaultKind::Wrong(what) => Error::Malformed { format: NAME, place, what: what.to_owned() },
        }
    })
}

/// Hands every field of a message to `each`.
fn fields<'a>(mut message: Reader<'a>, mut each: impl FnMut(&Field<'a>) -> Read<()>) -> Read<()> {
    while let Some(field) = message.field()? {
        each(&field)?;
    }
    Ok(())
}

fn read_data(bytes: &[u8]) -> Read<Data<'_>> {
    let mut data = Data::default();
    fields(Reader::new(bytes), |field| match field.number {
        1 => read_resource(&mut data, field.bytes()?),
        2 => read_dictionary(&mut data.dictionary, field.bytes()?),
        _ => Ok(()),
    })?;
    Ok(data)
}

fn read_resource<'a>(data: &mut Data<'a>, message: Reader<'a>) -> Read<()> {
    let start = data.resources.len();
    // The profiles may precede the resource.
    let first = data.profiles.len();
    fields(message, |field| match field.number {
        1 => fields(field.bytes()?, |field| match field.number {
            1 => {
                let mut pair = (Cow::Borrowed(""), Value::None);
                fields(field.bytes()?, |field| {
                    match field.number {
                        1 => pair.0 = text(field)?,
                        2 => pair.1 = read_value(field.bytes()?)?,
                        _ => {}
                    }
                    Ok(())
                })?;
                data.resources.push(pair);
                Ok(())
            }
            _ => Ok(()),
        }),
        2 => {
            fields(field.bytes()?, |field| if field.number == 2 { read_profile(data, field.bytes()?) } else { Ok(()) })
        }
        _ => Ok(()),
    })?;
    let resource = Span::since(start, &data.resources);
    data.profiles[first..].iter_mut().for_each(|profile| profile.resource = resource);
    Ok(())
}

fn read_profile<'a>(data: &mut Data<'a>, message: Reader<'a>) -> Read<()> {
    let mut profile = OtlpProfile::default();
    let start = data.samples.len();
    fields(message, |field| {
        match field.number {
            1 => profile.sample_type = read_value_type(field.bytes()?)?,
            2 => {
                let sample = read_sample(&mut data.sample_attributes, field.bytes()?)?;
                data.samples.push(sample);
            }
            3 => profile.time = field.fixed()? as i64,
            4 => profile.duration = field.int()?,
            5 => profile.period_type = read_value_type(field.bytes()?)?,
            6 => profile.period = field.int()?,
            _ => {}
        }
        Ok(())
    })?;
    profile.samples = Span::since(start, &data.samples);
    data.profiles.push(profile);
    Ok(())
}

fn read_value_type(message: Reader<'_>) -> Read<ValueType> {
    let mut kind = ValueType::default();
    fields(message, |field| {
        match field.number {
            1 => kind.kind = field.int()?,
            2 => kind.unit = field.int()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(kind)
}

fn read_sample(attributes: &mut Vec<i64>, message: Reader<'_>) -> Read<Sample> {
    let mut sample = Sample::default();
    let start = attributes.len();
    fields(message, |field| match field.number {
        1 => {
            sample.stack = field.int()?;
            Ok(())
        }
        2 => field.numbers(|number| attributes.push(number as i64)),
        4 => field.numbers(|number| sample.value = Some(sample.value.unwrap_or(0).saturating_add(number as i64))),
        5 => {
            sample.timestamps = sample.timestamps.saturating_add(field.fixed_count()? as i64);
            Ok(())
        }
        _ => Ok(()),
    })?;
    sample.attributes = Span::since(start, attributes);
    Ok(sample)
}

fn read_dictionary<'a>(dictionary: &mut Dictionary<'a>, message: Reader<'a>) -> Read<()> {
    fields(message, |field| {
        match field.number {
            1 => {
                let mapping = read_mapping(&mut dictionary.mapping_attributes, field.bytes()?)?;
                dictionary.mappings.push(mapping);
            }
            2 => {
                let location = read_location(&mut dictionary.lines, field.bytes()?)?;
                dictionary.locations.push(location);
            }
            3 => dictionary.functions.push(read_function(field.bytes()?)?),
            5 => dictionary.strings.push(text(field)?),
            6 => dictionary.attributes.push(read_attribute(field.bytes()?)?),
            7 => {
                let start = dictionary.stack_locations.len();
                fields(field.bytes()?, |field| match field.number {
                    1 => field.numbers(|number| dictionary.stack_locations.push(number as i64)),
                    _ => Ok(()),
                })?;
                dictionary.stacks.push(Span::since(start, &dictionary.stack_locations));
            }
            _ => {}
        }
        Ok(())
    })
}

fn read_mapping(attributes: &mut Vec<i64>, message: Reader<'_>) -> Read<Mapping> {
    let mut mapping = Mapping::default();
    let start = attributes.len();
    fields(message, |field| {
        match field.number {
            1 => mapping.start = field.varint()?,
            2 => mapping.limit = field.varint()?,
            3 => mapping.offset = field.varint()?,
            4 => mapping.file = field.int()?,
            5 => field.numbers(|number| attributes.push(number as i64))?,
            _ => {}
        }
        Ok(())
    })?;
    mapping.attributes = Span::since(start, attributes);
    Ok(mapping)
}

fn read_location(lines: &mut Vec<Line>, message: Reader<'_>) -> Read<Location> {
    let mut location = Location::default();
    let start = lines.len();
    fields(message, |field| {
        match field.number {
            1 => location.mapping = field.int()?,
            2 => location.address = field.varint()?,
            3 => {
                let mut line = Line::default();
                fields(field.bytes()?, |field| {
                    match field.number {
                        1 => line.function = field.int()?,
                        2 => line.line = field.int()?,
                        3 => line.column = field.int()?,
                        _ => {}
                    }
                    Ok(())
                })?;
                lines.push(line);
            }
            _ => {}
        }
        Ok(())
    })?;
    location.lines = Span::since(start, lines);
    Ok(location)
}

fn read_function(message: Reader<'_>) -> Read<Function> {
    let mut function = Function::default();
    fields(message, |field| {
        match field.number {
            1 => function.name = field.int()?,
            2 => function.system_name = field.int()?,
            3 => function.file = field.int()?,
            4 => function.start_line = field.int()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(function)
}

fn read_attribute(message: Reader<'_>) -> Read<Attribute<'_>> {
    let mut attribute = Attribute::default();
    fields(message, |field| {
        match field.number {
            1 => attribute.key = field.int()?,
            2 => attribute.value = read_value(field.bytes()?)?,
            3 => attribute.unit = field.int()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(attribute)
}

fn read_value(message: Reader<'_>) -> Read<Value<'_>> {
    let mut value = Value::None;
    fields(message, |field| {
        match field.number {
            1 => value = Value::Text(text(field)?),
            2 => value = Value::Text(Cow::Borrowed(if field.varint()? == 0 { "false" } else { "true" })),
            3 => value = Value::Number(field.int()?),
            8 => value = Value::String(field.int()?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(value)
}

fn text<'a>(field: &Field<'a>) -> Read<Cow<'a, str>> {
    Ok(String::from_utf8_lossy(field.bytes()?.rest()))
}
