//! speedscope's own format: JSON with a table of frames and profiles that are samples or begin and end calls.
//!
//! ```text
//! {"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":[{"name":"main","file":"m.c","line":3},{"name":"work"}]},
//!  "profiles":[{"type":"sampled","name":"Thread 1","unit":"seconds","startValue":0,"endValue":1,"samples":[[0,1]],"weights":[0.01]},
//!              {"type":"evented","name":"b","unit":"none","startValue":0,"endValue":9,
//!               "events":[{"type":"O","frame":0,"at":0},{"type":"C","frame":0,"at":9}]}]}
//! ```
//! A file may hold several profiles: each is an event under its name, the active one first. Where all are named as
//! threads (py-spy, Austin), they are one profile whose samples have the label `thread`. Times become nanoseconds and
//! bytes stay bytes: `wall` and `space`, or the profile's name where that is one word of small letters, as [`encode`]
//! writes it; without a unit they are counts, `samples`.
//!
//! [`encode`] writes a sampled profile for each sample type. Addresses, labels and mappings have no place in the
//! format. Format: <https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources>

use foldhash::HashMap;

use super::call_tree::{self, CallTree, Labels, UNLABELLED};
use super::json::{self, Column, Json};
use super::left_out::LeftOut;
use super::{Detect, Event, Format, Limits, events};
use crate::{LocationId, Nanos, Profile, Result};

mod encode;

pub use encode::encode;

/// Name of the format.
pub const NAME: &str = "speedscope";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: "speedscope's JSON", detect, decode, events: Some(decode_events), encode: Some(encode) };

/// Whether the bytes are a file of speedscope, by its schema, its frames or its first profile.
pub fn detect(bytes: &[u8]) -> Detect {
    json::detect(bytes, json::Form::Speedscope)
}

/// Decodes the active profile.
///
/// # Errors
/// As [`decode_events`].
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let events = decode_events(bytes, limits, warnings)?;
    events::first(NAME, events, warnings)
}

/// Decodes all profiles, the active one first.
///
/// # Errors
/// [`crate::Error::Malformed`] and [`crate::Error::Truncated`] with the place, [`crate::Error::TooLarge`] past the
/// limits.
pub fn decode_events(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Vec<Event>> {
    let mut json = Json::new(NAME, bytes);
    let [shared, profiles, active] = json.fields(["shared", "profiles", "activeProfileIndex"])?;
    json.end(warnings);
    let [frames] = shared.ok_or_else(|| json.wrong("no \"shared\""))?.fields(["frames"])?;
    let file = File {
        frames: places(frames.ok_or_else(|| json.wrong("no \"shared\".\"frames\""))?)?,
        bytes: bytes.len(),
        limits: *limits,
    };
    let (mut all, mut left_out) = (Vec::new(), LeftOut::default());
    profiles.ok_or_else(|| json.wrong("no \"profiles\""))?.records(&mut left_out, |json| {
        all.push(Header::read(json)?);
        if all.len() > events::EVENTS_MAX {
            return Err(crate::Error::TooLarge {
                format: NAME,
                what: "the number of profiles",
                limit: events::EVENTS_MAX as u64,
            });
        }
        Ok(())
    })?;
    if are_threads(&all) {
        let profile = file.threads(&all, &mut left_out, warnings)?;
        left_out.end(NAME, profile.sample_count() == 0, warnings)?;
        return Ok(vec![Event { name: "threads".to_owned(), profile }]);
    }
    let active = active.map_or(Ok(None), |mut json| json.index())?.filter(|index| *index < all.len());
    all[..active.map_or(0, |active| active + 1)].rotate_right(usize::from(active.is_some()));
    let mut events: Vec<Event> = Vec::new();
    for header in &all {
        let profile = file.profile(header, &mut left_out, warnings)?;
        let name = events::distinct(&events, &header.name);
        events.push(Event { name, profile });
    }
    left_out.end(NAME, events.iter().all(|event| event.profile.sample_count() == 0), warnings)?;
    Ok(events)
}

/// The places of the elements of an array.
fn places<'a>(mut json: Json<'a>) -> Result<Vec<Json<'a>>> {
    let mut places = Vec::new();
    json.array(|json| {
        places.push(json.later()?);
        Ok(())
    })?;
    Ok(places)
}

/// A profile, its samples not read yet.
struct Header<'a> {
    name: String,
    unit: Unit,
    start: f64,
    end: f64,
    body: Body<'a>,
}

