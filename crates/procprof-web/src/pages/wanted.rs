//! The files whose symbols are missing, with the command that sends them: on a profile's page, beside a node's list,
//! and on the page of symbols.

use maud::{Markup, html};
use procprof_core::symbols::WantedSymbols;
use procprof_store::Entry;

use crate::Web;
use crate::server_url::ServerUrl;
use crate::texts::{Text, t};

/// Files shown beside a list.
const BESIDE: usize = 3;
/// Share of the samples, in percent, from which on the files of a profile are shown unfolded.
const OPEN_FROM: f64 = 10.0;
/// Letters of a build id that are shown; the tooltip contains all.
const ID_SHOWN: usize = 16;

/// The missing symbols of a profile; nothing if there are none.
pub(super) fn card(web: &Web, entry: &Entry, base: &ServerUrl) -> Markup {
    let (worth, little): (Vec<WantedSymbols>, Vec<WantedSymbols>) =
        WantedSymbols::from_facts(&entry.meta).into_iter().partition(WantedSymbols::is_worth);
    html! {
        @if !worth.is_empty() {
            // Folded where it hides little, so that the graph is what one sees first.
            details class="card wanted"
                open[worth.iter().any(|wanted| wanted.percent.is_none_or(|percent| percent >= OPEN_FROM))]
            {
                summary { h2 { (t!("Names are missing")) } " " (most_hidden(&worth)) }
                @for wanted in &worth {
                    (line(wanted))
                    (remedy(web, entry, wanted, base))
                }
                (advice())
                @if !little.is_empty() {
                    p class="muted" title=(little.iter().map(WantedSymbols::to_string).collect::<Vec<_>>().join("\n")) {
                        @if little.len() == 1 { (t!("{0} hides less than 1 %.", little[0].name())) }
                        @else { (t!("{0} more files hide less than 1 % each.", little.len())) }
                    }
                }
            }
        }
    }
}

/// The file that hides most, in a few words.
fn most_hidden(worth: &[WantedSymbols]) -> Markup {
    let most = worth.iter().filter_map(|wanted| Some((wanted, wanted.percent?))).max_by(|a, b| a.1.total_cmp(&b.1));
    html! {
        @if let Some((wanted, percent)) = most {
            span class="muted" { (t!("{0} hides {1} of samples", wanted.name(), format_args!("{percent:.1}\u{a0}%"))) }
        }
    }
}

/// The remedy for a file: upload its symbols, or the reason why uploaded ones do not help.
fn remedy(web: &Web, entry: &Entry, wanted: &WantedSymbols, base: &ServerUrl) -> Markup {
    let has_failed = entry.meta.more.contains_key("symbolize-error");
    let is_sent = !web.symbols.find(wanted).is_empty();
    html! {
        @if is_sent && (has_failed || !wanted.build_id.is_empty()) {
            p class="bad" {
                (t!("Symbols of it were sent, but do not name this profile; the errors of its node say more."))
            }
        } @else if is_sent && !wanted.fitting.is_empty() {
            p class="bad" {
                (t!("Several uploaded files fit it, and the profile has no build id that tells which is right. Keep one and remove the others:"))
                " "
                @for (number, key) in wanted.fitting.iter().enumerate() { @if number > 0 { ", " } code { (key) } }
            }
        } @else {
            @if is_sent {
                p class="bad" {
                    (t!("Symbols of a file of this name were sent, but do not fit: their code has another length or place in the file."))
                }
            }
            (help(wanted, base))
        }
    }
}

/// The command that sends a file's symbols; before it, for a file that has none, what must be there first.
pub(super) fn help(wanted: &WantedSymbols, base: &ServerUrl) -> Markup {
    html! {
        @if wanted.is_stripped {
            p {
                (t!("The file is stripped. Its debug file has the names: what the build kept, or once its debug symbols package is installed:"))
            }
        }
        (command(&wanted.command(&base.0)))
    }
}

