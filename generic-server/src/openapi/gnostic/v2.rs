//! The fields of gnostic's `OpenAPIv2.proto`, as far as Kubernetes' documents have them.

use machinery::Value;

use super::{
    Type::{self, Any, Choice, Flag, Integer, List, Message, Named, Number, Text},
    extensions, many, one,
};

/// The number of the document's paths.
pub(in super::super) const PATHS_FIELD: u32 = 8;
/// The number of its definitions.
pub(in super::super) const DEFINITIONS_FIELD: u32 = 9;
/// The number of its shared parameters.
pub(in super::super) const PARAMETERS_FIELD: u32 = 10;

pub(in super::super) static DOCUMENT: Type = Message(&[
    one("swagger", 1, &Text),
    one("info", 2, &INFO),
    one("host", 3, &Text),
    one("basePath", 4, &Text),
    many("schemes", 5, &Text),
    many("consumes", 6, &Text),
    many("produces", 7, &Text),
    one("paths", PATHS_FIELD, &PATHS),
    one("definitions", DEFINITIONS_FIELD, &SCHEMAS),
    one("parameters", PARAMETERS_FIELD, &PARAMETERS),
    many("security", 12, &SECURITY_REQUIREMENT),
    one("securityDefinitions", 13, &SECURITY_DEFINITIONS),
    many("tags", 14, &TAG),
    one("externalDocs", 15, &EXTERNAL_DOCS),
    extensions(16),
]);

static INFO: Type = Message(&[
    one("title", 1, &Text),
    one("version", 2, &Text),
    one("description", 3, &Text),
    one("termsOfService", 4, &Text),
    extensions(7),
]);

static TAG: Type = Message(&[
    one("name", 1, &Text),
    one("description", 2, &Text),
    one("externalDocs", 3, &EXTERNAL_DOCS),
    extensions(4),
]);

static EXTERNAL_DOCS: Type = Message(&[one("description", 1, &Text), one("url", 2, &Text), extensions(3)]);

pub(super) static PATHS: Type = Named(2, &PATH_ITEM);

static PATH_ITEM: Type = Message(&[
    one("$ref", 1, &Text),
    one("get", 2, &OPERATION),
    one("put", 3, &OPERATION),
    one("post", 4, &OPERATION),
    one("delete", 5, &OPERATION),
    one("options", 6, &OPERATION),
    one("head", 7, &OPERATION),
    one("patch", 8, &OPERATION),
    many("parameters", 9, &PARAMETER),
    extensions(10),
]);

static OPERATION: Type = Message(&[
    many("tags", 1, &Text),
    one("summary", 2, &Text),
    one("description", 3, &Text),
    one("externalDocs", 4, &EXTERNAL_DOCS),
    one("operationId", 5, &Text),
    many("produces", 6, &Text),
    many("consumes", 7, &Text),
    many("parameters", 8, &PARAMETER),
    one("responses", 9, &RESPONSES),
    many("schemes", 10, &Text),
    one("deprecated", 11, &Flag),
    many("security", 12, &SECURITY_REQUIREMENT),
    extensions(13),
]);

pub(super) static PARAMETERS: Type = Named(1, &PARAMETER_ITSELF);

/// A parameter or a reference to one.
pub(super) static PARAMETER: Type =
    Choice(|value| Some(if value.get("$ref").is_some() { (2, &REFERENCE) } else { (1, &PARAMETER_ITSELF) }));

static REFERENCE: Type = Message(&[one("$ref", 1, &Text), one("description", 2, &Text)]);

static PARAMETER_ITSELF: Type =
    Choice(|value| Some(if value.str_at(&["in"]) == Some("body") { (1, &BODY) } else { (2, &NON_BODY) }));

static BODY: Type = Message(&[
    one("description", 1, &Text),
    one("name", 2, &Text),
    one("in", 3, &Text),
    one("required", 4, &Flag),
    one("schema", 5, &SCHEMA),
    extensions(6),
]);

static NON_BODY: Type = Choice(|value: &Value| match value.str_at(&["in"])? {
    "header" => Some((1, &PLACED)),
    "formData" => Some((2, &PLACED_OR_EMPTY)),
    "query" => Some((3, &PLACED_OR_EMPTY)),
    "path" => Some((4, &PLACED)),
    _ => None,
});

