//! Profiles of OpenTelemetry, as protobuf or as JSON: `ProfilesData`, or the request that sends them, of
//! `profiles/v1development`.
//!
//! ```text
//! ProfilesData      1 resource_profiles* 2 dictionary
//! Dictionary        1 mapping* 2 location* 3 function* 4 link* 5 string* 6 attribute* 7 stack*
//!                   entry 0 of each stands for none
//! ResourceProfiles  1 resource (1 pair*) 2 scope_profiles* (1 scope (1 name 2 version 3 pair*) 2 profile*)
//! Pair              1 key 2 value 3 key as a string of the dictionary
//! Value             1 text 2 bool 3 number 4 float 5 array (1 value*) 6 map (1 pair*) 7 bytes
//!                   8 string of the dictionary
//! Link              1 trace id 2 span id, bytes; texts of hexadecimal digits in JSON
//! Profile           1 sample_type 2 sample* 3 time_unix_nano 4 duration_nano 5 period_type 6 period 11 attribute*
//! Sample            1 stack 2 attribute* 3 link 4 value* 5 timestamp*
//! Stack             1 location*, leaf first      ValueType 1 type 2 unit      Attribute 1 key 2 value 3 unit
//! Location          1 mapping 2 address 3 line* 4 attribute*      Line 1 function 2 line 3 column
//! Mapping           1 start 2 limit 3 offset 4 file 5 attribute*  Function 1 name 2 system_name 3 file 4 start_line
//! {"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"samples":[{"stackIndex":1,"values":["3"]}]}]}]}],
//!  "dictionary":{"stackTable":[{},…]}}
//! ```
//! A file may have several messages, each with its dictionary, as the `file` exporter of the collector writes them: one
//! JSON on each line, or protobuf behind its length in 4 bytes, big-endian.
//!
//! Profiles of one sample type are one profile, whose labels are the attributes of samples, of their profile, scope and
//! resource: numbers, and texts as OpenTelemetry writes other values where there are only texts (arrays and maps as
//! JSON, bytes in base64). The name and version of a scope are `otel.scope.name` and `otel.scope.version`, the ids of a
//! link `trace_id` and `span_id`. The attribute `pprof.profile.comment` of a profile is its comments. All samples
//! together may have a number of attributes that is bounded by the input. Fields of protobuf beyond these messages'
//! last are counted in warnings. Profiles of several types are events named after them. The values of a sample are
//! added; a sample without values counts 1 for each of its timestamps, or the period where the unit is none of `count`.
//! Where the type is a count and the period has a type of its own, there is a second sample type: the count in periods.
//!
//! [`encode`] writes protobuf, a profile for each sample type. Format:
//! <https://github.com/open-telemetry/opentelemetry-proto>, version 1.9.

use std::borrow::Cow;

use self::value::Value;
use super::left_out::LeftOut;
use super::{Detect, Event, Format, Limits, events, json};
use crate::{Error, Profile, Result};

mod binary;
mod build;
mod encode;
mod text;
mod value;

pub use encode::encode;

/// Name of the format.
pub const NAME: &str = "otlp";

/// The row of the format table.
pub(super) const FORMAT: Format = Format {
    name: NAME,
    help: "OpenTelemetry's profiles, protobuf or JSON",
    detect,
    decode,
    events: Some(decode_events),
    encode: Some(encode),
};

/// The attribute of a mapping that is its build id.
const BUILD_ID: &str = "process.executable.build_id.gnu";

/// The attribute of a profile that holds its comments: an array of texts, or one text.
const COMMENT: &str = "pprof.profile.comment";

/// Labels for the name and the version of a scope, as OpenTelemetry names them in other formats.
const SCOPE_NAME: &str = "otel.scope.name";
const SCOPE_VERSION: &str = "otel.scope.version";
/// Labels for the ids of a link, as OpenTelemetry names them in other formats.
const TRACE_ID: &str = "trace_id";
const SPAN_ID: &str = "span_id";

/// Whether the bytes are profiles of OpenTelemetry: JSON by its keys, protobuf if all of it fits.
pub fn detect(bytes: &[u8]) -> Detect {
    match json::detect(bytes, json::Form::Otlp) {
        Detect::No => binary::detect(bytes),
        known => known,
    }
}

