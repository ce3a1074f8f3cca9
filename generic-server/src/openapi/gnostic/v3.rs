//! The fields of gnostic's `OpenAPIv3.proto`, as far as Kubernetes' documents have them.

use machinery::Value;

use super::{
    Type::{self, Any, Choice, Flag, Integer, List, Message, Named, Number, Text},
    extensions, many, one,
};

/// The number of the document's paths.
pub(in super::super) const PATHS_FIELD: u32 = 4;
/// The number of its components.
pub(in super::super) const COMPONENTS_FIELD: u32 = 5;
/// The number of the schemas among them.
pub(in super::super) const SCHEMAS_FIELD: u32 = 1;

pub(in super::super) static DOCUMENT: Type = Message(&[
    one("openapi", 1, &Text),
    one("info", 2, &INFO),
    many("servers", 3, &SERVER),
    one("paths", PATHS_FIELD, &PATHS),
    one("components", COMPONENTS_FIELD, &COMPONENTS),
    many("security", 6, &SECURITY_REQUIREMENT),
    many("tags", 7, &TAG),
    one("externalDocs", 8, &EXTERNAL_DOCS),
    extensions(9),
]);

static INFO: Type = Message(&[
    one("title", 1, &Text),
    one("description", 2, &Text),
    one("termsOfService", 3, &Text),
    one("version", 6, &Text),
    extensions(7),
    one("summary", 8, &Text),
]);

static SERVER: Type = Message(&[one("url", 1, &Text), one("description", 2, &Text), extensions(4)]);

static TAG: Type = Message(&[
    one("name", 1, &Text),
    one("description", 2, &Text),
    one("externalDocs", 3, &EXTERNAL_DOCS),
    extensions(4),
]);

static EXTERNAL_DOCS: Type = Message(&[one("description", 1, &Text), one("url", 2, &Text), extensions(3)]);

pub(super) static PATHS: Type = Named(1, &PATH_ITEM);

static PATH_ITEM: Type = Message(&[
    one("$ref", 1, &Text),
    one("summary", 2, &Text),
    one("description", 3, &Text),
    one("get", 4, &OPERATION),
    one("put", 5, &OPERATION),
    one("post", 6, &OPERATION),
    one("delete", 7, &OPERATION),
    one("options", 8, &OPERATION),
    one("head", 9, &OPERATION),
    one("patch", 10, &OPERATION),
    one("trace", 11, &OPERATION),
    many("servers", 12, &SERVER),
    many("parameters", 13, &PARAMETER),
    extensions(14),
]);

static OPERATION: Type = Message(&[
    many("tags", 1, &Text),
    one("summary", 2, &Text),
    one("description", 3, &Text),
    one("externalDocs", 4, &EXTERNAL_DOCS),
    one("operationId", 5, &Text),
    many("parameters", 6, &PARAMETER),
    one("requestBody", 7, &REQUEST_BODY),
    one("responses", 8, &RESPONSES),
    one("deprecated", 10, &Flag),
    many("security", 11, &SECURITY_REQUIREMENT),
    many("servers", 12, &SERVER),
    extensions(13),
]);

/// Whether a value is a reference to what it should be.
fn refers(value: &Value) -> bool {
    value.get("$ref").is_some()
}

static REFERENCE: Type = Message(&[one("$ref", 1, &Text), one("summary", 2, &Text), one("description", 3, &Text)]);

static PARAMETER: Type = Choice(|value| Some(if refers(value) { (2, &REFERENCE) } else { (1, &PARAMETER_ITSELF) }));

static PARAMETER_ITSELF: Type = Message(&[
    one("name", 1, &Text),
    one("in", 2, &Text),
    one("description", 3, &Text),
    one("required", 4, &Flag),
    one("deprecated", 5, &Flag),
    one("allowEmptyValue", 6, &Flag),
    one("style", 7, &Text),
    one("explode", 8, &Flag),
    one("allowReserved", 9, &Flag),
    one("schema", 10, &SCHEMA_OR_REFERENCE),
    one("example", 11, &Any),
    one("content", 13, &CONTENT),
    extensions(14),
]);

static REQUEST_BODY: Type =
    Choice(|value| Some(if refers(value) { (2, &REFERENCE) } else { (1, &REQUEST_BODY_ITSELF) }));

