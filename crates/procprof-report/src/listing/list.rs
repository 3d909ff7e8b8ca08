//! `list`: source lines of functions with their flat and cum, in the shape of `go tool pprof -list`.
//!
//! ```text
//! Total: 8.73s
//! ROUTINE ======================== main.hot_70 in /src/main.go
//!      6.11s      6.11s (flat, cum) 69.99% of Total
//!          .          .     28:func hot_70() {
//!      6.11s      6.11s     30:    for i := range 1_000_000 {
//! ```
//! The caller reads the files that [`files`] returns; a reason replaces a missing one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use procprof_profile::Profile;

use crate::display::measure::percentage;
use crate::display::place::trimmed_path;
use crate::display::text::one_line;
use crate::graph::{Graph, Node};
use crate::header::subject::{Drawing, Subject};
use crate::output::Output;
use crate::selection::view::View;
use crate::{Error, Granularity, Options, Result, Sources};

/// Lines shown around those with samples.
const MARGIN: i64 = 5;
pub(crate) const DRAWING: Drawing = Drawing {
    granularity: Granularity::Lines,
    trims: false,
    nodes: 0,
    picture: false,
    call_tree: false,
    objects: true,
};

/// Nodes by function, and for each by file.
pub(crate) type Routines<'g, 'a> = BTreeMap<&'g str, BTreeMap<&'g str, Vec<&'g Node<'a>>>>;

pub(crate) fn render(view: &View<'_>, options: &Options, sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let subject = Subject::new(view, options)?;
    let shown = subject.graph(DRAWING)?;
    let routines = routines(&shown.graph, options)?;
    let listings = listings(&subject, &routines)?;
    let to = options.unit.as_str();
    let _ = writeln!(out.text, "Total: {}", subject.amount(subject.total, to));
    for (name, files) in routines {
        if files.keys().all(|file| file.is_empty()) {
            let _ = writeln!(out.text, "No source information for {}", one_line(name));
        }
        let mut files: Vec<_> = files.into_iter().filter(|(file, _)| !file.is_empty()).collect();
        files.sort_by_key(|(file, _)| *file);
        for (file, _) in files {
            let listing = &listings[&(name, file)];
            let _ = writeln!(out.text, "ROUTINE ======================== {} in {}", one_line(name), one_line(file));
            let [flat_text, cum_text] = [listing.flat, listing.cum].map(|value| subject.amount(value, to));
            let _ = writeln!(
                out.text,
                "{flat_text:>10} {cum_text:>10} (flat, cum) {} of Total",
                percentage(listing.cum, subject.total)
            );
            match sources.text(file) {
                Ok(text) => push_lines(out, &subject, listing, text)?,
                Err(why) => {
                    let _ = writeln!(out.text, " Error: {}", one_line(why));
                }
            }
            out.drain()?;
        }
    }
    Ok(())
}

/// The files whose text the report shows, by their names in the profile.
pub(crate) fn files(profile: &Profile, options: &Options) -> Result<Vec<String>> {
    let view = View::new(Cow::Borrowed(profile), options)?;
    let subject = Subject::new(&view, options)?;
    let shown = subject.graph(DRAWING)?;
    let routines = routines(&shown.graph, options)?;
    let mut files: Vec<String> = routines
        .values()
        .flat_map(BTreeMap::keys)
        .filter(|file| !file.is_empty())
        .map(|file| (*file).to_owned())
        .collect();
    files.sort_unstable();
    files.dedup();
    Ok(files)
}

/// The paths to try for a source file that [`Report::source_files`](crate::Report::source_files) names, in order:
/// itself if its path is absolute, else below each directory of `source_path` (by default the current one) and of their
/// parents.
pub fn source_candidates(path: &str, options: &Options, current_directory: &Path) -> Vec<PathBuf> {
    let current = current_directory.to_string_lossy();
    let search = if options.source_path.is_empty() { current.as_ref() } else { options.source_path.as_str() };
    let path = Path::new(trimmed_path(path, &options.trim_path, search));
    if path.is_absolute() {
        return vec![path.to_owned()];
    }
    let directories = search.split(':').filter(|directory| !directory.is_empty());
    directories.flat_map(|directory| Path::new(directory).ancestors().map(|parent| parent.join(path))).collect()
}

