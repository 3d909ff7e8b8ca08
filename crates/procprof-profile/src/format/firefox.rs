//! Profiles of Firefox's profiler, processed (samply, the profiler's own downloads, `perf script report gecko`) or as
//! Firefox records them.
//!
//! ```text
//! {"meta":{"interval":1,"startTime":1700000000000,"processType":0,"version":29,"preprocessedProfileVersion":49},"libs":[],
//!  "shared":{"stringArray":["main"]},
//!  "threads":[{"name":"main","pid":"7","tid":8,"samples":{"length":2,"stack":[0,1],"weight":[1,1],"weightType":"samples","timeDeltas":[0,1]},
//!    "stackTable":{"length":2,"frame":[0,1],"prefix":[null,0]},"frameTable":{"length":2,"func":[0,1],"line":[3,null],"column":[null,null]},
//!    "funcTable":{"length":2,"name":[0,1],"fileName":[null,2],"resource":[-1,0]},"stringArray":["main","work","w.c"]}]}
//! ```
//! Tables are columns; since version 56 they and the texts may be `shared` by all threads. As Firefox records them,
//! tables have a `schema` and rows: `"stackTable":{"schema":{"prefix":0,"frame":1},"data":[[null,0]]}`, and processes
//! are nested.
//!
//! The sample types are `samples`, and `wall` by `meta.interval` (milliseconds), or `cpu` where the threads have
//! `threadCPUDelta`, each delta of the stack that it ends with. With a `weightType` of bytes it is `space` alone.
//! Labels are `thread`, `tid` and `pid`. Markers, counters and categories are passed over. Format:
//! <https://github.com/firefox-devtools/profiler/blob/main/docs-developer/processed-profile-format.md>

use std::rc::Rc;

use super::call_tree::{self, CallTree, Frame, Labels, NodeId};
use super::json::{self, Json, Kind};
use super::left_out::LeftOut;
use super::{Detect, Format, Limits};
use crate::{Error, LocationId, Nanos, Profile, Result};

mod tables;

use tables::Tables;

/// Name of the format.
pub const NAME: &str = "firefox";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: "Firefox's profiler, samply", detect, decode, events: None, encode: None };

/// Whether the bytes are a profile of Firefox's profiler, by what its `meta` has.
pub fn detect(bytes: &[u8]) -> Detect {
    json::detect(bytes, json::Form::Firefox)
}

/// Decodes all threads into one profile.
///
/// # Errors
/// [`Error::Malformed`] and [`Error::Truncated`] with the place, [`Error::TooLarge`] past the limits.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut json = Json::new(NAME, bytes);
    let mut file = File { threads: Vec::new(), shared: Shared::default(), meta: Meta::default() };
    file.read(&mut json, 0)?;
    json.end(warnings);
    let (is_space, has_cpu) = (file.any(|thread| thread.is_space), file.any(|thread| thread.cpu.is_some()));
    let types: &[(&str, &str)] = match (is_space, has_cpu) {
        (true, _) => &[("space", "bytes")],
        (_, true) => &[("samples", "count"), ("cpu", "nanoseconds")],
        _ => &[("samples", "count"), ("wall", "nanoseconds")],
    };
    let mut tree = CallTree::new(NAME, types, bytes.len(), limits);
    let interval = (file.meta.interval * 1e6).round() as i64;
    if !is_space {
        tree.builder.period(types[1].0, types[1].1, interval);
    }
    let (mut other_weights, mut shared, mut texts, mut left_out) = (0, None, None, LeftOut::default());
    for thread in &file.threads {
        if thread.is_space != is_space {
            other_weights += 1;
            continue;
        }
        let strings = match thread.strings {
            Some(own) => Rc::new(tables::strings(own)?),
            None => texts
                .get_or_insert_with(|| file.shared.strings.map_or(Ok(Vec::new()), tables::strings).map(Rc::new))
                .clone()?,
        };
        // Tables that all threads share are read once.
        let stacks = match &thread.tables {
            Some(own) => &mut Stacks::new(Tables::read(own, strings)?),
            None => match &mut shared {
                Some(shared) => shared,
                none => none.insert(Stacks::new(Tables::read(&file.shared.tables, strings)?)),
            },
        };
        Thread { stacks, tree: &mut tree, is_space, has_cpu, interval, left_out: &mut left_out }.read(thread)?;
    }
    if other_weights > 0 {
        warnings.push(format!("{NAME}: {other_weights} threads whose samples have no bytes are left out"));
    }
    tree.builder.time(Nanos((file.meta.start * 1e6) as i64), Nanos(0));
    let profile = tree.finish()?;
    left_out.end(NAME, profile.sample_count() == 0, warnings)?;
    Ok(profile)
}

