//! The rules of the APIService kind.

use generic_server::resource::{KindTraits, SecondLook, Strategy, WriteContext};
use machinery::{
    Value,
    meta::{FieldError, TimeForm, Timestamp, field_error::invalid_each, names},
    object,
    patch::apply::ResetFields,
};

/// The strategy.
pub(crate) struct ApiServiceRules;

const TRAITS: KindTraits = KindTraits {
    has_status: true,
    knows_standard_finalizers: false,
    allows_unconditional_update: false,
    second_look: SecondLook::ChangesThenWhole,
    ..KindTraits::PLAIN
};

impl Strategy for ApiServiceRules {
    fn traits(&self) -> &KindTraits {
        &TRAITS
    }

    fn prepare_create(&self, _cx: &WriteContext<'_>, object: &mut Value) {
        let mut status = Value::object();
        if object.at(&["spec", "service"]).is_none() {
            status.set(&["conditions"], vec![local_condition()]);
        }
        object.make_object().insert("status", status);
    }

    fn prepare_status_update(&self, _cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
        const LEFT_ALONE: [&[&str]; 5] = [
            &["spec"],
            &["metadata", "labels"],
            &["metadata", "annotations"],
            &["metadata", "finalizers"],
            &["metadata", "ownerReferences"],
        ];
        for path in LEFT_ALONE {
            match old.at(path) {
                Some(value) => new.set(path, value.clone()),
                None => drop(new.remove_at(path)),
            }
        }
    }

    fn reset_fields(&self, _version: &str, subresource: &str) -> ResetFields {
        match subresource {
            "status" => ResetFields::exclude(&[&["metadata"], &["spec"]]),
            _ => ResetFields::exclude(&[&["status"]]),
        }
    }

    fn default(&self, object: &mut Value) {
        if let Some(service) = object.at(&["spec", "service"])
            && service.as_object().is_some()
            && service.get("port").is_none()
        {
            object.set(&["spec", "service", "port"], 443);
        }
    }

    fn name_errors(&self, object: &Value, name: &str, _prefix: bool) -> Vec<String> {
        let problems = names::path_segment_name(name);
        if !problems.is_empty() {
            return problems;
        }
        let text = |key: &str| object.str_at(&["spec", key]).unwrap_or("");
        let wanted = format!("{}.{}", text("version"), text("group"));
        if name == wanted {
            return Vec::new();
        }
        vec![format!("must be `spec.version+\".\"+spec.group`: {wanted:?}")]
    }

    fn validate(&self, _cx: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        validate(object)
    }

    fn validate_status_update(&self, _cx: &WriteContext<'_>, new: &Value, _old: &Value) -> Vec<FieldError> {
        let conditions = new.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
        let check = |(i, condition): (usize, &Value)| {
            let status = condition.str_at(&["status"]).unwrap_or("");
            let known = ["False", "True", "Unknown"];
            (!known.contains(&status)).then(|| {
                FieldError::not_supported(
                    format!("status.conditions[{i}].status"),
                    status,
                    ["True", "False", "Unknown"],
                )
            })
        };
        conditions.iter().enumerate().filter_map(check).collect()
    }
}

