//! The protobuf encoding.

use std::borrow::Cow;

use super::value::{NestedText, NestedValues, base64, float_text};
use super::{
    Attribute, Data, Dictionary, Function, Line, Link, Location, Mapping, NAME, OtlpProfile, Pair, SCOPE_NAME,
    SCOPE_VERSION, Sample, Span, Value, ValueType, push_text,
};
use crate::format::Detect;
use crate::format::protobuf::{Fault, FaultKind, Field, Reader, UnknownFields, Value as Wire};
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
            Ok(Some(Field { number: 1, value: Wire::Bytes(resource), .. })) if is_message(resource, LAST_DETECTED) => {
                has_profiles |= !resource.rest().is_empty()
            }
            Ok(Some(Field { number: 2, value: Wire::Bytes(dictionary), .. }))
                if is_message(dictionary, LAST_DETECTED) =>
            {
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

/// Reads the message, or all behind their lengths; a field that none of them should have is counted in a warning.
pub(super) fn read_all<'a>(bytes: &'a [u8], warnings: &mut Vec<String>) -> Result<Vec<Data<'a>>> {
    let unknown = UnknownFields::default();
    let messages = read_messages(bytes, &unknown, warnings);
    unknown.warn(NAME, warnings);
    messages
}

fn read_messages<'a>(bytes: &'a [u8], unknown: &UnknownFields, warnings: &mut Vec<String>) -> Result<Vec<Data<'a>>> {
    if bytes.first() != Some(&0) {
        return Ok(vec![read(bytes, unknown, warnings)?]);
    }
    let mut frames = Frames::new(bytes);
    let mut messages = Vec::new();
    while let (start, Some(message)) = (frames.at, frames.next()) {
        let message =
            message.ok_or(Error::Truncated { format: NAME, place: Place::Offset(start), what: "a message" })?;
        messages.push(read(message, unknown, warnings).map_err(|error| error.shifted(0, start + 4))?);
    }
    Ok(messages)
}

fn read<'a>(bytes: &'a [u8], unknown: &UnknownFields, warnings: &mut Vec<String>) -> Result<Data<'a>> {
    read_data(bytes, unknown, warnings).map_err(|fault| {
        let place = Place::Offset(fault.offset);
        match fault.kind {
            FaultKind::Cut(what) => Error::Truncated { format: NAME, place, what },
            FaultKind::Wrong(what) => Error::Malformed { format: NAME, place, what: what.to_owned() },
        }
    })
}

/// A message, and the last number of its fields.
#[derive(Clone, Copy)]
struct Message(&'static str, u32);

const DATA: Message = Message("ProfilesData", 2);
const RESOURCE_PROFILES: Message = Message("ResourceProfiles", 3);
const RESOURCE: Message = Message("Resource", 3);
const SCOPE_PROFILES: Message = Message("ScopeProfiles", 3);
const SCOPE: Message = Message("InstrumentationScope", 4);
const KEY_VALUE: Message = Message("KeyValue", 3);
const ANY_VALUE: Message = Message("AnyValue", 8);
const DICTIONARY: Message = Message("ProfilesDictionary", 7);
const PROFILE: Message = Message("Profile", 11);
const VALUE_TYPE: Message = Message("ValueType", 2);
const SAMPLE: Message = Message("Sample", 5);
const MAPPING: Message = Message("Mapping", 5);
const LOCATION: Message = Message("Location", 4);
const LINE: Message = Message("Line", 3);
const FUNCTION: Message = Message("Function", 4);
const ARRAY_VALUE: Message = Message("ArrayValue", 1);
const KEY_VALUE_LIST: Message = Message("KeyValueList", 1);
const LINK: Message = Message("Link", 2);
const ATTRIBUTE: Message = Message("KeyValueAndUnit", 3);
const STACK: Message = Message("Stack", 1);
/// The last field of the outermost messages that detection allows, for versions to come.
const LAST_DETECTED: u32 = 15;

/// Hands every known field of a message to `each`.
fn fields<'a>(
    context: &Context<'_>,
    Message(name, last): Message,
    mut message: Reader<'a>,
    mut each: impl FnMut(&Field<'a>) -> Read<()>,
) -> Read<()> {
    while let Some(field) = message.field()? {
        if field.number > last {
            context.unknown.note(name, &field);
        } else {
            each(&field)?;
        }
    }
    Ok(())
}

/// What all fields of a message are read with.
struct Context<'c> {
    unknown: &'c UnknownFields,
    nested: NestedValues<'c>,
}

