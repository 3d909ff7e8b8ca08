//! `/search`: which profiles have a function above a share, of what it spends itself or with what it calls.
//!
//! The summary of a profile has the functions with the largest values of their own, and often proves that no other can
//! be above the share; where it does not, the file is read. A page searches so many profiles, reads files for so long,
//! and leads on to older ones: every answer is quick, and reports how far it got.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{RawQuery, State};
use maud::{Markup, html};
use procprof_core::auth::Principal;
use procprof_core::nodes::Node;
use procprof_core::render::{Counted, FunctionQuery, FunctionsRead, READ_TIME, Requester};
use procprof_profile::{Nanos, ProfileType};
use procprof_store::{Cursor, Entry, Filter, Format, PAGE_MAX, PageRequest, Summary};

use super::commands::{Command, commands, quoted};
use super::frame::Frame;
use super::list::table::{Table, forms, short};
use super::{grouped, moment, type_label};
use crate::Web;
use crate::blocking::on_store;
use crate::caller::{Caller, ReportRequester};
use crate::params::{Params, encode};
use crate::problem::{ApiResult, Problem};
use crate::server_url::ServerUrl;
use crate::texts::t;
use crate::time::rfc3339;

/// Profiles that one page searches.
const SEARCHED_MAX: usize = 20_000;
/// Profiles that one page shows.
const FOUND_MAX: usize = 100;
const KNOWN: &[&str] = &["node", "type", "from", "to", "function", "percent", "of", "cursor"];

struct Search {
    node: Option<Arc<Node>>,
    profile_type: Option<ProfileType>,
    from: Option<Nanos>,
    to: Option<Nanos>,
    function: String,
    percent: u64,
    counted: Counted,
}

/// A function with its share of a profile, in percent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hit {
    pub(super) name: String,
    pub(super) percent: f64,
}

/// What the summary of a profile proves.
#[derive(Debug, PartialEq)]
enum Proof {
    Has(Hit),
    HasNot,
    /// Its file has to be read.
    None,
}

/// What one page found.
#[derive(Default)]
struct Found {
    entries: Vec<Entry>,
    /// The functions found in them.
    hits: Vec<Hit>,
    searched: usize,
    /// Profiles whose files were read.
    read: usize,
    /// Those of them that could not be.
    unreadable: usize,
    /// Completion of the last profile that was searched.
    until: Option<i64>,
    next: Option<Cursor>,
}

/// `GET /search?node=&type=&from=&to=&function=&percent=&of=&cursor=`
pub(crate) async fn search(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    base: ServerUrl,
    ReportRequester(requester): ReportRequester,
    RawQuery(query): RawQuery,
) -> ApiResult<Markup> {
    let params = Params::parse(&query.unwrap_or_default())?.only(KNOWN)?;
    let search = Arc::new(Search {
        node: params.get("node").map(|_| params.node(&web)).transpose()?,
        profile_type: params.profile_type("type")?,
        from: params.time("from")?,
        to: params.time("to")?,
        function: params.get("function").unwrap_or_default().to_owned(),
        percent: params.number("percent", 0, 100)?.unwrap_or(5),
        counted: match params.get("of") {
            None | Some("self") => Counted::Own,
            Some("total") => Counted::WithCallees,
            Some(_) => return Err(Problem::bad_request("of: expected self or total")),
        },
    });
    let after = params.get("cursor").map(str::parse::<Cursor>).transpose()?;
    let found = match search.function.is_empty() {
        true => None,
        false => Some(search.find(&web, after, &requester).await?),
    };
    let body = html! {
        main class="list" {
            h1 { (t!("Search profiles by function")) }
            p class="muted" {
                (t!("Which profiles spend at least so much in a function, by itself or with what it calls."))
            }
            (search.form(&web))
            @if let Some(found) = &found { (search.results(found, &principal)) }
            (commands(&search.as_commands(&base)))
        }
    };
    Ok(Frame {
        place: "/search",
        title: t!("Search").get(),
        node: search.node.as_ref().map(|node| node.id),
        live: false,
        status: None,
    }
    .page(body))
}

