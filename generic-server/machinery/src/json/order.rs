//! The order in which upstream writes the members of documents that are no objects of a resource: Go's encoder follows the
//! structs. Clients' own tests compare such texts (discovery, `Status`), and people read them.

use super::encode::{encode_into, encode_pretty_into, new_line, write_string};
use crate::{Map, Str, Value};

/// The members of a Go struct in its order, with those of the structs in them. What has no order here is a map or an object
/// of a resource, and is written by name.
struct Order(&'static [(&'static str, Option<&'static Order>)]);

/// An order whose members say theirs behind a colon.
macro_rules! order {
    ($name:ident: $($member:literal $(: $inner:ident)?),+ $(,)?) => {
        static $name: Order = Order(&[$(($member, order!(@inner $($inner)?))),+]);
    };
    (@inner) => { None };
    (@inner $inner:ident) => { Some(&$inner) };
}

order!(LIST_META: "selfLink", "resourceVersion", "continue", "remainingItemCount");
order!(OBJECT_META: "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation",
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations",
    "ownerReferences": OWNER, "finalizers", "managedFields": MANAGER);
order!(OWNER: "apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion");
order!(MANAGER: "manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource");

order!(STATUS: "kind", "apiVersion", "metadata": LIST_META, "status", "message", "reason", "details": DETAILS, "code");
order!(DETAILS: "name", "group", "kind", "uid", "causes": CAUSE, "retryAfterSeconds");
order!(CAUSE: "reason", "message", "field");

order!(VERSIONS: "kind", "apiVersion", "versions", "serverAddressByClientCIDRs": ADDRESS);
order!(ADDRESS: "clientCIDR", "serverAddress");
order!(GROUP_LIST: "kind", "apiVersion", "groups": GROUP);
order!(GROUP: "kind", "apiVersion", "name", "versions": GROUP_VERSION, "preferredVersion": GROUP_VERSION,
    "serverAddressByClientCIDRs": ADDRESS);
order!(GROUP_VERSION: "groupVersion", "version");
order!(RESOURCE_LIST: "kind", "apiVersion", "groupVersion", "resources": RESOURCE);
order!(RESOURCE: "name", "singularName", "namespaced", "group", "version", "kind", "verbs", "shortNames", "categories",
    "storageVersionHash");

order!(DISCOVERY_LIST: "kind", "apiVersion", "metadata": LIST_META, "items": DISCOVERY);
order!(DISCOVERY: "kind", "apiVersion", "metadata": OBJECT_META, "versions": DISCOVERY_VERSION);
order!(DISCOVERY_VERSION: "version", "resources": DISCOVERY_RESOURCE, "freshness");
order!(DISCOVERY_RESOURCE: "resource", "responseKind": KIND, "scope", "singularResource", "verbs", "shortNames",
    "categories", "subresources": DISCOVERY_SUBRESOURCE);
order!(DISCOVERY_SUBRESOURCE: "subresource", "responseKind": KIND, "acceptedTypes": KIND, "verbs");
order!(KIND: "group", "version", "kind");

order!(TABLE: "kind", "apiVersion", "metadata": LIST_META, "columnDefinitions": COLUMN, "rows": ROW);
order!(COLUMN: "name", "type", "format", "description", "priority");
order!(ROW: "cells", "conditions": CONDITION, "object": PARTIAL);
order!(CONDITION: "type", "status", "reason", "message");
order!(PARTIAL: "kind", "apiVersion", "metadata": OBJECT_META);
order!(PARTIAL_LIST: "kind", "apiVersion", "metadata": LIST_META, "items": PARTIAL);

order!(SCALE: "kind", "apiVersion", "metadata": OBJECT_META, "spec", "status": SCALE_STATUS);
order!(SCALE_STATUS: "replicas", "selector");

order!(ACCESS_REVIEW: "kind", "apiVersion", "metadata": OBJECT_META, "spec": ACCESS, "status": ACCESS_STATUS);
order!(ACCESS: "resourceAttributes": RESOURCE_ATTRIBUTES, "nonResourceAttributes": PATH_ATTRIBUTES, "user", "groups",
    "extra", "uid");
order!(RESOURCE_ATTRIBUTES: "namespace", "verb", "group", "version", "resource", "subresource", "name",
    "fieldSelector": SELECTOR, "labelSelector": SELECTOR);
order!(PATH_ATTRIBUTES: "path", "verb");
order!(SELECTOR: "rawSelector", "requirements": REQUIREMENT);
order!(REQUIREMENT: "key", "operator", "values");
order!(ACCESS_STATUS: "allowed", "denied", "reason", "evaluationError");
order!(RULES_REVIEW: "kind", "apiVersion", "metadata": OBJECT_META, "spec", "status": RULES);
order!(RULES: "resourceRules": RESOURCE_RULE, "nonResourceRules": PATH_RULE, "incomplete", "evaluationError");
order!(RESOURCE_RULE: "verbs", "apiGroups", "resources", "resourceNames");
order!(PATH_RULE: "verbs", "nonResourceURLs");
order!(TOKEN_REVIEW: "kind", "apiVersion", "metadata": OBJECT_META, "spec": TOKEN, "status": TOKEN_STATUS);
order!(TOKEN: "token", "audiences");
order!(TOKEN_STATUS: "authenticated", "user": USER, "audiences", "error");
order!(USER: "username", "uid", "groups", "extra");
order!(TOKEN_REQUEST: "kind", "apiVersion", "metadata": OBJECT_META, "spec": TOKEN_SPEC, "status": ISSUED);
order!(TOKEN_SPEC: "audiences", "expirationSeconds", "boundObjectRef": BOUND);
order!(BOUND: "kind", "apiVersion", "name", "uid");
order!(ISSUED: "token", "expirationTimestamp");
order!(SELF_REVIEW: "kind", "apiVersion", "metadata": OBJECT_META, "status": SELF);
order!(SELF: "userInfo": USER);

order!(VERSION_INFO: "major", "minor", "emulationMajor", "emulationMinor", "minCompatibilityMajor",
    "minCompatibilityMinor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform");

/// The order of a document by its kind.
fn order_of(document: &Value) -> Option<&'static Order> {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    Some(match (text("apiVersion"), text("kind")) {
        ("v1", "Status") => &STATUS,
        ("" | "v1", "APIVersions") => &VERSIONS,
        ("v1", "APIGroupList") => &GROUP_LIST,
        ("v1", "APIGroup") => &GROUP,
        ("" | "v1", "APIResourceList") => &RESOURCE_LIST,
        ("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList") => &DISCOVERY_LIST,
        ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", kind) => match kind {
            "Table" => &TABLE,
            "PartialObjectMetadata" => &PARTIAL,
            "PartialObjectMetadataList" => &PARTIAL_LIST,
            _ => return None,
        },
        ("autoscaling/v1", "Scale") => &SCALE,
        ("authorization.k8s.io/v1", kind) => match kind {
            "SelfSubjectRulesReview" => &RULES_REVIEW,
            "LocalSubjectAccessReview" | "SelfSubjectAccessReview" | "SubjectAccessReview" => &ACCESS_REVIEW,
            _ => return None,
        },
        ("authentication.k8s.io/v1", kind) => match kind {
            "TokenRequest" => &TOKEN_REQUEST,
            "TokenReview" => &TOKEN_REVIEW,
            "SelfSubjectReview" => &SELF_REVIEW,
            _ => return None,
        },
        ("", "") if document.get("gitVersion").is_some() => &VERSION_INFO,
        _ => return None,
    })
}