enum Body<'a> {
    Sampled { samples: Json<'a>, weights: Json<'a> },
    Evented(Json<'a>),
}

impl<'a> Header<'a> {
    fn read(json: &mut Json<'a>) -> Result<Header<'a>> {
        let fields = json.fields(["type", "name", "unit", "startValue", "endValue", "samples", "weights", "events"])?;
        let [kind, name, unit, start, end, samples, weights, events] = fields;
        let missing = |what: &str| json.wrong(format!("a profile without {what:?}"));
        let kind = kind.ok_or_else(|| missing("type"))?.text()?;
        let body = match &*kind {
            "sampled" => Body::Sampled {
                samples: samples.ok_or_else(|| missing("samples"))?,
                weights: weights.ok_or_else(|| missing("weights"))?,
            },
            "evented" => Body::Evented(events.ok_or_else(|| missing("events"))?),
            other => {
                return Err(json.wrong(format!("a profile of the type {other:?}: expected \"sampled\" or \"evented\"")));
            }
        };
        let mut unit = unit.ok_or_else(|| missing("unit"))?;
        let spelled = unit.text()?;
        let unit = Unit::named(&spelled).ok_or_else(|| unit.wrong(format!("an unknown unit {spelled:?}")))?;
        let number = |json: Option<Json<'_>>| json.map_or(Ok(0.0), |mut json| json.number());
        let name = name.map_or(Ok(String::new()), |mut json| json.text().map(Into::into))?;
        Ok(Header { name, unit, start: number(start)?, end: number(end)?, body })
    }

    /// The one sample type.
    fn sample_type(&self) -> (&str, &'static str) {
        let is_word = !self.name.is_empty() && self.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        (if is_word { &self.name } else { self.unit.kind }, self.unit.unit)
    }

    fn duration(&self) -> Nanos {
        Nanos(if self.unit.unit == "nanoseconds" {
            self.unit.value(self.end).saturating_sub(self.unit.value(self.start)).max(0)
        } else {
            0
        })
    }
}

/// Whether the profiles are of several threads of one recording.
fn are_threads(all: &[Header<'_>]) -> bool {
    let is_thread = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.contains("thread") || name.contains("tid ")
    };
    let is_same = |header: &Header<'_>| {
        header.unit == all[0].unit && matches!(header.body, Body::Evented(_)) == matches!(all[0].body, Body::Evented(_))
    };
    all.len() > 1 && all.iter().all(|header| is_thread(&header.name) && is_same(header))
}

/// A unit of speedscope: what is made of it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Unit {
    name: &'static str,
    kind: &'static str,
    unit: &'static str,
    factor: f64,
}

const UNITS: [Unit; 6] = [
    Unit { name: "none", kind: "samples", unit: "count", factor: 1.0 },
    Unit { name: "nanoseconds", kind: "wall", unit: "nanoseconds", factor: 1.0 },
    Unit { name: "microseconds", kind: "wall", unit: "nanoseconds", factor: 1e3 },
    Unit { name: "milliseconds", kind: "wall", unit: "nanoseconds", factor: 1e6 },
    Unit { name: "seconds", kind: "wall", unit: "nanoseconds", factor: 1e9 },
    Unit { name: "bytes", kind: "space", unit: "bytes", factor: 1.0 },
];

impl Unit {
    fn named(name: &str) -> Option<Unit> {
        UNITS.into_iter().find(|unit| unit.name == name)
    }

    fn value(self, number: f64) -> i64 {
        (number * self.factor).round() as i64
    }
}

/// The data shared by all profiles of a file.
struct File<'a> {
    frames: Vec<Json<'a>>,
    bytes: usize,
    limits: Limits,
}

impl File<'_> {
    fn tree(&self, header: &Header<'_>) -> Reader<'_> {
        let tree = CallTree::new(NAME, &[header.sample_type()], self.bytes, &self.limits);
        Reader { file: self, tree, locations: HashMap::default() }
    }

    fn profile(&self, header: &Header<'_>, left_out: &mut LeftOut, warnings: &mut Vec<String>) -> Result<Profile> {
        let mut reader = self.tree(header);
        reader.read(header, UNLABELLED, left_out, warnings)?;
        reader.tree.builder.time(Nanos(0), header.duration());
        reader.tree.finish()
    }

    fn threads(&self, all: &[Header<'_>], left_out: &mut LeftOut, warnings: &mut Vec<String>) -> Result<Profile> {
        let mut reader = self.tree(&all[0]);
        for header in all {
            let label = reader.tree.builder.text_label("thread", &header.name);
            let labels = reader.tree.labels(&[label]);
            reader.read(header, labels, left_out, warnings)?;
        }
        let longest = all.iter().map(Header::duration).max().unwrap_or_default();
        reader.tree.builder.time(Nanos(0), longest);
        reader.tree.finish()
    }
}

struct Reader<'a> {
    file: &'a File<'a>,
    tree: CallTree,
    /// Of frames seen so far, by their place in the table.
    locations: HashMap<usize, LocationId>,
}

