//! `/archive`: what the archive has, what it costs, and how far it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use maud::{Markup, html};
use procprof_core::archiving::{ArchiveOverview, ArchiveState, ArchiveUse};
use procprof_core::clock::now;
use procprof_core::servers::Servers;
use procprof_profile::ProfileType;
use procprof_store::Usage;

use super::frame::Frame;
use super::{ago, grouped, moment, profile_count, share, size, span, time_query};
use crate::Web;
use crate::api::archive::overview;
use crate::problem::ApiResult;
use crate::subjects::ALL_NODES;
use crate::texts::{Text, t};

/// Days shown.
const DAYS_MAX: usize = 60;
/// Hours shown.
const HOURS_MAX: usize = 48;
/// Unreadable files shown.
const UNREADABLE_MAX: usize = 10;
const HOUR: i64 = 3_600_000_000_000;
const DAY: i64 = 24 * HOUR;

/// `GET /archive`
pub(crate) async fn archive(State(web): State<Arc<Web>>) -> ApiResult<Markup> {
    let body = match &web.archiver {
        None => html! {
            div class="empty" {
                p class="head" { (t!("No archive")) }
                p { (t!("The key {0} of the configuration is empty.").fill(&[html! { code { "archive" } }])) }
            }
        },
        Some(archiver) => {
            let usage = web.usage.get(&web.store).await?;
            html! {
                @match overview(&web).await {
                    Ok(found) => {
                        (contents(&archiver.archive().place.to_string(), &found, &archiver.state(), &usage))
                    }
                    Err(problem) => { p class="notice bad" { (problem.message) } }
                }
                @if let Some(servers) = &web.servers { (shared(servers)) }
            }
        }
    };
    let body = html! { main class="one archive" { h1 { (t!("Archive")) } (body) } };
    Ok(Frame { place: "/archive", title: t!("Archive").get(), node: None, live: false, status: None }.page(body))
}

fn contents(folder: &str, found: &ArchiveOverview, state: &ArchiveState, usage: &Usage) -> Markup {
    html! {
        p class="muted" {
            (t!("The profiles of past hours as Parquet, for sums of any range and for other engines, in {0}.").fill(&[html! { code { (folder) } }]))
        }
        @if let Some(error) = &state.error {
            p class="notice bad" { (t!("{0} could not be archived; first:", grouped(state.failed))) " " (error) }
        }
        @if state.missed > 0 {
            p class="notice bad" {
                (t!("Retention deleted {0} profiles that may not be archived.", grouped(state.missed)))
            }
        }
        @if !found.unreadable.is_empty() {
            p class="notice bad" {
                (t!("{0} files cannot be read:", found.unreadable.len()))
                @for why in found.unreadable.iter().take(UNREADABLE_MAX) { br; (why) }
            }
        }
        (summary(found, state, usage))
        @if found.all.profiles == 0 {
            @if found.unreadable.is_empty() {
                div class="empty" {
                    p class="head" { (t!("Nothing is archived yet")) }
                    p { (t!("An hour is archived five minutes after its end.")) }
                }
            }
        } @else {
            (table(t!("By cluster"), t!("Cluster"), found.clusters.iter().map(|(cluster, own)| (html! { (cluster) }, *own))))
            (table(t!("By day"), t!("Day (UTC)"), days(found).into_iter().rev().take(DAYS_MAX)))
            (table(t!("By hour"), t!("Hour (UTC)"), found.hours.iter().rev().take(HOURS_MAX).map(|(hour, own)| {
                (summed(hour.start().0, HOUR, "%Y-%m-%d %H:00"), *own)
            })))
        }
    }
}

