//! The table of reports and the one call that renders any of them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use procprof_profile::{Addr, MappingId, Profile};
use regex::Regex;

use crate::code::Code;
use crate::nearest::nearest;
use crate::view::View;
use crate::{
    Error, Options, Result, callgrind, collapsed, comments, disasm, dot, flame_graph, json, list, pdf, pprof, raw, svg, symbols, tags, top,
    traces, tree, weblist,
};

/// Texts that a report shows beside the profile, read by the caller.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Source texts by the path that the profile gives.
    pub files: BTreeMap<String, String>,
    /// Why others could not be read, by their path; binaries too.
    pub missing: BTreeMap<String, String>,
    /// Machine code, for reports that say by [`Report::wanted_code`] that they show it.
    pub code: Vec<Code>,
}

/// Machine code that a report shows.
#[derive(Clone, Debug)]
pub struct CodeWanted {
    /// The mapping whose file it is in.
    pub mapping: MappingId,
    /// Addresses of the profile in the functions that are wanted, in order.
    pub addresses: Vec<Addr>,
    /// What the name of a function must match besides, if anything.
    pub names: Option<Regex>,
}

impl Sources {
    /// The text of a file, or why there is none.
    pub(crate) fn text(&self, path: &str) -> std::result::Result<&str, &str> {
        let missing = || self.missing.get(path).map_or("the source was not read", String::as_str);
        self.files.get(path).map(String::as_str).ok_or_else(missing)
    }
}

/// One kind of report.
pub struct Report {
    /// The name in URLs, on the command line and in SQL.
    pub name: &'static str,
    /// The end of a file's name, without the first dot.
    pub extension: &'static str,
    /// The media type to answer with.
    pub media_type: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// Whether the profile is read first, by pprof's grammar and without allocators' frames; `false` for what keeps it as measured.
    adjusts: bool,
    render: fn(&View<'_>, &Options, &Sources) -> Result<Vec<u8>>,
}

/// All reports, in the order menus and help texts show them.
pub const REPORTS: &[Report] = &[
    Report {
        name: "flamegraph",
        extension: "svg",
        media_type: "image/svg+xml",
        help: "Interactive flame graph, one SVG file",
        adjusts: true,
        render: flame_graph::render_svg,
    },
    Report {
        name: "html",
        extension: "html",
        media_type: "text/html; charset=utf-8",
        help: "The flame graph and the top functions as one self-contained page",
        adjusts: true,
        render: flame_graph::render_html,
    },
    Report {
        name: "top",
        extension: "txt",
        media_type: "text/plain; charset=utf-8",
        help: "Functions by what they use themselves, as text",
        adjusts: true,
        render: top::render,
    },
    Report {
        name: "tree",
        extension: "tree.txt",
        media_type: "text/plain; charset=utf-8",
        help: "Functions between their callers and callees, as text",
        adjusts: true,
        render: tree::render,
    },
    Report {
        name: "peek",
        extension: "peek.txt",
        media_type: "text/plain; charset=utf-8",
        help: "Callers and callees of the functions that symbol matches, as text",
        adjusts: true,
        render: tree::render_peek,
    },
    Report {
        name: "list",
        extension: "list.txt",
        media_type: "text/plain; charset=utf-8",
        help: "Source lines of the functions that symbol matches, as text",
        adjusts: true,
        render: list::render,
    },
    Report {
        name: "disasm",
        extension: "disasm.txt",
        media_type: "text/plain; charset=utf-8",
        help: "Machine code of the functions that symbol matches, as text",
        adjusts: true,
        render: disasm::render,
    },
    Report {
        name: "weblist",
        extension: "weblist.html",
        media_type: "text/html; charset=utf-8",
        help: "Source lines and machine code of the functions that symbol matches, as a self-contained page",
        adjusts: true,
        render: weblist::render,
    },
    Report {
        name: "traces",
        extension: "traces.txt",
        media_type: "text/plain; charset=utf-8",
        help: "Every sample with its labels and stack, as text",
        adjusts: true,
        render: traces::render,
    },
    Report {
        name: "tags",
        extension: "tags.txt",
        media_type: "text/plain; charset=utf-8",
        help: "Labels and what each of their values adds up to, as text",
        adjusts: true,
        render: tags::render,
    },
    Report {
        name: "comments",
        extension: "comments.txt",
        media_type: "text/plain; charset=utf-8",
        help: "The comments of the profile, as text",
        adjusts: false,
        render: comments::render,
    },
    Report {
        name: "svg",
        extension: "graph.svg",
        media_type: "image/svg+xml",
        help: "The call graph, one interactive SVG file",
        adjusts: true,
        render: svg::render,
    },
    Report {
        name: "pdf",
        extension: "pdf",
        media_type: "application/pdf",
        help: "The call graph, one PDF page as large as it takes",
        adjusts: true,
        render: pdf::render,
    },
    Report {
        name: "dot",
        extension: "dot",
        media_type: "text/vnd.graphviz; charset=utf-8",
        help: "The call graph for Graphviz",
        adjusts: true,
        render: dot::render,
    },
    Report {
        name: "callgrind",
        extension: "callgrind",
        media_type: "text/plain; charset=utf-8",
        help: "Addresses with their costs and calls, for KCachegrind",
        adjusts: true,
        render: callgrind::render,
    },
    Report {
        name: "collapsed",
        extension: "collapsed.txt",
        media_type: "text/plain; charset=utf-8",
        help: "One line for each stack with its value",
        adjusts: true,
        render: collapsed::render,
    },
    Report {
        name: "json",
        extension: "json",
        media_type: "application/json",
        help: "The merged call tree as columns",
        adjusts: true,
        render: json::render,
    },
    Report {
        name: "pprof",
        extension: "pb.gz",
        media_type: "application/octet-stream",
        help: "The profile itself as gzip'd pprof protobuf",
        adjusts: false,
        render: pprof::render,
    },
    Report {
        name: "topproto",
        extension: "top.pb.gz",
        media_type: "application/octet-stream",
        help: "The rows of top as gzip'd pprof protobuf",
        adjusts: true,
        render: top::render_proto,
    },
    Report {
        name: "symbols",
        extension: "symbols.txt",
        media_type: "text/plain; charset=utf-8",
        help: "Addresses with their names, as /pprof/symbol answers",
        adjusts: true,
        render: symbols::render,
    },
    Report {
        name: "raw",
        extension: "raw.txt",
        media_type: "text/plain; charset=utf-8",
        help: "All tables of the profile, as text",
        adjusts: true,
        render: raw::render,
    },
];

impl Report {
    /// The report of that name.
    ///
    /// # Errors
    /// [`Error::UnknownReport`], with the nearest name.
    pub fn named(name: &str) -> Result<&'static Report> {
        let found = REPORTS.iter().find(|report| report.name == name);
        found.ok_or_else(|| Error::UnknownReport {
            name: name.chars().take(200).collect(),
            nearest: nearest(name, REPORTS.iter().map(|report| report.name)),
        })
    }

