//! Validates events.k8s.io/v1 and v1 Events. The core group has always taken almost anything; through events.k8s.io they are strict.

use generic_server::resource::WriteContext;
use machinery::{
    Value,
    meta::{
        BadValue,
        accessor::Meta,
        names,
        validation::{validate_kube_finalizers, validate_object_meta, validate_object_meta_update},
    },
};

use crate::validation::{Errors, Field, Go, Member, shown};

type Cx<'a> = WriteContext<'a>;

const MAX_TEXT: usize = 128;
const MAX_NOTE: usize = 1024;

const REFERENCE: &[Member] = &[
    Member("Kind", "kind", Go::Text),
    Member("Namespace", "namespace", Go::Text),
    Member("Name", "name", Go::Text),
    Member("UID", "uid", Go::Text),
    Member("APIVersion", "apiVersion", Go::Text),
    Member("ResourceVersion", "resourceVersion", Go::Text),
    Member("FieldPath", "fieldPath", Go::Text),
];
const SOURCE: &[Member] = &[Member("Component", "component", Go::Text), Member("Host", "host", Go::Text)];

fn is_strict(cx: &Cx<'_>) -> bool {
    !cx.group.is_empty()
}

pub(super) fn event(cx: &Cx<'_>, event: &Field<'_>, errors: &mut Errors) {
    plain(cx, event, errors);
    if !is_strict(cx) {
        return;
    }
    let (metadata, at) = (Meta::of(event.value()), event.at("metadata"));
    errors.extend(validate_object_meta(metadata, true, names::name_is_dns_subdomain, at.path()));
    errors.extend(validate_kube_finalizers(metadata, at.path()));
    series(event, errors);
    let time = event.at("eventTime");
    if !time.is_set() {
        time.required("", errors);
    }
    let kind = event.at("type");
    if !["Normal", "Warning"].contains(&kind.text()) {
        kind.invalid_as("", format!("has invalid value: {}", kind.text()), errors);
    }
    let source = event.at("source");
    let unset = [
        ("firstTimestamp", !event.at("firstTimestamp").is_set()),
        ("lastTimestamp", !event.at("lastTimestamp").is_set()),
        ("count", event.at("count").int_or_zero() == 0),
        ("source", source.at("component").is_empty() && source.at("host").is_empty()),
    ];
    for (member, _) in unset.iter().filter(|(_, unset)| !unset) {
        event.at(member).invalid_as("", "needs to be unset", errors);
    }
}

/// What holds for every event. `eventTime` tells the newer ones.
fn plain(cx: &Cx<'_>, event: &Field<'_>, errors: &mut Errors) {
    let (metadata, involved) = (event.at("metadata"), event.at("involvedObject"));
    let (own, its) = (metadata.at("namespace"), involved.at("namespace"));
    let is_new = event.at("eventTime").is_set();
    let fits = match (its.text(), is_new) {
        ("", false) => matches!(own.text(), "" | "default"),
        ("", true) => matches!(own.text(), "default" | "kube-system"),
        (its, false) => its == own.text(),
        (_, true) => true,
    };
    if !fits {
        its.invalid_as(its.text(), "does not match event.namespace", errors);
    }
    if is_new {
        reported(cx, event, errors);
    }
    event.at("namespace").with(own.value()).check(names::dns1123_subdomain, errors);
}

/// Who reports what.
fn reported(cx: &Cx<'_>, event: &Field<'_>, errors: &mut Errors) {
    let controller = event.at("reportingComponent");
    let named = event.at(if is_strict(cx) { "reportingController" } else { "reportingComponent" });
    let named = named.with(controller.value());
    named.is_given(errors);
    named.check(names::qualified_name, errors);
    for (member, required, max) in [
        ("reportingInstance", true, MAX_TEXT),
        ("action", true, MAX_TEXT),
        ("reason", true, MAX_TEXT),
        ("message", false, MAX_NOTE),
    ] {
        let text = event.at(member);
        if required {
            text.is_given(errors);
        }
        if text.text().len() > max {
            text.invalid_as("", format!("can have at most {max} characters"), errors);
        }
    }
}

fn series(event: &Field<'_>, errors: &mut Errors) {
    let series = event.at("series");
    if !series.is_set() {
        return;
    }
    if series.at("count").int_or_zero() < 2 {
        series.at("count").invalid_as("", "should be at least 2", errors);
    }
    if !series.at("lastObservedTime").is_set() {
        series.at("lastObservedTime").required("", errors);
    }
}

/// What an update through events.k8s.io may not change, in upstream's order (the reason comes twice).
const FIXED: &[&str] = &[
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
];

pub(super) fn event_update(cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    plain(cx, new, errors);
    if !is_strict(cx) {
        return;
    }
    let (metadata, now, before) = (new.at("metadata"), Meta::of(new.value()), Meta::of(old.value()));
    errors.extend(validate_object_meta_update(now, before, metadata.path()));
    errors.extend(validate_kube_finalizers(now, metadata.path()));
    if !new.at("series").same(&old.at("series")) {
        series(new, errors);
    }
    for member in FIXED {
        let value = new.at(member);
        if value.same(&old.at(member)) {
            continue;
        }
        let at = if *member == "reportingComponent" { new.at("reportingController") } else { value };
        let text = match *member {
            "involvedObject" => shown(value.value(), REFERENCE),
            "related" if value.is_set() => shown(value.value(), REFERENCE),
            "source" => shown(value.value(), SOURCE),
            "count" => BadValue::from(value.int_or_zero()),
            "related" | "eventTime" | "firstTimestamp" | "lastTimestamp" => BadValue::from(value.value()),
            _ => BadValue::from(Value::from(value.text())),
        };
        at.invalid_as(text, "field is immutable", errors);
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn check(group: &str, text: &str, expect: &[&str]) {
        let value = json::decode(text.as_bytes()).expect("valid JSON");
        let cx = WriteContext {
            group,
            version: "v1",
            namespace: "n",
            subresource: "",
            user: &auth::User::default(),
            features: &Default::default(),
        };
        let mut errors = Errors::default();
        event(&cx, &Field::root(&value), &mut errors);
        let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(texts, expect, "{text}");
    }

    #[test]
    fn the_core_group_takes_almost_anything_and_the_newer_one_does_not() {
        let bare = r#"{"metadata":{"name":"e","namespace":"n"},"involvedObject":{"namespace":"n"}}"#;
        check("", bare, &[]);
        let strict = ["eventTime: Required value", r#"type: Invalid value: "": has invalid value: "#];
        check("events.k8s.io", bare, &strict);
        let elsewhere = r#"{"metadata":{"name":"e","namespace":"n"},"involvedObject":{"namespace":"o"}}"#;
        check("", elsewhere, &[r#"involvedObject.namespace: Invalid value: "o": does not match event.namespace"#]);
    }
}