fn read_data<'a>(bytes: &'a [u8], unknown: &UnknownFields, warnings: &mut Vec<String>) -> Read<Data<'a>> {
    // Texts of arrays and maps take strings, which come behind them.
    let strings = read_strings(bytes)?;
    let context = Context { unknown, nested: NestedValues::new(&strings, bytes.len()) };
    let mut data = Data::default();
    fields(&context, DATA, Reader::new(bytes), |field| match field.number {
        1 => read_resource(&mut data, field.bytes()?, &context),
        2 => read_dictionary(&mut data.dictionary, field.bytes()?, &context),
        _ => Ok(()),
    })?;
    context.nested.warn(warnings);
    data.dictionary.strings = strings;
    Ok(data)
}

fn read_strings(bytes: &[u8]) -> Read<Vec<Cow<'_, str>>> {
    let mut strings = Vec::new();
    let mut message = Reader::new(bytes);
    while let Some(field) = message.field()? {
        if field.number == 2 {
            let mut dictionary = field.bytes()?;
            while let Some(field) = dictionary.field()? {
                if field.number == 5 {
                    strings.push(text(&field)?);
                }
            }
        }
    }
    Ok(strings)
}

fn read_resource<'a>(data: &mut Data<'a>, message: Reader<'a>, context: &Context<'_>) -> Read<()> {
    let start = data.resources.len();
    // The profiles may precede the resource.
    let first = data.profiles.len();
    fields(context, RESOURCE_PROFILES, message, |field| match field.number {
        1 => fields(context, RESOURCE, field.bytes()?, |field| match field.number {
            1 => push_pair(&mut data.resources, field.bytes()?, context),
            _ => Ok(()),
        }),
        2 => read_scope_profiles(data, field.bytes()?, context),
        _ => Ok(()),
    })?;
    let resource = Span::since(start, &data.resources);
    data.profiles[first..].iter_mut().for_each(|profile| profile.resource = resource);
    Ok(())
}

fn read_scope_profiles<'a>(data: &mut Data<'a>, message: Reader<'a>, context: &Context<'_>) -> Read<()> {
    let (start, first) = (data.scopes.len(), data.profiles.len());
    fields(context, SCOPE_PROFILES, message, |field| match field.number {
        1 => fields(context, SCOPE, field.bytes()?, |field| {
            match field.number {
                1 => push_text(&mut data.scopes, SCOPE_NAME, text(field)?),
                2 => push_text(&mut data.scopes, SCOPE_VERSION, text(field)?),
                3 => push_pair(&mut data.scopes, field.bytes()?, context)?,
                _ => {}
            }
            Ok(())
        }),
        2 => read_profile(data, field.bytes()?, context),
        _ => Ok(()),
    })?;
    let scope = Span::since(start, &data.scopes);
    data.profiles[first..].iter_mut().for_each(|profile| profile.scope = scope);
    Ok(())
}

fn push_pair<'a>(pairs: &mut Vec<Pair<'a>>, message: Reader<'a>, context: &Context<'_>) -> Read<()> {
    let mut pair = (Value::None, Value::None);
    fields(context, KEY_VALUE, message, |field| {
        match field.number {
            1 => pair.0 = Value::Text(text(field)?),
            2 => pair.1 = read_value(field.bytes()?, context)?,
            3 => pair.0 = Value::String(field.int()?),
            _ => {}
        }
        Ok(())
    })?;
    pairs.push(pair);
    Ok(())
}