pub(crate) fn routines<'g, 'a>(graph: &'g Graph<'a>, options: &Options) -> Result<Routines<'g, 'a>> {
    let mut routines: Routines<'g, 'a> = BTreeMap::new();
    for node in graph.shown_nodes() {
        let name = node.place.name;
        if options.symbol.as_ref().is_none_or(|wanted| wanted.is_match(name)) {
            routines.entry(name).or_default().entry(node.place.file.as_ref()).or_default().push(node);
        }
    }
    match &options.symbol {
        Some(wanted) if routines.is_empty() => Err(Error::no_match(wanted, "the profile has none")),
        _ => Ok(routines),
    }
}

/// Listings by function and file.
pub(crate) type Listings<'g> = BTreeMap<(&'g str, &'g str), Listing>;

/// The listings of all functions. A sample counts once in a function and in a line, however many nodes of them it
/// passes.
pub(crate) fn listings<'g>(subject: &Subject<'_>, routines: &Routines<'g, '_>) -> Result<Listings<'g>> {
    let mut listings = Listings::new();
    let (mut groups, mut keys) = (Vec::new(), Vec::new());
    for (name, files) in routines {
        for (file, nodes) in files {
            listings.insert((*name, *file), Listing::from_nodes(nodes));
            let mut lines: BTreeMap<i64, Vec<&Node<'_>>> = BTreeMap::new();
            nodes.iter().for_each(|node| lines.entry(node.place.line).or_default().push(node));
            let lines = lines.into_iter().map(|(line, nodes)| (Some(line), nodes));
            for (line, nodes) in lines.chain([(None, nodes.clone())]).filter(|(_, nodes)| nodes.len() > 1) {
                groups.push(nodes);
                keys.push(((*name, *file), line));
            }
        }
    }
    for ((function, line), cum) in keys.into_iter().zip(subject.cums(DRAWING, &groups)?) {
        let Some(listing) = listings.get_mut(&function) else { continue };
        match line {
            Some(line) => listing.sums.entry(line).or_default().1 = cum.sum,
            None => listing.cum = cum.sum,
        }
    }
    Ok(listings)
}

fn push_lines(out: &mut Output<'_>, subject: &Subject<'_>, listing: &Listing, text: &str) -> Result<()> {
    let to = subject.options.unit.as_str();
    let amount = |value: i64| if value == 0 { ".".to_owned() } else { subject.amount(value, to) };
    for (line, number) in listing.lines_of(text) {
        let (flat, cum) = listing.at(number);
        let _ = writeln!(out.text, "{:>10} {:>10} {number:>6}:{}", amount(flat), amount(cum), with_tabs(line));
        out.drain()?;
    }
    Ok(())
}

/// The values of the lines of one function.
pub(crate) struct Listing {
    pub(crate) flat: i64,
    pub(crate) cum: i64,
    /// The first and last line to show: from the start of the function, if it is known, to a margin after the last
    /// sample.
    range: (i64, i64),
    sums: BTreeMap<i64, (i64, i64)>,
}

impl Listing {
    fn from_nodes(nodes: &[&Node<'_>]) -> Listing {
        let start = |node: &Node<'_>| match node.place.start_line {
            0 => node.place.line.saturating_sub(MARGIN),
            start => start,
        };
        let end = |node: &Node<'_>| node.place.line.saturating_add(MARGIN);
        let first = nodes.iter().map(|node| start(node)).min().unwrap_or(1).max(1);
        let range = (first, nodes.iter().map(|node| end(node)).max().unwrap_or(first));
        let mut listing = Listing { flat: 0, cum: 0, range, sums: BTreeMap::new() };
        for node in nodes {
            let (flat, cum) = listing.sums.entry(node.place.line).or_default();
            (*flat, *cum) = (flat.saturating_add(node.flat.sum), cum.saturating_add(node.cum.sum));
            listing.flat = listing.flat.saturating_add(node.flat.sum);
            listing.cum = listing.cum.saturating_add(node.cum.sum);
        }
        listing
    }

    /// The lines to show of a source, with their numbers.
    pub(crate) fn lines_of<'t>(&self, text: &'t str) -> impl Iterator<Item = (&'t str, i64)> + use<'t> {
        let (first, last) = self.range;
        text.lines().zip(1i64..).skip((first - 1) as usize).take_while(move |(_, number)| *number <= last)
    }

    /// Flat and cum of a line.
    pub(crate) fn at(&self, number: i64) -> (i64, i64) {
        self.sums.get(&number).copied().unwrap_or_default()
    }

    /// The lines with values.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = i64> {
        self.sums.keys().copied()
    }
}

/// The line as printable text, with tabs.
pub(crate) fn with_tabs(line: &str) -> String {
    line.split('\t').map(|part| one_line(part).into_owned()).collect::<Vec<_>>().join("\t")
}
