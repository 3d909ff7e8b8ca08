//! `/merge`: profiles of nodes, a type and a range as one, or selected ones; and the difference of two ranges. Without a
//! range it is the form that chooses one.

mod side;

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use procprof_core::auth::Principal;
use procprof_core::clock::now;
use procprof_core::shares::Requester;
use procprof_profile::ProfileType;
use procprof_report::Report;

use self::side::{Side, covered, sides, summary};
use super::commands::{Command, commands};
use super::frame::Frame;
use super::list::known_class;
use super::list::table::{Table, forms};
use super::node_field::{ExtraChoice, node_field};
use super::period::{PERIODS, Period};
use super::scaling::Extents;
use super::{grouped, span, time_query, type_label};
use crate::Web;
use crate::caller::{Caller, ShareRequester};
use crate::params::{Params, encode};
use crate::problem::{ApiResult, Problem};
use crate::profile_document::render;
use crate::server_url::ServerUrl;
use crate::subjects::{ALL_NODES, SUM_KEYS, summed};
use crate::texts::{Text, t};
use crate::time::rfc3339;
use crate::viewer::{PLAIN, VIEW_STATE, ViewerConfig, joined, options_of, viewer};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;
/// Profiles that a command fetches one by one.
const FETCHED_MAX: usize = 4;
/// Profiles listed.
const LISTED_MAX: usize = 50;
/// Bytes of the table that the page without JavaScript shows.
const PLAIN_BYTES_MAX: usize = 256 << 10;

/// `GET /merge?node=&label=&type=&from=&to=&id=&base_from=&base_to=&base_id=`, or `last=` for a range that ends now
pub(crate) async fn merge(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    base: ServerUrl,
    RawQuery(query): RawQuery,
    ShareRequester(requester): ShareRequester,
) -> ApiResult<Response> {
    let query = query.unwrap_or_default();
    let params = Params::parse(&query)?;
    if let Some(period) = Period::of(&params)? {
        let (from, to) = (now().0 - period.seconds * SECOND, now().0);
        let others = params.except(&["last", "from", "to"]).map(|(key, value)| format!("{key}={}", encode(value)));
        let range = [format!("from={}", encode(&rfc3339(from))), format!("to={}", encode(&rfc3339(to)))];
        let query = others.chain(range).collect::<Vec<_>>().join("&");
        return Ok(Redirect::temporary(&format!("/merge?{query}")).into_response());
    }
    if ["id", "from", "to"].iter().all(|key| params.get(key).is_none()) {
        let body = html! {
            main class="one" {
                h1 { (t!("Merge and compare")) }
                p class="muted" {
                    (t!("All profiles of a node, type and range as one; with a second range, what changed between the two. The timeline of a node leads here, too."))
                }
                (form(&web, &params))
            }
        };
        let node = params
            .get("node")
            .filter(|name| *name != ALL_NODES)
            .map(|_| params.node(&web))
            .transpose()?
            .map(|node| node.id);
        return Ok(Frame { place: "/merge", title: t!("Merge").get(), node, live: false, status: None }
            .page(body)
            .into_response());
    }
    if params.get("format").is_some() {
        let subject = summed(&web, &params).await?;
        let pairs: Vec<(&str, &str)> = params.except(SUM_KEYS).filter(|(key, _)| *key != "format").collect();
        return render(&web, &subject, params.get("format"), &pairs, &requester).await;
    }
    let (side, other) =
        sides(&web, &params).await.map_err(|problem| Problem { form: Some(form(&web, &params)), ..problem })?;
    if let Some(other) = &other
        && params.get("normalize").is_none()
        && let Some(scaling) = (Extents { own: side.extent(), base: other.extent() }).default()
    {
        return Ok(Redirect::temporary(&format!("/merge?{query}&normalize={scaling}")).into_response());
    }
    let page = Page { web: &web, principal: &principal, base: &base, params: &params, side, other };
    let graph = page.graph(&requester).await?;
    Ok(Frame { place: "/merge", title: &page.title(), node: page.node(), live: false, status: None }
        .page(page.body(&graph))
        .into_response())
}

