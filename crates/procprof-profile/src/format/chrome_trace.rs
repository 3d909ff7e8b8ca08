//! Chrome's trace events as JSON: calls that begin and end, and samples of V8's profiler.
//!
//! ```text
//! {"traceEvents":[{"name":"thread_name","ph":"M","pid":7,"tid":8,"args":{"name":"main"}},
//!  {"name":"work","ph":"X","pid":7,"tid":8,"ts":10.5,"dur":3},{"name":"f","ph":"B","pid":7,"tid":8,"ts":20},{"ph":"E","pid":7,"tid":8,"ts":25},
//!  {"name":"Profile","ph":"P","id":"0x1","pid":7,"tid":8,"ts":1,"args":{"data":{"startTime":1}}},
//!  {"name":"ProfileChunk","ph":"P","id":"0x1","pid":7,"tid":9,"ts":2,"args":{"data":{"cpuProfile":{"nodes":[…],"samples":[3]},"timeDeltas":[100]}}}]}
//! ```
//! or the array alone, whose end may be missing. Beside the events there may be samples of other profilers (Hermes of
//! React Native), each with the innermost of its frames, by its key:
//!
//! ```text
//! {"traceEvents":[…],"samples":[{"ts":"1000","pid":7,"tid":"8","weight":"1","sf":2}],
//!  "stackFrames":{"1":{"name":"main"},"2":{"name":"work","parent":1,"line":"3","column":"1","funcLine":"1"}}}
//! ```
//! Times are microseconds. There are up to three profiles: `samples` of V8 (see [`super::cpuprofile`]), first if there
//! are any; `frames`, those with `sf`, each as long as to the next of its thread; and `calls`, the time that each call
//! took less the calls within it (`wall`), of the phases `B`, `E` and `X`. Their labels are `thread`, `tid` and `pid`.
//! Calls of one thread that overlap without one being within the other are cut where the other begins. Other phases,
//! such as asynchronous events and counters, are passed over. `args` with `filename` and `line`, as py-spy writes them,
//! are the place of a call.
//!
//! Format: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>

use foldhash::HashMap;

use super::call_tree::{self, CallTree, Frame, Labels, NodeId};
use super::json::{self, Json, Kind};
use super::left_out::LeftOut;
use super::{Detect, Event, Format, Limits, cpuprofile, events};
use crate::{Error, LocationId, Profile, Result};

mod calls;
mod frames;
mod samples;

use calls::Calls;
use frames::FrameSamples;
use samples::Samples;

/// Name of the format.
pub const NAME: &str = "chrome-trace";

/// The row of the format table.
pub(super) const FORMAT: Format = Format {
    name: NAME,
    help: "Chrome's trace events, JSON",
    detect,
    decode,
    events: Some(decode_events),
    encode: None,
};

/// Phases of instants, counters, asynchronous events, flows, objects, marks, memory dumps, clocks, contexts and links.
const PHASES_WITHOUT_CALLS: [&str; 26] = [
    "i", "I", "R", "C", "b", "n", "e", "a", "S", "T", "p", "F", "s", "t", "f", "N", "O", "D", "V", "v", "c", "(", ")",
    "=", "L", "",
];

/// Whether the bytes are trace events, by the first of them.
pub fn detect(bytes: &[u8]) -> Detect {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    match text.first() {
        Some(b'[') if json::any_has_key(Json::new(NAME, bytes), "ph") => Detect::Yes,
        // Whether it is cut in the first event is seen by its last byte.
        Some(b'[') if text.len() < 2 => Detect::NeedMore,
        Some(b'[') => Detect::No,
        _ => json::detect(bytes, json::Form::ChromeTrace),
    }
}

/// Decodes the first profile.
///
/// # Errors
/// As [`decode_events`].
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let events = decode_events(bytes, limits, warnings)?;
    events::first(NAME, events, warnings)
}

