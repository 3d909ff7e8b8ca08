//! `/help`: what each page does, the keys, and the same things as statements and commands.

use maud::{Markup, html};

use super::frame::Frame;
use super::wanted::command;
use crate::base::Base;

const PAGES: [(&str, &str, &str); 9] = [
    (
        "/",
        "Nodes",
        "All nodes with health, newest profiles, load and coverage of the last day; captures of several at once.",
    ),
    (
        "/proc_profile",
        "Profiles",
        "The profiles of a node: a timeline, a table with filters, its schedule and errors. Tick two to compare, more to merge.",
    ),
    (
        "/merge",
        "Merge and compare",
        "All profiles of a node, type and range as one; the difference of two ranges, such as the same hour of the day before.",
    ),
    ("/search", "Search", "Which profiles spend at least so much in a function."),
    ("/heap", "Heap", "The heap profilers of nodes: on for a while, off, dumps, and growth between two dumps."),
    ("/open", "Open a file", "A profile of your own, in any format that can be read, shown without storing it."),
    ("/symbols", "Symbols", "Uploaded symbols, and the files whose symbols are missing."),
    ("/settings", "Settings", "The configuration in effect, and what is stored."),
    ("/proc_profile/errors", "Errors", "Everything that went wrong with a node."),
];

const KEYS: [(&str, &str); 6] = [
    ("Tab, Enter", "to and into every link, box and button"),
    ("Space", "ticks a profile; opens and closes a menu"),
    ("Escape", "closes the menu or the list that is open"),
    ("/", "the search box of the page"),
    ("?", "this page"),
    ("drag over the timeline", "chooses a range to merge or to compare with the day before"),
];

/// `GET /help`
pub(crate) async fn help(base: Base) -> Markup {
    let body = html! {
        main class="one help" {
            h1 { "Help" }
            section class="card" {
                h2 { "Pages" }
                dl { @for (href, name, what) in PAGES { dt { a href=(href) { (name) } } dd { (what) } } }
            }
            section class="card" {
                h2 { "Keys" }
                dl { @for (key, what) in KEYS { dt { kbd { (key) } } dd { (what) } } }
                p class="muted" { "The viewer of a profile lists its own keys on " kbd { "?" } "." }
            }
            section class="card" {
                h2 { "Words" }
                dl {
                    dt { "Total" } dd { "The sum of a profile: CPU time, bytes in use, time waited. Cores are CPU time by second of the capture." }
                    dt { "Self" } dd { "What a function spends by itself, without what it calls." }
                    dt { "Coverage" } dd { "Time that profiles are about, over the time since the first of them within the last day." }
                    dt { "×48" } dd { "So many times the median of the profiles of its type on the page." }
                    dt { "Times" } dd { "Pages show your own time zone, and UTC on hover; without JavaScript, UTC. File names have UTC." }
                }
            }
            section class="card" {
                h2 { "As SQL and commands" }
                @for (what, row) in rows(&base) { p class="muted" { (what) } (command(&row)) }
                p { "The API is described by " a href="/api/openapi.json" { "its OpenAPI document" } "." }
            }
        }
    };
    Frame { place: "/help", title: "Help", live: false, status: None }.page(body)
}

fn rows(base: &Base) -> Vec<(&'static str, String)> {
    let base = &base.0;
    vec![
        (
            "Capture 30 s of CPU time of a node",
            format!("curl -X POST '{base}/api/captures' -d '{{\"node\": 10001, \"type\": \"cpu\", \"seconds\": 30}}'"),
        ),
        ("The same in SQL", "COLLECT CPU ON 10001 FOR 30 SECONDS".to_owned()),
        ("List the newest profiles of a node", format!("curl '{base}/api/profiles?node=10001&type=cpu&limit=10'")),
        ("Open a stored profile in pprof", format!("go tool pprof '{base}/api/profiles/ID/download'")),
        ("The same as text", format!("procprof report -top '{base}/api/profiles/ID/download'")),
        ("Add a profile of a file", format!("curl --data-binary @profile.pb.gz '{base}/api/push?node=10001&type=cpu'")),
        (
            "Pause and resume all scheduled captures",
            format!("curl -X POST '{base}/api/pause'; curl -X POST '{base}/api/resume'"),
        ),
    ]
}
