//! One row of the route table: from it come the router, who may use it, and its place in the OpenAPI document.

use std::sync::Arc;

use axum::routing::MethodRouter;

use super::schema::MakeSchema;
use crate::Web;

/// The users who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Any client, without credentials: health checks and the styles of the pages.
    Public,
    /// Host agents, and operators.
    Push,
    /// Users who may read.
    Viewer,
    /// Users who may change something.
    Operator,
}

/// Methods, as the OpenAPI document spells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    Delete,
}

impl Verb {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::Post => "post",
            Verb::Delete => "delete",
        }
    }
}

/// A parameter in the path or the query.
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) in_path: bool,
    pub(crate) required: bool,
    pub(crate) schema: Schema,
    pub(crate) help: &'static str,
}

/// The few types parameters have.
#[derive(Clone, Copy)]
pub(crate) enum Schema {
    Text,
    /// A whole number in this range.
    Integer(u64, u64),
    Time,
    Uuid,
}

/// The kind of a successful answer or of a request body.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    /// Nothing.
    None,
    /// JSON of the type that this makes the schema of.
    Json(MakeSchema),
    /// A report, of any media type that reports have.
    Report,
    /// Text or a page of this media type.
    Media(&'static str),
    /// A form with these fields.
    Form(&'static [&'static str]),
}

/// The row.
pub(crate) struct Route {
    pub(crate) verb: Verb,
    /// Path with `{name}` for parameters, as both the router and the document spell them.
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    /// The operation's unique name.
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) params: &'static [Param],
    pub(crate) request: Body,
    /// Status and body of success.
    pub(crate) answer: (u16, Body),
    pub(crate) mount: fn() -> MethodRouter<Arc<Web>>,
}

impl Route {
    /// Whether the agent inside the server answers, which refuses in plain text.
    pub(crate) fn is_answered_by_agent(&self) -> bool {
        ["/debug/pprof/", "/pprof/"].iter().any(|prefix| self.path.starts_with(prefix))
    }
}

/// A parameter in the path.
pub(crate) const fn path(name: &'static str, schema: Schema, help: &'static str) -> Param {
    Param { name, in_path: true, required: true, schema, help }
}

/// A parameter of the query that may be left out.
pub(crate) const fn query(name: &'static str, schema: Schema, help: &'static str) -> Param {
    Param { name, in_path: false, required: false, schema, help }
}

/// A parameter of the query that must be there.
pub(crate) const fn needed(name: &'static str, schema: Schema, help: &'static str) -> Param {
    Param { name, in_path: false, required: true, schema, help }
}
