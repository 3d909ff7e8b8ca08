//! The JSON encoding: keys in lower camel case, numbers of 64 bits perhaps as texts. What is missing is 0 or empty.

use std::borrow::Cow;

use super::value::{NestedText, NestedValues, float_text};
use super::{
    Attribute, Data, Dictionary, Function, Line, Link, Location, Mapping, NAME, OtlpProfile, Pair, SCOPE_NAME,
    SCOPE_VERSION, Sample, Span, Value, ValueType, push_text,
};
use crate::Result;
use crate::format::json::{Json, Kind};
use crate::format::left_out::LeftOut;

/// Reads all messages, which follow each other.
pub(super) fn read<'a>(bytes: &'a [u8], left_out: &mut LeftOut, warnings: &mut Vec<String>) -> Result<Vec<Data<'a>>> {
    let mut json = Json::new(NAME, bytes);
    let mut messages = vec![read_message(&mut json, bytes.len(), left_out, warnings)?];
    while json.kind() == Ok(Kind::Object) {
        messages.push(read_message(&mut json, bytes.len(), left_out, warnings)?);
    }
    json.end(warnings);
    Ok(messages)
}

fn read_message<'a>(
    json: &mut Json<'a>,
    input_bytes: usize,
    left_out: &mut LeftOut,
    warnings: &mut Vec<String>,
) -> Result<Data<'a>> {
    // Texts of arrays and maps take strings, which may come behind them.
    let mut ahead = *json;
    let strings = read_strings(&mut ahead)?;
    let nested = NestedValues::new(&strings, input_bytes);
    let mut data = Data::default();
    object(json, |json, key| match key {
        "resourceProfiles" => json.array(|json| read_resource(&mut data, json, &nested, left_out)),
        "dictionary" => read_dictionary(&mut data.dictionary, json, &nested),
        _ => json.skip(),
    })?;
    nested.warn(warnings);
    data.dictionary.strings = strings;
    Ok(data)
}

fn read_strings<'a>(json: &mut Json<'a>) -> Result<Vec<Cow<'a, str>>> {
    let mut strings = Vec::new();
    object(json, |json, key| match key {
        "dictionary" => object(json, |json, key| match key {
            "stringTable" => json.array(|json| {
                strings.push(json.text()?);
                Ok(())
            }),
            _ => json.skip(),
        }),
        _ => json.skip(),
    })?;
    Ok(strings)
}

/// Reads an object whose keys are given in lower camel case, however they are written.
fn object<'a>(json: &mut Json<'a>, mut each: impl FnMut(&mut Json<'a>, &str) -> Result<()>) -> Result<()> {
    json.object(|json, key| if key.contains('_') { each(json, &camel(key)) } else { each(json, key) })
}

fn camel(key: &str) -> String {
    let mut words = key.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut characters = word.chars();
        camel.extend(characters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(characters.as_str());
    }
    camel
}

/// A whole number, perhaps as a text.
fn integer(json: &mut Json<'_>) -> Result<i64> {
    if json.kind()? != Kind::Text {
        return json.integer();
    }
    let text = json.text()?;
    let number = text.parse::<i64>().ok().or_else(|| text.parse::<u64>().ok().map(|number| number as i64));
    number.ok_or_else(|| json.wrong(format!("{text:?} is no number of 64 bits")))
}

fn integers(json: &mut Json<'_>, mut each: impl FnMut(i64)) -> Result<()> {
    json.array(|json| {
        each(integer(json)?);
        Ok(())
    })
}

fn read_resource<'a>(
    data: &mut Data<'a>,
    json: &mut Json<'a>,
    nested: &NestedValues<'_>,
    left_out: &mut LeftOut,
) -> Result<()> {
    let (start, first) = (data.resources.len(), data.profiles.len());
    object(json, |json, key| match key {
        "resource" => object(json, |json, key| match key {
            "attributes" => json.array(|json| push_pair(&mut data.resources, json, nested)),
            _ => json.skip(),
        }),
        "scopeProfiles" => json.array(|json| read_scope_profiles(data, json, nested, left_out)),
        _ => json.skip(),
    })?;
    let resource = Span::since(start, &data.resources);
    data.profiles[first..].iter_mut().for_each(|profile| profile.resource = resource);
    Ok(())
}