/// The servers that share the archive, if there are several.
fn shared(servers: &Servers) -> Markup {
    let all = servers.all();
    let problem = servers.problem();
    html! {
        @if all.len() > 1 || problem.is_some() {
            h2 { (t!("Servers")) }
            @if let Some(why) = &problem {
                p class="notice bad" { (t!("Other servers of the archive:")) " " (why) }
            }
            p class="muted" { (t!("Servers that use one archive share the nodes that several have configured.")) }
            div class="table" { table {
                thead { tr {
                    th scope="col" { (t!("Server")) }
                    th scope="col" { (t!("State")) }
                    th scope="col" class="number" { (t!("Nodes captured")) }
                    th scope="col" { (t!("Started")) }
                    th scope="col" { (t!("Version")) }
                } }
                tbody { @for server in &all { tr {
                    td { a href=(server.url) { (server.url) } }
                    td {
                        @if server.is_own { (t!("this server")) }
                        @else if server.is_alive { (t!("alive")) }
                        @else { strong { (t!("silent")) } }
                        @if server.is_full { " · " strong { (t!("disk full")) } }
                    }
                    td class="number" { (grouped(server.nodes as u64)) }
                    td { @if let Some(started) = server.started { (moment(nanos(started))) } }
                    td { (server.version) }
                } } }
            } }
        }
    }
}

fn nanos(time: jiff::Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or_default()
}

fn summary(found: &ArchiveOverview, state: &ArchiveState, usage: &Usage) -> Markup {
    let of_file = usage.bytes.checked_div(usage.profiles);
    html! {
        section class="card" {
            dl {
                dt { (t!("Size")) }
                dd { strong { (size(found.all.bytes)) } " · " (profile_count(found.all.profiles)) }
                @if let Some(each) = found.all.bytes_each() {
                    dt { (t!("Size per profile")) }
                    dd {
                        strong { (size(each)) }
                        @if let Some(of_file) = of_file {
                            " · " (t!("a file in the data folder: {0} on average", size(of_file)))
                        }
                    }
                }
                @if let Some((oldest, newest)) = found.range {
                    dt { (t!("Oldest profile")) }
                    dd { (moment(oldest.0)) " · " (ago(oldest.0)) }
                    dt { (t!("Newest profile")) }
                    dd { (moment(newest.0)) " · " (ago(newest.0)) }
                }
                @if let Some(until) = state.until {
                    dt { (t!("Archived up to")) }
                    dd { (moment(until.0)) " · " (t!("{0} behind", span(now().0.saturating_sub(until.0)))) }
                }
            }
        }
    }
}

/// Profiles and bytes by day.
fn days(found: &ArchiveOverview) -> Vec<(Markup, ArchiveUse)> {
    let mut days: BTreeMap<i64, ArchiveUse> = BTreeMap::new();
    for (hour, own) in &found.hours {
        days.entry(hour.start().0.div_euclid(DAY)).or_default().add(*own);
    }
    days.into_iter().map(|(day, own)| (summed(day * DAY, DAY, "%Y-%m-%d"), own)).collect()
}

/// A time that leads to the sum of the CPU profiles of all nodes in it.
fn summed(start: i64, length: i64, shape: &str) -> Markup {
    let query = time_query(&ProfileType::Cpu, start, start.saturating_add(length));
    html! { a href=(format!("/merge?node={ALL_NODES}&{query}")) { (civil(start, shape)) } }
}

fn civil(nanos: i64, shape: &str) -> Markup {
    let Ok(time) = jiff::Timestamp::from_nanosecond(i128::from(nanos)) else { return html! { "?" } };
    html! { (time.strftime(shape).to_string()) }
}

fn table(head: Text, what: Text, rows: impl Iterator<Item = (Markup, ArchiveUse)>) -> Markup {
    let rows: Vec<(Markup, ArchiveUse)> = rows.collect();
    let most = rows.iter().map(|(_, own)| own.bytes).max().unwrap_or(0);
    let number = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    html! {
        h2 { (head) }
        div class="table" { table {
            thead { tr {
                th scope="col" { (what) }
                th scope="col" class="number" { (t!("Profiles")) }
                th scope="col" class="number" { (t!("Size")) }
                th scope="col" class="number" { (t!("Size per profile")) }
                th scope="col" class="wide" { span class="hidden" { (t!("Share")) } }
            } }
            tbody { @for (name, own) in &rows { tr {
                td class="archived" { (name) }
                td class="number" { (grouped(own.profiles)) }
                td class="number" { (size(own.bytes)) }
                td class="number" { @if let Some(each) = own.bytes_each() { (size(each)) } }
                td class="wide" { (share(number(own.bytes), number(most))) }
            } } }
        } }
    }
}