/// Decodes the samples of V8 and the calls, as far as there are any.
///
/// # Errors
/// [`Error::Malformed`] and [`Error::Truncated`] with the place, also for events of which none is a call or a sample,
/// [`Error::TooLarge`] past the limits.
pub fn decode_events(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Vec<Event>> {
    let mut json = Json::new(NAME, bytes);
    let mut trace = Trace::new(bytes.len(), limits);
    if json.kind()? == Kind::Array {
        trace.read_array(&mut json, warnings)?;
    } else {
        let [events, samples, frames] = json.fields(["traceEvents", "samples", "stackFrames"])?;
        json.end(warnings);
        let mut left_out = LeftOut::default();
        if let Some(mut events) = events {
            events.records(&mut left_out, |json| trace.read_event(json))?;
        }
        if let (Some(samples), Some(frames)) = (samples, frames) {
            trace.frames.read(samples, frames, &mut trace.threads, &mut left_out)?;
        }
        trace.left_out.append(left_out);
    }
    let Trace { threads, calls, samples, frames, mut left_out } = trace;
    let events = [
        ("samples", samples.finish(&threads, &mut left_out)?),
        ("frames", frames.finish(&threads)?),
        ("calls", calls.finish(&threads, warnings)?),
    ];
    let events = events.into_iter().filter(|(_, profile)| profile.sample_count() > 0);
    let events: Vec<Event> = events.map(|(name, profile)| Event { name: name.to_owned(), profile }).collect();
    left_out.end(NAME, events.is_empty(), warnings)?;
    if events.is_empty() {
        return Err(json.wrong("no calls and no samples of V8 among the events"));
    }
    Ok(events)
}

/// The threads of a trace, numbered as they come.
#[derive(Default)]
struct Threads {
    known: HashMap<(Box<str>, Box<str>), u32>,
    /// Process, thread and name of each.
    all: Vec<(Box<str>, Box<str>, Box<str>)>,
}

impl Threads {
    fn number(&mut self, pid: &str, tid: &str) -> u32 {
        *self.known.entry((pid.into(), tid.into())).or_insert_with(|| {
            self.all.push((pid.into(), tid.into(), "".into()));
            self.all.len() as u32 - 1
        })
    }

    fn labels(&self, thread: u32, tree: &mut CallTree) -> Labels {
        let (pid, tid, name) = &self.all[thread as usize];
        let mut labels = Vec::new();
        if !name.is_empty() {
            labels.push(tree.builder.text_label("thread", name));
        }
        for (key, word) in [("tid", tid), ("pid", pid)] {
            match word.parse() {
                Ok(number) => labels.push(tree.builder.number_label(key, number, "")),
                Err(_) if word.is_empty() => {}
                Err(_) => labels.push(tree.builder.text_label(key, word)),
            }
        }
        tree.labels(&labels)
    }
}

struct Trace {
    threads: Threads,
    calls: Calls,
    samples: Samples,
    frames: FrameSamples,
    left_out: LeftOut,
}

impl Trace {
    fn new(input_bytes: usize, limits: &Limits) -> Trace {
        let tree = |types: &[(&str, &str)]| CallTree::new(NAME, types, input_bytes, limits);
        let calls = Calls::new(tree(&[("wall", "nanoseconds")]));
        Trace {
            threads: Threads::default(),
            calls,
            samples: Samples::new(tree(cpuprofile::TYPES)),
            frames: FrameSamples::new(tree(cpuprofile::TYPES)),
            left_out: LeftOut::default(),
        }
    }

    /// Reads events up to the end of the array or of the text: who writes a trace may never come to its end.
    fn read_array(&mut self, json: &mut Json<'_>, warnings: &mut Vec<String>) -> Result<()> {
        let mut elements = json.elements()?;
        let mut count = 0;
        let read = loop {
            match elements.next(json) {
                // A comma may precede the end.
                Ok(true) if count > 0 && json.is_done() => return Ok(()),
                Ok(true) => {}
                Ok(false) => {
                    json.end(warnings);
                    return Ok(());
                }
                Err(Error::Truncated { .. }) => return Ok(()),
                Err(error) => break Err(error),
            }
            let event = *json;
            let read = self.read_event(json);
            match self.left_out.keep(read) {
                Ok(Some(())) => {}
                Ok(None) => {
                    *json = event;
                    json.skip()?;
                }
                Err(error) => break Err(error),
            }
            count += 1;
        };
        match read {
            Err(Error::Truncated { .. }) if count > 0 => {
                warnings.push(format!("{NAME}: the input ends inside event {}, which is left out", count + 1));
                Ok(())
            }
            read => read,
        }
    }

    fn read_event(&mut self, json: &mut Json<'_>) -> Result<()> {
        let [phase, name, pid, tid, time, duration, id, args] =
            json.fields(["ph", "name", "pid", "tid", "ts", "dur", "id", "args"])?;
        let Some(mut phase) = phase else { return Ok(()) };
        let phase = phase.text()?;
        if !matches!(&*phase, "B" | "E" | "X" | "M" | "P") {
            let is_known = PHASES_WITHOUT_CALLS.contains(&&*phase);
            return if is_known { Ok(()) } else { Err(json.wrong(format!("an event of the phase {phase:?}"))) };
        }
        let name = name.map_or(Ok(String::new()), |json| word(json))?;
        let (pid, tid) = (pid.map_or(Ok(String::new()), word)?, tid.map_or(Ok(String::new()), word)?);
        let thread = self.threads.number(&pid, &tid);
        let nanos = |json: Option<Json<'_>>| {
            json.map(|json| number(json).map(|micros| (micros * 1e3).round() as i64)).transpose()
        };
        match &*phase {
            "M" if name == "thread_name" => {
                self.threads.all[thread as usize].2 =
                    args.map_or(Ok(String::new()), |args| text_field(args, "name"))?.into()
            }
            "M" => {}
            "P" if name == "Profile" || name == "ProfileChunk" => {
                let key = (pid, id.map_or(Ok(String::new()), word)?);
                self.samples.read(key, (name == "Profile").then_some(thread), thread, args)?;
            }
            "P" => {}
            _ => {
                let Some(time) = nanos(time)? else { return Ok(()) };
                let frame = self.calls.frame(&name, args)?;
                match &*phase {
                    "B" => self.calls.begin(thread, time, frame),
                    "E" => self.calls.end(thread, time),
                    _ => self.calls.complete(thread, time, nanos(duration)?.unwrap_or(0), frame),
                }
            }
        }
        Ok(())
    }
}

/// A text, or a number as it is written.
fn word(mut json: Json<'_>) -> Result<String> {
    match json.kind()? {
        Kind::Text => json.text().map(Into::into),
        Kind::Number => json.number_word().map(str::to_owned),
        _ => Ok(String::new()),
    }
}

/// A number, perhaps as a text.
fn number(mut json: Json<'_>) -> Result<f64> {
    if json.kind()? == Kind::Text {
        let text = json.text()?;
        return text.parse().map_err(|_| json.wrong(format!("{text:?} is no number")));
    }
    json.number()
}

fn text_field(mut json: Json<'_>, key: &str) -> Result<String> {
    match json.kind()? {
        Kind::Object => json.fields([key])?[0].map_or(Ok(String::new()), word),
        _ => Ok(String::new()),
    }
}

#[cfg(test)]
mod tests;
