//! The OpenAPI 3.1 document, from the route table.

use serde_json::{Map, Value, json};

use super::route::{Access, Body, Param, Route, Schema};

/// The document for these routes.
pub(crate) fn document(routes: &[Route]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let item = paths.entry(openapi_path(route.path)).or_insert_with(|| json!({}));
        if let Some(item) = item.as_object_mut() {
            item.insert(route.verb.name().to_owned(), operation(route));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "procprof",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Profiles of running processes: nodes, captures, stored profiles and their reports.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" }
        },
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "basic": { "type": "http", "scheme": "basic" },
                "bearer": { "type": "http", "scheme": "bearer", "description": "NAME.PASSWORD" }
            }
        }
    })
}

/// A wildcard of the router is an ordinary parameter of the document.
pub(crate) fn openapi_path(path: &str) -> String {
    path.replace("{*", "{")
}

fn operation(route: &Route) -> Value {
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.summary,
        "responses": {
            route.answer.0.to_string(): response(route.answer.1),
            "default": { "description": "Why not", "content": { "application/json": { "schema": reference("Error") } } }
        }
    });
    if !route.params.is_empty() {
        operation["parameters"] = route.params.iter().map(parameter).collect();
    }
    if let Some(content) = content(route.request) {
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    if route.access != Access::Public {
        operation["security"] = json!([{ "basic": [] }, { "bearer": [] }]);
        let role = if route.access == Access::Operator { "operator" } else { "viewer" };
        operation["description"] = format!("Needs the role {role}.").into();
    }
    operation
}

fn parameter(param: &Param) -> Value {
    json!({
        "name": param.name,
        "in": if param.in_path { "path" } else { "query" },
        "required": param.required,
        "description": param.help,
        "schema": match param.schema {
            Schema::Text => json!({ "type": "string" }),
            Schema::Integer => json!({ "type": "integer", "minimum": 0 }),
            Schema::Time => json!({ "type": "string", "format": "date-time" }),
            Schema::Uuid => json!({ "type": "string", "format": "uuid" }),
        }
    })
}

fn response(body: Body) -> Value {
    match content(body) {
        Some(content) => json!({ "description": "As asked", "content": content }),
        None => json!({ "description": "Done" }),
    }
}

fn content(body: Body) -> Option<Value> {
    match body {
        Body::None => None,
        Body::Json(name) => Some(json!({ "application/json": { "schema": reference(name) } })),
        Body::JsonArray(name) => Some(json!({ "application/json": { "schema": { "type": "array", "items": reference(name) } } })),
        Body::Media(media) => Some(json!({ media: {} })),
        Body::Form(fields) => {
            let properties: Map<String, Value> = fields.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))).collect();
            Some(json!({ "application/x-www-form-urlencoded": { "schema": { "type": "object", "properties": properties } } }))
        }
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn object(fields: &[(&str, &str)]) -> Value {
    let properties: Map<String, Value> = fields.iter().map(|(name, kind)| ((*name).to_owned(), field(kind))).collect();
    json!({ "type": "object", "properties": properties })
}

/// `text`, `integer`, `boolean`, `time`, with `?` behind for "or null", or `[Name]` / `Name` of a schema.
fn field(kind: &str) -> Value {
    if let Some(name) = kind.strip_prefix('[').and_then(|kind| kind.strip_suffix(']')) {
        return json!({ "type": "array", "items": field(name) });
    }
    let (kind, optional) = kind.strip_suffix('?').map_or((kind, false), |kind| (kind, true));
    let of = |name: &str| if optional { json!([name, "null"]) } else { json!(name) };
    match kind {
        "text" => json!({ "type": of("string") }),
        "integer" => json!({ "type": of("integer") }),
        "number" => json!({ "type": of("number") }),
        "boolean" => json!({ "type": of("boolean") }),
        "time" => json!({ "type": of("string"), "format": "date-time" }),
        "object" => json!({ "type": of("object") }),
        name if optional => json!({ "oneOf": [reference(name), { "type": "null" }] }),
        name => reference(name),
    }
}

