//! Fields of pods behind feature gates that are off by default: they are dropped, unless the old object already has them.

use machinery::Value;

use crate::defaults::{each, is_empty, within};

/// Drops what a pod, or the pod of a template, may not have in this version.
pub(crate) fn drop_disabled(spec: Option<&mut Value>, old: Option<&Value>) {
    let Some(spec) = spec else { return };
    let uses = |test: fn(&Value) -> bool| old.is_some_and(test);
    if !uses(|spec| spec.get("schedulingGroup").is_some()) && spec.get("schedulingGroup").is_some() {
        spec.make_object().remove("schedulingGroup");
    }
    if !uses(has_stop_signal) && has_stop_signal(spec) {
        for list in CONTAINERS {
            each(spec, list, drop_stop_signal);
        }
    }
    for source in ["clusterTrustBundle", "podCertificate"] {
        if !old.is_some_and(|old| has_projection(old, source)) && has_projection(spec, source) {
            each(spec, "volumes", |volume| {
                within(volume, "projected", |projected| {
                    each(projected, "sources", |s| {
                        s.make_object().remove(source);
                    });
                });
            });
        }
    }
}

const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    value.at(path).and_then(Value::as_array).unwrap_or_default()
}

fn has_stop_signal(spec: &Value) -> bool {
    let signalled = |c: &Value| c.at(&["lifecycle", "stopSignal"]).is_some();
    CONTAINERS.iter().any(|list| items(spec, &[list]).iter().any(signalled))
}

fn drop_stop_signal(container: &mut Value) {
    container.remove_at(&["lifecycle", "stopSignal"]);
    if container.get("lifecycle").is_some() && is_empty(container.get("lifecycle")) {
        container.make_object().remove("lifecycle");
    }
}

fn has_projection(spec: &Value, source: &str) -> bool {
    let holds = |volume: &Value| items(volume, &["projected", "sources"]).iter().any(|s| s.get(source).is_some());
    items(spec, &["volumes"]).iter().any(holds)
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn parse(text: &str) -> Value {
        json::decode(text.as_bytes()).expect("valid JSON")
    }

    #[test]
    fn a_gated_field_goes_unless_it_was_there_before() {
        let text = r#"{"containers":[{"lifecycle":{"stopSignal":"SIGTERM"}}],
            "volumes":[{"projected":{"sources":[{"clusterTrustBundle":{"path":"p"}},{"configMap":{}}]}}]}"#;
        let mut spec = parse(text);
        drop_disabled(Some(&mut spec), Some(&parse(text)));
        assert_eq!(spec, parse(text));
        drop_disabled(Some(&mut spec), None);
        assert_eq!(spec, parse(r#"{"containers":[{}],"volumes":[{"projected":{"sources":[{},{"configMap":{}}]}}]}"#));
    }
}