impl Search {
    async fn find(&self, web: &Web, mut after: Option<Cursor>, requester: &Requester) -> ApiResult<Found> {
        let filter = Filter {
            nodes: self.node.iter().map(|node| node.id).collect(),
            types: self.profile_type.iter().cloned().collect(),
            from: self.from,
            to: self.to,
            ..Filter::default()
        };
        let query = FunctionQuery { part: self.function.to_lowercase(), counted: self.counted };
        let deadline = Instant::now() + READ_TIME;
        let mut found = Found::default();
        loop {
            let (store, filter) = (Arc::clone(&web.store), filter.clone());
            let page = on_store(move || store.list(&filter, &PageRequest { limit: PAGE_MAX, after })).await?;
            let proofs: Vec<Proof> = page.rows.iter().map(|entry| self.proof(&query.part, entry)).collect();
            let unproved = page.rows.iter().zip(&proofs).filter(|(_, proof)| **proof == Proof::None);
            let unproved: Vec<Entry> = unproved.map(|(entry, _)| entry.clone()).collect();
            let read = match unproved.is_empty() {
                true => Vec::new(),
                false => web.renderer.functions(unproved, query.clone(), deadline, requester).await?,
            };
            let mut read = read.into_iter();
            for (entry, proof) in page.rows.into_iter().zip(proofs) {
                let cursor = Cursor::after(&entry);
                let hit = match proof {
                    Proof::Has(hit) => Some(hit),
                    Proof::HasNot => None,
                    Proof::None => match read.next() {
                        Some(read) => found.hit(read),
                        // The time is over; the next page begins here.
                        None => return Ok(found),
                    },
                };
                found.searched += 1;
                (found.until, found.next) = (Some(entry.completed.0), Some(cursor));
                if let Some(hit) = hit.filter(|hit| hit.percent >= self.percent as f64) {
                    found.entries.push(entry);
                    found.hits.push(hit);
                }
                if found.entries.len() >= FOUND_MAX {
                    return Ok(found);
                }
            }
            after = page.next;
            if after.is_none() || found.searched >= SEARCHED_MAX {
                found.next = after;
                return Ok(found);
            }
        }
    }

    /// What the summary of a profile proves: its functions are sorted by their own values, so that those it does not
    /// have are no larger than its last one, nor than what the sum of all leaves of the total.
    fn proof(&self, part: &str, entry: &Entry) -> Proof {
        let total = entry.summary.shown(&entry.meta).map(|total| total.value).filter(|total| *total > 0);
        let Some(total) = total.filter(|_| entry.format == Format::Pprof) else { return Proof::HasNot };
        if self.counted == Counted::WithCallees {
            return Proof::None;
        }
        let percent = |value: i64| value as f64 * 100.0 / total as f64;
        let top = &entry.summary.top;
        let is_cut = |name: &str| name.len() > Summary::NAME_MAX;
        if let Some(found) = top.iter().find(|top| top.name.to_lowercase().contains(part))
            && !top.iter().take_while(|top| top.name != found.name).any(|top| is_cut(&top.name))
        {
            return Proof::Has(Hit { name: found.name.clone(), percent: percent(found.value) });
        }
        let sum = top.iter().fold(0_i64, |sum, top| sum.saturating_add(top.value));
        let unlisted = top.last().map_or(total, |last| last.value).min(total.saturating_sub(sum));
        let cut = top.iter().find(|top| is_cut(&top.name)).map(|top| top.value);
        let largest = cut.into_iter().chain([unlisted]).max().unwrap_or(0);
        // A share of 0 % has every function, but none that takes nothing.
        if largest <= 0 || percent(largest) < self.percent as f64 { Proof::HasNot } else { Proof::None }
    }

    fn form(&self, web: &Web) -> Markup {
        let time = |nanos: Option<Nanos>| nanos.map(|nanos| rfc3339(nanos.0)).unwrap_or_default();
        html! {
            form class="card fields wide-form" action="/search" role="search" {
                label {
                    (t!("Function"))
                    input type="search" name="function" value=(self.function) placeholder=(t!("Part of its name"))
                        required;
                }
                label { (t!("At least, %")) input type="number" name="percent" value=(self.percent) min="0" max="100"; }
                label { (t!("Of")) select name="of" {
                    option value="self" selected[self.counted == Counted::Own] { (t!("self")) }
                    option value="total" selected[self.counted == Counted::WithCallees] { (t!("total, with callees")) }
                } }
                label { (t!("Node")) select name="node" {
                    option value="" { (t!("all")) }
                    @for node in web.registry.all() {
                        option value=(node.id) selected[self.node.as_ref().is_some_and(|chosen| chosen.id == node.id)] {
                            (node.label())
                        }
                    }
                } }
                label { (t!("Type")) select name="type" {
                    option value="" { (t!("all")) }
                    @for kind in ProfileType::known() {
                        option value=(kind.name()) selected[self.profile_type.as_ref() == Some(kind)] {
                            (type_label(kind))
                        }
                    }
                } }
                label {
                    (t!("From (UTC)")) input name="from" value=(time(self.from)) placeholder="2026-11-20T22:25:34Z";
                }
                label { (t!("To (UTC)")) input name="to" value=(time(self.to)) placeholder="2026-11-20T23:25:34Z"; }
                button type="submit" class="primary" { (t!("Search")) }
            }
        }
    }

