//! The flame graph viewer on a page: its element, its configuration, and what stands there without JavaScript.
//!
//! The script and the data come from `procprof-report`; the configuration is a data block of JSON, so that the page
//! needs no inline script. Without JavaScript the browser goes on to the same page with `plain=true`, which has a
//! table.

use maud::{Markup, PreEscaped, html};
use procprof_report::{OPTIONS, OptionRow, REPORTS};
use serde::Serialize;

use crate::assets;
use crate::params::encode;
use crate::texts::{Text, t};

/// The query that asks for the page without the script.
pub(crate) const PLAIN: &str = "plain";

/// Options that the viewer has its own controls for.
const NOT_OFFERED: &[&str] = &["symbol", "title", "layout", "sort", "nodecount", "root", "maxboxes", "minfraction"];

/// Keys of the viewer's own state in a page's address.
pub(crate) const VIEW_STATE: [&str; 8] = ["view", "zoom", "search", "colour", "frame", "part", "order", "filter"];

/// The part of a tree that a page shows first: boxes of about a pixel, in the rows that are in sight. The rest is
/// fetched once that is drawn.
const FIRST: &[(&str, &str)] = &[("wide", "2048"), ("rows", "64")];

/// Reports to save, with their labels.
const EXPORTS: &[(&str, Text)] = &[
    ("pprof", t!("pprof (whole profile)")),
    ("collapsed", t!("Collapsed stacks")),
    ("speedscope", t!("speedscope")),
    ("flamegraph", t!("SVG picture")),
    ("html", t!("HTML file that stands alone")),
];

/// Where the viewer gets its data, and what it offers.
#[derive(Serialize)]
pub(crate) struct ViewerConfig {
    tree: String,
    /// The slice that is shown first, which the page fetches before the script runs.
    first: String,
    search: String,
    table: String,
    sandwich: String,
    reports: Vec<Named>,
    exports: Vec<Export>,
    commands: Vec<Command>,
    options: Vec<Choice>,
}

#[derive(Serialize)]
struct Named {
    name: &'static str,
    url: String,
}

#[derive(Serialize)]
struct Export {
    label: &'static str,
    url: String,
}

/// A command that does the same; `{flags}` and `{query}` stand where the options go.
#[derive(Serialize)]
pub(crate) struct Command {
    pub(crate) label: &'static str,
    pub(crate) text: String,
}

#[derive(Serialize)]
struct Choice {
    key: &'static str,
    help: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    choices: Option<&'static [&'static str]>,
}

impl ViewerConfig {
    /// The configuration of a subject: the addresses of its data, the options of the page's address, the addresses of
    /// its reports where there are any, and of files to save.
    pub(crate) fn new(
        data: impl Fn(&str) -> String,
        options: &[(&str, &str)],
        report: impl Fn(&str) -> Option<String>,
        saved: impl Fn(&str) -> String,
    ) -> Self {
        let options: Vec<(&str, &str)> = options.iter().copied().filter(|(_, value)| !value.is_empty()).collect();
        let exists = |name: &&(&str, Text)| REPORTS.iter().any(|report| report.name == name.0);
        let reports = ["svg", "list", "weblist"].into_iter();
        ViewerConfig {
            tree: data("tree"),
            first: joined(&data("tree"), &[options.as_slice(), FIRST].concat()),
            search: data("search"),
            table: data("table"),
            sandwich: data("sandwich"),
            reports: reports.filter_map(|name| Some(Named { name, url: report(name)? })).collect(),
            exports: EXPORTS
                .iter()
                .filter(exists)
                .map(|(name, label)| Export { label: label.get(), url: saved(name) })
                .collect(),
            commands: Vec::new(),
            options: OPTIONS.iter().filter(|row| !NOT_OFFERED.contains(&row.key)).map(Choice::new).collect(),
        }
    }

    /// The same with commands that do what the page does.
    pub(crate) fn with_commands(self, commands: Vec<Command>) -> Self {
        ViewerConfig { commands, ..self }
    }
}

impl Choice {
    fn new(row: &'static OptionRow) -> Choice {
        let choices: Option<&'static [&'static str]> = match row.key {
            "granularity" => Some(&["functions", "filefunctions", "files", "lines", "addresses"]),
            "waits" => Some(&["lock", "idle", "wait", "all"]),
            "normalize" => Some(&["false", "true", "time"]),
            _ if ["true", "false"].contains(&row.default) => Some(&["false", "true"]),
            _ => None,
        };
        Choice { key: row.key, help: row.help, choices }
    }
}

/// Keys of the options that the viewer can set.
pub(crate) fn options_of() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().map(|row| row.key).filter(|key| !NOT_OFFERED.contains(key))
}

/// A path with a query, or with more of it.
pub(crate) fn joined(path: &str, pairs: &[(&str, &str)]) -> String {
    let query: Vec<String> = pairs.iter().map(|(key, value)| format!("{}={}", encode(key), encode(value))).collect();
    let mark = if path.contains('?') { '&' } else { '?' };
    if query.is_empty() { path.to_owned() } else { format!("{path}{mark}{}", query.join("&")) }
}

/// The viewer's element with its script and style; `plain` is the address of the page without JavaScript.
pub(crate) fn viewer(config: &ViewerConfig, plain: &str) -> Markup {
    html! {
        link rel="preload" as="fetch" crossorigin="anonymous" fetchpriority="high" href=(config.first);
        link rel="stylesheet" href=(assets::flame_style());
        div id="viewer" {
            noscript { meta http-equiv="refresh" content=(format!("0;url={plain}")); p { a href=(plain) { (t!("The table without JavaScript")) } } }
        }
        script type="application/json" id="viewer-config" { (PreEscaped(data_block(config))) }
        // Not behind the page's other scripts: the picture is what the page is for.
        script type="module" async src=(assets::flame_script()) {}
    }
}

/// JSON that can't end the element it stands in.
fn data_block(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default().replace('<', "\\u003c").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_block_holds_any_text() {
        let config = ViewerConfig::new(
            |path| format!("/p/1/{path}"),
            &[("focus", "a&b")],
            |_| None,
            |name| format!("/p/1?format={name}"),
        );
        let config = config.with_commands(vec![Command { label: "x", text: "</script><!--&amp;".to_owned() }]);
        let block = data_block(&config);
        assert!(!block.contains(['<', '&']), "{block}");
        let read: serde_json::Value = serde_json::from_str(&block).unwrap();
        assert_eq!(read["commands"][0]["text"], "</script><!--&amp;");
        assert_eq!(
            (&read["tree"], &read["first"]),
            (&"/p/1/tree".into(), &"/p/1/tree?focus=a%26b&wide=2048&rows=64".into())
        );
        let keys: Vec<&str> =
            read["options"].as_array().unwrap().iter().map(|option| option["key"].as_str().unwrap()).collect();
        assert!(keys.contains(&"focus") && keys.contains(&"sample_index") && !keys.contains(&"layout"), "{keys:?}");
    }
}