/// What the chain itself serves is always there.
pub(crate) fn local_condition() -> Value {
    object! {
        "type" => "Available", "status" => "True", "reason" => "Local",
        "message" => "Local APIServices are always available",
        "lastTransitionTime" => Timestamp::now().text(TimeForm::Seconds),
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let text = |path: &[&str]| object.str_at(path).unwrap_or("");
    let number = |path: &[&str]| object.at(path).and_then(Value::as_i64).unwrap_or(0);
    let (group, version) = (text(&["spec", "group"]), text(&["spec", "version"]));
    let mut errors = Vec::new();
    if group.is_empty() {
        if version != "v1" {
            let detail = "only v1 may have an empty group and it better be legacy kube";
            errors.push(FieldError::required("spec.group", detail));
        }
    } else {
        errors.extend(invalid_each("spec.group", group, names::dns1123_subdomain(group)));
    }
    errors.extend(invalid_each("spec.version", version, names::dns1035_label(version)));
    let group_priority = number(&["spec", "groupPriorityMinimum"]);
    if !(1..=20_000).contains(&group_priority) {
        let detail = "must be positive and less than 20000";
        errors.push(FieldError::invalid("spec.groupPriorityMinimum", group_priority, detail));
    }
    let version_priority = number(&["spec", "versionPriority"]);
    if !(1..=1000).contains(&version_priority) {
        let detail = "must be positive and less than 1000";
        errors.push(FieldError::invalid("spec.versionPriority", version_priority, detail));
    }
    let bundle = !text(&["spec", "caBundle"]).is_empty();
    let insecure = object.at(&["spec", "insecureSkipTLSVerify"]).and_then(Value::as_bool).unwrap_or(false);
    if object.at(&["spec", "service"]).is_none() {
        if bundle {
            let shown = format!("{} bytes", base64_length(text(&["spec", "caBundle"])));
            errors.push(FieldError::invalid("spec.caBundle", shown, "local APIServices may not have a caBundle"));
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid("spec.insecureSkipTLSVerify", true, detail));
        }
        return errors;
    }
    if text(&["spec", "service", "namespace"]).is_empty() {
        errors.push(FieldError::required("spec.service.namespace", ""));
    }
    if text(&["spec", "service", "name"]).is_empty() {
        errors.push(FieldError::required("spec.service.name", ""));
    }
    let port = number(&["spec", "service", "port"]);
    for problem in names::port_number(port) {
        errors.push(FieldError::invalid("spec.service.port", port, format!("port is not valid: {problem}")));
    }
    if bundle && insecure {
        let detail = "may not be true if caBundle is present";
        errors.push(FieldError::invalid("spec.insecureSkipTLSVerify", true, detail));
    }
    errors
}

/// How many bytes a text of base64 holds.
fn base64_length(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, spec: Value, expect: &[&str]) {
        let object = object! { "metadata" => object! { "name" => name }, "spec" => spec };
        let names = ApiServiceRules.name_errors(&object, name, false);
        let mut got: Vec<String> = names.iter().map(|_| "metadata.name".to_owned()).collect();
        got.extend(validate(&object).iter().map(|e| e.field.clone()));
        assert_eq!(got, expect);
    }

    #[test]
    fn an_apiservice_is_named_after_its_group_version() {
        let spec = |group: &str| {
            object! { "group" => group, "version" => "v1", "groupPriorityMinimum" => 100, "versionPriority" => 10 }
        };
        check("v1.a.example", spec("a.example"), &[]);
        check("v1.b.example", spec("a.example"), &["metadata.name"]);
        check("v1.", spec(""), &[]);
    }

    #[test]
    fn what_is_wrong_is_said_in_upstreams_words() {
        let object = object! {
            "metadata" => object! { "name" => "a/b", "generateName" => "x" },
            "spec" => object! {
                "group" => "a.example", "version" => "v1", "groupPriorityMinimum" => 100, "versionPriority" => 10,
                "caBundle" => "YWJj",
            },
        };
        let names = |name: &str| ApiServiceRules.name_errors(&object, name, false);
        assert_eq!(names("x"), [r#"must be `spec.version+"."+spec.group`: "v1.a.example""#]);
        assert_eq!(names("a/b"), ["may not contain '/'"]);
        let texts: Vec<String> = validate(&object).iter().map(ToString::to_string).collect();
        assert_eq!(texts, [r#"spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle"#,]);
    }

    #[test]
    fn local_ones_have_no_tls() {
        let spec = object! {
            "group" => "a.example", "version" => "v1", "groupPriorityMinimum" => 30_000, "versionPriority" => 0,
            "insecureSkipTLSVerify" => true,
        };
        let expect = ["spec.groupPriorityMinimum", "spec.versionPriority", "spec.insecureSkipTLSVerify"];
        check("v1.a.example", spec, &expect);
    }
}