#[derive(Default)]
struct Meta {
    /// In milliseconds.
    interval: f64,
    /// In milliseconds since 1970.
    start: f64,
    /// Nanoseconds of one unit of `threadCPUDelta`.
    cpu_unit: f64,
}

/// A thread, its tables not read yet.
struct Place<'a> {
    name: String,
    tid: String,
    pid: String,
    is_space: bool,
    cpu_unit: f64,
    samples: Json<'a>,
    /// The processor time of each sample.
    cpu: Option<Json<'a>>,
    /// `None` where the shared ones are meant, as for the texts.
    tables: Option<TablePlaces<'a>>,
    strings: Option<Json<'a>>,
}

/// The tables of stacks, frames, functions and resources.
#[derive(Clone, Copy, Default)]
struct TablePlaces<'a> {
    stacks: Option<Json<'a>>,
    frames: Option<Json<'a>>,
    functions: Option<Json<'a>>,
    resources: Option<Json<'a>>,
}

/// The tables shared by all threads.
#[derive(Default)]
struct Shared<'a> {
    tables: TablePlaces<'a>,
    strings: Option<Json<'a>>,
}

struct File<'a> {
    threads: Vec<Place<'a>>,
    shared: Shared<'a>,
    meta: Meta,
}

impl<'a> File<'a> {
    fn any(&self, is_it: impl Fn(&Place<'_>) -> bool) -> bool {
        self.threads.iter().any(is_it)
    }

    /// Reads a process, and those nested in it.
    fn read(&mut self, json: &mut Json<'a>, depth: usize) -> Result<()> {
        let [meta, threads, shared, processes] = json.fields(["meta", "threads", "shared", "processes"])?;
        if let Some(mut meta) = meta {
            let read = read_meta(&mut meta)?;
            if depth == 0 {
                self.meta = Meta { ..read };
            }
            self.meta.cpu_unit = read.cpu_unit;
        }
        if let Some(mut shared) = shared {
            let keys = ["stackTable", "frameTable", "funcTable", "resourceTable", "stringArray"];
            let [stacks, frames, functions, resources, strings] = shared.fields(keys)?;
            self.shared = Shared { tables: TablePlaces { stacks, frames, functions, resources }, strings };
        }
        if let Some(mut threads) = threads {
            threads.array(|json| {
                if let Some(thread) = read_place(json, self.meta.cpu_unit)? {
                    self.threads.push(thread);
                }
                Ok(())
            })?;
        }
        if let Some(mut processes) = processes {
            if depth == 8 {
                return Err(Error::TooLarge { format: NAME, what: "the nesting of processes", limit: 8 });
            }
            processes.array(|json| self.read(json, depth + 1))?;
        }
        Ok(())
    }
}

fn read_meta(meta: &mut Json<'_>) -> Result<Meta> {
    let [interval, start, units] = meta.fields(["interval", "startTime", "sampleUnits"])?;
    let number = |json: Option<Json<'_>>| json.map_or(Ok(0.0), |mut json| json.number());
    let cpu = match units {
        Some(mut units) if units.kind()? == Kind::Object => {
            units.fields(["threadCPUDelta"])?[0].map(|mut unit| unit.text().map(|unit| unit.into_owned()))
        }
        _ => None,
    };
    let cpu_unit = match cpu.transpose()?.as_deref() {
        Some("ns") => 1.0,
        Some("µs") | None => 1e3,
        // Cycles: of no known length.
        Some(_) => 0.0,
    };
    Ok(Meta { interval: number(interval)?, start: number(start)?, cpu_unit })
}

fn read_place<'a>(json: &mut Json<'a>, cpu_unit: f64) -> Result<Option<Place<'a>>> {
    let keys = [
        "name",
        "tid",
        "pid",
        "samples",
        "stackTable",
        "frameTable",
        "funcTable",
        "resourceTable",
        "stringArray",
        "stringTable",
    ];
    let [name, tid, pid, samples, stacks, frames, functions, resources, strings, old_strings] = json.fields(keys)?;
    let Some(samples) = samples else { return Ok(None) };
    let word = |json: Option<Json<'a>>| json.map_or(Ok(String::new()), tables::word);
    let mut columns = samples;
    let [weights, cpu] = columns.fields(["weightType", "threadCPUDelta"])?;
    let is_space = word(weights)? == "bytes";
    let cpu = cpu.filter(|cpu| cpu.kind() == Ok(Kind::Array) && cpu_unit > 0.0);
    Ok(Some(Place {
        name: word(name)?,
        tid: word(tid)?,
        pid: word(pid)?,
        is_space,
        cpu_unit,
        samples,
        cpu,
        tables: stacks.is_some().then_some(TablePlaces { stacks, frames, functions, resources }),
        strings: strings.or(old_strings),
    }))
}

