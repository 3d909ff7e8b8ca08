//! The OpenAPI 3.1 document, from the route table and the types it names.

mod document;

use std::collections::{BTreeMap, BTreeSet};

use document::{
    Components, Content, Document, Header, Info, License, MediaType, Operation, Parameter, RequestBody, Response,
    SecurityScheme, Server,
};
use procprof_report::REPORTS;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{Schema, SchemaGenerator, json_schema};

use super::problem::ProblemDocument;
use super::route::{Access, Body, Param, Route, Schema as ParamSchema};
use super::schema::schema_of;

/// Refusals that a route has beside those of every route of its kind: by operation.
const REFUSALS: &[(&str, &[u16])] = &[
    ("pushProfile", &[408, 413, 422, 429, 507]),
    ("pushSymbols", &[408, 413, 422, 429, 507]),
    ("offerSymbols", &[413]),
    ("startCapture", &[429]),
    ("getNodeHeap", &[409, 502]),
    ("activateNodeHeap", &[409, 502]),
    ("deactivateNodeHeap", &[409, 502]),
    ("heapForm", &[409, 502]),
    ("deleteProfile", &[409]),
    ("deleteForm", &[409]),
    ("pinProfile", &[409]),
    ("pinForm", &[409]),
    ("downloadProfile", &[410]),
    ("renderProfile", &[410, 429, 503]),
    ("viewProfile", &[404, 410, 429, 503]),
    ("profileTree", &[410, 422, 429, 503]),
    ("profileTreeMatches", &[410, 422, 429, 503]),
    ("profileTreeTable", &[410, 422, 429, 503]),
    ("profileSandwich", &[410, 422, 429, 503]),
    ("mergeTree", &[404, 410, 422, 429, 503]),
    ("mergeTreeMatches", &[404, 410, 422, 429, 503]),
    ("mergeTreeTable", &[404, 410, 422, 429, 503]),
    ("mergeSandwich", &[404, 410, 422, 429, 503]),
    ("viewFile", &[404, 410, 422, 429, 503]),
    ("readyz", &[503]),
    ("listPage", &[404]),
];

/// The document for these routes. Addresses that only lead to another one by a slash at their end are left out.
pub(crate) fn document(routes: &[Route]) -> Document {
    let mut schemas = Schemas::new();
    let mut paths: BTreeMap<String, BTreeMap<_, _>> = BTreeMap::new();
    for route in routes.iter().filter(|route| route.path == "/" || !route.path.ends_with('/')) {
        paths.entry(openapi_path(route.path)).or_default().insert(route.verb.name(), schemas.operation(route));
    }
    let bearer = SecurityScheme { kind: "http", scheme: "bearer", description: Some("NAME.PASSWORD") };
    let basic = SecurityScheme { kind: "http", scheme: "basic", description: None };
    Document {
        openapi: "3.1.0",
        info: Info {
            title: "procprof",
            version: env!("CARGO_PKG_VERSION"),
            description: "Profiles of running processes: nodes, captures, stored profiles and their reports. Answers to GET have an ETag.",
            license: License { name: "Apache-2.0", identifier: "Apache-2.0" },
        },
        servers: [Server { url: "/", description: "The server that this document comes from" }],
        paths,
        components: Components {
            schemas: schemas.all(),
            security_schemes: BTreeMap::from([("basic", basic), ("bearer", bearer)]),
        },
    }
}

/// A wildcard of the router is an ordinary parameter of the document.
pub(crate) fn openapi_path(path: &str) -> String {
    path.replace("{*", "{")
}

/// The statuses of refusals, in order.
fn refusals(route: &Route) -> BTreeSet<u16> {
    // A host that is not this server's is refused everywhere.
    let mut statuses = BTreeSet::from([403]);
    if route.access != Access::Public {
        statuses.extend([401, 429]);
    }
    if !route.params.is_empty() || !matches!(route.request, Body::None) {
        statuses.insert(400);
    }
    if route.params.iter().any(|param| param.in_path) {
        statuses.insert(404);
    }
    let own = REFUSALS.iter().find(|(name, _)| *name == route.name);
    statuses.extend(own.map_or(&[][..], |(_, own)| own));
    statuses
}