    /// Whether the report is about the functions that the option `symbol` matches.
    pub fn takes_symbol(&self) -> bool {
        ["peek", "list", "disasm", "weblist"].contains(&self.name)
    }

    /// Whether the report shows machine code, which only a caller that reads binaries can give it.
    pub fn takes_code(&self) -> bool {
        ["disasm", "weblist"].contains(&self.name)
    }

    /// The source files that the report shows, as the profile names them after `trim_path`: for the caller to read into [`Sources`].
    ///
    /// # Errors
    /// As [`Report::render`].
    pub fn source_files(&self, profile: &Profile, options: &Options) -> Result<Vec<String>> {
        if ["list", "weblist"].contains(&self.name) { list::files(profile, options) } else { Ok(Vec::new()) }
    }

    /// The machine code that the report shows: for the caller to read into [`Sources`].
    ///
    /// # Errors
    /// As [`Report::render`].
    pub fn wanted_code(&self, profile: &Profile, options: &Options) -> Result<Vec<CodeWanted>> {
        match self.name {
            "disasm" => disasm::wanted(profile, options),
            "weblist" => weblist::wanted(profile, options),
            _ => Ok(Vec::new()),
        }
    }

    /// Renders the report. The same profile and options give the same bytes.
    ///
    /// # Errors
    /// [`Error::Value`] for an option that does not fit the profile, [`Error::Profile`] when the profile cannot be prepared or encoded.
    pub fn render(&self, profile: &Profile, options: &Options, sources: &Sources) -> Result<Vec<u8>> {
        self.render_view(Cow::Borrowed(profile), options, sources)
    }

    /// As [`Report::render`], of a profile that is not needed afterwards: what is left out of it is not copied.
    ///
    /// # Errors
    /// As [`Report::render`].
    pub fn render_owned(&self, profile: Profile, options: &Options, sources: &Sources) -> Result<Vec<u8>> {
        self.render_view(Cow::Owned(profile), options, sources)
    }

    fn render_view(&self, profile: Cow<'_, Profile>, options: &Options, sources: &Sources) -> Result<Vec<u8>> {
        let view = if self.adjusts { View::new(profile, options)? } else { View::measured(profile) };
        (self.render)(&view, options, sources)
    }
}

/// Renders the report of that name: [`Report::named`] and [`Report::render`] in one.
///
/// # Errors
/// As those two.
pub fn render(profile: &Profile, name: &str, options: &Options, sources: &Sources) -> Result<Vec<u8>> {
    Report::named(name)?.render(profile, options, sources)
}