struct Page<'a> {
    web: &'a Arc<Web>,
    principal: &'a Principal,
    base: &'a ServerUrl,
    params: &'a Params,
    side: Side,
    other: Option<Side>,
}

impl Page<'_> {
    /// Whether it is of the nodes with the labels, all of them.
    fn is_of_all(&self) -> bool {
        self.side.range.is_some() && self.params.get("node") == Some(ALL_NODES)
    }

    /// The node whose page it is; none of all.
    fn node(&self) -> Option<u64> {
        if self.is_of_all() {
            return None;
        }
        // The first one named: the newest profile may be of another.
        let named = self.params.get("node").and_then(|name| self.web.registry.find(name)).map(|node| node.id);
        named.filter(|_| self.side.range.is_some()).or_else(|| self.side.entries.first().map(|entry| entry.node))
    }

    fn profile_type(&self) -> Option<ProfileType> {
        let named = || self.params.profile_type("type").ok().flatten().filter(|_| self.side.range.is_some());
        self.side.entries.first().map(|entry| entry.profile_type.clone()).or_else(named)
    }

    fn title(&self) -> String {
        let kind = self.profile_type();
        let kind = kind.as_ref().map_or(t!("Profiles").get(), type_label);
        match self.other {
            Some(_) => t!("{0}: difference of two ranges", kind),
            None => t!("{0}: {1} profiles as one", kind, grouped(self.side.count())),
        }
    }

    /// The nodes by name, with their ids where this server knows them.
    fn nodes(&self) -> Vec<(Option<u64>, String)> {
        if let (None, Some(entry)) = (self.side.range, self.side.entries.first()) {
            return vec![(Some(entry.node), entry.meta.node_name.clone())];
        }
        let named = |name: &str| match self.web.registry.find(name) {
            Some(node) => (Some(node.id), node.name().to_owned()),
            None => (None, name.to_owned()),
        };
        self.params.all("node").filter(|name| *name != ALL_NODES).map(named).collect()
    }

    fn body(&self, graph: &Markup) -> Markup {
        html! {
            main class="one" {
                p class="crumbs" {
                    @for (number, (id, name)) in self.nodes().iter().enumerate() {
                        @if number > 0 { ", " }
                        @match id {
                            Some(id) => { a href=(format!("/proc_profile?node={id}")) { (name) } }
                            None => (name),
                        }
                    }
                    @if self.is_of_all() { a href="/proc_profile" { (t!("All nodes")) } }
                    @for label in self.params.all("label") { ", " (label) }
                    " / "
                    @if self.other.is_some() { (t!("comparison")) } @else { (t!("merge")) }
                }
                h1 { @if let Some(kind) = self.profile_type().filter(|_| !self.side.is_empty()) {
                        span class=(format!("type {}", known_class(kind.name()))) { (type_label(&kind)) }
                        " "
                    }
                    @if self.other.is_some() {
                        (t!("difference"))
                    } @else {
                        @if self.side.count() == 1 { (t!("of 1 profile")) }
                        @else { (t!("of {0} profiles", grouped(self.side.count()))) }
                    }
                }
                p class="about" {
                    (summary(&self.side))
                    @if let Some(other) = &self.other { span { (t!("compared with")) } (summary(other)) }
                }
                (covered(&self.side))
                @if let Some(other) = &self.other { (covered(other)) }
                (self.scaling())
                p class="filters" { (self.next()) }
                @if self.side.is_empty() || self.other.as_ref().is_some_and(Side::is_empty) {
                    (self.nothing())
                }
                @else { (graph) }
                details class="wider" open[self.side.is_empty()] {
                    summary { (t!("Another range")) } (form(self.web, self.params))
                }
                (forms("/", self.principal))
                (self.members(t!("Profiles"), &self.side))
                @if let Some(other) = &self.other { (self.members(t!("Compared with"), other)) }
                (commands(&self.as_commands()))
            }
        }
    }

    /// How the base is scaled, where both sides have measured differently much.
    fn scaling(&self) -> Markup {
        let Some(other) = self.other.as_ref().filter(|other| !other.is_empty()) else { return html! {} };
        let extents = Extents { own: self.side.extent(), base: other.extent() };
        if self.side.is_empty() || extents.are_equal() {
            html! {}
        } else {
            extents.switch("/merge", self.params)
        }
    }

    /// Where one goes from here.
    fn next(&self) -> Markup {
        let (Some((from, to)), Some(kind)) = (self.side.range, self.profile_type()) else {
            return html! {};
        };
        let named = |key: &str| self.params.all(key).map(|value| format!("{key}={}", encode(value))).collect();
        let (nodes, labels): (Vec<String>, Vec<String>) = (named("node"), named("label"));
        let time = time_query(&kind, from, to);
        let range = [nodes.as_slice(), &labels, std::slice::from_ref(&time)].concat().join("&");
        // A list is of one node, or all.
        let list = self.node().map(|node| format!("node={node}")).into_iter().chain(labels).chain([time]);
        let list = list.collect::<Vec<_>>().join("&");
        let before = |by: i64| {
            format!("/merge?{range}&base_from={}&base_to={}", encode(&rfc3339(from - by)), encode(&rfc3339(to - by)))
        };
        html! {
            @if self.other.is_some() { a href=(format!("/merge?{range}")) { (t!("Without the comparison")) } }
            a href=(before(DAY)) { (t!("Compare with the day before")) }
            @if to - from != DAY { a href=(before(to - from)) { (t!("Compare with the {0} before", span(to - from))) } }
            a href=(format!("/proc_profile?{list}")) { (t!("List")) }
        }
    }

    fn nothing(&self) -> Markup {
        html! {
            div class="empty" {
                p class="head" {
                    @if self.side.is_empty() {
                        (t!("No profiles in this range"))
                    } @else {
                        (t!("No profiles to compare with"))
                    }
                }
                p {
                    (t!("No profile of this node and type was completed then: it was not captured, or retention has deleted it. Choose another range below."))
                }
            }
        }
    }

    /// The picture, and reports of the same; the functions as a text where there is no script.
    async fn graph(&self, requester: &Requester) -> ApiResult<Markup> {
        if self.side.is_empty() || self.other.as_ref().is_some_and(Side::is_empty) {
            return Ok(html! {});
        }
        let subject: Vec<(&str, &str)> = self.params.except(&[]).filter(|(key, _)| SUM_KEYS.contains(key)).collect();
        let saved = |name: &str| joined("/merge", &[subject.as_slice(), &[("format", name)]].concat());
        let data = |name: &str| joined(&format!("/merge/{name}"), &subject);
        let others = [&VIEW_STATE[..], SUM_KEYS, &[PLAIN]].concat();
        let is_option = |(key, _): &(&str, &str)| options_of().any(|known| known == *key);
        let options: Vec<(&str, &str)> = self.params.except(&others).filter(is_option).collect();
        let has_sources = !self.web.config().source_roots.is_empty();
        let has_report = |name: &str| name == "svg" || (name == "list" && has_sources);
        let config = ViewerConfig::new(data, &options, |name| has_report(name).then(|| saved(name)), saved);
        if self.params.get(PLAIN).is_some() {
            let top = Report::named("top").map_err(|error| Problem::bad_request(error.to_string()))?;
            let summed = summed(self.web, self.params).await?;
            let bytes = self.web.renderer.render(&summed, top, &options, requester).await?;
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(PLAIN_BYTES_MAX)]).into_owned();
            return Ok(html! {
                p class="filters" {
                    a href=(saved("flamegraph")) { (t!("The flame graph as a picture")) }
                    a href=(joined("/merge", &subject)) { (t!("With JavaScript")) }
                }
                div class="table" { pre class="report" { (text) } }
            });
        }
        Ok(html! {
            p class="filters" {
                @for (report, label) in [
                    ("top", t!("Functions")),
                    ("tree", t!("Callers and callees")),
                    ("svg", t!("Call graph")),
                    ("collapsed", t!("Collapsed stacks")),
                    ("pprof", t!("pprof file")),
                ] {
                    a href=(saved(report)) target="_blank" { (label) }
                }
            }
            (viewer(&config, &joined("/merge", &[subject.as_slice(), &[(PLAIN, "true")]].concat())))
        })
    }

    fn members(&self, head: Text, side: &Side) -> Markup {
        let shown = &side.entries[..side.entries.len().min(LISTED_MAX)];
        html! {
            @if !shown.is_empty() {
                h2 {
                    (head)
                    " ("
                    @if side.has_more { (t!("{0} and more", side.entries.len())) } @else { (side.entries.len()) }
                    ")"
                }
                div class="members" {
                    (Table { rows: shown, principal: self.principal, nodes: true, hits: None }.markup())
                }
                @if side.entries.len() > LISTED_MAX {
                    p class="muted" { (t!("The newest {0} are listed.", LISTED_MAX)) }
                }
            }
        }
    }

    fn as_commands(&self) -> Vec<Command> {
        let is_long = |side: &Side| side.coverage.is_some() || side.has_more || side.entries.len() > FETCHED_MAX;
        if std::iter::once(&self.side).chain(&self.other).any(is_long) {
            let subject: Vec<(&str, &str)> =
                self.params.except(&[]).filter(|(key, _)| SUM_KEYS.contains(key)).collect();
            let report = joined("/merge", &[subject.as_slice(), &[("format", "top")]].concat());
            return vec![Command::shell(format!("curl '{}{report}'", self.base.0))];
        }
        let files = |side: &Side| {
            let urls = side.entries.iter().map(|entry| format!("'{}/api/profiles/{}/download'", self.base.0, entry.id));
            urls.collect::<Vec<_>>().join(" ")
        };
        let mut rows = vec![Command::shell(format!("procprof report -top {}", files(&self.side)))];
        if let Some(other) = &self.other {
            rows.push(Command::shell(format!(
                "procprof report -top -diff_base {} {}",
                files(other),
                files(&self.side)
            )));
        }
        rows
    }
}

