//! Selects one of a pod's containers.

use machinery::{
    Value,
    meta::{Meta, status::Status},
};

/// The container that is asked for, or the only one there is.
///
/// # Errors
/// 400 if there is no such container, or none is named and there are several.
pub(super) fn chosen<'a>(pod: &'a Value, asked: &'a str) -> Result<&'a str, Status> {
    let name = |container: &'a Value| container.str_at(&["name"]).unwrap_or_default();
    let list = |kind: &str| pod.at(&["spec", kind]).and_then(Value::as_array).unwrap_or_default();
    let all = || ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(list).map(name);
    let pod = Meta::of(pod).name();
    if asked.is_empty() {
        return match list("containers") {
            [only] => Ok(name(only)),
            [] => Err(Status::bad_request(format!("a container name must be specified for pod {pod}"))),
            _ => {
                let names = all().collect::<Vec<_>>().join(" ");
                let why = format!("a container name must be specified for pod {pod}, choose one of: [{names}]");
                Err(Status::bad_request(why))
            }
        };
    }
    if all().any(|name| name == asked) {
        return Ok(asked);
    }
    Err(Status::bad_request(format!("container {asked} is not valid for pod {pod}")))
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn one_container_needs_no_name() {
        let named = |name: &str| object! { "name" => name };
        let pod = |containers: Value| {
            let spec = object! { "initContainers" => array![named("i")], "containers" => containers };
            object! { "metadata" => object! { "name" => "p" }, "spec" => spec }
        };
        let check = |pod: &Value, asked: &str, expect: Result<&str, &str>| {
            assert_eq!(chosen(pod, asked).map_err(|s| s.message), expect.map_err(str::to_owned));
        };
        check(&pod(array![named("a")]), "", Ok("a"));
        check(&pod(array![named("a")]), "i", Ok("i"));
        check(&pod(array![named("a")]), "x", Err("container x is not valid for pod p"));
        let several = "a container name must be specified for pod p, choose one of: [i a b]";
        check(&pod(array![named("a"), named("b")]), "", Err(several));
    }
}