fn read_scope_profiles<'a>(
    data: &mut Data<'a>,
    json: &mut Json<'a>,
    nested: &NestedValues<'_>,
    left_out: &mut LeftOut,
) -> Result<()> {
    let (start, first) = (data.scopes.len(), data.profiles.len());
    object(json, |json, key| match key {
        "scope" => object(json, |json, key| {
            match key {
                "name" => push_text(&mut data.scopes, SCOPE_NAME, json.text()?),
                "version" => push_text(&mut data.scopes, SCOPE_VERSION, json.text()?),
                "attributes" => json.array(|json| push_pair(&mut data.scopes, json, nested))?,
                _ => json.skip()?,
            }
            Ok(())
        }),
        "profiles" => json.array(|json| read_profile(data, json, left_out)),
        _ => json.skip(),
    })?;
    let scope = Span::since(start, &data.scopes);
    data.profiles[first..].iter_mut().for_each(|profile| profile.scope = scope);
    Ok(())
}

fn push_pair<'a>(pairs: &mut Vec<Pair<'a>>, json: &mut Json<'a>, nested: &NestedValues<'_>) -> Result<()> {
    let mut pair = (Value::None, Value::None);
    object(json, |json, key| {
        match key {
            "key" => pair.0 = Value::Text(json.text()?),
            "keyStrindex" => pair.0 = Value::String(integer(json)?),
            "value" => pair.1 = read_value(json, nested)?,
            _ => json.skip()?,
        }
        Ok(())
    })?;
    pairs.push(pair);
    Ok(())
}

fn read_profile(data: &mut Data<'_>, json: &mut Json<'_>, left_out: &mut LeftOut) -> Result<()> {
    let mut profile = OtlpProfile::default();
    let (start, first) = (data.samples.len(), data.profile_attributes.len());
    object(json, |json, key| {
        match key {
            "sampleType" => profile.sample_type = read_value_type(json)?,
            // The older spelling is that of protobuf before 1.8.
            "samples" | "sample" => json.records(left_out, |json| {
                let sample = read_sample(&mut data.sample_attributes, json)?;
                data.samples.push(sample);
                Ok(())
            })?,
            "timeUnixNano" => profile.time = integer(json)?,
            "durationNano" => profile.duration = integer(json)?,
            "periodType" => profile.period_type = read_value_type(json)?,
            "period" => profile.period = integer(json)?,
            "attributeIndices" => integers(json, |number| data.profile_attributes.push(number))?,
            _ => json.skip()?,
        }
        Ok(())
    })?;
    profile.samples = Span::since(start, &data.samples);
    profile.attributes = Span::since(first, &data.profile_attributes);
    data.profiles.push(profile);
    Ok(())
}

fn read_value_type(json: &mut Json<'_>) -> Result<ValueType> {
    let mut kind = ValueType::default();
    object(json, |json, key| {
        match key {
            "typeStrindex" => kind.kind = integer(json)?,
            "unitStrindex" => kind.unit = integer(json)?,
            _ => json.skip()?,
        }
        Ok(())
    })?;
    Ok(kind)
}

fn read_sample(attributes: &mut Vec<i64>, json: &mut Json<'_>) -> Result<Sample> {
    let mut sample = Sample::default();
    let start = attributes.len();
    object(json, |json, key| {
        match key {
            "stackIndex" => sample.stack = integer(json)?,
            "attributeIndices" => integers(json, |number| attributes.push(number))?,
            "linkIndex" => sample.link = integer(json)?,
            "values" => integers(json, |number| sample.value = Some(sample.value.unwrap_or(0).saturating_add(number)))?,
            "timestampsUnixNano" => integers(json, |_| sample.timestamps += 1)?,
            _ => json.skip()?,
        }
        Ok(())
    })?;
    sample.attributes = Span::since(start, attributes);
    Ok(sample)
}

