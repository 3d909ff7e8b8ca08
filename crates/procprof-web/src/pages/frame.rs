//! What all pages have around them.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use procprof_core::printable;

use crate::assets;
use crate::texts::{Language, Text, of_script, switch, t};

/// The pages that every page leads to.
const PLACES: [(&str, Text); 10] = [
    ("/", t!("Nodes")),
    ("/proc_profile", t!("Profiles")),
    ("/merge", t!("Merge")),
    ("/search", t!("Search")),
    ("/heap", t!("Heap")),
    ("/open", t!("Open")),
    ("/archive", t!("Archive")),
    ("/symbols", t!("Symbols")),
    ("/settings", t!("Settings")),
    ("/help", t!("Help")),
];

/// Those that show the node of the page that leads to them.
const OF_A_NODE: [&str; 4] = ["/proc_profile", "/merge", "/search", "/heap"];

/// A page's frame.
pub(super) struct Frame<'a> {
    /// Which of the pages in the bar it is or belongs to; empty for none.
    pub(super) place: &'static str,
    pub(super) title: &'a str,
    /// The node that it is about.
    pub(super) node: Option<u64>,
    /// Whether the script fetches the page again now and then.
    pub(super) live: bool,
    /// What stands at the right of the bar.
    pub(super) status: Option<Markup>,
}

impl Frame<'_> {
    fn to(&self, place: &str) -> String {
        match self.node {
            Some(node) if OF_A_NODE.contains(&place) => format!("{place}?node={node}"),
            _ => place.to_owned(),
        }
    }

    pub(super) fn page(&self, body: Markup) -> Markup {
        without_steering(html! {
            (DOCTYPE)
            html lang=(Language::current().tag()) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " · procprof" }
                    link rel="icon" type="image/svg+xml" href=(assets::icon());
                    link rel="stylesheet" href=(assets::style());
                    script src=(assets::script()) defer {}
                }
                body data-live[self.live] data-texts=[Some(of_script()).filter(|texts| !texts.is_empty())] {
                    header class="bar" {
                        a class="brand" href="/" {
                            img src=(assets::icon()) alt="" width="22" height="22";
                            span { "procprof" }
                        }
                        nav class="places" aria-label=(t!("Pages")) { @for (place, label) in PLACES {
                            a href=(self.to(place)) aria-current=[(place == self.place).then_some("page")] { (label) }
                        } }
                        (switch())
                        @if let Some(status) = &self.status { div class="status-bar" { (status) } }
                    }
                    (body)
                }
            }
        })
    }
}

/// The page without characters that change the direction of the text around them, which names may have.
fn without_steering(page: Markup) -> Markup {
    let PreEscaped(page) = page;
    PreEscaped(if page.contains(printable::steers) { page.replace(printable::steers, "\u{fffd}") } else { page })
}