/// The compact text of a document in upstream's order, without a line end. Objects of resources are written by name.
pub fn encode_document(document: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write(&mut out, document, order_of(document), None);
    out
}

/// [`encode_document`], indented.
pub fn encode_document_pretty(document: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write(&mut out, document, order_of(document), Some(0));
    out
}

/// Something that stands in documents, in the order of its struct.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// A group of an APIGroupList.
    Group,
    /// An item of an APIGroupDiscoveryList.
    DiscoveryGroup,
    /// `metadata` of a list.
    ListMeta,
    /// `columnDefinitions` of a table.
    Columns,
    /// A row of a table.
    Row,
    /// A PartialObjectMetadata.
    Metadata,
    /// An object of a resource, which is written by name.
    Object,
}

impl Part {
    fn order(self) -> Option<&'static Order> {
        Some(match self {
            Part::Group => &GROUP,
            Part::DiscoveryGroup => &DISCOVERY,
            Part::ListMeta => &LIST_META,
            Part::Columns => &COLUMN,
            Part::Row => &ROW,
            Part::Metadata => &PARTIAL,
            Part::Object => return None,
        })
    }
}

/// Appends a part of a document; `level`: how deep it stands in an indented one.
pub fn encode_part_into(out: &mut Vec<u8>, part: Part, value: &Value, level: Option<usize>) {
    write(out, value, part.order(), level);
}