impl Reader<'_> {
    fn read(
        &mut self,
        header: &Header<'_>,
        labels: Labels,
        left_out: &mut LeftOut,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        match &header.body {
            Body::Sampled { samples, weights } => self.read_samples(*samples, *weights, header.unit, labels, left_out),
            Body::Evented(events) => self.read_events(*events, header, labels, left_out, warnings),
        }
    }

    fn read_samples(
        &mut self,
        mut samples: Json<'_>,
        weights: Json<'_>,
        unit: Unit,
        labels: Labels,
        left_out: &mut LeftOut,
    ) -> Result<()> {
        let mut weights = Column::new(weights)?;
        samples.records(left_out, |json| {
            let weight = weights.next()?;
            let mut node = call_tree::ROOT;
            json.array(|json| {
                let frame = self.frame(json)?;
                node = self.tree.child(node, frame)?;
                Ok(())
            })?;
            let Some(mut weight) = weight else { return Err(json.wrong("a sample without a weight")) };
            self.tree.add(node, labels, &[unit.value(weight.number()?)]);
            Ok(())
        })?;
        weights.end("a weight without a sample", left_out)
    }

    /// Reads calls that begin and end; what passes between two of them is of the stack that is open.
    fn read_events(
        &mut self,
        mut json: Json<'_>,
        header: &Header<'_>,
        labels: Labels,
        left_out: &mut LeftOut,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let (mut open, mut last) = (vec![(call_tree::ROOT, LocationId(0))], header.unit.value(header.start));
        json.records(left_out, |json| {
            let [kind, frame, at] = json.fields(["type", "frame", "at"])?;
            let (Some(mut kind), Some(mut frame), Some(mut at)) = (kind, frame, at) else {
                return Err(json.wrong("an event without \"type\", \"frame\" or \"at\""));
            };
            let (kind, frame, now) = (kind.text()?, self.frame(&mut frame)?, header.unit.value(at.number()?));
            let (node, innermost) = open[open.len() - 1];
            if now < last {
                return Err(at.wrong("an event before the one that it stands behind"));
            }
            let inner = match &*kind {
                "O" => Some((self.tree.child(node, frame)?, frame)),
                "C" if node != call_tree::ROOT && innermost == frame => None,
                "C" => return Err(at.wrong("the end of a frame that is not the innermost")),
                other => return Err(json.wrong(format!("an event of the type {other:?}: expected \"O\" or \"C\""))),
            };
            if node != call_tree::ROOT && now > last {
                self.tree.add(node, labels, &[now.saturating_sub(last)]);
            }
            last = now;
            match inner {
                Some(inner) => open.push(inner),
                None => drop(open.pop()),
            }
            Ok(())
        })?;
        let (node, _) = open[open.len() - 1];
        if node != call_tree::ROOT {
            warnings.push(format!(
                "{NAME}: {:?} ends with {} frames open, which are taken to end with it",
                header.name,
                open.len() - 1
            ));
            self.tree.add(node, labels, &[header.unit.value(header.end).saturating_sub(last).max(0)]);
        }
        Ok(())
    }

    /// The frame with the number at the current place.
    fn frame(&mut self, json: &mut Json<'_>) -> Result<LocationId> {
        let index = json.index()?.unwrap_or(usize::MAX);
        if let Some(id) = self.locations.get(&index) {
            return Ok(*id);
        }
        let Some(mut place) = self.file.frames.get(index).copied() else {
            return Err(json.wrong(format!("a frame that the table of {} has not", self.file.frames.len())));
        };
        let id = self.tree.read_frame(&mut place, ["name", "file", "line", "col"])?;
        self.locations.insert(index, id);
        Ok(id)
    }
}

#[cfg(test)]
mod tests;