    fn results(&self, found: &Found, principal: &Principal) -> Markup {
        html! {
            p role="status" {
                (t!("{0} of {1} searched").fill(&[html! { strong { (count(found.entries.len())) } }, html! { (grouped(found.searched as u64)) }]))
                @if let Some(until) = found.until { ", " (t!("back to {0}").fill(&[moment(until)])) }
                @if found.next.is_none() { ", " (t!("all there are")) }
                ". "
                @if found.read > 0 { (t!("{0} of them were read whole.", grouped(found.read as u64))) " " }
                @if found.unreadable > 0 {
                    strong { (t!("{0} could not be read.", grouped(found.unreadable as u64))) } " "
                }
                @if let Some(next) = &found.next {
                    a href=(format!("{}&cursor={}", self.href(), encode(&next.to_string()))) {
                        (t!("Search older ones →"))
                    }
                }
            }
            @if found.entries.is_empty() {
                div class="empty" {
                    p class="head" { (t!("No profile has it")) }
                    p { (t!("A smaller share, another part of the name, or a longer time may find it."))
                        @if self.counted == Counted::Own {
                            " " (t!("Functions that only call others have no self value: search their total."))
                        }
                    }
                }
            } @else {
                (matches(&found.hits))
                (forms(&self.href(), principal))
                div id="profiles" {
                    (Table { rows: &found.entries, principal, nodes: true, hits: Some(&found.hits) }.markup())
                }
            }
        }
    }

    fn href(&self) -> String {
        let mut href = format!("/search?function={}&percent={}", encode(&self.function), self.percent);
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                href.push_str(&format!("&{name}={}", encode(&value)));
            }
        };
        add("of", (self.counted == Counted::WithCallees).then(|| "total".to_owned()));
        add("node", self.node.as_ref().map(|node| node.id.to_string()));
        add("type", self.profile_type.as_ref().map(|kind| kind.name().to_owned()));
        add("from", self.from.map(|from| rfc3339(from.0)));
        add("to", self.to.map(|to| rfc3339(to.0)));
        href
    }

    fn as_commands(&self, base: &ServerUrl) -> Vec<Command> {
        let function = if self.function.is_empty() { "memcpy" } else { &self.function };
        let pattern = quoted(&format!("%{function}%"));
        let node = self.node.as_ref().map(|node| format!(" AND node = {}", node.id)).unwrap_or_default();
        vec![
            Command::sql(format!(
                "SELECT id, node, type, completed, top_function FROM profiles WHERE top_function LIKE {pattern}{node} \
                 ORDER BY completed DESC LIMIT 100"
            )),
            Command::shell(format!("curl -s '{}/api/profiles?text={}'", base.0, encode(function))),
        ]
    }
}

impl Found {
    /// Counts a profile that was read; the function found in it.
    fn hit(&mut self, read: FunctionsRead) -> Option<Hit> {
        self.read += 1;
        match read {
            FunctionsRead::Found(share) if share.value > 0 && share.total > 0 => {
                Some(Hit { name: share.name, percent: share.value as f64 * 100.0 / share.total as f64 })
            }
            FunctionsRead::Found(_) | FunctionsRead::NotFound => None,
            FunctionsRead::Unreadable => {
                self.unreadable += 1;
                None
            }
        }
    }
}

fn percent(share: f64) -> String {
    format!("{share:.0}\u{a0}%")
}

/// A number of profiles.
fn count(profiles: usize) -> String {
    if profiles == 1 { t!("1 profile").to_string() } else { t!("{0} profiles", profiles) }
}

/// Which functions were found, where several match.
fn matches(hits: &[Hit]) -> Markup {
    let mut names: Vec<(&str, usize, f64)> = Vec::new();
    for Hit { name, percent } in hits {
        match names.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, count, largest)) => (*count, *largest) = (*count + 1, largest.max(*percent)),
            None => names.push((name, 1, *percent)),
        }
    }
    names.sort_by(|a, b| b.2.total_cmp(&a.2));
    html! {
        ul class="matches" {
            @for (name, count, largest) in names.iter().take(10) {
                li { code title=(name) { bdi { (short(name)) } } " "
                    @if *count == 1 {
                        (t!("in 1 profile, {0}", percent(*largest)))
                    } @else {
                        (t!("in {0} profiles, up to {1}", count, percent(*largest)))
                    }
                }
            }
        }
    }
}
