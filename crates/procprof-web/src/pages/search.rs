//! `/search`: which profiles have a function among those with the largest self values, above a share.
//!
//! A page searches so many profiles by their summaries, and leads on to older ones: every answer is quick, and says how
//! far it got.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use maud::{Markup, html};
use procprof_core::auth::Principal;
use procprof_core::nodes::Node;
use procprof_profile::{Nanos, ProfileType};
use procprof_store::{Cursor, Entry, Filter, PAGE_MAX, PageRequest, Store, TopFunction};

use super::commands::{Command, commands};
use super::frame::Frame;
use super::list::table::{Table, forms, short};
use super::{grouped, moment};
use crate::Web;
use crate::base::Base;
use crate::blocking::on_store;
use crate::caller::Caller;
use crate::params::{Params, encode};
use crate::problem::ApiResult;
use crate::time::rfc3339;

/// Profiles that one page searches.
const SEARCHED_MAX: usize = 20_000;
/// Profiles that one page shows.
const FOUND_MAX: usize = 100;
const KNOWN: &[&str] = &["node", "type", "from", "to", "function", "percent", "cursor"];

struct Search {
    node: Option<Arc<Node>>,
    profile_type: Option<ProfileType>,
    from: Option<Nanos>,
    to: Option<Nanos>,
    function: String,
    percent: u64,
}

/// What one page found.
struct Found {
    entries: Vec<(Entry, TopFunction, f64)>,
    searched: usize,
    /// Completion of the last profile that was searched.
    until: Option<i64>,
    next: Option<Cursor>,
}

/// `GET /search?node=&type=&from=&to=&function=&percent=&cursor=`
pub(crate) async fn search(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    base: Base,
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
    });
    let after = params.get("cursor").map(str::parse::<Cursor>).transpose()?;
    let found = match search.function.is_empty() {
        true => None,
        false => {
            let (store, search) = (Arc::clone(&web.store), Arc::clone(&search));
            Some(on_store(move || search.find(&store, after)).await?)
        }
    };
    let body = html! {
        main class="list" {
            h1 { "Search profiles by function" }
            p class="muted" { "Which profiles spend at least so much in a function itself. Of each profile the ten functions with the largest self values are searched." }
            (search.form(&web))
            @if let Some(found) = &found { (search.results(found, &principal)) }
            (commands(&search.as_commands(&base)))
        }
    };
    Ok(Frame { title: "Search", live: false, status: None }.page(body))
}

impl Search {
    fn find(&self, store: &Store, mut after: Option<Cursor>) -> procprof_store::Result<Found> {
        let filter = Filter {
            nodes: self.node.iter().map(|node| node.id).collect(),
            types: self.profile_type.iter().cloned().collect(),
            from: self.from,
            to: self.to,
            ..Filter::default()
        };
        let wanted = self.function.to_lowercase();
        let mut found = Found { entries: Vec::new(), searched: 0, until: None, next: None };
        loop {
            let page = store.list(&filter, &PageRequest { limit: PAGE_MAX, after })?;
            found.searched += page.rows.len();
            found.until = page.rows.last().map(|entry| entry.completed.0).or(found.until);
            found.entries.extend(page.rows.into_iter().filter_map(|entry| self.holds(&wanted, entry)));
            found.next = page.next;
            after = page.next;
            if after.is_none() || found.searched >= SEARCHED_MAX || found.entries.len() >= FOUND_MAX {
                return Ok(found);
            }
        }
    }

    /// The profile with its function, if that is large enough.
    fn holds(&self, wanted: &str, entry: Entry) -> Option<(Entry, TopFunction, f64)> {
        let total = entry.summary.shown(&entry.meta).map(|total| total.value).filter(|total| *total > 0)?;
        let top = entry.summary.top.iter().find(|top| top.name.to_lowercase().contains(wanted))?.clone();
        let percent = top.value as f64 * 100.0 / total as f64;
        (percent >= self.percent as f64).then_some((entry, top, percent))
    }