/// Decodes the profile of the first sample type.
///
/// # Errors
/// As [`decode_events`].
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let events = decode_events(bytes, limits, warnings)?;
    events::first(NAME, events, warnings)
}

/// Decodes a profile for each sample type.
///
/// # Errors
/// [`Error::Malformed`] and [`Error::Truncated`] with the place, [`Error::Invalid`] for an entry that no table has,
/// [`Error::TooLarge`] past the limits.
pub fn decode_events(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Vec<Event>> {
    // A message may begin with the bytes of a line break and a brace.
    let is_text = bytes.trim_ascii_start().first() == Some(&b'{') && binary::detect(bytes) != Detect::Yes;
    let mut left_out = LeftOut::default();
    let messages =
        if is_text { text::read(bytes, &mut left_out, warnings)? } else { binary::read_all(bytes, warnings)? };
    let events = build::build(&messages, bytes.len(), limits, &mut left_out)?;
    left_out.end(NAME, events.iter().all(|event| event.profile.sample_count() == 0), warnings)?;
    if events.is_empty() { Err(Error::invalid("OpenTelemetry data without any profile")) } else { Ok(events) }
}

/// Everything, as both encodings have it. Entries of tables are by their position.
#[derive(Default)]
struct Data<'a> {
    dictionary: Dictionary<'a>,
    /// Attributes of all resources, back to back.
    resources: Vec<Pair<'a>>,
    /// Those of all scopes.
    scopes: Vec<Pair<'a>>,
    profiles: Vec<OtlpProfile>,
    samples: Vec<Sample>,
    /// Positions of the attributes of samples, back to back.
    sample_attributes: Vec<i64>,
    /// Those of profiles.
    profile_attributes: Vec<i64>,
}

/// A key, which is a text, and its value.
type Pair<'a> = (Value<'a>, Value<'a>);

/// Adds a pair, unless its text is empty.
fn push_text<'a>(pairs: &mut Vec<Pair<'a>>, key: &'static str, text: Cow<'a, str>) {
    if !text.is_empty() {
        pairs.push((Value::Text(Cow::Borrowed(key)), Value::Text(text)));
    }
}

#[derive(Default)]
struct Dictionary<'a> {
    strings: Vec<Cow<'a, str>>,
    mappings: Vec<Mapping>,
    /// Of mappings, back to back.
    mapping_attributes: Vec<i64>,
    locations: Vec<Location>,
    lines: Vec<Line>,
    functions: Vec<Function>,
    attributes: Vec<Attribute<'a>>,
    links: Vec<Link>,
    stacks: Vec<Span>,
    /// Of stacks, back to back.
    stack_locations: Vec<i64>,
}

/// A piece of a table.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// From a position to the end of a table.
    fn since<T>(start: usize, table: &[T]) -> Span {
        Span { start: start as u32, end: table.len() as u32 }
    }

    fn slice<T>(self, table: &[T]) -> &[T] {
        &table[self.start as usize..self.end as usize]
    }
}

#[derive(Default)]
struct OtlpProfile {
    resource: Span,
    scope: Span,
    attributes: Span,
    sample_type: ValueType,
    samples: Span,
    time: i64,
    duration: i64,
    period_type: ValueType,
    period: i64,
}

#[derive(Clone, Copy, Default)]
struct ValueType {
    kind: i64,
    unit: i64,
}

#[derive(Default)]
struct Sample {
    stack: i64,
    attributes: Span,
    link: i64,
    /// The sum of all values, if there are any.
    value: Option<i64>,
    timestamps: i64,
}

#[derive(Default)]
struct Mapping {
    start: u64,
    limit: u64,
    offset: u64,
    file: i64,
    attributes: Span,
}

#[derive(Default)]
struct Location {
    mapping: i64,
    address: u64,
    lines: Span,
}

#[derive(Default)]
struct Line {
    function: i64,
    line: i64,
    column: i64,
}

#[derive(Default)]
struct Function {
    name: i64,
    system_name: i64,
    file: i64,
    start_line: i64,
}

#[derive(Default)]
struct Attribute<'a> {
    key: i64,
    value: Value<'a>,
    unit: i64,
}

/// The span of a trace that samples belong to; an id of zeros, or without bytes, is none.
#[derive(Default)]
struct Link {
    trace: u128,
    span: u64,
}

#[cfg(test)]
mod tests;