/// Tables, and what has been made of them.
struct Stacks<'a> {
    tables: Tables<'a>,
    /// The stacks that are known, by their place in the table.
    nodes: Vec<Option<NodeId>>,
    /// The frames that are known.
    locations: Vec<Option<LocationId>>,
}

impl Stacks<'_> {
    fn new(tables: Tables<'_>) -> Stacks<'_> {
        Stacks { nodes: vec![None; tables.stacks.len()], locations: vec![None; tables.frames.len()], tables }
    }
}

/// A thread that is read.
struct Thread<'t, 'a> {
    stacks: &'t mut Stacks<'a>,
    tree: &'t mut CallTree,
    is_space: bool,
    has_cpu: bool,
    interval: i64,
    left_out: &'t mut LeftOut,
}

impl Thread<'_, '_> {
    fn read(&mut self, place: &Place<'_>) -> Result<()> {
        let labels = self.labels(place);
        let columns = tables::Samples::read(place)?;
        for index in 0..columns.stacks.len() {
            let Some(stack) = columns.stacks[index] else { continue };
            let weight = columns.weights.get(index).copied().unwrap_or(1.0);
            let read = self.stack(stack as usize);
            let Some(node) = self.left_out.keep(read)? else { continue };
            let count = weight.round() as i64;
            if self.is_space {
                self.tree.add(node, labels, &[count]);
                continue;
            }
            let time = match self.has_cpu {
                true => (columns.cpu.get(index).copied().unwrap_or(0.0) * place.cpu_unit).round() as i64,
                false => (weight * self.interval as f64).round() as i64,
            };
            self.tree.add(node, labels, &[count, time]);
        }
        Ok(())
    }

    fn labels(&mut self, place: &Place<'_>) -> Labels {
        let mut labels = Vec::new();
        if !place.name.is_empty() {
            labels.push(self.tree.builder.text_label("thread", &place.name));
        }
        for (key, word) in [("tid", &place.tid), ("pid", &place.pid)] {
            match word.parse() {
                Ok(number) => labels.push(self.tree.builder.number_label(key, number, "")),
                Err(_) if word.is_empty() => {}
                Err(_) => labels.push(self.tree.builder.text_label(key, word)),
            }
        }
        self.tree.labels(&labels)
    }

    /// The stack at a place of the table.
    fn stack(&mut self, stack: usize) -> Result<NodeId> {
        let (mut path, mut next, mut node) = (Vec::new(), Some(stack), call_tree::ROOT);
        while let Some(index) = next {
            let Some(known) = self.stacks.nodes.get(index) else {
                return Err(Error::invalid(format!("Firefox's stack {index} of {}", self.stacks.nodes.len())));
            };
            if let Some(known) = known {
                node = *known;
                break;
            }
            path.push(index);
            if path.len() > self.stacks.nodes.len() {
                return Err(Error::invalid("Firefox's stacks continue each other in a circle"));
            }
            self.tree.check_depth(path.len())?;
            next = self.stacks.tables.stacks[index].0.map(|prefix| prefix as usize);
        }
        for index in path.into_iter().rev() {
            let frame = self.stacks.tables.stacks[index].1 as usize;
            let location = self.location(frame)?;
            node = self.tree.child(node, location)?;
            self.stacks.nodes[index] = Some(node);
        }
        Ok(node)
    }

    fn location(&mut self, frame: usize) -> Result<LocationId> {
        match self.stacks.locations.get(frame) {
            Some(Some(known)) => return Ok(*known),
            Some(None) => {}
            None => return Err(Error::invalid(format!("Firefox's frame {frame} of {}", self.stacks.locations.len()))),
        }
        let named = self.stacks.tables.frame(frame)?;
        let id = self.tree.frame(&Frame {
            name: &named.name,
            file: &named.file,
            line: named.line,
            column: named.column,
            module: &named.module,
            start_line: 0,
        });
        self.stacks.locations[frame] = Some(id);
        Ok(id)
    }
}

#[cfg(test)]
mod tests;
