//! Whoever makes a policy or binding must be able to read the parameters that it takes.

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use auth::{Attributes, Authorizer, User};
use generic_server::{
    registry::{Consult, Judged, Lister},
    server::GenericServer,
    table::ResourceTable,
};
use machinery::request::{RequestInfo, resource_info};
use machinery::{Str, Value, codec::json, meta::field_error::FieldError};

/// The resources of kinds, and who decides.
#[derive(Clone)]
pub(crate) struct ParamGrants {
    /// This server's own.
    pub(crate) table: Arc<ArcSwap<ResourceTable>>,
    /// Custom resources are among these.
    pub(crate) delegate: Arc<GenericServer>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
}

/// Of policies: everything of the kind of their parameters.
pub(crate) struct PolicyGrants(pub(crate) ParamGrants);

/// Of bindings: what they name. The policies say of which kind that is.
pub(crate) struct BindingGrants(pub(crate) ParamGrants, pub(crate) Arc<Lister>);

/// Group, version and resource that a kind stands for; `*` where that cannot be told.
struct Params {
    group: Str,
    version: Str,
    resource: Str,
    /// Why it is all resources.
    unknown: Option<String>,
}

impl ParamGrants {
    fn resolve(&self, kind: &Value) -> Params {
        let api_version = kind.str_at(&["apiVersion"]).unwrap_or_default();
        let name = kind.str_at(&["kind"]).unwrap_or_default();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let find = |table: &ResourceTable| {
            let rows = table.group(group)?.entries().iter().map(|entry| &entry.row);
            rows.into_iter().find(|row| row.version == version && row.kind == name).map(|row| row.plural.clone())
        };
        let resource = find(&self.table.load()).or_else(|| find(&self.delegate.table()));
        let unknown = resource.is_none().then(|| format!("unable to resolve paramKind {api_version}, Kind={name}"));
        Params {
            group: group.into(),
            version: version.into(),
            resource: resource.unwrap_or(Str::new_static("*")),
            unknown,
        }
    }

    async fn may(&self, user: &User, verb: &str, params: &Params, namespace: &str, name: &str) -> bool {
        let info = RequestInfo {
            namespace: namespace.into(),
            name: name.into(),
            ..resource_info(verb, &params.group, &params.version, &params.resource)
        };
        self.authorizer.authorize(&Attributes { user, info: &info }).await.is_allowed()
    }
}

fn member<'v>(object: &'v Value, name: &str) -> Option<&'v Value> {
    object.at(&["spec", name]).filter(|value| !value.is_null())
}

#[async_trait]
impl Consult for PolicyGrants {
    async fn findings(&self, write: Judged<'_>, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let Some(kind) = member(new, "paramKind") else { return Vec::new() };
        let kept = old.and_then(|old| member(old, "paramKind")) == Some(kind);
        if kept || write.subresource == "status" || write.user.in_group(User::MASTERS) {
            return Vec::new();
        }
        if self.0.may(write.user, "get", &self.0.resolve(kind), "*", "*").await {
            return Vec::new();
        }
        let text = |key: &str| kind.str_at(&[key]).unwrap_or_default().to_owned();
        let why = format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
            shown(write.user),
            text("kind"),
            text("apiVersion")
        );
        vec![FieldError::forbidden("spec.paramKind", why)]
    }
}

#[async_trait]
impl Consult for BindingGrants {
    async fn findings(&self, write: Judged<'_>, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let Some(param) = member(new, "paramRef") else { return Vec::new() };
        let policy = new.str_at(&["spec", "policyName"]).unwrap_or_default();
        let kept = old.is_some_and(|old| {
            member(old, "paramRef") == Some(param) && old.str_at(&["spec", "policyName"]) == Some(policy)
        });
        if kept || write.user.in_group(User::MASTERS) {
            return Vec::new();
        }
        let params = self.params(policy);
        let text = |key: &str| param.str_at(&[key]).unwrap_or_default();
        let verb = if text("name").is_empty() { "list" } else { "get" };
        if self.0.may(write.user, verb, &params, text("namespace"), text("name")).await {
            return Vec::new();
        }
        let user = shown(write.user);
        let why = match params.unknown {
            Some(unknown) => format!(
                "{unknown} to determine minimum required permissions and user {user} does not have \"{verb}\" permission for all \
                 groups, versions and resources"
            ),
            None => format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef"),
        };
        vec![FieldError::forbidden("spec.paramRef", why)]
    }
}

impl BindingGrants {
    fn params(&self, policy: &str) -> Params {
        let all = Str::new_static("*");
        let any = |unknown| Params { group: all.clone(), version: all.clone(), resource: all.clone(), unknown };
        let snapshot = self.1.cache().latest();
        let object = snapshot.get(&self.1.key("", policy)).and_then(|entry| entry.object().cloned());
        let Some(found) = object.and_then(|object| json::decode(object.bytes()).ok()) else {
            return any(Some(format!("unable to get policy {policy}")));
        };
        member(&found, "paramKind").map_or_else(|| any(None), |kind| self.0.resolve(kind))
    }
}

/// A user as Go prints one.
fn shown(user: &User) -> String {
    let list = |texts: &[Str]| texts.iter().map(Str::as_str).collect::<Vec<_>>().join(" ");
    let mut extra: Vec<_> = user.extra.iter().map(|(key, values)| format!("{key}:[{}]", list(values))).collect();
    extra.sort();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, list(&user.groups), extra.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_shown_as_go_prints_them() {
        let user = User {
            name: "alice".into(),
            uid: "1001".into(),
            groups: vec!["dev".into(), "qa".into()],
            extra: vec![("b".into(), vec!["1".into(), "2".into()]), ("a".into(), vec![])],
        };
        assert_eq!(shown(&user), "&{alice 1001 [dev qa] map[a:[] b:[1 2]]}");
        assert_eq!(shown(&User::default()), "&{  [] map[]}");
    }
}