    fn form(&self, web: &Web) -> Markup {
        let types = ["cpu", "wall", "alloc", "heap", "contention", "mutex", "goroutine"];
        let time = |nanos: Option<Nanos>| nanos.map(|nanos| rfc3339(nanos.0)).unwrap_or_default();
        html! {
            form class="card fields wide-form" action="/search" role="search" {
                label { "Function" input type="search" name="function" value=(self.function) placeholder="Part of its name" required; }
                label { "At least, % self" input type="number" name="percent" value=(self.percent) min="0" max="100"; }
                label { "Node" select name="node" {
                    option value="" { "all" }
                    @for node in web.registry.all() {
                        option value=(node.id) selected[self.node.as_ref().is_some_and(|chosen| chosen.id == node.id)] { (node.label()) }
                    }
                } }
                label { "Type" select name="type" {
                    option value="" { "all" }
                    @for kind in types { option value=(kind) selected[self.profile_type.as_ref().is_some_and(|chosen| chosen.name() == kind)] { (kind) } }
                } }
                label { "From (UTC)" input name="from" value=(time(self.from)) placeholder="2026-11-20T22:25:34Z"; }
                label { "To (UTC)" input name="to" value=(time(self.to)) placeholder="2026-11-20T23:25:34Z"; }
                button type="submit" class="primary" { "Search" }
            }
        }
    }

    fn results(&self, found: &Found, principal: &Principal) -> Markup {
        let rows: Vec<Entry> = found.entries.iter().map(|(entry, ..)| entry.clone()).collect();
        html! {
            p role="status" {
                strong { (found.entries.len()) (if found.entries.len() == 1 { " profile" } else { " profiles" }) }
                " of " (grouped(found.searched as u64)) " searched"
                @if let Some(until) = found.until { ", back to " (moment(until)) }
                @if found.next.is_none() { ", all there are" }
                "."
                @if let Some(next) = &found.next { " " a href=(format!("{}&cursor={}", self.href(), encode(&next.to_string()))) { "Search older ones →" } }
            }
            @if rows.is_empty() {
                div class="empty" {
                    p class="head" { "No profile has it" }
                    p { "A smaller share, another part of the name, or a longer time may find it. Functions that only call others have no self value." }
                }
            } @else {
                (matches(&found.entries))
                (forms(&self.href(), principal))
                div id="profiles" { (Table { rows: &rows, principal, nodes: true }.markup()) }
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
        add("node", self.node.as_ref().map(|node| node.id.to_string()));
        add("type", self.profile_type.as_ref().map(|kind| kind.name().to_owned()));
        add("from", self.from.map(|from| rfc3339(from.0)));
        add("to", self.to.map(|to| rfc3339(to.0)));
        href
    }

    fn as_commands(&self, base: &Base) -> Vec<Command> {
        let function = if self.function.is_empty() { "memcpy" } else { &self.function };
        // As MySQL reads a text: a backslash would escape what follows it.
        let literal = function.replace('\\', "\\\\").replace('\'', "''");
        let node = self.node.as_ref().map(|node| format!(" AND node = {}", node.id)).unwrap_or_default();
        vec![
            Command::sql(format!(
                "SELECT id, node, type, completed, top_function FROM profiles WHERE top_function LIKE '%{literal}%'{node} ORDER BY completed DESC LIMIT 100"
            )),
            Command::shell(format!("curl -s '{}/api/profiles?text={}'", base.0, encode(function))),
        ]
    }
}

/// Which functions were found, where several match.
fn matches(entries: &[(Entry, TopFunction, f64)]) -> Markup {
    let mut names: Vec<(&str, usize, f64)> = Vec::new();
    for (_, top, percent) in entries {
        match names.iter_mut().find(|(name, ..)| *name == top.name) {
            Some((_, count, largest)) => (*count, *largest) = (*count + 1, largest.max(*percent)),
            None => names.push((&top.name, 1, *percent)),
        }
    }
    names.sort_by(|a, b| b.2.total_cmp(&a.2));
    html! {
        ul class="matches" {
            @for (name, count, largest) in names.iter().take(10) {
                li { code title=(name) { bdi { (short(name)) } } " in " (count) (if *count == 1 { " profile, " } else { " profiles, up to " }) (format!("{largest:.0}\u{a0}%")) }
            }
        }
    }
}
