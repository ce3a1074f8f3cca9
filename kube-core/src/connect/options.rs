//! What admission sees of a request that is handed on: the options in its query and path, as a document.

use generic_server::request::Request;
use machinery::{Value, object, request::Query};

/// The options of a kind, as the request has them.
pub(super) fn document(kind: &str, request: &Request) -> Value {
    of(kind, &request.query, &request.info.path, &request.info.rest)
}

fn of(kind: &str, query: &Query, path: &str, rest: &str) -> Value {
    let mut document = object! { "kind" => kind, "apiVersion" => "v1" };
    let streams: &[&str] =
        if matches!(kind, "PodExecOptions" | "PodAttachOptions") { &["stdin", "stdout", "stderr", "tty"] } else { &[] };
    for flag in streams.iter().filter(|flag| query.flag(flag)) {
        document.set(&[flag], true);
    }
    if !streams.is_empty()
        && let Some(container) = query.get("container").filter(|name| !name.is_empty())
    {
        document.set(&["container"], container);
    }
    let mut list = |key: &str, items: Vec<Value>| {
        if !items.is_empty() {
            document.set(&[key], items);
        }
    };
    match kind {
        "PodExecOptions" => list("command", query.all("command").map(Value::from).collect()),
        "PodPortForwardOptions" => {
            let ports =
                query.all("ports").flat_map(|ports| ports.split(',')).filter_map(|port| port.parse::<i64>().ok());
            list("ports", ports.map(Value::from).collect());
        }
        "PodProxyOptions" | "ServiceProxyOptions" | "NodeProxyOptions" => {
            let slash = if path.ends_with('/') && !rest.ends_with('/') { "/" } else { "" };
            let lead = if rest.is_empty() || rest.starts_with('/') { "" } else { "/" };
            let below = format!("{lead}{rest}{slash}");
            if !below.is_empty() {
                document.set(&["path"], below);
            }
        }
        _ => {}
    }
    document
}

#[cfg(test)]
mod tests {
    use machinery::array;

    use super::*;

    #[test]
    fn options_are_what_the_request_says() {
        let check = |kind: &str, query: &str, path: &str, rest: &str, expect: Value| {
            let mut found = of(kind, &Query::parse(query), path, rest);
            found.remove_at(&["kind"]);
            found.remove_at(&["apiVersion"]);
            assert_eq!(found, expect, "{kind}");
        };
        check(
            "PodExecOptions",
            "command=ls&command=-l&container=c&stdout=true&stdin=false",
            "",
            "",
            object! { "stdout" => true, "container" => "c", "command" => array!["ls", "-l"] },
        );
        check("PodAttachOptions", "stdin=1&tty=true&command=x", "", "", object! { "stdin" => true, "tty" => true });
        check("PodPortForwardOptions", "ports=80&ports=81", "", "", object! { "ports" => array![80, 81] });
        let path = "/api/v1/namespaces/default/pods/q/proxy/a/b";
        check("PodProxyOptions", "x=1", path, "a/b", object! { "path" => "/a/b" });
        check("NodeProxyOptions", "", "/api/v1/nodes/n/proxy/", "", object! { "path" => "/" });
        check("NodeProxyOptions", "", "/api/v1/nodes/n/proxy", "", object! {});
    }
}
