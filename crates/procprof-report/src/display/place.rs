//! A source position reduced to a granularity, and its name in text reports as pprof writes it.

use std::borrow::Cow;

use procprof_profile::{FunctionId, Line, Location, MappingId, Profile};

use crate::{Granularity, Options};

/// The compared parts of a position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detail {
    granularity: Granularity,
    has_columns: bool,
}

impl Detail {
    /// The parts that the options select.
    pub(crate) fn from_options(options: &Options) -> Detail {
        Detail::at(options.granularity, options)
    }

    /// The parts for a report of that granularity. An address has its column, a line only on request.
    pub(crate) fn at(granularity: Granularity, options: &Options) -> Detail {
        let has_columns = match granularity {
            Granularity::Addresses => true,
            Granularity::Lines => options.showcolumns,
            _ => false,
        };
        Detail { granularity, has_columns }
    }
}

/// The parts of a place, by number: equal ones make equal places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Position {
    mapping: Option<MappingId>,
    function: Option<FunctionId>,
    address: u64,
    line: i64,
    column: i64,
}

impl Position {
    /// The compared parts of the position of `line`, or of the bare address.
    pub(crate) fn new(location: &Location, line: Option<&Line>, detail: Detail) -> Position {
        let with_line = matches!(detail.granularity, Granularity::Lines | Granularity::Addresses);
        Position {
            mapping: location.mapping,
            function: line.map(|line| line.function),
            address: if detail.granularity == Granularity::Addresses { location.address.0 } else { 0 },
            line: line.filter(|_| with_line).map_or(0, |line| line.line),
            column: line.filter(|_| detail.has_columns).map_or(0, |line| line.column),
        }
    }
}

/// The parts of a position that are compared at some granularity; the others are empty or 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place<'a> {
    pub(crate) address: u64,
    pub(crate) name: &'a str,
    pub(crate) file: Cow<'a, str>,
    pub(crate) line: i64,
    pub(crate) column: i64,
    /// File of the mapping, only where there is no name, or where [`Place::distinguish_objects`] put it.
    pub(crate) mapping: &'a str,
    /// First line of the function, where the mapping is given too (the granularity of files keeps functions apart, as
    /// pprof does).
    pub(crate) start_line: i64,
}

impl<'a> Place<'a> {
    /// The position of `line`, or of the bare address when the location has no lines.
    pub(crate) fn new(profile: &'a Profile, location: &Location, line: Option<&Line>, detail: Detail) -> Place<'a> {
        let granularity = detail.granularity;
        let address = if granularity == Granularity::Addresses { location.address.0 } else { 0 };
        let mapping = location.mapping.map_or("", |id| profile.string(profile.mapping(id).filename));
        let Some(line) = line else {
            return Place { address, name: "", file: Cow::Borrowed(""), line: 0, column: 0, mapping, start_line: 0 };
        };
        let function = profile.function(line.function);
        let name = if granularity == Granularity::Files { "" } else { profile.string(function.name) };
        let file = match granularity {
            Granularity::Functions => Cow::Borrowed(""),
            _ => clean(profile.string(function.filename)),
        };
        let with_line = matches!(granularity, Granularity::Lines | Granularity::Addresses);
        let column = if detail.has_columns { line.column } else { 0 };
        let (mapping, start_line) = if name.is_empty() { (mapping, function.start_line) } else { ("", 0) };
        Place { address, name, file, line: if with_line { line.line } else { 0 }, column, mapping, start_line }
    }

    /// Makes places of different binaries, or functions that begin elsewhere, different.
    pub(crate) fn distinguish_objects(&mut self, profile: &'a Profile, location: &Location, line: Option<&Line>) {
        self.mapping = location.mapping.map_or("", |id| profile.string(profile.mapping(id).filename));
        self.start_line = line.map_or(0, |line| profile.function(line.function).start_line);
    }

    /// Address, name, and file with line, if they are compared.
    pub(crate) fn printable(&self) -> Cow<'a, str> {
        if !self.name.is_empty() && self.address == 0 && self.line == 0 && self.file.is_empty() {
            return Cow::Borrowed(self.name);
        }
        Cow::Owned(self.components().join(" "))
    }