fn read_profile<'a>(data: &mut Data<'a>, message: Reader<'a>, context: &Context<'_>) -> Read<()> {
    let mut profile = OtlpProfile::default();
    let (start, first) = (data.samples.len(), data.profile_attributes.len());
    fields(context, PROFILE, message, |field| {
        match field.number {
            1 => profile.sample_type = read_value_type(field.bytes()?, context)?,
            2 => {
                let sample = read_sample(&mut data.sample_attributes, field.bytes()?, context)?;
                data.samples.push(sample);
            }
            3 => profile.time = field.fixed()? as i64,
            4 => profile.duration = field.int()?,
            5 => profile.period_type = read_value_type(field.bytes()?, context)?,
            6 => profile.period = field.int()?,
            11 => field.numbers(|number| data.profile_attributes.push(number as i64))?,
            _ => {}
        }
        Ok(())
    })?;
    profile.samples = Span::since(start, &data.samples);
    profile.attributes = Span::since(first, &data.profile_attributes);
    data.profiles.push(profile);
    Ok(())
}

fn read_value_type(message: Reader<'_>, context: &Context<'_>) -> Read<ValueType> {
    let mut kind = ValueType::default();
    fields(context, VALUE_TYPE, message, |field| {
        match field.number {
            1 => kind.kind = field.int()?,
            2 => kind.unit = field.int()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(kind)
}

fn read_sample(attributes: &mut Vec<i64>, message: Reader<'_>, context: &Context<'_>) -> Read<Sample> {
    let mut sample = Sample::default();
    let start = attributes.len();
    fields(context, SAMPLE, message, |field| match field.number {
        1 => {
            sample.stack = field.int()?;
            Ok(())
        }
        2 => field.numbers(|number| attributes.push(number as i64)),
        3 => {
            sample.link = field.int()?;
            Ok(())
        }
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

fn read_dictionary<'a>(dictionary: &mut Dictionary<'a>, message: Reader<'a>, context: &Context<'_>) -> Read<()> {
    fields(context, DICTIONARY, message, |field| {
        match field.number {
            1 => {
                let mapping = read_mapping(&mut dictionary.mapping_attributes, field.bytes()?, context)?;
                dictionary.mappings.push(mapping);
            }
            2 => {
                let location = read_location(&mut dictionary.lines, field.bytes()?, context)?;
                dictionary.locations.push(location);
            }
            3 => dictionary.functions.push(read_function(field.bytes()?, context)?),
            4 => dictionary.links.push(read_link(field.bytes()?, context)?),
            6 => dictionary.attributes.push(read_attribute(field.bytes()?, context)?),
            7 => {
                let start = dictionary.stack_locations.len();
                fields(context, STACK, field.bytes()?, |field| match field.number {
                    1 => field.numbers(|number| dictionary.stack_locations.push(number as i64)),
                    _ => Ok(()),
                })?;
                dictionary.stacks.push(Span::since(start, &dictionary.stack_locations));
            }
            // Strings are read before all else.
            _ => {}
        }
        Ok(())
    })
}

fn read_link(message: Reader<'_>, context: &Context<'_>) -> Read<Link> {
    let mut link = Link::default();
    let number = |field: &Field<'_>| {
        let bytes = field.bytes()?.rest();
        Ok::<_, Fault>(bytes.iter().fold(0, |number: u128, byte| number << 8 | u128::from(*byte)))
    };
    fields(context, LINK, message, |field| {
        match field.number {
            1 => link.trace = number(field)?,
            2 => link.span = number(field)? as u64,
            _ => {}
        }
        Ok(())
    })?;
    Ok(link)
}

fn read_mapping(attributes: &mut Vec<i64>, message: Reader<'_>, context: &Context<'_>) -> Read<Mapping> {
    let mut mapping = Mapping::default();
    let start = attributes.len();
    fields(context, MAPPING, message, |field| {
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

fn read_location(lines: &mut Vec<Line>, message: Reader<'_>, context: &Context<'_>) -> Read<Location> {
    let mut location = Location::default();
    let start = lines.len();
    fields(context, LOCATION, message, |field| {
        match field.number {
            1 => location.mapping = field.int()?,
            2 => location.address = field.varint()?,
            3 => {
                let mut line = Line::default();
                fields(context, LINE, field.bytes()?, |field| {
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

fn read_function(message: Reader<'_>, context: &Context<'_>) -> Read<Function> {
    let mut function = Function::default();
    fields(context, FUNCTION, message, |field| {
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

fn read_attribute<'a>(message: Reader<'a>, context: &Context<'_>) -> Read<Attribute<'a>> {
    let mut attribute = Attribute::default();
    fields(context, ATTRIBUTE, message, |field| {
        match field.number {
            1 => attribute.key = field.int()?,
            2 => attribute.value = read_value(field.bytes()?, context)?,
            3 => attribute.unit = field.int()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(attribute)
}

fn read_value<'a>(message: Reader<'a>, context: &Context<'_>) -> Read<Value<'a>> {
    let mut value = Value::None;
    fields(context, ANY_VALUE, message, |field| {
        match field.number {
            1 => value = Value::Text(text(field)?),
            2 => value = Value::Text(Cow::Borrowed(if field.varint()? == 0 { "false" } else { "true" })),
            3 => value = Value::Number(field.int()?),
            4 => value = Value::Text(float_text(f64::from_bits(field.fixed()?)).into()),
            5 | 6 => {
                let mut text = NestedText::new(&context.nested);
                push_nested(&mut text, field, context)?;
                value = text.finish().map_err(|what| field.wrong(what))?;
            }
            7 => value = Value::Text(base64(field.bytes()?.rest()).into()),
            8 => value = Value::String(field.int()?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(value)
}

/// Writes the field of a value inside of an array or a map, or that of the outermost.
fn push_nested(text: &mut NestedText<'_, '_>, value: &Field<'_>, context: &Context<'_>) -> Read<()> {
    match value.number {
        1 => text.text(&self::text(value)?),
        2 => text.word(if value.varint()? == 0 { "false" } else { "true" }),
        3 => text.word(&value.int()?.to_string()),
        4 => text.float(f64::from_bits(value.fixed()?)),
        5 => {
            text.open('[').map_err(|what| value.wrong(what))?;
            fields(context, ARRAY_VALUE, value.bytes()?, |field| {
                text.separate().map_err(|what| field.wrong(what))?;
                push_value(text, Some(field.bytes()?), context)
            })?;
            text.close(']');
        }
        6 => {
            text.open('{').map_err(|what| value.wrong(what))?;
            fields(context, KEY_VALUE_LIST, value.bytes()?, |field| {
                text.separate().map_err(|what| field.wrong(what))?;
                push_nested_pair(text, field.bytes()?, context)
            })?;
            text.close('}');
        }
        7 => text.text(&base64(value.bytes()?.rest())),
        _ => text.string(value.int()?, "null"),
    }
    Ok(())
}

/// Writes a value, of whose fields the last one counts.
fn push_value(text: &mut NestedText<'_, '_>, message: Option<Reader<'_>>, context: &Context<'_>) -> Read<()> {
    let mut value = None;
    if let Some(message) = message {
        fields(context, ANY_VALUE, message, |field| {
            value = Some(*field);
            Ok(())
        })?;
    }
    match value {
        Some(field) => push_nested(text, &field, context),
        None => {
            text.word("null");
            Ok(())
        }
    }
}

fn push_nested_pair(text: &mut NestedText<'_, '_>, message: Reader<'_>, context: &Context<'_>) -> Read<()> {
    let (mut key, mut value) = (None, None);
    fields(context, KEY_VALUE, message, |field| {
        match field.number {
            2 => value = Some(field.bytes()?),
            _ => key = Some(*field),
        }
        Ok(())
    })?;
    match key {
        Some(key) if key.number == 3 => text.string(key.int()?, "\"\""),
        Some(key) => text.text(&self::text(&key)?),
        None => text.text(""),
    }
    text.colon();
    push_value(text, value, context)
}

fn text<'a>(field: &Field<'a>) -> Read<Cow<'a, str>> {
    Ok(String::from_utf8_lossy(field.bytes()?.rest()))
}