fn read_dictionary<'a>(dictionary: &mut Dictionary<'a>, json: &mut Json<'a>, nested: &NestedValues<'_>) -> Result<()> {
    object(json, |json, key| match key {
        "mappingTable" => json.array(|json| {
            let mapping = read_mapping(&mut dictionary.mapping_attributes, json)?;
            dictionary.mappings.push(mapping);
            Ok(())
        }),
        "locationTable" => json.array(|json| {
            let location = read_location(&mut dictionary.lines, json)?;
            dictionary.locations.push(location);
            Ok(())
        }),
        "functionTable" => json.array(|json| {
            dictionary.functions.push(read_function(json)?);
            Ok(())
        }),
        "linkTable" => json.array(|json| {
            dictionary.links.push(read_link(json)?);
            Ok(())
        }),
        "attributeTable" => json.array(|json| {
            dictionary.attributes.push(read_attribute(json, nested)?);
            Ok(())
        }),
        "stackTable" => json.array(|json| {
            let start = dictionary.stack_locations.len();
            object(json, |json, key| match key {
                "locationIndices" => integers(json, |number| dictionary.stack_locations.push(number)),
                _ => json.skip(),
            })?;
            dictionary.stacks.push(Span::since(start, &dictionary.stack_locations));
            Ok(())
        }),
        // Strings are read before all else.
        _ => json.skip(),
    })
}

fn read_link(json: &mut Json<'_>) -> Result<Link> {
    let mut link = Link::default();
    object(json, |json, key| {
        match key {
            "traceId" => link.trace = hexadecimal(json)?,
            "spanId" => link.span = hexadecimal(json)? as u64,
            _ => json.skip()?,
        }
        Ok(())
    })?;
    Ok(link)
}

fn hexadecimal(json: &mut Json<'_>) -> Result<u128> {
    let text = json.text()?;
    let number = if text.is_empty() { Some(0) } else { u128::from_str_radix(&text, 16).ok() };
    number.ok_or_else(|| json.wrong(format!("{text:?} is no id in hexadecimal digits")))
}

fn read_mapping(attributes: &mut Vec<i64>, json: &mut Json<'_>) -> Result<Mapping> {
    let mut mapping = Mapping::default();
    let start = attributes.len();
    object(json, |json, key| {
        match key {
            "memoryStart" => mapping.start = integer(json)? as u64,
            "memoryLimit" => mapping.limit = integer(json)? as u64,
            "fileOffset" => mapping.offset = integer(json)? as u64,
            "filenameStrindex" => mapping.file = integer(json)?,
            "attributeIndices" => integers(json, |number| attributes.push(number))?,
            _ => json.skip()?,
        }
        Ok(())
    })?;
    mapping.attributes = Span::since(start, attributes);
    Ok(mapping)
}

fn read_location(lines: &mut Vec<Line>, json: &mut Json<'_>) -> Result<Location> {
    let mut location = Location::default();
    let start = lines.len();
    object(json, |json, key| {
        match key {
            "mappingIndex" => location.mapping = integer(json)?,
            "address" => location.address = integer(json)? as u64,
            "lines" | "line" => json.array(|json| {
                let mut line = Line::default();
                object(json, |json, key| {
                    match key {
                        "functionIndex" => line.function = integer(json)?,
                        "line" => line.line = integer(json)?,
                        "column" => line.column = integer(json)?,
                        _ => json.skip()?,
                    }
                    Ok(())
                })?;
                lines.push(line);
                Ok(())
            })?,
            _ => json.skip()?,
        }
        Ok(())
    })?;
    location.lines = Span::since(start, lines);
    Ok(location)
}

fn read_function(json: &mut Json<'_>) -> Result<Function> {
    let mut function = Function::default();
    object(json, |json, key| {
        match key {
            "nameStrindex" => function.name = integer(json)?,
            "systemNameStrindex" => function.system_name = integer(json)?,
            "filenameStrindex" => function.file = integer(json)?,
            "startLine" => function.start_line = integer(json)?,
            _ => json.skip()?,
        }
        Ok(())
    })?;
    Ok(function)
}

fn read_attribute<'a>(json: &mut Json<'a>, nested: &NestedValues<'_>) -> Result<Attribute<'a>> {
    let mut attribute = Attribute::default();
    object(json, |json, key| {
        match key {
            "keyStrindex" => attribute.key = integer(json)?,
            "value" => attribute.value = read_value(json, nested)?,
            "unitStrindex" => attribute.unit = integer(json)?,
            _ => json.skip()?,
        }
        Ok(())
    })?;
    Ok(attribute)
}

