//! The table of reports and the one call that renders any of them.

use std::collections::BTreeMap;

use procprof_profile::Profile;

use crate::nearest::nearest;
use crate::view::View;
use crate::{Error, Options, Result, collapsed, flame_graph, json, pprof, top};

/// Texts that a report shows beside the profile, read by the caller.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Source texts by the path that the profile gives.
    pub files: BTreeMap<String, String>,
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

    /// Renders the report. The same profile and options give the same bytes.
    ///
    /// # Errors
    /// [`Error::Value`] for an option that does not fit the profile, [`Error::Profile`] when the profile cannot be prepared or encoded.
    pub fn render(&self, profile: &Profile, options: &Options, sources: &Sources) -> Result<Vec<u8>> {
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
