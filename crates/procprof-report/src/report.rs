//! The table of reports and the one call that renders any of them.

#[cfg(test)]
mod fake;

use std::borrow::Cow;
use std::io::Write;

use procprof_profile::Profile;

use crate::drawing::{dot, pdf, svg};
use crate::functions::{top, tree};
use crate::header::headline::left_out_waits;
use crate::listing::sources::{CodeWanted, Sources};
use crate::listing::{disasm, list, weblist};
use crate::options::nearest::nearest;
use crate::output::Output;
use crate::selection::view::{View, shown_waits};
use crate::stacks::{collapsed, json, traces};
use crate::tables::{callgrind, comments, encoded, pprof, raw, symbols, tags};
use crate::{Error, Options, Result, flame_graph};

/// One kind of report.
pub struct Report {
    /// The name in URLs, on the command line and in SQL.
    pub name: &'static str,
    /// The extension of a file's name, without the first dot.
    pub extension: &'static str,
    /// The media type.
    pub media_type: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Its needs besides the profile.
    needs: Needs,
    /// Whether the profile is first adjusted by pprof's grammar and without allocators' frames; `false` for reports of
    /// the profile as measured.
    adjusts: bool,
    render: fn(&View<'_>, &Options, &Sources, &mut Output<'_>) -> Result<()>,
}

/// Returns the inputs of some kind that a report needs for a profile.
type Ask<T> = fn(&Profile, &Options) -> Result<Vec<T>>;

/// The needs of a report besides the profile and the options of all reports.
struct Needs {
    /// The option `symbol`: it shows the functions that match.
    symbol: bool,
    /// The source files, if it shows any.
    sources: Option<Ask<String>>,
    /// The machine code, if it shows any.
    code: Option<Ask<CodeWanted>>,
}

/// The profile only.
const NOTHING: Needs = Needs { symbol: false, sources: None, code: None };

/// Reports of values whose format has no place for a remark.
const WITHOUT_REMARKS: &[&str] =
    &["list", "disasm", "tags", "callgrind", "collapsed", "json", "cpuprofile", "topproto", "raw"];

