//! The bounds that a limit range sets, in upstream's words.

use machinery::{Str, Value, meta::Quantity};

use super::Item;
use crate::core::pods::{Amounts, amounts_in, pod_limits, pod_requests};

/// Above this, thousandths do not fit an integer of 64 bits, and whole numbers are compared.
const MAX_MILLI: i64 = i64::MAX / 1000;

/// What somebody asks for and may use.
struct Asked {
    requests: Amounts,
    limits: Amounts,
}

/// What is wrong with a pod.
pub(super) fn of_pod(range: &[Item], pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    for item in range {
        match item.kind.as_str() {
            "Container" => {
                for list in ["containers", "initContainers"] {
                    for container in spec.get(list).and_then(Value::as_array).unwrap_or_default() {
                        let amounts = |list| amounts_in(container.at(&["resources", list]));
                        check(item, &Asked { requests: amounts("requests"), limits: amounts("limits") }, &mut found);
                    }
                }
            }
            "Pod" => check(item, &Asked { requests: pod_requests(spec), limits: pod_limits(spec) }, &mut found),
            _ => {}
        }
    }
    found
}

/// What is wrong with a claim: only its requests count.
pub(super) fn of_claim(range: &[Item], claim: &Value) -> Vec<String> {
    let requests = amounts_in(claim.at(&["spec", "resources", "requests"]));
    let asked = Asked { requests, limits: Amounts::new() };
    let mut found = Vec::new();
    for item in range.iter().filter(|item| item.kind == "PersistentVolumeClaim") {
        found.extend(item.min.iter().filter_map(|(name, min)| below(item, name, min, &asked)));
        for (name, max) in &item.max {
            let bound = format!("maximum {name} usage per {} is {max}", item.kind);
            match asked.requests.get(name) {
                None => found.push(format!("{bound}.  No request is specified")),
                Some(request) if exceeds(request, max) => found.push(format!("{bound}, but request is {request}")),
                Some(_) => {}
            }
        }
    }
    found
}

fn check(item: &Item, asked: &Asked, found: &mut Vec<String>) {
    found.extend(item.min.iter().filter_map(|(name, min)| below(item, name, min, asked)));
    found.extend(item.max.iter().filter_map(|(name, max)| above(item, name, max, asked)));
    found.extend(item.ratio.iter().filter_map(|(name, ratio)| too_far_apart(item, name, ratio, asked)));
}

fn below(item: &Item, name: &Str, min: &Quantity, asked: &Asked) -> Option<String> {
    let bound = format!("minimum {name} usage per {} is {min}", item.kind);
    let (request, limit) = (asked.requests.get(name), asked.limits.get(name));
    match request {
        None => Some(format!("{bound}.  No request is specified")),
        Some(request) if exceeds(min, request) => Some(format!("{bound}, but request is {request}")),
        Some(_) => limit.filter(|limit| exceeds(min, limit)).map(|limit| format!("{bound}, but limit is {limit}")),
    }
}

fn above(item: &Item, name: &Str, max: &Quantity, asked: &Asked) -> Option<String> {
    let bound = format!("maximum {name} usage per {} is {max}", item.kind);
    let (request, limit) = (asked.requests.get(name), asked.limits.get(name));
    match limit {
        None => Some(format!("{bound}.  No limit is specified")),
        Some(limit) if exceeds(limit, max) => Some(format!("{bound}, but limit is {limit}")),
        Some(_) => request.filter(|request| exceeds(request, max)).map(|r| format!("{bound}, but request is {r}")),
    }
}

fn too_far_apart(item: &Item, name: &Str, ratio: &Quantity, asked: &Asked) -> Option<String> {
    let bound = format!("{name} max limit to request ratio per {} is {ratio}", item.kind);
    let number = |amounts: &Amounts| amounts.get(name).cloned().unwrap_or_default();
    let (request, limit) = (number(&asked.requests), number(&asked.limits));
    if request.is_zero() {
        return Some(format!("{bound}, but no request is specified or request is 0"));
    }
    if limit.is_zero() {
        return Some(format!("{bound}, but no limit is specified or limit is 0"));
    }
    let in_milli = [&request, &limit, ratio].iter().all(|q| q.value() <= MAX_MILLI);
    let float = |q: &Quantity| if in_milli { q.milli_value() as f64 } else { q.value() as f64 };
    let provided = float(&limit) / float(&request);
    let (given, allowed) = match ratio.value() <= MAX_MILLI {
        true => (provided * 1000.0, ratio.milli_value() as f64),
        false => (provided, ratio.value() as f64),
    };
    (given > allowed).then(|| format!("{bound}, but provided ratio is {provided:.6}"))
}

