//! Resolves a method and a path into a request info (upstream's RequestInfo).

use super::{Query, RequestInfo, Route, Verb};
use crate::{
    Str,
    meta::{
        FieldSelector, LabelSelector, names,
        selector::{Requirement, Term},
    },
};

/// Reads the method, the decoded path and the query.
pub fn resolve(method: &str, path: &str, query: &Query) -> RequestInfo {
    let mut info =
        RequestInfo { path: path.into(), method: Str::from(method.to_ascii_lowercase()), ..RequestInfo::default() };
    let trimmed = path.trim_matches('/');
    let mut parts: Vec<&str> = if trimmed.is_empty() { Vec::new() } else { trimmed.split('/').collect() };
    // A path with a doubled slash at its start is not an API path, though RBAC sees it as one.
    let (prefix, group_parts) = match parts.first() {
        Some(&"api") => ("api", 1),
        Some(&"apis") => ("apis", 2),
        _ => return info,
    };
    if parts.len() < group_parts + 2 {
        return info;
    }
    info.is_resource = true;
    info.prefix = prefix.into();
    if prefix == "apis" {
        info.group = parts[1].into();
    }
    info.version = parts[group_parts].into();
    parts.drain(..=group_parts);
    info.verb = match method {
        "POST" => Verb::Create,
        "GET" | "HEAD" => Verb::Get,
        "PUT" => Verb::Update,
        "PATCH" => Verb::Patch,
        "DELETE" => Verb::Delete,
        _ => {
            info.method = Str::default(); // of a resource, other methods ask for nothing that has a name
            Verb::Other
        }
    };
    let mut deprecated_watch = false;
    // With any method, as upstream: the routes have only GET.
    if parts.first() == Some(&"watch") && parts.len() > 1 {
        deprecated_watch = true;
        parts.remove(0);
    }
    info.route = if path.starts_with("//") || parts[0].is_empty() { Route::Malformed } else { Route::Cluster };
    if parts[0] == "namespaces" {
        if parts.len() > 1 {
            info.namespace = parts[1].into();
        }
        if parts.len() > 2 && !matches!(parts[2], "status" | "finalize") {
            parts.drain(..2);
            if info.route == Route::Cluster {
                info.route = Route::Namespaced;
            }
        }
    }
    info.resource = parts[0].into();
    if let Some(name) = parts.get(1) {
        info.name = (*name).into();
    }
    if let Some(subresource) = parts.get(2) {
        info.subresource = (*subresource).into();
    }
    if parts.len() > 3 {
        info.rest = parts[3..].join("/").into();
    }
    if info.resource.is_empty() || (info.name.is_empty() && parts.len() > 2) {
        info.route = Route::Malformed;
    }
    if deprecated_watch {
        info.verb = Verb::Watch;
    } else if info.name.is_empty() && info.verb == Verb::Get {
        info.verb = if query.flag("watch") { Verb::Watch } else { Verb::List };
    } else if info.name.is_empty() && info.verb == Verb::Delete {
        info.verb = Verb::DeleteCollection;
    }
    // Paths that begin with `watch` do not say reliably what is selected of.
    if !deprecated_watch && matches!(info.verb, Verb::List | Verb::Watch | Verb::DeleteCollection) {
        if let Some(selector) = query.get("fieldSelector") {
            // Only what began as a GET takes the name for its own, as upstream.
            if info.verb != Verb::DeleteCollection {
                info.name = pinned_name(selector).unwrap_or_default();
            }
            info.field_selector = field_terms(selector);
        }
        info.label_selector = query.get("labelSelector").map(label_requirements).unwrap_or_default();
    }
    info
}

/// The attributes of an action that nobody has asked for yet, but that somebody asks about.
pub fn resource_info(verb: &str, group: &str, version: &str, resource: &str) -> RequestInfo {
    RequestInfo {
        is_resource: true,
        verb: Verb::ALL.into_iter().find(|v| v.name() == verb).unwrap_or_default(),
        method: verb.into(),
        group: group.into(),
        version: version.into(),
        resource: resource.into(),
        ..RequestInfo::default()
    }
}