/// Parameters in headers and paths.
static PLACED: Type = Message(&[
    one("required", 1, &Flag),
    one("in", 2, &Text),
    one("description", 3, &Text),
    one("name", 4, &Text),
    one("type", 5, &Text),
    one("format", 6, &Text),
    one("items", 7, &PRIMITIVE),
    one("collectionFormat", 8, &Text),
    one("default", 9, &Any),
    one("maximum", 10, &Number),
    one("minimum", 12, &Number),
    one("pattern", 16, &Text),
    one("uniqueItems", 19, &Flag),
    many("enum", 20, &Any),
    extensions(22),
]);

/// Parameters in queries and forms.
static PLACED_OR_EMPTY: Type = Message(&[
    one("required", 1, &Flag),
    one("in", 2, &Text),
    one("description", 3, &Text),
    one("name", 4, &Text),
    one("allowEmptyValue", 5, &Flag),
    one("type", 6, &Text),
    one("format", 7, &Text),
    one("items", 8, &PRIMITIVE),
    one("collectionFormat", 9, &Text),
    one("default", 10, &Any),
    one("maximum", 11, &Number),
    one("minimum", 13, &Number),
    one("pattern", 17, &Text),
    one("uniqueItems", 20, &Flag),
    many("enum", 21, &Any),
    extensions(23),
]);

static PRIMITIVE: Type = Message(&[
    one("type", 1, &Text),
    one("format", 2, &Text),
    one("items", 3, &PRIMITIVE),
    one("collectionFormat", 4, &Text),
    one("default", 5, &Any),
    many("enum", 16, &Any),
    extensions(18),
]);

static RESPONSES: Type = Named(1, &RESPONSE);

static RESPONSE: Type =
    Choice(|value| Some(if value.get("$ref").is_some() { (2, &REFERENCE) } else { (1, &RESPONSE_ITSELF) }));

static RESPONSE_ITSELF: Type = Message(&[one("description", 1, &Text), one("schema", 2, &ANSWER), extensions(5)]);

static ANSWER: Type = Choice(|_| Some((1, &SCHEMA)));

pub(super) static SCHEMAS: Type = Named(1, &SCHEMA);

pub(super) static SCHEMA: Type = Message(&[
    one("$ref", 1, &Text),
    one("format", 2, &Text),
    one("title", 3, &Text),
    one("description", 4, &Text),
    one("default", 5, &Any),
    one("multipleOf", 6, &Number),
    one("maximum", 7, &Number),
    one("exclusiveMaximum", 8, &Flag),
    one("minimum", 9, &Number),
    one("exclusiveMinimum", 10, &Flag),
    one("maxLength", 11, &Integer),
    one("minLength", 12, &Integer),
    one("pattern", 13, &Text),
    one("maxItems", 14, &Integer),
    one("minItems", 15, &Integer),
    one("uniqueItems", 16, &Flag),
    one("maxProperties", 17, &Integer),
    one("minProperties", 18, &Integer),
    many("required", 19, &Text),
    many("enum", 20, &Any),
    one("additionalProperties", 21, &ADDITIONAL),
    one("type", 22, &List(1, &Text)),
    one("items", 23, &ITEMS),
    many("allOf", 24, &SCHEMA),
    one("properties", 25, &SCHEMAS),
    one("discriminator", 26, &Text),
    one("readOnly", 27, &Flag),
    one("externalDocs", 29, &EXTERNAL_DOCS),
    one("example", 30, &Any),
    extensions(31),
]);

static ITEMS: Type = List(1, &SCHEMA);

static ADDITIONAL: Type = Choice(|value| Some(if value.as_bool().is_some() { (2, &Flag) } else { (1, &SCHEMA) }));

static SECURITY_REQUIREMENT: Type = Named(1, &List(1, &Text));

static SECURITY_DEFINITIONS: Type = Named(1, &SECURITY_DEFINITION);

static SECURITY_DEFINITION: Type = Choice(|value: &Value| match value.str_at(&["type"])? {
    "basic" => Some((1, &BASIC)),
    "apiKey" => Some((2, &API_KEY)),
    _ => None,
});

static BASIC: Type = Message(&[one("type", 1, &Text), one("description", 2, &Text), extensions(3)]);

static API_KEY: Type = Message(&[
    one("type", 1, &Text),
    one("name", 2, &Text),
    one("in", 3, &Text),
    one("description", 4, &Text),
    extensions(5),
]);
