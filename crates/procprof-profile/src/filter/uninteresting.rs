//! Frames at the leaf that belong to the profiler: cut by the profile's own expressions, and by the library they are
//! in.

use std::borrow::Cow;

use regex::Regex;

use super::frames::matching_names;
use super::regex;
use crate::{Location, LocationId, Profile, Result, StringId};

/// Sample types of profiles that contain allocators' frames.
const MEMORY: [&str; 5] = ["inuse_space", "alloc_space", "space", "inuse_objects", "alloc_objects"];
/// How file names of allocators begin.
const ALLOCATORS: [&str; 2] = ["libjemalloc", "libtcmalloc"];

/// A profile's own rules for uninteresting frames: [`Parts::drop_frames`](crate::Parts::drop_frames) but not
/// [`Parts::keep_frames`](crate::Parts::keep_frames).
#[derive(Clone, Debug)]
pub struct Uninteresting {
    drop: Regex,
    keep: Option<Regex>,
}

impl Uninteresting {
    /// The expressions of a profile; `None` when it has none.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) when one of the two is not a regular expression, or too large.
    pub fn from_profile(profile: &Profile) -> Result<Option<Uninteresting>> {
        let whole = |id: StringId| match profile.string(id) {
            "" => Ok(None),
            text => regex(&format!("^(?:{text})$")).map(Some),
        };
        let Some(drop) = whole(profile.parts().drop_frames)? else { return Ok(None) };
        Ok(Some(Uninteresting { drop, keep: whole(profile.parts().keep_frames)? }))
    }

    /// Whether a function of that name is uninteresting.
    pub fn matches(&self, name: &str) -> bool {
        self.drop.is_match(name) && !self.keep.as_ref().is_some_and(|keep| keep.is_match(name))
    }
}

/// Cuts uninteresting frames with everything they call, below the first frame from the root that is interesting. A
/// stack of nothing else stays as it is. Also returns how many samples lost frames. The rules are those of
/// `RemoveUninteresting` in google/pprof.
///
/// # Errors
/// As [`Parts::finish`](crate::Parts::finish); none for a profile that is whole.
pub fn remove_uninteresting<'a>(
    profile: Cow<'a, Profile>,
    uninteresting: &Uninteresting,
) -> Result<(Cow<'a, Profile>, usize)> {
    let named = matching_names(&profile, |name| uninteresting.matches(name));
    if !named.contains(&true) {
        return Ok((profile, 0));
    }
    let mut inlined = Vec::with_capacity(profile.locations().len());
    let mut cuts = Vec::with_capacity(profile.locations().len());
    for index in 0..profile.locations().len() {
        let these = profile.lines(LocationId(index as u32));
        let outermost = these.iter().rposition(|line| named[line.function.index()]);
        let cut = outermost.map(|line| if line + 1 == these.len() { Cut::Whole } else { Cut::Inlined });
        inlined.push(if cut == Some(Cut::Inlined) { outermost.map_or(0, |line| line + 1) } else { 0 });
        cuts.push(cut);
    }
    let has_inlined = cuts.contains(&Some(Cut::Inlined));
    let is_inlined = |id: &LocationId| cuts[id.index()] == Some(Cut::Inlined);
    let shorter = |before: &[LocationId], after: &[LocationId]| {
        after.len() < before.len() || has_inlined && after.iter().any(is_inlined)
    };
    let (leaves, samples) = cut_stacks(&profile, |stack| interesting(stack, &cuts), shorter);
    if samples == 0 {
        return Ok((profile, 0));
    }
    Ok((Cow::Owned(rebuilt(profile.into_owned(), &leaves, &inlined)?), samples))
}

/// Cuts the frames at the leaf that have no name and are in an allocator's library (`libjemalloc.so.2`,
/// `libtcmalloc_minimal.so.4`), as such a library without symbols leaves them, from profiles of memory. A stack of
/// nothing else stays as it is. Also returns how many samples lost frames. `go tool pprof` has no such rule.
///
/// # Errors
/// As [`Parts::finish`](crate::Parts::finish); none for a profile that is whole.
pub fn remove_unnamed_allocators(profile: Cow<'_, Profile>) -> Result<(Cow<'_, Profile>, usize)> {
    let libraries: Vec<bool> =
        profile.mappings().iter().map(|mapping| is_allocator(profile.string(mapping.filename))).collect();
    if !libraries.contains(&true) || !MEMORY.iter().any(|kind| profile.sample_type_index(kind).is_some()) {
        return Ok((profile, 0));
    }
    let is_cut = |(index, location): (usize, &Location)| {
        location.mapping.is_some_and(|id| libraries[id.index()]) && profile.lines(LocationId(index as u32)).is_empty()
    };
    let cut: Vec<bool> = profile.locations().iter().enumerate().map(is_cut).collect();
    let leaf = |stack: &[LocationId]| stack.iter().position(|id| !cut[id.index()]).unwrap_or(0);
    let (leaves, samples) =
        cut_stacks(&profile, |stack| &stack[leaf(stack)..], |before, after| after.len() < before.len());
    if samples == 0 {
        return Ok((profile, 0));
    }
    let inlined = vec![0; profile.locations().len()];
    Ok((Cow::Owned(rebuilt(profile.into_owned(), &leaves, &inlined)?), samples))
}

fn is_allocator(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    ALLOCATORS.iter().any(|name| file.starts_with(name)) && file.contains(".so")
}

/// How many locations at the leaf of each sample go with a cut, and how many of the samples are `shorter`.
fn cut_stacks(
    profile: &Profile,
    cut: impl Fn(&[LocationId]) -> &[LocationId],
    shorter: impl Fn(&[LocationId], &[LocationId]) -> bool,
) -> (Vec<usize>, usize) {
    let mut leaves = Vec::with_capacity(profile.sample_count());
    let mut samples = 0;
    for sample in profile.samples() {
        let stack = cut(sample.stack);
        samples += usize::from(shorter(sample.stack, stack));
        leaves.push(sample.stack.len() - stack.len());
    }
    (leaves, samples)
}

/// The profile without so many locations at the leaf of each sample and so many inlined lines of each location, and
/// nothing that no sample needs any more.
fn rebuilt(profile: Profile, leaves: &[usize], inlined: &[usize]) -> Result<Profile> {
    let mut parts = profile.into_parts();
    let (mut begin, mut kept) = (0, 0);
    for (end, leaves) in parts.stack_ends.iter_mut().zip(leaves) {
        let (first, behind) = (begin + leaves, *end as usize);
        parts.stacks.copy_within(first..behind, kept);
        kept += behind - first;
        begin = behind;
        *end = kept as u32;
    }
    parts.stacks.truncate(kept);
    for (location, inlined) in parts.locations.iter_mut().zip(inlined) {
        location.lines_start += *inlined as u32;
    }
    parts.compact()?;
    parts.finish()
}

#[derive(Clone, Copy, PartialEq)]
enum Cut {
    /// The location goes with all it calls.
    Whole,
    /// The location stays without what is inlined, and all it calls goes.
    Inlined,
}

/// The remaining part of a stack: cut is at the first such frame from the root that an interesting one called.
fn interesting<'a>(stack: &'a [LocationId], cuts: &[Option<Cut>]) -> &'a [LocationId] {
    let first = stack.iter().rposition(|id| cuts[id.index()].is_none()).unwrap_or(0);
    match stack[..first].iter().rposition(|id| cuts[id.index()].is_some()) {
        None => stack,
        Some(index) if cuts[stack[index].index()] == Some(Cut::Inlined) => &stack[index..],
        Some(index) => &stack[index + 1..],
    }
}