/// All reports, in the order menus and help texts show them.
pub const REPORTS: &[Report] = &[
    Report {
        name: "flamegraph",
        extension: "svg",
        media_type: "image/svg+xml",
        help: "Interactive flame graph, one SVG file",
        needs: NOTHING,
        adjusts: true,
        render: flame_graph::render_svg,
    },
    Report {
        name: "html",
        extension: "html",
        media_type: "text/html; charset=utf-8",
        help: "The flame graph and the top functions as one self-contained page",
        needs: NOTHING,
        adjusts: true,
        render: flame_graph::render_html,
    },
    Report {
        name: "top",
        extension: "txt",
        media_type: "text/plain; charset=utf-8",
        help: "Functions by their own values (flat), as text",
        needs: NOTHING,
        adjusts: true,
        render: top::render,
    },
    Report {
        name: "tree",
        extension: "tree.txt",
        media_type: "text/plain; charset=utf-8",
        help: "Functions with their callers and callees, as text",
        needs: NOTHING,
        adjusts: true,
        render: tree::render,
    },
    Report {
        name: "peek",
        extension: "peek.txt",
        media_type: "text/plain; charset=utf-8",
        help: "Callers and callees of the functions that symbol matches, as text",
        needs: Needs { symbol: true, ..NOTHING },
        adjusts: true,
        render: tree::render_peek,
    },
    Report {
        name: "list",
        extension: "list.txt",
        media_type: "text/plain; charset=utf-8",
        help: "Source lines of the functions that symbol matches, as text",
        needs: Needs { symbol: true, sources: Some(list::files), code: None },
        adjusts: true,
        render: list::render,
    },
    Report {
        name: "disasm",
        extension: "disasm.txt",
        media_type: "text/plain; charset=utf-8",
        help: "Machine code of the functions that symbol matches, as text",
        needs: Needs { symbol: true, sources: None, code: Some(disasm::wanted) },
        adjusts: true,
        render: disasm::render,
    },
    Report {
        name: "weblist",
        extension: "weblist.html",
        media_type: "text/html; charset=utf-8",
        help: "Source lines and machine code of the functions that symbol matches, as a self-contained page",
        needs: Needs { symbol: true, sources: Some(list::files), code: Some(weblist::wanted) },
        adjusts: true,
        render: weblist::render,
    },
    Report {
        name: "traces",
        extension: "traces.txt",
        media_type: "text/plain; charset=utf-8",
        help: "All samples with their labels and stacks, as text",
        needs: NOTHING,
        adjusts: true,
        render: traces::render,
    },
    Report {
        name: "tags",
        extension: "tags.txt",
        media_type: "text/plain; charset=utf-8",
        help: "Labels with the sum for each of their values, as text",
        needs: NOTHING,
        adjusts: true,
        render: tags::render,
    },
    Report {
        name: "comments",
        extension: "comments.txt",
        media_type: "text/plain; charset=utf-8",
        help: "The comments of the profile, as text",
        needs: NOTHING,
        adjusts: false,
        render: comments::render,
    },
    Report {
        name: "svg",
        extension: "graph.svg",
        media_type: "image/svg+xml",
        help: "The call graph, one interactive SVG file",
        needs: NOTHING,
        adjusts: true,
        render: svg::render,
    },
    Report {
        name: "pdf",
        extension: "pdf",
        media_type: "application/pdf",
        help: "The call graph, as one PDF page of its size",
        needs: NOTHING,
        adjusts: true,
        render: pdf::render,
    },
    Report {
        name: "dot",
        extension: "dot",
        media_type: "text/vnd.graphviz; charset=utf-8",
        help: "The call graph for Graphviz",
        needs: NOTHING,
        adjusts: true,
        render: dot::render,
    },
    Report {
        name: "callgrind",
        extension: "callgrind",
        media_type: "text/plain; charset=utf-8",
        help: "Addresses with their costs and calls, for KCachegrind",
        needs: NOTHING,
        adjusts: true,
        render: callgrind::render,
    },
    Report {
        name: "collapsed",
        extension: "collapsed.txt",
        media_type: "text/plain; charset=utf-8",
        help: "One line for each stack with its value",
        needs: NOTHING,
        adjusts: true,
        render: collapsed::render,
    },
    Report {
        name: "json",
        extension: "json",
        media_type: "application/json",
        help: "The merged call tree as columns",
        needs: NOTHING,
        adjusts: true,
        render: json::render,
    },
    Report {
        name: "pprof",
        extension: "pb.gz",
        media_type: "application/octet-stream",
        help: "The profile itself as gzip'd pprof protobuf",
        needs: NOTHING,
        adjusts: false,
        render: pprof::render,
    },
    Report {
        name: "speedscope",
        extension: "speedscope.json",
        media_type: "application/json",
        help: "The profile for speedscope, with all sample types",
        needs: NOTHING,
        adjusts: true,
        render: encoded::render_speedscope,
    },
    Report {
        name: "cpuprofile",
        extension: "cpuprofile",
        media_type: "application/json",
        help: "The profile for the DevTools of Chrome and for VS Code, one sample type",
        needs: NOTHING,
        adjusts: true,
        render: encoded::render_cpuprofile,
    },
    Report {
        name: "otlp",
        extension: "otlp.pb",
        media_type: "application/x-protobuf",
        help: "The profile as OpenTelemetry's protobuf, with all sample types",
        needs: NOTHING,
        adjusts: true,
        render: encoded::render_otlp,
    },
    Report {
        name: "topproto",
        extension: "top.pb.gz",
        media_type: "application/octet-stream",
        help: "The rows of top as gzip'd pprof protobuf",
        needs: NOTHING,
        adjusts: true,
        render: top::render_proto,
    },
    Report {
        name: "symbols",
        extension: "symbols.txt",
        media_type: "text/plain; charset=utf-8",
        help: "Addresses with their names, in the format of /pprof/symbol",
        needs: NOTHING,
        adjusts: true,
        render: symbols::render,
    },
    Report {
        name: "raw",
        extension: "raw.txt",
        media_type: "text/plain; charset=utf-8",
        help: "All tables of the profile, as text",
        needs: NOTHING,
        adjusts: true,
        render: raw::render,
    },
    #[cfg(test)]
    fake::ROW,
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

    /// Whether the report shows the functions that the option `symbol` matches.
    pub fn takes_symbol(&self) -> bool {
        self.needs.symbol
    }

    /// The waits that the report leaves out, where its format has no place to say so: a sentence for whoever renders
    /// it.
    ///
    /// # Errors
    /// As [`Report::render`].
    pub fn unstated(&self, profile: &Profile, options: &Options) -> Result<Option<String>> {
        if !WITHOUT_REMARKS.contains(&self.name) {
            return Ok(None);
        }
        let (_, left_out) = shown_waits(Cow::Borrowed(profile), options.shown_waits())?;
        let sample_type = options.sample_type(profile)?;
        Ok(left_out_waits(&left_out, options, sample_type, profile.sample_type(sample_type).1))
    }

    /// Whether the report shows machine code, which only a caller that reads binaries can provide.
    pub fn takes_code(&self) -> bool {
        self.needs.code.is_some()
    }

    /// Whether the report shows source files, which can change while the profile stays the same.
    pub fn takes_sources(&self) -> bool {
        self.needs.sources.is_some()
    }

    /// The source files that the report shows, by their names in the profile after `trim_path`, for the caller to read
    /// into [`Sources`].
    ///
    /// # Errors
    /// As [`Report::render`].
    pub fn source_files(&self, profile: &Profile, options: &Options) -> Result<Vec<String>> {
        self.needs.sources.map_or(Ok(Vec::new()), |files| files(profile, options))
    }

    /// The machine code that the report shows, for the caller to read into [`Sources`].
    ///
    /// # Errors
    /// As [`Report::render`].
    pub fn wanted_code(&self, profile: &Profile, options: &Options) -> Result<Vec<CodeWanted>> {
        self.needs.code.map_or(Ok(Vec::new()), |wanted| wanted(profile, options))
    }

    /// Renders the report into memory. The same profile and options give the same bytes.
    ///
    /// # Errors
    /// [`Error::Value`] for an option that does not fit the profile, [`Error::Profile`] when the profile cannot be
    /// prepared or encoded, [`Error::OutputLimit`], [`Error::MemoryLimit`] and [`Error::Stopped`] by the budget of the
    /// options.
    pub fn render(&self, profile: &Profile, options: &Options, sources: &Sources) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write(Cow::Borrowed(profile), options, sources, &mut bytes)?;
        Ok(bytes)
    }

    /// As [`Report::render`], piece by piece to a writer. A profile that is passed by value is not copied.
    ///
    /// # Errors
    /// As [`Report::render`], and [`Error::Write`]; the writer may have received a part by then.
    pub fn write(
        &self,
        profile: Cow<'_, Profile>,
        options: &Options,
        sources: &Sources,
        to: &mut dyn Write,
    ) -> Result<()> {
        options.budget.go_on()?;
        let view = if self.adjusts { View::new(profile, options)? } else { View::measured(profile, options)? };
        let mut out = Output::new(&options.budget, to);
        (self.render)(&view, options, sources, &mut out)?;
        out.flush()
    }
}

/// Renders the report of that name: [`Report::named`] and [`Report::render`] in one.
///
/// # Errors
/// As those two.
pub fn render(profile: &Profile, name: &str, options: &Options, sources: &Sources) -> Result<Vec<u8>> {
    Report::named(name)?.render(profile, options, sources)
}