/// Whether one amount is more than another, in thousandths where those can be held.
fn exceeds(more: &Quantity, less: &Quantity) -> bool {
    if more.value() <= MAX_MILLI && less.value() <= MAX_MILLI {
        return more.milli_value() > less.milli_value();
    }
    more.value() > less.value()
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn value(text: &str) -> Value {
        json::decode(text.as_bytes()).expect("valid JSON")
    }

    fn range(limits: &str) -> Vec<Item> {
        Item::all_of(&value(&format!(r#"{{"spec":{{"limits":{limits}}}}}"#)))
    }

    #[test]
    fn containers_stay_within_bounds() {
        let check = |item: &str, resources: &str, expect: &[&str]| {
            let range = range(&format!(r#"[{{"type":"Container",{item}}}]"#));
            let pod = value(&format!(r#"{{"spec":{{"containers":[{{"resources":{resources}}}]}}}}"#));
            assert_eq!(of_pod(&range, &pod), expect);
        };
        let min = r#""min":{"cpu":"100m"}"#;
        check(min, "{}", &["minimum cpu usage per Container is 100m.  No request is specified"]);
        let low = "minimum cpu usage per Container is 100m, but request is 50m";
        check(min, r#"{"requests":{"cpu":"50m"},"limits":{"cpu":"60m"}}"#, &[low]);
        let low = "minimum cpu usage per Container is 100m, but limit is 60m";
        check(min, r#"{"requests":{"cpu":"1"},"limits":{"cpu":"60m"}}"#, &[low]);
        let max = r#""max":{"memory":"1Gi"}"#;
        check(max, r#"{"requests":{"memory":"1Gi"},"limits":{"memory":"1Gi"}}"#, &[]);
        check(max, "{}", &["maximum memory usage per Container is 1Gi.  No limit is specified"]);
        let high = "maximum memory usage per Container is 1Gi, but limit is 2Gi";
        check(max, r#"{"limits":{"memory":"2Gi"}}"#, &[high]);
        let high = "maximum memory usage per Container is 1Gi, but request is 2Gi";
        check(max, r#"{"limits":{"memory":"1Gi"},"requests":{"memory":"2Gi"}}"#, &[high]);
        let ratio = r#""maxLimitRequestRatio":{"cpu":"2500m"}"#;
        let bound = "cpu max limit to request ratio per Container is 2500m, but";
        check(ratio, "{}", &[&format!("{bound} no request is specified or request is 0")]);
        check(ratio, r#"{"requests":{"cpu":"1"}}"#, &[&format!("{bound} no limit is specified or limit is 0")]);
        check(ratio, r#"{"requests":{"cpu":"2"},"limits":{"cpu":"5"}}"#, &[]);
        let far = format!("{bound} provided ratio is 3.333333");
        check(ratio, r#"{"requests":{"cpu":"300m"},"limits":{"cpu":"1"}}"#, &[&far]);
    }

    #[test]
    fn a_pod_counts_as_a_whole_and_by_what_it_says_itself() {
        let range = range(r#"[{"type":"Pod","max":{"cpu":"2"}}]"#);
        let check = |spec: &str, expect: &[&str]| {
            assert_eq!(of_pod(&range, &value(&format!(r#"{{"spec":{spec}}}"#))), expect);
        };
        let two = r#""containers":[{"resources":{"limits":{"cpu":"1500m"}}},{"resources":{"limits":{"cpu":"1"}}}]"#;
        check(&format!("{{{two}}}"), &["maximum cpu usage per Pod is 2, but limit is 2500m"]);
        check(&format!(r#"{{{two},"resources":{{"limits":{{"cpu":"2"}}}}}}"#), &[]);
    }

    #[test]
    fn of_a_claim_the_request_counts() {
        let range = range(r#"[{"type":"PersistentVolumeClaim","min":{"storage":"1Gi"},"max":{"storage":"2Gi"}}]"#);
        let check = |requests: &str, expect: &[&str]| {
            let claim = value(&format!(r#"{{"spec":{{"resources":{{"requests":{requests}}}}}}}"#));
            assert_eq!(of_claim(&range, &claim), expect);
        };
        check(r#"{"storage":"2Gi"}"#, &[]);
        check(
            r#"{"storage":"500Mi"}"#,
            &["minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi"],
        );
        check(r#"{"storage":"3Gi"}"#, &["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"]);
        check(
            "{}",
            &[
                "minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified",
                "maximum storage usage per PersistentVolumeClaim is 2Gi.  No request is specified",
            ],
        );
    }
}