fn read_value<'a>(json: &mut Json<'a>, nested: &NestedValues<'_>) -> Result<Value<'a>> {
    let mut value = Value::None;
    object(json, |json, key| {
        match key {
            "stringValue" => value = Value::Text(json.text()?),
            "boolValue" => value = Value::Text(Cow::Borrowed(if json.boolean()? { "true" } else { "false" })),
            "doubleValue" => value = Value::Text(float(json)?),
            "bytesValue" => value = Value::Text(json.text()?),
            "arrayValue" | "kvlistValue" => {
                let mut text = NestedText::new(nested);
                push_nested(&mut text, key, json)?;
                value = text.finish().map_err(|what| json.wrong(what))?;
            }
            "intValue" => value = Value::Number(integer(json)?),
            "stringValueStrindex" => value = Value::String(integer(json)?),
            _ => json.skip()?,
        }
        Ok(())
    })?;
    Ok(value)
}

/// A number with a fraction, perhaps as a text: `NaN`, `Infinity` and `-Infinity` have no other form.
fn float<'a>(json: &mut Json<'a>) -> Result<Cow<'a, str>> {
    if json.kind()? == Kind::Text { json.text() } else { Ok(float_text(json.number()?).into()) }
}

/// Writes the member of a value inside of an array or a map, or that of the outermost.
fn push_nested(text: &mut NestedText<'_, '_>, key: &str, json: &mut Json<'_>) -> Result<()> {
    match key {
        "stringValue" | "bytesValue" => text.text(&json.text()?),
        "boolValue" => text.word(if json.boolean()? { "true" } else { "false" }),
        "intValue" => text.word(&integer(json)?.to_string()),
        "doubleValue" => {
            let number = float(json)?;
            if number.parse().is_ok_and(f64::is_finite) { text.word(&number) } else { text.text(&number) }
        }
        "stringValueStrindex" => text.string(integer(json)?, "null"),
        "arrayValue" => {
            text.open('[').map_err(|what| json.wrong(what))?;
            values(json, |json| {
                text.separate().map_err(|what| json.wrong(what))?;
                push_value(text, json)
            })?;
            text.close(']');
        }
        "kvlistValue" => {
            text.open('{').map_err(|what| json.wrong(what))?;
            values(json, |json| {
                text.separate().map_err(|what| json.wrong(what))?;
                push_nested_pair(text, json)
            })?;
            text.close('}');
        }
        _ => json.skip()?,
    }
    Ok(())
}

/// Hands each of the `values` of an array or a map to `each`.
fn values<'a>(json: &mut Json<'a>, mut each: impl FnMut(&mut Json<'a>) -> Result<()>) -> Result<()> {
    object(json, |json, key| match key {
        "values" => json.array(&mut each),
        _ => json.skip(),
    })
}

/// Writes a value, of whose members the last one counts.
fn push_value(text: &mut NestedText<'_, '_>, json: &mut Json<'_>) -> Result<()> {
    let mut member = None;
    object(json, |json, key| {
        member = Some((key.to_owned(), json.later()?));
        Ok(())
    })?;
    match member {
        Some((key, mut value)) => push_nested(text, &key, &mut value),
        None => {
            text.word("null");
            Ok(())
        }
    }
}

fn push_nested_pair(text: &mut NestedText<'_, '_>, json: &mut Json<'_>) -> Result<()> {
    let (mut key, mut value) = (None, None);
    object(json, |json, name| {
        match name {
            "key" => key = Some(Value::Text(json.text()?)),
            "keyStrindex" => key = Some(Value::String(integer(json)?)),
            "value" => value = Some(json.later()?),
            _ => json.skip()?,
        }
        Ok(())
    })?;
    match key {
        Some(Value::String(index)) => text.string(index, "\"\""),
        Some(Value::Text(key)) => text.text(&key),
        _ => text.text(""),
    }
    text.colon();
    match value {
        Some(mut value) => push_value(text, &mut value),
        None => {
            text.word("null");
            Ok(())
        }
    }
}
