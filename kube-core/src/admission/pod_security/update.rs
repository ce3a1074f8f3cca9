//! Which updates of a pod can change whether it keeps to a policy.

use std::collections::HashMap;

use machinery::{Value, meta::Meta};

/// Whether the update adds or removes containers, or changes the image or the old seccomp annotation of one.
pub(super) fn matters(new: &Value, old: &Value) -> bool {
    let list = |pod: &'_ Value, name: &str| -> Vec<Value> {
        pod.at(&["spec", name]).and_then(Value::as_array).unwrap_or_default().to_vec()
    };
    for name in ["containers", "initContainers"] {
        let (new_list, old_list) = (list(new, name), list(old, name));
        let differs = |(a, b): (&Value, &Value)| container_differs(a, b, new, old);
        if new_list.len() != old_list.len() || new_list.iter().zip(&old_list).any(differs) {
            return true;
        }
    }
    let name = |container: &Value| container.str_at(&["name"]).unwrap_or_default().to_owned();
    let before = list(old, "ephemeralContainers");
    let by_name: HashMap<String, &Value> = before.iter().rev().map(|container| (name(container), container)).collect();
    list(new, "ephemeralContainers").iter().any(|container| {
        let known = by_name.get(&name(container));
        known.is_none_or(|known| container_differs(container, known, new, old))
    })
}

fn container_differs(container: &Value, before: &Value, new: &Value, old: &Value) -> bool {
    let name = container.str_at(&["name"]).unwrap_or_default();
    let key = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
    container.get("image") != before.get("image") || Meta::of(new).annotation(&key) != Meta::of(old).annotation(&key)
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    #[test]
    fn images_and_containers_matter() {
        let check = |new: &str, old: &str, expect: bool| {
            let pod = |text: &str| json::decode(text.as_bytes()).expect("valid JSON");
            assert_eq!(matters(&pod(new), &pod(old)), expect, "{new} {old}");
        };
        let one = r#"{"spec":{"containers":[{"name":"a","image":"x"}]}}"#;
        check(one, one, false);
        check(r#"{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"x"}]}}"#, one, false);
        check(r#"{"spec":{"containers":[{"name":"a","image":"y"}]}}"#, one, true);
        check(one, "{}", true);
        let later = r#"{"spec":{"containers":[{"name":"a","image":"x"}],"ephemeralContainers":[{"name":"e"}]}}"#;
        check(later, one, true);
        check(later, later, false);
        let annotated = r#"{"metadata":{"annotations":{"container.seccomp.security.alpha.kubernetes.io/a":"x"}},
            "spec":{"containers":[{"name":"a","image":"x"}]}}"#;
        check(annotated, one, true);
    }
}