/// The name that a field selector pins, if it does: authorization by resource name then applies to the collection.
fn pinned_name(selector: &str) -> Option<Str> {
    let selector = FieldSelector::parse(selector).ok()?;
    let name = selector.requires_exact_match("metadata.name")?;
    (!name.is_empty() && names::path_segment_name(name).is_empty()).then(|| name.into())
}

/// The terms of a field selector; none if it cannot be read: authorizers see less of a selection then, never more.
pub fn field_terms(selector: &str) -> Vec<Term> {
    FieldSelector::parse(selector).map(|selector| selector.terms().to_vec()).unwrap_or_default()
}

/// The requirements of a label selector; none if it cannot be read.
pub fn label_requirements(selector: &str) -> Vec<Requirement> {
    LabelSelector::parse(selector).map(|selector| selector.requirements().to_vec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: &str, expect: &str) {
        let (method, target) = request.split_once(' ').expect("a request line");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let info = resolve(method, path, &Query::parse(query));
        let got = if info.is_resource {
            format!(
                "{} g={} v={} ns={} r={} s={} n={} {:?}",
                info.verb_name(),
                info.group,
                info.version,
                info.namespace,
                info.resource,
                info.subresource,
                info.name,
                info.route
            )
        } else {
            format!("{} path", info.verb_name())
        };
        assert_eq!(got, expect, "{request}");
    }

    #[test]
    fn paths_resolve_as_upstreams_do() {
        check("GET /healthz", "get path");
        check("POST /api/v1", "post path");
        check("GET /apis/apps/v1", "get path");
        check("GET /api/v1/pods", "list g= v=v1 ns= r=pods s= n= Cluster");
        check("GET /api/v1/pods?watch=1", "watch g= v=v1 ns= r=pods s= n= Cluster");
        check("GET /api/v1/pods?watch=false", "list g= v=v1 ns= r=pods s= n= Cluster");
        check("GET /api/v1/watch/namespaces/a/pods", "watch g= v=v1 ns=a r=pods s= n= Namespaced");
        check("POST /api/v1/watch/namespaces/a/pods", "watch g= v=v1 ns=a r=pods s= n= Namespaced");
        check("GET /api/v1/namespaces/a", "get g= v=v1 ns=a r=namespaces s= n=a Cluster");
        check("PUT /api/v1/namespaces/a/finalize", "update g= v=v1 ns=a r=namespaces s=finalize n=a Cluster");
        check(
            "DELETE /apis/apps/v1/namespaces/a/deployments",
            "deletecollection g=apps v=v1 ns=a r=deployments s= n= Namespaced",
        );
        check(
            "PATCH /apis/apps/v1/namespaces/a/deployments/d/scale",
            "patch g=apps v=v1 ns=a r=deployments s=scale n=d Namespaced",
        );
        check("GET /api/v1/namespaces//pods/p", "get g= v=v1 ns= r=pods s= n=p Namespaced");
        check("GET /api/v1//namespaces/a/pods/p", "get g= v=v1 ns= r= s=a n=namespaces Malformed");
        check(
            "GET /api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dp,x=y",
            "list g= v=v1 ns=a r=pods s= n=p Namespaced",
        );
        check("GET /api/v1/watch/pods?fieldSelector=metadata.name%3Dp", "watch g= v=v1 ns= r=pods s= n= Cluster");
        check(
            "DELETE /api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dp",
            "deletecollection g= v=v1 ns=a r=pods s= n= Namespaced",
        );
        check("OPTIONS /api/v1/pods", " g= v=v1 ns= r=pods s= n= Cluster");
        check("GET /api/v1/namespaces/a/services/s/proxy/x/y", "get g= v=v1 ns=a r=services s=proxy n=s Namespaced");
    }

    #[test]
    fn a_query_keeps_what_decodes() {
        let q = Query::parse("a=1&b=%zz&c=x;y=2&a=2&d&e=x+y%21");
        assert_eq!(q.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert!(!q.has("b") && !q.has("c") && q.has("d"));
        assert_eq!(q.get("e"), Some("x y!"));
    }
}