/// Schemas of the types that routes name.
struct Schemas {
    /// Sent types always have all their fields; of received ones some may be left out.
    sent: SchemaGenerator,
    received: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let mut settings = SchemaSettings::draft2020_12();
        settings.definitions_path = "/components/schemas".into();
        // Sizes of Rust's integers mean nothing to JSON.
        let settings = settings.with_transform(RecursiveTransform(|schema: &mut Schema| {
            if schema.get("format").and_then(|format| format.as_str()).is_some_and(|format| format != "date-time") {
                schema.remove("format");
            }
        }));
        Self {
            sent: settings.clone().for_serialize().into_generator(),
            received: settings.for_deserialize().into_generator(),
        }
    }

    /// All that were named so far.
    fn all(mut self) -> BTreeMap<String, Schema> {
        let definitions = [self.sent.take_definitions(true), self.received.take_definitions(true)];
        let named =
            definitions.into_iter().flatten().filter_map(|(name, schema)| Some((name, Schema::try_from(schema).ok()?)));
        named.collect()
    }

    fn operation(&mut self, route: &Route) -> Operation {
        let mut responses = BTreeMap::from([(route.answer.0.to_string(), self.response(route))]);
        responses.extend(refusals(route).into_iter().map(|status| (status.to_string(), self.problem(route, status))));
        let role = match route.access {
            Access::Public => None,
            Access::Push => Some("push"),
            Access::Viewer => Some("viewer"),
            Access::Operator => Some("operator"),
        };
        Operation {
            operation_id: route.name,
            summary: route.summary,
            description: role.map(|role| format!("Needs the role {role}.")),
            parameters: route.params.iter().map(parameter).collect(),
            request_body: content(&mut self.received, route.request)
                .map(|content| RequestBody { required: true, content }),
            responses,
            security: role
                .map_or(Vec::new(), |_| ["basic", "bearer"].map(|scheme| BTreeMap::from([(scheme, [])])).into()),
        }
    }

    fn response(&mut self, route: &Route) -> Response {
        let content = content(&mut self.sent, route.answer.1);
        let has_location =
            matches!(route.name, "pushProfile" | "startCapture" | "cancelCapture") || route.answer.0 == 303;
        let location = || Header {
            description: "Where it is",
            schema: json_schema!({ "type": "string", "format": "uri-reference" }),
        };
        Response {
            description: if content.is_some() { "As asked" } else { "Done" },
            content,
            headers: has_location.then(|| BTreeMap::from([("Location", location())])),
        }
    }

    fn problem(&mut self, route: &Route, status: u16) -> Response {
        let reason =
            http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Refused");
        let schema = schema_of::<ProblemDocument<'_>>()(&mut self.sent);
        let mut content = Content::from([("application/problem+json".to_owned(), MediaType { schema })]);
        if route.is_answered_by_agent() {
            content.insert("text/plain".to_owned(), MediaType { schema: bytes("text/plain") });
        }
        Response { description: reason, content: Some(content), headers: None }
    }
}

fn parameter(param: &Param) -> Parameter {
    Parameter {
        name: param.name,
        place: if param.in_path { "path" } else { "query" },
        required: param.required,
        description: param.help,
        schema: match param.schema {
            ParamSchema::Text if param.required => json_schema!({ "type": "string", "minLength": 1 }),
            ParamSchema::Text => json_schema!({ "type": "string" }),
            ParamSchema::Integer(low, u64::MAX) => json_schema!({ "type": "integer", "minimum": low }),
            ParamSchema::Integer(low, high) => json_schema!({ "type": "integer", "minimum": low, "maximum": high }),
            ParamSchema::Time => json_schema!({ "type": "string", "format": "date-time" }),
            ParamSchema::Uuid => json_schema!({ "type": "string", "format": "uuid" }),
        },
    }
}

fn content(schemas: &mut SchemaGenerator, body: Body) -> Option<Content> {
    let one = |media: &str, schema| Content::from([(media.to_owned(), MediaType { schema })]);
    match body {
        Body::None => None,
        Body::Json(make) => Some(one("application/json", make(schemas))),
        Body::Media(media) => Some(one(media, bytes(media))),
        Body::Report => {
            let media = REPORTS.iter().map(|report| report.media_type.split(';').next().unwrap_or_default());
            Some(media.map(|media| (media.to_owned(), MediaType { schema: bytes(media) })).collect())
        }
        Body::Form(fields) => {
            let properties: BTreeMap<_, _> =
                fields.iter().map(|name| (*name, json_schema!({ "type": "string" }))).collect();
            Some(one("application/x-www-form-urlencoded", json_schema!({ "type": "object", "properties": properties })))
        }
    }
}

/// A body that no schema describes further than by its media type.
fn bytes(media: &str) -> Schema {
    match media {
        "application/json" => json_schema!({ "type": "object" }),
        media if media.starts_with("text/") || media.starts_with("image/svg") => json_schema!({ "type": "string" }),
        _ => json_schema!({ "type": "string", "format": "binary" }),
    }
}
