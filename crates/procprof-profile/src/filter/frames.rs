//! Filters that look at the names of frames.

use regex::Regex;

use super::{Filter, Matches};
use crate::parts::narrow;
use crate::{Function, Line, Location, LocationId, Parts, Profile, Result};

/// Which functions and mappings of a profile a regular expression matches; each name is looked at once.
struct NameMatches {
    functions: Vec<bool>,
    mappings: Vec<bool>,
}

impl NameMatches {
    fn find(regex: &Regex, profile: &Profile) -> NameMatches {
        let text = |id| profile.string(id);
        let function = |one: &Function| regex.is_match(text(one.name)) || regex.is_match(text(one.filename));
        NameMatches {
            functions: profile.functions().iter().map(function).collect(),
            mappings: profile.mappings().iter().map(|mapping| regex.is_match(text(mapping.filename))).collect(),
        }
    }

    fn has_mapping(&self, location: &Location) -> bool {
        location.mapping.is_some_and(|id| self.mappings[id.index()])
    }

    fn has_line(&self, line: &Line) -> bool {
        self.functions[line.function.index()]
    }

    fn has(&self, location: &Location, lines: &[Line]) -> bool {
        self.has_mapping(location) || lines.iter().any(|line| self.has_line(line))
    }
}

/// The result of a filter for the locations: the lines of each, and whether it is taken out.
struct Kept {
    lines: Vec<Vec<Line>>,
    hidden: Vec<bool>,
}

/// `focus`, `ignore`, `hide` and `show`. A sample without frames has none that match `focus`, given or not.
pub(super) fn by_name(filter: &Filter, profile: Profile, matches: &mut Matches) -> Result<Profile> {
    if filter.focus.is_none() && filter.ignore.is_none() && filter.hide.is_none() && filter.show.is_none() {
        return Ok(profile);
    }
    let of_locations = |regex: &Option<Regex>| {
        regex.as_ref().map(|regex| matching_locations(&NameMatches::find(regex, &profile), &profile))
    };
    let (focus, ignore) = (of_locations(&filter.focus), of_locations(&filter.ignore));
    let kept = hide_and_show(filter, &profile, matches);
    let has = |stack: &[LocationId], located: &Option<Vec<bool>>| {
        located.as_ref().map(|located| stack.iter().any(|id| located[id.index()]))
    };
    let mut stays = Vec::with_capacity(profile.sample_count());
    let (mut focused, mut ignored) = (0, 0);
    for sample in profile.samples() {
        let is_focused = has(sample.stack, &focus).unwrap_or(!sample.stack.is_empty());
        let is_ignored = has(sample.stack, &ignore).unwrap_or(false);
        focused += usize::from(is_focused);
        ignored += usize::from(is_ignored);
        let is_visible = sample.stack.iter().any(|id| !kept.hidden[id.index()]);
        stays.push(is_focused && !is_ignored && is_visible);
    }
    matches.focus = filter.focus.as_ref().map(|_| focused);
    matches.ignore = filter.ignore.as_ref().map(|_| ignored);
    let visible = |stack: &[LocationId]| stack.iter().copied().filter(|id| !kept.hidden[id.index()]).collect();
    let stacks: Vec<Vec<LocationId>> = profile.samples().map(|sample| visible(sample.stack)).collect();
    rebuild(profile, stacks, &kept.lines, |index| stays[index])
}

fn hide_and_show(filter: &Filter, profile: &Profile, matches: &mut Matches) -> Kept {
    let of = |regex: &Option<Regex>| regex.as_ref().map(|regex| NameMatches::find(regex, profile));
    let (hide, show) = (of(&filter.hide), of(&filter.show));
    let mut kept = Kept { lines: Vec::new(), hidden: Vec::new() };
    let (mut hidden, mut shown) = (0, 0);
    for (index, location) in profile.locations().iter().enumerate() {
        let mut lines = profile.lines(LocationId(index as u32)).to_vec();
        let mut is_hidden = false;
        if let Some(hide) = hide.as_ref().filter(|hide| hide.has(location, &lines)) {
            hidden += 1;
            let whole = hide.has_mapping(location);
            lines.retain(|line| !whole && !hide.has_line(line));
            is_hidden = lines.is_empty();
        }
        if let Some(show) = &show {
            let whole = show.has_mapping(location);
            lines.retain(|line| whole || show.has_line(line));
            shown += usize::from(!lines.is_empty());
            is_hidden |= lines.is_empty();
        }
        kept.lines.push(lines);
        kept.hidden.push(is_hidden);
    }
    matches.hide = hide.map(|_| hidden);
    matches.show = show.map(|_| shown);
    kept
}

