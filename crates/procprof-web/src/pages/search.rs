//! `/search`: which profiles have a function above a share, of what it spends itself or with what it calls.
//!
//! The catalog has the functions of every profile. A page searches for so long, shows so many, and leads on to older
//! ones: every answer is quick, and reports how far it got, and which profiles' functions the catalog does not have.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{RawQuery, State};
use maud::{Markup, html};
use procprof_core::auth::Principal;
use procprof_core::nodes::Node;
use procprof_profile::{Nanos, ProfileId, ProfileType};
use procprof_store::{
    Column, Cursor, Entry, Filter, FunctionColumn, FunctionNames, FunctionQuery, Order, RowBatch, RowQuery, Store,
    Uncovered, Values,
};

use super::commands::{Command, commands, quoted};
use super::frame::Frame;
use super::list::table::{Table, forms, short};
use super::node_field::{ExtraChoice, node_field};
use super::{grouped, moment, profile_count, type_label};
use crate::Web;
use crate::blocking::on_store;
use crate::caller::Caller;
use crate::params::{Params, encode};
use crate::problem::{ApiResult, Problem};
use crate::server_url::ServerUrl;
use crate::texts::t;
use crate::time::rfc3339;

/// Time after which a page searches no further.
const SEARCH_TIME: Duration = Duration::from_secs(2);
/// Profiles that one page shows.
const FOUND_MAX: usize = 100;
/// Profiles counted at a time.
const COUNTED_TOGETHER: usize = 10_000;
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

/// A value of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// What it spends itself.
    Own,
    /// Also what it calls; in a recursion once.
    WithCallees,
}

/// What one page found.
#[derive(Default)]
struct Found {
    entries: Vec<Entry>,
    /// The functions found in them.
    hits: Vec<Hit>,
    searched: u64,
    /// Profiles from the first one searched on whose functions are not known.
    uncovered: Uncovered,
    /// Completion of the last profile that was searched.
    until: Option<i64>,
    next: Option<Cursor>,
}

/// `GET /search?node=&type=&from=&to=&function=&percent=&of=&cursor=`
pub(crate) async fn search(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    base: ServerUrl,
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
        false => {
            let (store, search) = (Arc::clone(&web.store), Arc::clone(&search));
            Some(on_store(move || search.find(&store, after)).await?)
        }
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
    fn find(&self, store: &Store, after: Option<Cursor>) -> procprof_store::Result<Found> {
        let filter = Filter {
            nodes: self.node.iter().map(|node| node.id).collect(),
            types: self.profile_type.iter().cloned().collect(),
            from: self.from,
            to: self.to,
            ..Filter::default()
        };
        let uncovered = store.uncovered(&filter, after)?;
        let percent = Some(self.percent as f64);
        let (own_percent_min, total_percent_min, value) = match self.counted {
            Counted::Own => (percent, None, FunctionColumn::Own),
            Counted::WithCallees => (None, percent, FunctionColumn::Total),
        };
        let id = FunctionColumn::Profile(Column::Id);
        let part = self.function.to_lowercase();
        let query = FunctionQuery {
            filter: filter.clone(),
            after,
            names: FunctionNames::Chosen(Arc::new(move |names: &[&str]| {
                names.iter().map(|name| name.to_lowercase().contains(&part)).collect()
            })),
            own_percent_min,
            total_percent_min,
            columns: vec![id, FunctionColumn::Name, value, FunctionColumn::ProfileTotal],
            order: Order::NewestFirst,
        };
        let mut rows = store.function_rows(&query)?;
        let deadline = Instant::now() + SEARCH_TIME;
        let mut found = Found { uncovered, ..Found::default() };
        let mut is_at_end = true;
        // Batches end with the first profile that has one.
        while let Some(batch) = rows.next(1)? {
            if let Some((id, hit)) = largest(&batch)
                && let Ok(entry) = store.get(id)
            {
                found.entries.push(entry);
                found.hits.push(hit);
            }
            if found.entries.len() >= FOUND_MAX || Instant::now() >= deadline {
                is_at_end = false;
                break;
            }
        }
        let place = rows.place();
        // Where no name matches, no profile was read.
        found.searched = if place.is_some() { rows.profiles() } else { count_profiles(store, filter)? };
        found.until = place.map(|place| place.completed().0);
        found.next = place.filter(|_| !is_at_end);
        Ok(found)
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
                label {
                    (t!("Node"))
                    (node_field(web, self.node.as_ref().map(|node| node.id.to_string()).as_deref(), ExtraChoice::Empty))
                }
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
                (t!("{0} of {1} searched").fill(&[html! { strong { (profile_count(found.entries.len() as u64)) } }, html! { (grouped(found.searched)) }]))
                @if let Some(until) = found.until { ", " (t!("back to {0}").fill(&[moment(until)])) }
                @if found.next.is_none() { ", " (t!("all there are")) }
                ". "
                @if found.uncovered.waiting > 0 {
                    strong {
                        (t!("Not searched, since their functions are still being read: {0}.", profile_count(found.uncovered.waiting)))
                    } " "
                }
                @if found.uncovered.unreadable + found.uncovered.too_many > 0 {
                    strong {
                        (t!("Not searched, since they cannot be read or have too many functions: {0}.",
                            profile_count(found.uncovered.unreadable + found.uncovered.too_many)))
                    } " "
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
        let share = match self.counted {
            Counted::Own => "self_percent",
            Counted::WithCallees => "total_percent",
        };
        vec![
            Command::sql(format!(
                "SELECT profile_id, node, type, completed, function, {share} FROM functions \
                 WHERE function LIKE {pattern} COLLATE utf8mb4_general_ci AND {share} >= {}{node} \
                 ORDER BY completed DESC LIMIT 100",
                self.percent
            )),
            Command::shell(format!("curl -s '{}/api/profiles?text={}'", base.0, encode(function))),
        ]
    }
}

fn count_profiles(store: &Store, filter: Filter) -> procprof_store::Result<u64> {
    let mut rows = store.rows(&RowQuery { filter, ..RowQuery::default() })?;
    let mut count = 0;
    while let Some(batch) = rows.next(COUNTED_TOGETHER)? {
        count += batch.rows as u64;
    }
    Ok(count)
}

/// The function with the largest value in the rows of one profile; of equal ones the first by name.
fn largest(batch: &RowBatch) -> Option<(ProfileId, Hit)> {
    let [Values::Ids(ids), Values::Texts(names), Values::Integers(values), Values::Integers(totals)] =
        &batch.columns[..]
    else {
        return None;
    };
    let rows = (0..batch.rows).filter(|row| values[*row] > 0 && totals[*row] > 0);
    let most = rows.max_by(|a, b| values[*a].cmp(&values[*b]).then_with(|| names.get(*b).cmp(&names.get(*a))))?;
    let percent = values[most] as f64 * 100.0 / totals[most] as f64;
    Some((ids[most], Hit { name: names.get(most)?.to_owned(), percent }))
}

fn percent(share: f64) -> String {
    format!("{share:.0}\u{a0}%")
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