/// The missing symbols of all profiles of a list that were not uploaded; nothing if there are none.
pub(super) fn beside(web: &Web, entries: &[Entry], base: &ServerUrl) -> Markup {
    let mut all: Vec<WantedSymbols> = Vec::new();
    for wanted in
        entries.iter().flat_map(|entry| WantedSymbols::from_facts(&entry.meta)).filter(WantedSymbols::is_worth)
    {
        match all.iter_mut().find(|known| known.file == wanted.file && known.build_id == wanted.build_id) {
            Some(known) if known.percent < wanted.percent => known.percent = wanted.percent,
            Some(_) => {}
            None if web.symbols.find(&wanted).is_empty() => all.push(wanted),
            None => {}
        }
    }
    all.sort_by(|a, b| b.percent.unwrap_or(0.0).total_cmp(&a.percent.unwrap_or(0.0)));
    html! {
        @if !all.is_empty() {
            section class="card wanted" {
                h2 { (t!("Names are missing")) }
                @for wanted in all.iter().take(BESIDE) { (most(wanted)) (help(wanted, base)) }
                p class="more" {
                    a href="/symbols" {
                        @if all.len() > BESIDE {
                            (t!("All {0} files and symbols →", all.len()))
                        } @else {
                            (t!("Symbols →"))
                        }
                    }
                }
            }
        }
    }
}

/// A tag for a row whose profile lacks names; nothing when it lacks none.
pub(super) fn tag(entry: &Entry) -> Markup {
    let most = WantedSymbols::from_facts(&entry.meta)
        .into_iter()
        .filter(WantedSymbols::is_worth)
        .find_map(|wanted| wanted.percent.map(|percent| (wanted, percent)));
    html! {
        @if let Some((wanted, percent)) = most {
            " "
            span class="tag"
                title=(t!("{0} hides {1} of samples", wanted.name(), format_args!("{percent:.1}\u{a0}%")))
            {
                (t!("{0} % unnamed", format_args!("{percent:.0}")))
            }
        }
    }
}

/// A file and how much it matters to one profile.
fn line(wanted: &WantedSymbols) -> Markup {
    share(wanted, t!("{0} hides {1} of samples"))
}

/// A file and how much it matters to that of several profiles it matters most to.
pub(super) fn most(wanted: &WantedSymbols) -> Markup {
    share(wanted, t!("{0} hides up to {1} of samples"))
}

fn share(wanted: &WantedSymbols, hides: Text) -> Markup {
    let name = if wanted.name().is_empty() { t!("a file without a name").get() } else { wanted.name() };
    let name = html! { strong title=(wanted.file) { (name) } };
    html! {
        p {
            @match wanted.percent {
                Some(percent) => (hides.fill(&[name, html! { strong { (format!("{percent:.1}\u{a0}%")) } }])),
                None => (name),
            }
            br;
            span class="muted" { (build_id(&wanted.build_id)) }
        }
    }
}

/// A command to be copied; lines are broken between its words.
pub(super) fn command(text: &str) -> Markup {
    html! {
        pre class="command" data-command=(text) {
            code { @for (number, word) in text.split(' ').enumerate() { @if number > 0 { " " } span { (word) } } }
        }
    }
}

/// Alternatives to the file itself.
pub(super) fn advice() -> Markup {
    html! {
        p class="muted" {
            (t!("Give the file itself, its unstripped build, or its .debug or .debuginfo file, plain or compressed; a folder is searched. Only an index of its functions and lines is sent."))
        }
    }
}

fn build_id(text: &str) -> Markup {
    html! {
        @match text.get(..ID_SHOWN).filter(|_| text.len() > ID_SHOWN + 4) {
            _ if text.is_empty() => (t!("no build id is known")),
            Some(begin) => { "build id " code title=(text) { (begin) "…" } }
            None => { "build id " code { (text) } }
        }
    }
}
