//! The parameters of policies: objects that bindings name or select.

use std::sync::Arc;

use generic_server::{
    registry::{Lister, VersionForm},
    table::TableEntry,
};
use machinery::{Str, Value, codec::json, meta::selector::LabelSelector};
use storage::cache::Object;

use crate::tables::Tables;

/// The kind of a policy's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParamKind {
    group: Str,
    version: Str,
    kind: Str,
}

/// Which objects a binding takes as parameters.
#[derive(Clone, Debug)]
pub(crate) struct ParamRef {
    name: Str,
    namespace: Str,
    selector: Option<LabelSelector>,
    /// Where there are none, the write is refused.
    deny: bool,
}

impl ParamKind {
    /// That of a policy's spec.
    pub(crate) fn of(spec: &Value) -> Option<Self> {
        let kind = spec.get("paramKind").filter(|kind| !kind.is_null())?;
        let version = kind.str_at(&["apiVersion"]).unwrap_or_default();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = kind.str_at(&["kind"]).unwrap_or_default();
        Some(ParamKind { group: group.into(), version: version.into(), kind: kind.into() })
    }

    /// Where such objects are.
    ///
    /// # Errors
    /// Upstream's text, if there is no such kind.
    pub(crate) fn find(&self, tables: &Tables) -> Result<Arc<TableEntry>, String> {
        tables.kind(&self.group, &self.version, &self.kind).ok_or_else(|| {
            let ParamKind { group, version, kind } = self;
            format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")
        })
    }
}

impl ParamRef {
    /// That of a binding's spec.
    pub(crate) fn of(spec: &Value) -> Option<Self> {
        let param = spec.get("paramRef").filter(|param| !param.is_null())?;
        let text = |key: &str| Str::from(param.str_at(&[key]).unwrap_or_default());
        let selector = param.get("selector").filter(|selector| !selector.is_null());
        Some(ParamRef {
            name: text("name"),
            namespace: text("namespace"),
            selector: selector.map(|s| LabelSelector::from_value(s).unwrap_or_else(|_| LabelSelector::nothing())),
            deny: text("parameterNotFoundAction") == "Deny",
        })
    }

    /// The objects, in the version of the entry. `namespace`: that of the write.
    ///
    /// # Errors
    /// Upstream's text of what is wrong with the binding, or with what is stored.
    pub(crate) async fn collect(&self, entry: &TableEntry, namespace: &str) -> Result<Vec<Value>, String> {
        let registry = entry.registry.as_ref().expect("only stored kinds are found");
        let namespace = match (entry.row.namespaced, self.namespace.as_str()) {
            (false, "") => "",
            (false, _) => return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into()),
            (true, "") if namespace.is_empty() => {
                let why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
                return Err(why.into());
            }
            (true, "") => namespace,
            (true, given) => given,
        };
        registry.ready().await.map_err(|status| status.message)?;
        let snapshot = registry.cache().latest();
        let objects: Vec<Arc<Object>> = match &self.selector {
            None => snapshot
                .get(&registry.key(namespace, &self.name))
                .and_then(|e| e.object().cloned())
                .into_iter()
                .collect(),
            Some(selector) => {
                let entries = snapshot.range(&registry.namespace_prefix(namespace), None);
                entries.filter_map(|e| e.object().cloned()).filter(|o| selects(selector, o)).collect()
            }
        };
        if objects.is_empty() && self.deny {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".into());
        }
        let mut params = Vec::with_capacity(objects.len());
        for object in &objects {
            params.push(read(registry, entry, object).await?);
        }
        Ok(params)
    }
}

fn selects(selector: &LabelSelector, object: &Object) -> bool {
    selector.is_everything() || selector.matches_with(|key| object.labels().get(key))
}

async fn read(registry: &Lister, entry: &TableEntry, object: &Arc<Object>) -> Result<Value, String> {
    let bytes = match VersionForm::of(&entry.row, registry) {
        Some(version) => registry.in_version(&version, object).await.map_err(|status| status.message)?,
        None => object.bytes().clone(),
    };
    json::decode(&bytes).map_err(|error| error.to_string())
}
