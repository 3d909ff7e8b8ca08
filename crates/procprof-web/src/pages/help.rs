//! `/help`: what each page does, the keys, and the same things as statements and commands.

use maud::{Markup, html};

use super::frame::Frame;
use super::wanted::command;
use crate::server_url::ServerUrl;
use crate::texts::{Text, t};

const PAGES: [(&str, Text, Text); 10] = [
    (
        "/",
        t!("Nodes"),
        t!(
            "All nodes with health, newest profiles, load of the last hour and coverage of the last day; captures of several at once."
        ),
    ),
    (
        "/proc_profile",
        t!("Profiles"),
        t!(
            "The profiles of a node: a timeline, a table with filters, its schedule and errors. Tick two to compare, more to merge."
        ),
    ),
    (
        "/merge",
        t!("Merge and compare"),
        t!(
            "All profiles of a node, type and range as one; the difference of two ranges, such as the same hour of the day before."
        ),
    ),
    ("/search", t!("Search"), t!("Which profiles spend at least so much in a function.")),
    ("/heap", t!("Heap"), t!("The heap profilers of nodes: on for a while, off, dumps, and growth between two dumps.")),
    (
        "/open",
        t!("Open a file"),
        t!("A profile of your own, in any format that can be read, shown without storing it."),
    ),
    (
        "/archive",
        t!("Archive"),
        t!("What the archive has of each day and hour, what it costs, and how far it is; the servers that share it."),
    ),
    ("/symbols", t!("Symbols"), t!("Uploaded symbols, and the files whose symbols are missing.")),
    ("/settings", t!("Settings"), t!("The configuration in effect, and what is stored.")),
    ("/proc_profile/errors", t!("Errors"), t!("Everything that went wrong with a node.")),
];

const KEYS: [(Text, Text); 6] = [
    (t!("Tab, Enter"), t!("to and into every link, box and button")),
    (t!("Space"), t!("ticks a profile; opens and closes a menu")),
    (t!("Escape"), t!("closes the menu or the list that is open")),
    (t!("/"), t!("the search box of the page")),
    (t!("?"), t!("this page")),
    (t!("drag over the timeline"), t!("chooses a range to merge or to compare with the day before")),
];

/// `GET /help`
pub(crate) async fn help(base: ServerUrl) -> Markup {
    let body = html! {
        main class="one help" {
            h1 { (t!("Help")) }
            section class="card" {
                h2 { (t!("Pages")) }
                dl { @for (href, name, what) in PAGES { dt { a href=(href) { (name) } } dd { (what) } } }
            }
            section class="card" {
                h2 { (t!("Keys")) }
                dl { @for (key, what) in KEYS { dt { kbd { (key) } } dd { (what) } } }
                p class="muted" {
                    (t!("The viewer of a profile lists its own keys on {0}.").fill(&[html! { kbd { "?" } }]))
                }
            }
            section class="card" {
                h2 { (t!("Words")) }
                dl {
                    dt { (t!("Total")) }
                    dd {
                        (t!("The sum of a profile: CPU time, bytes in use, time waited. Cores are CPU time by second of the capture."))
                    }
                    dt { (t!("Self")) } dd { (t!("What a function spends by itself, without what it calls.")) }
                    dt { (t!("Coverage")) }
                    dd {
                        (t!("Time that profiles are about, over the time since the first of them within the last day."))
                    }
                    dt { "×48" } dd { (t!("So many times the median of the profiles of its type on the page.")) }
                    dt { (t!("Times")) }
                    dd {
                        (t!("Pages show your own time zone, and UTC on hover; without JavaScript, UTC. File names have UTC."))
                    }
                }
            }
            section class="card" {
                h2 { (t!("As SQL and commands")) }
                @for (what, row) in rows(&base) { p class="muted" { (what) } (command(&row)) }
                p {
                    (t!("The API is described by {0}.").fill(&[html! { a href="/api/openapi.json" { (t!("its OpenAPI document")) } }]))
                }
            }
        }
    };
    Frame { place: "/help", title: t!("Help").get(), node: None, live: false, status: None }.page(body)
}

fn rows(base: &ServerUrl) -> Vec<(Text, String)> {
    let base = &base.0;
    vec![
        (
            t!("Capture 30 s of CPU time of a node"),
            format!("curl -X POST '{base}/api/captures' -d '{{\"node\": 10001, \"type\": \"cpu\", \"seconds\": 30}}'"),
        ),
        (t!("The same in SQL"), "COLLECT CPU ON 10001 FOR 30 SECONDS".to_owned()),
        (t!("List the newest profiles of a node"), format!("curl '{base}/api/profiles?node=10001&type=cpu&limit=10'")),
        (t!("Open a stored profile in pprof"), format!("go tool pprof '{base}/api/profiles/ID/download'")),
        (t!("The same as text"), format!("procprof report -top '{base}/api/profiles/ID/download'")),
        (
            t!("Add a profile of a file"),
            format!("curl --data-binary @profile.pb.gz '{base}/api/push?node=10001&type=cpu'"),
        ),
        (
            t!("Pause and resume all scheduled captures"),
            format!("curl -X POST '{base}/api/pause'; curl -X POST '{base}/api/resume'"),
        ),
    ]
}