fn write(out: &mut Vec<u8>, value: &Value, order: Option<&'static Order>, level: Option<usize>) {
    let Some(order) = order else {
        return match level {
            None => encode_into(out, value),
            Some(level) => encode_pretty_into(out, value, level),
        };
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            for (i, item) in items.iter().enumerate() {
                begin(out, if i == 0 { b'[' } else { b',' }, level);
                write(out, item, Some(order), level.map(|level| level + 1));
            }
            end(out, b']', level);
        }
        Value::Object(members) if !members.is_empty() => {
            for (i, (name, value, order)) in sorted(members, order).enumerate() {
                begin(out, if i == 0 { b'{' } else { b',' }, level);
                write_string(out, name);
                out.extend_from_slice(if level.is_some() { b": " } else { b":" });
                write(out, value, order, level.map(|level| level + 1));
            }
            end(out, b'}', level);
        }
        other => encode_into(out, other),
    }
}

/// The members in their order, and those that it does not name behind them.
fn sorted<'v>(
    members: &'v Map,
    order: &'static Order,
) -> impl Iterator<Item = (&'v str, &'v Value, Option<&'static Order>)> {
    let named = order.0.iter().filter_map(|(name, inner)| Some((*name, members.get(name)?, *inner)));
    let is_named = |name: &Str| order.0.iter().any(|(named, _)| name == named);
    let others = members.iter().filter(move |(name, _)| !is_named(name));
    named.chain(others.map(|(name, value)| (name.as_str(), value, None)))
}

fn begin(out: &mut Vec<u8>, sign: u8, level: Option<usize>) {
    out.push(sign);
    if let Some(level) = level {
        new_line(out, level + 1);
    }
}

fn end(out: &mut Vec<u8>, sign: u8, level: Option<usize>) {
    if let Some(level) = level {
        new_line(out, level);
    }
    out.push(sign);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::decode;

    fn check(text: &str) {
        let value = decode(text.as_bytes()).expect("valid");
        assert_eq!(String::from_utf8(encode_document(&value)).expect("text"), text);
        let pretty = encode_document_pretty(&value);
        assert_eq!(decode(&pretty).expect("valid"), value);
        let flat: String = String::from_utf8(pretty).expect("text").split("\n").map(str::trim_start).collect();
        assert_eq!(flat.replace("\": ", "\":"), text);
    }

    #[test]
    fn documents_have_the_order_of_upstreams_structs() {
        check(
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"m","reason":"Invalid","details":{"name":"n","group":"g","kind":"k","uid":"u","causes":[{"reason":"r","message":"m","field":"f"}],"retryAfterSeconds":1},"code":422}"#,
        );
        check(
            r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get"],"shortNames":["po"],"categories":["all"],"storageVersionHash":"x"}]}"#,
        );
        check(
            r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1","continue":"c"},"columnDefinitions":[{"name":"Name","type":"string","format":"name","description":"d","priority":0}],"rows":[{"cells":["a"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","uid":"u","labels":{"b":"1","c":"2"}}}}]}"#,
        );
        check(
            r#"{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":{"token":"t"},"status":{"authenticated":true,"user":{"username":"u","groups":["g"]}}}"#,
        );
    }

    #[test]
    fn objects_of_resources_are_written_by_name_though_their_kind_is_called_the_same() {
        check(r#"{"apiVersion":"example.com/v1","kind":"Status","metadata":{"name":"a"}}"#);
    }

    #[test]
    fn members_that_no_struct_has_come_last() {
        check(r#"{"kind":"Status","apiVersion":"v1","code":404,"else":1}"#);
    }
}
