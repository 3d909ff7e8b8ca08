//! The filters of the list: type, period, trigger and functions; links and one form, which keep one another.

use maud::{Markup, html};
use procprof_profile::ProfileType;

use super::query::{ListQuery, TRIGGERS};
use crate::pages::period::PERIODS;
use crate::pages::{trigger_name, type_label};
use crate::texts::t;
use crate::time::rfc3339;

/// The filters; `types` and `labels`, as `key=value`, are those that can be chosen.
pub(super) fn filters(query: &ListQuery, types: &[ProfileType], labels: &[String]) -> Markup {
    let of_type = |kind: Option<&ProfileType>, label: &str| {
        html! {
            a href=(query.with_type(kind.cloned()).href())
                aria-current=[(query.profile_type.as_ref() == kind).then_some("true")]
            {
                (label)
            }
        }
    };
    let any_time = query.last.is_none() && query.from.is_none() && query.to.is_none();
    html! {
        div class="filter-bar" {
            @if types.len() > 1 {
                p class="filters" role="group" aria-label=(t!("Type")) {
                    (of_type(None, t!("All types").get()))
                    @for kind in types { (of_type(Some(kind), type_label(kind))) }
                }
            }
            p class="filters" role="group" aria-label=(t!("Time")) {
                a href=(query.with_last(None).href()) aria-current=[any_time.then_some("true")] { (t!("Any time")) }
                @for period in PERIODS {
                    a href=(query.with_last(Some(period)).href())
                        aria-current=[query.last.is_some_and(|last| last.name == period.name).then_some("true")]
                    {
                        (period.label)
                    }
                }
            }
            (form(query, labels))
        }
    }
}

fn form(query: &ListQuery, labels: &[String]) -> Markup {
    let time = |nanos: Option<procprof_profile::Nanos>| nanos.map(|nanos| rfc3339(nanos.0)).unwrap_or_default();
    let is_chosen = |label: &str| query.labels.iter().any(|(key, value)| label == format!("{key}={value}"));
    html! {
        form class="search" action="/proc_profile" role="search" {
            input type="hidden" name="node" value=(query.node.id);
            @if let Some(kind) = &query.profile_type { input type="hidden" name="type" value=(kind.name()); }
            @if let Some(last) = query.last { input type="hidden" name="last" value=(last.name); }
            input type="search" name="text" value=(query.text.as_deref().unwrap_or(""))
                placeholder=(t!("Function, label or file name")) aria-label=(t!("Function, label or file name"));
            details class="more-filters"
                open[query.trigger.is_some() || query.from.is_some() || query.to.is_some() || !query.labels.is_empty()]
            {
                summary { (t!("More")) }
                div class="fields" {
                    label {
                        (t!("From (UTC)"))
                        input name="from" value=(time(query.from)) placeholder="2026-11-20T22:25:34Z";
                    }
                    label {
                        (t!("To (UTC)")) input name="to" value=(time(query.to)) placeholder="2026-11-20T23:25:34Z";
                    }
                    @if !labels.is_empty() {
                        label { (t!("Label")) select name="label" {
                            option value="" { (t!("any")) }
                            @for label in labels { option value=(label) selected[is_chosen(label)] { (label) } }
                        } }
                    }
                    label { (t!("Trigger")) select name="trigger" {
                        option value="" { (t!("any")) }
                        @for trigger in TRIGGERS {
                            option value=(trigger) selected[query.trigger.as_deref() == Some(trigger)] {
                                (trigger_name(trigger))
                            }
                        }
                    } }
                }
            }
            button type="submit" { (t!("Filter")) }
            @if query.is_filtered() { a href=(format!("/proc_profile?node={}", query.node.id)) { (t!("Clear")) } }
        }
    }
}
