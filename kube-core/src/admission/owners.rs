//! OwnerReferencesPermissionEnforcement: who may not delete an object does not give it owners, by which it would be deleted; and
//! who may not touch an owner's finalizers does not keep it from being deleted.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use auth::Authorizer;
use generic_server::admission::{Admission, Attributes, Operation, Steps};
use machinery::request::{RequestInfo, resource_info};
use machinery::{
    Str, Value,
    meta::{go_text::quote, status::Status},
};
use policies::Tables;

/// The plugin.
pub(super) struct Owners {
    pub(super) authorizer: Arc<dyn Authorizer>,
    pub(super) tables: Tables,
}

#[async_trait]
impl Admission for Owners {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, object: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let writes = matches!(a.operation, Operation::Create | Operation::Update);
        // Old kubelets send a pod's status with broken metadata, which is not taken from there.
        let is_pod_status = a.is_of("", "pods") && a.subresource == "status";
        let (new, old) = (owners(object), a.old.map(owners).unwrap_or_default());
        let changed = new.len() != old.len() || new.iter().zip(old).any(|(new, old)| !new.semantic_eq(old));
        if !writes || is_pod_status || !changed {
            return Ok(());
        }
        if a.operation != Operation::Create {
            let row = a.row;
            let info = RequestInfo {
                namespace: a.namespace.into(),
                subresource: a.subresource.into(),
                name: a.name.into(),
                ..resource_info("delete", &row.group, &row.version, &row.plural)
            };
            let why = "cannot set an ownerRef on a resource you can't delete";
            self.must(a, &info).await.map_err(|reason| a.forbidden(object, format!("{why}: {reason}")))?;
        }
        let blocking = newly_blocking(new, old);
        // Who may finalize anything needs not be asked about each; kinds need not be found then.
        let anything = RequestInfo {
            subresource: "finalizers".into(),
            name: "*".into(),
            ..resource_info("update", "*", "*", "*")
        };
        if blocking.is_empty() || self.must(a, &anything).await.is_ok() {
            return Ok(());
        }
        for owner in blocking {
            self.may_finalize(a, owner).await.map_err(|why| a.forbidden(object, why))?;
        }
        Ok(())
    }
}

impl Owners {
    /// # Errors
    /// The reason why not, as upstream shows it: with the authorizer's error, which is none.
    async fn must(&self, a: &Attributes<'_>, info: &RequestInfo) -> Result<(), String> {
        let decision = self.authorizer.authorize(&auth::Attributes { user: a.user, info }).await;
        if decision.is_allowed() {
            return Ok(());
        }
        Err(format!("{}, {}", decision.reason, decision.error.as_deref().unwrap_or("<nil>")))
    }

    async fn may_finalize(&self, a: &Attributes<'_>, owner: &Value) -> Result<(), String> {
        let text = |member: &str| owner.str_at(&[member]).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let not_found = |why: String| {
            format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} Kind \
                 {kind}: {why}"
            )
        };
        let (group, version) = match api_version.split_once('/') {
            None => ("", api_version),
            Some((group, version)) if !version.contains('/') => (group, version),
            Some(_) => return Err(not_found(format!("unexpected GroupVersion string: {api_version}"))),
        };
        let entry = self.tables.kind(group, version, kind).ok_or_else(|| {
            not_found(format!("no matches for kind {} in version {}", quote(kind), quote(api_version)))
        })?;
        let row = &entry.row;
        let info = RequestInfo {
            // An owner with a namespace is in the namespace of what it owns.
            namespace: if row.namespaced { a.namespace.into() } else { Str::default() },
            subresource: "finalizers".into(),
            name: text("name").into(),
            ..resource_info("update", &row.group, &row.version, &row.plural)
        };
        let why = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on";
        self.must(a, &info).await.map_err(|reason| format!("{why}: {reason}"))
    }
}

fn owners(object: &Value) -> &[Value] {
    object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).unwrap_or_default()
}

fn blocks(owner: &Value) -> bool {
    owner.get("blockOwnerDeletion").and_then(Value::as_bool).unwrap_or_default()
}

/// The owners whose deletion waits for the object, and did not before.
fn newly_blocking<'a>(new: &'a [Value], old: &[Value]) -> Vec<&'a Value> {
    let uid = |owner: &Value| owner.str_at(&["uid"]).unwrap_or_default().to_owned();
    let before: HashMap<String, bool> = old.iter().map(|owner| (uid(owner), blocks(owner))).collect();
    let newly = |owner: &&Value| blocks(owner) && !before.get(&uid(owner)).copied().unwrap_or_default();
    new.iter().filter(newly).collect()
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    #[test]
    fn owners_that_wait_already_are_not_asked_about() {
        let list = |text: &str| json::decode(text.as_bytes()).expect("JSON").as_array().expect("a list").to_vec();
        let new = list(
            r#"[{"uid":"1","blockOwnerDeletion":true},{"uid":"2","blockOwnerDeletion":true},{"uid":"3"},
                {"uid":"4","blockOwnerDeletion":true}]"#,
        );
        let old = list(r#"[{"uid":"1","blockOwnerDeletion":true},{"uid":"2","blockOwnerDeletion":false}]"#);
        let found: Vec<_> = newly_blocking(&new, &old).iter().filter_map(|owner| owner.str_at(&["uid"])).collect();
        assert_eq!(found, ["2", "4"]);
    }
}
