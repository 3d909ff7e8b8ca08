//! The parameters of the list: which node, and which of its profiles.

use std::sync::Arc;

use procprof_core::clock::now;
use procprof_core::nodes::{Node, Role};
use procprof_profile::{Nanos, ProfileType};
use procprof_store::Filter;

use crate::Web;
use crate::pages::period::Period;
use crate::params::{Params, encode};
use crate::problem::ApiResult;
use crate::time::rfc3339;

/// Names of the parameters.
pub(super) const KNOWN: &[&str] = &["node", "type", "last", "from", "to", "label", "text", "trigger", "cursor"];
/// Reasons of captures that can be filtered by.
pub(super) const TRIGGERS: [&str; 4] = ["schedule", "manual", "push", "import"];

/// A node and a filter of its profiles.
#[derive(Clone)]
pub(super) struct ListQuery {
    pub(super) node: Arc<Node>,
    pub(super) profile_type: Option<ProfileType>,
    pub(super) last: Option<Period>,
    pub(super) from: Option<Nanos>,
    pub(super) to: Option<Nanos>,
    pub(super) labels: Vec<(String, String)>,
    pub(super) text: Option<String>,
    pub(super) trigger: Option<String>,
}

impl ListQuery {
    pub(super) fn new(web: &Web, params: &Params) -> ApiResult<ListQuery> {
        let node = match params.get("node") {
            Some(_) => params.node(web)?,
            None => first_node(web),
        };
        Ok(ListQuery {
            node,
            profile_type: params.profile_type("type")?,
            last: Period::of(params)?,
            from: params.time("from")?,
            to: params.time("to")?,
            labels: params.labels()?,
            text: params.get("text").map(str::to_owned),
            trigger: params.get("trigger").map(str::to_owned),
        })
    }

    /// The profiles that are listed.
    pub(super) fn filter(&self) -> Filter {
        Filter {
            types: self.profile_type.iter().cloned().collect(),
            labels: self.labels.clone(),
            text: self.text.clone(),
            trigger: self.trigger.clone(),
            ..self.range()
        }
    }

    /// All profiles of the node in the range of time.
    pub(super) fn range(&self) -> Filter {
        let since = self.last.map(|period| Nanos(now().0.saturating_sub(period.seconds * 1_000_000_000)));
        Filter { nodes: vec![self.node.id], from: self.from.or(since), to: self.to, ..Filter::default() }
    }

    /// Whether anything but the node is chosen.
    pub(super) fn is_filtered(&self) -> bool {
        self.filter() != Filter { nodes: vec![self.node.id], ..Filter::default() }
    }

    /// The address of the first page.
    pub(super) fn href(&self) -> String {
        format!("/proc_profile?{}", self.text_of(self.last, (self.from, self.to)))
    }

    /// The same filter as parameters of `/api/profiles`, where a period that ends now is a moment that it begins at.
    pub(super) fn api_query(&self) -> String {
        let range = self.range();
        self.text_of(None, (range.from, range.to))
    }

    fn text_of(&self, last: Option<Period>, (from, to): (Option<Nanos>, Option<Nanos>)) -> String {
        let mut href = format!("node={}", self.node.id);
        let mut add = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                href.push_str(&format!("&{name}={}", encode(value)));
            }
        };
        add("type", self.profile_type.as_ref().map(ProfileType::name));
        add("last", last.map(|period| period.name));
        add("from", from.map(|from| rfc3339(from.0)).as_deref());
        add("to", to.map(|to| rfc3339(to.0)).as_deref());
        for (key, value) in &self.labels {
            add("label", Some(&format!("{key}={value}")));
        }
        add("text", self.text.as_deref());
        add("trigger", self.trigger.as_deref());
        href
    }

    pub(super) fn with_type(&self, profile_type: Option<ProfileType>) -> ListQuery {
        ListQuery { profile_type, ..self.clone() }
    }

    pub(super) fn with_last(&self, last: Option<Period>) -> ListQuery {
        ListQuery { last, from: None, to: None, ..self.clone() }
    }

    pub(super) fn with_range(&self, from: i64, to: i64) -> ListQuery {
        ListQuery { last: None, from: Some(Nanos(from)), to: Some(Nanos(to)), ..self.clone() }
    }
}

/// The node that is shown unless one is named: the first frontend, else any other that is collected, else the server.
fn first_node(web: &Web) -> Arc<Node> {
    let default = web.registry.default_node();
    if default.role() != Role::ThisServer {
        return default;
    }
    let nodes = web.registry.all();
    nodes.iter().find(|node| node.role() != Role::ThisServer && !node.past).cloned().unwrap_or(default)
}
