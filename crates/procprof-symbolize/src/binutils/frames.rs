//! Frames as they are found, with names still mangled, each text once.

use std::sync::Arc;

use foldhash::HashMap;

use super::kept::{Known, NamePair, by_mangled};
use super::names::demangle_by;
use super::{Answers, Demangled, Frame};
use crate::demangle::Languages;
use crate::workers;

/// Names that a thread demangles at a time.
const CHUNK: usize = 64;
/// Bytes of names that are worth a thread: demangling takes about a millisecond for them.
const THREAD_BYTES: usize = 32 << 10;

/// Texts, each once.
#[derive(Default)]
struct Texts {
    numbers: HashMap<Arc<str>, u32>,
    all: Vec<Arc<str>>,
    bytes: usize,
}

impl Texts {
    fn add(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.all.len() as u32;
        let text: Arc<str> = text.into();
        self.bytes += text.len();
        self.numbers.insert(Arc::clone(&text), number);
        self.all.push(text);
        number
    }
}

/// The frames of addresses, one address after the other.
#[derive(Default)]
pub(super) struct Frames {
    names: Texts,
    places: Texts,
    /// Name and place of each.
    all: Vec<(u32, u32)>,
    /// Behind the last frame of each address.
    ends: Vec<usize>,
}

impl Frames {
    /// Adds a frame of the current address.
    pub(super) fn push(&mut self, name: Option<&str>, file: Option<&str>, line: u32, discriminator: u64) {
        let name = name.filter(|name| !name.is_empty()).unwrap_or("??");
        let file = file.unwrap_or("??");
        let place = match (line, discriminator) {
            (0, _) => format!("{file}:?"),
            (line, 0) => format!("{file}:{line}"),
            (line, discriminator) => format!("{file}:{line} (discriminator {discriminator})"),
        };
        self.all.push((self.names.add(name), self.places.add(&place)));
    }

    /// Adds the frame of an unknown address.
    pub(super) fn push_unknown(&mut self) {
        self.all.push((self.names.add("??"), self.places.add("??:0")));
    }

    /// The number of frames of the current address so far.
    pub(super) fn depth(&self) -> usize {
        self.all.len() - self.ends.last().copied().unwrap_or(0)
    }

    /// Continues with the next address.
    pub(super) fn next_address(&mut self) {
        self.ends.push(self.all.len());
    }

    /// Demangles all names that are not known, on as many threads as the amount justifies. Returns the frames of each
    /// address, and the names that were not known.
    pub(super) fn finish(self, known: &Known) -> (Answers<'static>, Vec<NamePair>) {
        let (names, new) = demangled(&self.names, known);
        let places = &self.places.all;
        let frame = |(name, place): &(u32, u32)| Frame {
            name: Arc::clone(&names[*name as usize]),
            place: Arc::clone(&places[*place as usize]),
        };
        let mut from = 0;
        let frames =
            self.ends.iter().map(|end| self.all[std::mem::replace(&mut from, *end)..*end].iter().map(frame).collect());
        let frames = frames.collect();
        let demangled = Demangled(self.names.all.into_iter().zip(names).collect());
        (Answers { frames, demangled, symbols: Vec::new() }, new)
    }
}

/// The demangled names, and those among them that were not known.
fn demangled(names: &Texts, known: &Known) -> (Vec<Arc<str>>, Vec<NamePair>) {
    let parts = known.names();
    let known = by_mangled(&parts);
    let chunks: Vec<&[Arc<str>]> = names.all.chunks(CHUNK).collect();
    let threads = workers::threads_for(names.bytes, THREAD_BYTES);
    type Done = (Languages, Vec<(usize, Vec<(Arc<str>, bool)>)>);
    let done = workers::run(chunks.len(), threads, Done::default, |(languages, done), chunk| {
        let mut name = |name: &Arc<str>| match known.get(&**name) {
            Some(known) => ((*known).into(), false),
            None => demangled_name(name, languages),
        };
        let names: Vec<(Arc<str>, bool)> = chunks[chunk].iter().map(&mut name).collect();
        done.push((chunk, names));
    });
    let mut done: Vec<(usize, Vec<_>)> = done.into_iter().flat_map(|(_, done)| done).collect();
    done.sort_unstable_by_key(|(chunk, _)| *chunk);
    let mut new = Vec::new();
    let all = done.into_iter().flat_map(|(_, names)| names).zip(&names.all).map(|((name, is_new), mangled)| {
        if is_new {
            new.push((Arc::clone(mangled), Arc::clone(&name)));
        }
        name
    });
    (all.collect(), new)
}

/// The demangled name, and whether it is worth caching.
fn demangled_name(mangled: &Arc<str>, languages: &mut Languages) -> (Arc<str>, bool) {
    let name = demangle_by(languages, mangled);
    if name == **mangled { (Arc::clone(mangled), false) } else { (name.into(), true) }
}