    /// The parts of the printable name.
    pub(crate) fn components(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.address != 0 {
            words.push(format!("{:016x}", self.address));
        }
        if !self.name.is_empty() {
            words.push(self.name.to_owned());
        }
        if self.line != 0 {
            let column = if self.column == 0 { String::new() } else { format!(":{}", self.column) };
            words.push(format!("{}:{}{column}", self.file, self.line));
        } else if !self.file.is_empty() {
            words.push(self.file.to_string());
        } else if self.name.is_empty() {
            words.push(if self.mapping.is_empty() {
                "<unknown>".to_owned()
            } else {
                format!("[{}]", base_name(self.mapping))
            });
        }
        words
    }
}

/// A source path without the prefix of the machine it was built on: one of the prefixes in `trim` (separated by `:`),
/// or, where none is given, all up to a directory with the name of one in `search`.
pub(crate) fn trimmed_path<'p>(path: &'p str, trim: &str, search: &str) -> &'p str {
    if trim.is_empty() {
        let found = search.split(':').filter(|directory| !directory.is_empty()).find_map(|directory| {
            let wanted = format!("/{}/", base_name(directory));
            path.find(&wanted).map(|at| &path[at + wanted.len()..])
        });
        if let Some(rest) = found {
            return rest;
        }
    }
    let prefixes = trim.split(':').filter(|prefix| !prefix.is_empty());
    prefixes
        .map(|prefix| prefix.trim_end_matches('/'))
        .find_map(|prefix| path.strip_prefix(prefix)?.strip_prefix('/'))
        .unwrap_or(path)
}

/// The part after the last `/`.
pub(crate) fn base_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// A source path without the build's working directory, `.` and `..`.
fn clean(path: &str) -> Cow<'_, str> {
    let path =
        ["/proc/self/cwd/./", "/proc/self/cwd/"].iter().find_map(|prefix| path.strip_prefix(prefix)).unwrap_or(path);
    let tidy = !path.ends_with('/')
        && !path.split('/').skip(1).any(str::is_empty)
        && !path.split('/').any(|part| part == "." || part == "..");
    if tidy {
        return Cow::Borrowed(path);
    }
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => drop(parts.pop()),
            ("..", None) if rooted => {}
            _ => parts.push(part),
        }
    }
    let joined = parts.join("/");
    Cow::Owned(match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    })
}

#[cfg(test)]
mod tests {
    use super::{base_name, clean, trimmed_path};

    #[test]
    fn paths_are_cleaned_as_go_does() {
        let cases = [
            ("/a/b.c", "/a/b.c"),
            ("/a/./b/../c.c", "/a/c.c"),
            ("../x//y.c", "../x/y.c"),
            ("../../x.c", "../../x.c"),
            ("/../x.c", "/x.c"),
            ("./", "."),
            ("/proc/self/cwd/src/a.cc", "src/a.cc"),
            ("/", "/"),
        ];
        for (path, expected) in cases {
            assert_eq!(clean(path), expected, "{path}");
        }
        assert_eq!(base_name("/usr/bin/x"), "x");
        assert_eq!(base_name("x"), "x");
    }

    #[test]
    fn paths_lose_where_they_were_built() {
        let cases = [
            ("/build/project/src/a.c", "/build/project", "", "src/a.c"),
            ("/build/project/src/a.c", "/other:/build/project/", "", "src/a.c"),
            ("/build/projects/a.c", "/build/project", "", "/build/projects/a.c"),
            ("/remote/project/src/a.c", "", "/home/me/project", "src/a.c"),
            ("/remote/project/src/a.c", "/x", "/home/me/project", "/remote/project/src/a.c"),
            ("a.c", "", "", "a.c"),
        ];
        for (path, trim, search, expected) in cases {
            assert_eq!(trimmed_path(path, trim, search), expected, "{path} {trim} {search}");
        }
    }
}