fn matching_locations(names: &NameMatches, profile: &Profile) -> Vec<bool> {
    let locations = profile.locations().iter().enumerate();
    locations.map(|(index, location)| names.has(location, profile.lines(LocationId(index as u32)))).collect()
}

/// Cuts callers of the matching frame nearest the root; of its inlined frames, those outside the outermost match.
pub(super) fn show_from(regex: &Regex, profile: Profile, matches: &mut Matches) -> Result<Profile> {
    let names = NameMatches::find(regex, &profile);
    let mut lines = Vec::new();
    let mut found = Vec::new();
    for (index, location) in profile.locations().iter().enumerate() {
        let mut these = profile.lines(LocationId(index as u32)).to_vec();
        let outermost = these.iter().rposition(|line| names.has_line(line));
        found.push(names.has_mapping(location) || outermost.is_some());
        if let Some(outermost) = outermost.filter(|_| !names.has_mapping(location)) {
            these.truncate(outermost + 1);
        }
        lines.push(these);
    }
    let shown = |stack: &[LocationId]| {
        let length = stack.iter().rposition(|id| found[id.index()]).map_or(0, |root| root + 1);
        stack[..length].to_vec()
    };
    let stacks: Vec<Vec<LocationId>> = profile.samples().map(|sample| shown(sample.stack)).collect();
    let stays: Vec<bool> = stacks.iter().map(|stack| !stack.is_empty()).collect();
    matches.show_from = Some(stays.iter().filter(|stays| **stays).count());
    rebuild(profile, stacks, &lines, |index| stays[index])
}

/// Cuts what the matching frame nearest the leaf calls.
pub(super) fn prune_from(regex: &Regex, profile: Profile, matches: &mut Matches) -> Result<Profile> {
    let named = matching_names(&profile, |name| regex.is_match(name));
    let mut lines = Vec::new();
    let mut found = Vec::new();
    for index in 0..profile.locations().len() {
        let these = profile.lines(LocationId(index as u32));
        let innermost = these.iter().position(|line| named[line.function.index()]);
        found.push(innermost.is_some());
        lines.push(these[innermost.unwrap_or(0)..].to_vec());
    }
    let cut = |stack: &[LocationId]| stack.iter().position(|id| found[id.index()]);
    matches.prune_from = Some(profile.samples().filter(|sample| cut(sample.stack).is_some()).count());
    let stacks: Vec<Vec<LocationId>> =
        profile.samples().map(|sample| sample.stack[cut(sample.stack).unwrap_or(0)..].to_vec()).collect();
    rebuild(profile, stacks, &lines, |_| true)
}

/// For each function, whether its name without arguments matches.
pub(super) fn matching_names(profile: &Profile, is_match: impl Fn(&str) -> bool) -> Vec<bool> {
    let name = |function: &Function| profile.string(function.name);
    profile
        .functions()
        .iter()
        .map(|function| !name(function).is_empty() && is_match(without_arguments(name(function))))
        .collect()
}

/// A function's name up to its argument list, without the dot of PowerPC.
fn without_arguments(name: &str) -> &str {
    let name = name.strip_prefix('.').unwrap_or(name);
    let reserved = ["(anonymous namespace)", "operator()"];
    let mut from = 0;
    while let Some(found) = name[from..].find('(') {
        let bracket = from + found;
        let spared = reserved.iter().find_map(|reserved| {
            let start = bracket.checked_sub(reserved.find('(')?)?;
            name.get(start..)?.starts_with(reserved).then_some(start + reserved.len())
        });
        match spared {
            Some(end) => from = end,
            None => return &name[..bracket],
        }
    }
    name
}

/// The profile with other stacks and lines, and only the samples that stay.
fn rebuild(
    profile: Profile,
    stacks: Vec<Vec<LocationId>>,
    lines: &[Vec<Line>],
    stays: impl Fn(usize) -> bool,
) -> Result<Profile> {
    let mut parts: Parts = profile.into_parts();
    parts.stacks.clear();
    parts.stack_ends.clear();
    for stack in stacks {
        parts.stacks.extend(stack);
        parts.stack_ends.push(narrow(parts.stacks.len(), "frames")?);
    }
    let locations = std::mem::take(&mut parts.locations);
    parts.lines.clear();
    for (location, lines) in locations.into_iter().zip(lines) {
        parts.push_location(location, lines)?;
    }
    parts.retain_samples(stays);
    parts.finish()
}