static REQUEST_BODY_ITSELF: Type =
    Message(&[one("description", 1, &Text), one("content", 2, &CONTENT), one("required", 3, &Flag), extensions(4)]);

static RESPONSES: Type = Named(2, &RESPONSE);

static RESPONSE: Type = Choice(|value| Some(if refers(value) { (2, &REFERENCE) } else { (1, &RESPONSE_ITSELF) }));

static RESPONSE_ITSELF: Type = Message(&[one("description", 1, &Text), one("content", 3, &CONTENT), extensions(5)]);

static CONTENT: Type = Named(1, &MEDIA_TYPE);

static MEDIA_TYPE: Type = Message(&[one("schema", 1, &SCHEMA_OR_REFERENCE), one("example", 2, &Any), extensions(5)]);

pub(in super::super) static COMPONENTS: Type =
    Message(&[one("schemas", SCHEMAS_FIELD, &SCHEMAS), one("securitySchemes", 7, &SECURITY_SCHEMES), extensions(10)]);

static SECURITY_REQUIREMENT: Type = Named(1, &List(1, &Text));

static SECURITY_SCHEMES: Type = Named(1, &SECURITY_SCHEME);

static SECURITY_SCHEME: Type =
    Choice(|value| Some(if refers(value) { (2, &REFERENCE) } else { (1, &SECURITY_SCHEME_ITSELF) }));

static SECURITY_SCHEME_ITSELF: Type = Message(&[
    one("type", 1, &Text),
    one("description", 2, &Text),
    one("name", 3, &Text),
    one("in", 4, &Text),
    one("scheme", 5, &Text),
    one("bearerFormat", 6, &Text),
    one("openIdConnectUrl", 8, &Text),
    extensions(9),
]);

pub(super) static SCHEMAS: Type = Named(1, &SCHEMA_OR_REFERENCE);

pub(super) static SCHEMA_OR_REFERENCE: Type =
    Choice(|value| Some(if refers(value) { (2, &REFERENCE) } else { (1, &SCHEMA) }));

static SCHEMA: Type = Message(&[
    one("nullable", 1, &Flag),
    one("readOnly", 3, &Flag),
    one("writeOnly", 4, &Flag),
    one("externalDocs", 6, &EXTERNAL_DOCS),
    one("example", 7, &Any),
    one("deprecated", 8, &Flag),
    one("title", 9, &Text),
    one("multipleOf", 10, &Number),
    one("maximum", 11, &Number),
    one("exclusiveMaximum", 12, &Flag),
    one("minimum", 13, &Number),
    one("exclusiveMinimum", 14, &Flag),
    one("maxLength", 15, &Integer),
    one("minLength", 16, &Integer),
    one("pattern", 17, &Text),
    one("maxItems", 18, &Integer),
    one("minItems", 19, &Integer),
    one("uniqueItems", 20, &Flag),
    one("maxProperties", 21, &Integer),
    one("minProperties", 22, &Integer),
    many("required", 23, &Text),
    many("enum", 24, &Any),
    one("type", 25, &Text),
    many("allOf", 26, &SCHEMA_OR_REFERENCE),
    many("oneOf", 27, &SCHEMA_OR_REFERENCE),
    many("anyOf", 28, &SCHEMA_OR_REFERENCE),
    one("not", 29, &SCHEMA),
    one("items", 30, &ITEMS),
    one("properties", 31, &SCHEMAS),
    one("additionalProperties", 32, &ADDITIONAL),
    one("default", 33, &DEFAULT),
    one("description", 34, &Text),
    one("format", 35, &Text),
    extensions(36),
]);

static ITEMS: Type = List(1, &SCHEMA_OR_REFERENCE);

static ADDITIONAL: Type =
    Choice(|value| Some(if value.as_bool().is_some() { (2, &Flag) } else { (1, &SCHEMA_OR_REFERENCE) }));

/// Defaults can be scalars alone.
static DEFAULT: Type = Choice(|value: &Value| match value {
    Value::Int(_) | Value::Float(_) => Some((1, &Number)),
    Value::Bool(_) => Some((2, &Flag)),
    Value::String(_) => Some((3, &Text)),
    _ => None,
});