/// The form of a range, and of one to compare with.
fn form(web: &Web, params: &Params) -> Markup {
    let value = |key: &str| params.get(key).unwrap_or("").to_owned();
    html! {
        form class="card wide-form" action="/merge" {
            label { (t!("Node")) (node_field(web, params.get("node"), ExtraChoice::AllNodes)) }
            @for label in params.all("label") { input type="hidden" name="label" value=(label); }
            label {
                (t!("Type"))
                select name="type" {
                    @for kind in ProfileType::known() {
                        option value=(kind.name()) selected[params.get("type") == Some(kind.name())] {
                            (type_label(kind))
                        }
                    }
                }
            }
            label {
                (t!("From (UTC)")) input name="from" value=(value("from")) placeholder="2026-11-20T22:25:34Z" required;
            }
            label { (t!("To (UTC)")) input name="to" value=(value("to")) placeholder="2026-11-20T23:25:34Z" required; }
            label {
                (t!("Compare from (UTC)")) input name="base_from" value=(value("base_from")) placeholder=(t!("none"));
            }
            label { (t!("Compare to (UTC)")) input name="base_to" value=(value("base_to")) placeholder=(t!("none")); }
            button type="submit" class="primary" { (t!("Merge")) }
            div class="periods" role="group" aria-label=(t!("Time")) {
                (t!("Until now:"))
                @for Period { name, label, .. } in PERIODS {
                    button type="submit" name="last" value=(name) formnovalidate { (label) }
                }
            }
        }
    }
}
