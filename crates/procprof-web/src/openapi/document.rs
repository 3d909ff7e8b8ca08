//! The parts of an OpenAPI document, by [OpenAPI 3.1](https://spec.openapis.org/oas/v3.1.1.html).

use std::collections::BTreeMap;

use schemars::Schema;
use serde::Serialize;

/// The document.
#[derive(Serialize)]
pub(crate) struct Document {
    pub(super) openapi: &'static str,
    pub(super) info: Info,
    pub(super) servers: [Server; 1],
    pub(super) paths: BTreeMap<String, BTreeMap<&'static str, Operation>>,
    pub(super) components: Components,
}

#[derive(Serialize)]
pub(super) struct Info {
    pub(super) title: &'static str,
    pub(super) version: &'static str,
    pub(super) description: &'static str,
    pub(super) license: License,
}

#[derive(Serialize)]
pub(super) struct License {
    pub(super) name: &'static str,
    pub(super) identifier: &'static str,
}

#[derive(Serialize)]
pub(super) struct Server {
    pub(super) url: &'static str,
    pub(super) description: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Components {
    pub(super) schemas: BTreeMap<String, Schema>,
    pub(super) security_schemes: BTreeMap<&'static str, SecurityScheme>,
}

#[derive(Serialize)]
pub(super) struct SecurityScheme {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) scheme: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Operation {
    pub(super) operation_id: &'static str,
    pub(super) summary: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) parameters: Vec<Parameter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_body: Option<RequestBody>,
    pub(super) responses: BTreeMap<String, Response>,
    /// One of these is enough; none is needed where it is empty.
    pub(super) security: Vec<BTreeMap<&'static str, [String; 0]>>,
}

#[derive(Serialize)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    #[serde(rename = "in")]
    pub(super) place: &'static str,
    pub(super) required: bool,
    pub(super) description: &'static str,
    pub(super) schema: Schema,
}

#[derive(Serialize)]
pub(super) struct RequestBody {
    pub(super) required: bool,
    pub(super) content: Content,
}

/// By media type.
pub(super) type Content = BTreeMap<String, MediaType>;

#[derive(Serialize)]
pub(super) struct MediaType {
    pub(super) schema: Schema,
}

#[derive(Serialize)]
pub(super) struct Response {
    pub(super) description: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) headers: Option<BTreeMap<&'static str, Header>>,
}

#[derive(Serialize)]
pub(super) struct Header {
    pub(super) description: &'static str,
    pub(super) schema: Schema,
}