fn schemas() -> Value {
    json!({
        "Error": object(&[("error", "text"), ("code", "text")]),
        "Node": object(&[
            ("id", "integer"), ("name", "text"), ("label", "text"), ("role", "text"), ("kind", "text"), ("cluster", "text"),
            ("labels", "object"), ("address", "text"), ("demo", "boolean"), ("past", "boolean"), ("health", "text"), ("last_success", "time?"),
            ("last_error", "Failure?"), ("types", "[NodeType]"),
        ]),
        "NodeType": object(&[
            ("type", "text"), ("label", "text"), ("on", "boolean"), ("unavailable", "text?"), ("seconds", "integer"), ("every", "integer"),
            ("capturing", "boolean"),
            ("last_success", "time?"), ("last_error", "Failure?"), ("retry_at", "time?"),
        ]),
        "Profile": object(&[
            ("id", "text"), ("node", "integer"), ("node_name", "text"), ("cluster", "text"), ("labels", "object"), ("type", "text"),
            ("label", "text"), ("format", "text"), ("file_name", "text"), ("bytes", "integer"), ("start", "time"), ("end", "time"),
            ("duration_ns", "integer"), ("trigger", "text"), ("engine", "text"), ("pinned", "boolean"), ("samples", "integer"),
            ("totals", "[Total]"), ("top", "[TopFunction]"), ("lost", "integer?"), ("truncated", "integer?"), ("unsampled_ns", "integer?"),
            ("means", "text"), ("wanted", "[WantedFile]"), ("facts", "object"), ("view", "text"),
        ]),
        "WantedFile": object(&[
            ("file", "text"), ("build_id", "text"), ("percent", "number?"), ("uploaded", "boolean"), ("fitting", "[text]"), ("command", "text"),
        ]),
        "Symbols": object(&[
            ("key", "text"), ("name", "text"), ("bytes", "integer"), ("functions", "integer"), ("detail", "text"), ("stored", "time"),
            ("by", "text"), ("last_used", "time?"), ("profiles_using", "integer"), ("profiles_wanting", "integer"),
        ]),
        "SymbolList": object(&[
            ("symbols", "[Symbols]"), ("bytes", "integer"), ("bytes_max", "integer"), ("file_bytes_max", "integer"),
            ("profiles_counted", "integer"), ("all_profiles_counted", "boolean"), ("wanted", "[MissingSymbols]"),
        ]),
        "MissingSymbols": object(&[("file", "text"), ("build_id", "text"), ("percent", "number?"), ("profiles", "integer"), ("same_name", "boolean")]),
        "SymbolOffer": object(&[("take", "boolean"), ("stored", "Symbols?")]),
        "SymbolPush": object(&[("outcome", "text"), ("symbols", "Symbols"), ("evicted", "[EvictedSymbols]")]),
        "EvictedSymbols": object(&[("key", "text"), ("name", "text"), ("bytes", "integer")]),
        "Total": object(&[("kind", "text"), ("unit", "text"), ("value", "integer")]),
        "TopFunction": object(&[("name", "text"), ("value", "integer")]),
        "ProfilePage": object(&[("profiles", "[Profile]"), ("next", "text?")]),
        "CaptureRequest": object(&[("node", "text"), ("type", "text"), ("seconds", "integer?")]),
        "Capture": object(&[
            ("id", "text"), ("node", "integer"), ("type", "text"), ("seconds", "integer"), ("by", "text"), ("state", "text"),
            ("progress", "number"), ("message", "text"), ("code", "text?"), ("started", "time"), ("ended", "time?"), ("profile", "text?"), ("view", "text?"),
        ]),
        "Retention": object(&[
            ("days", "integer"), ("node_bytes_max", "integer"), ("data_bytes_max", "integer"), ("free_bytes_min", "integer"),
            ("pinned_bytes_max", "integer"), ("profiles", "integer"), ("bytes", "integer"), ("pinned_bytes", "integer"),
            ("cache_bytes", "integer"), ("free_bytes", "integer"), ("nodes", "[NodeUsage]"),
            ("last_run", "time?"), ("last_deleted", "integer"), ("last_deleted_bytes", "integer"), ("last_error", "text?"),
        ]),
        "NodeUsage": object(&[
            ("node", "integer"), ("profiles", "integer"), ("bytes", "integer"), ("oldest", "time"), ("newest", "time"),
        ]),
        "Failure": object(&[("at", "time"), ("reason", "text")]),
        "ErrorRow": object(&[
            ("number", "integer"), ("at", "time"), ("node", "integer?"), ("node_name", "text?"), ("type", "text?"), ("code", "text"), ("message", "text"),
            ("first_bytes", "text"),
        ]),
        "ErrorPage": object(&[("errors", "[ErrorRow]"), ("next", "text?")]),
        "Pause": object(&[("paused", "boolean")]),
        "BackendList": object(&[("profiles", "[BackendProfile]")]),
        "BackendProfile": object(&[
            ("filename", "text"), ("type", "text"), ("format", "text"), ("timestamp", "text"), ("size", "integer"), ("start", "time"),
            ("end", "time"),
        ]),
    })
}
