//! How many pods the controllers of some pods want.

use std::collections::HashMap;

use machinery::{
    Str, Value,
    meta::{GrRef, Meta, OwnerReference, status::Status},
};

use crate::shared::Shared;

/// The sum over all controllers.
#[derive(Debug, Default)]
pub(super) struct Scale {
    pub(super) pods: i64,
    /// Some pods have no controller.
    pub(super) has_unmanaged: bool,
}

/// Looks for the controller of each pod.
pub(super) async fn of_all(shared: &Shared, pods: &[Value], namespace: &str) -> Result<Scale, String> {
    let mut scale = Scale::default();
    // What controls them by the uid that the pods name; several of these may have one controller themselves.
    let mut seen: HashMap<Str, Str> = HashMap::new();
    let mut wanted: HashMap<Str, i64> = HashMap::new();
    for pod in pods {
        let Some(controller) = Meta::of(pod).controller() else {
            scale.has_unmanaged = true;
            continue;
        };
        if seen.contains_key(controller.uid()) {
            continue;
        }
        let found = find(shared, controller, namespace).await?;
        let Some((uid, replicas)) = found else {
            return Err(format!("found no controllers for pod {:?}", Meta::of(pod).name()));
        };
        seen.insert(controller.uid().into(), uid.clone());
        wanted.insert(uid, replicas);
    }
    scale.pods = wanted.values().fold(0, |sum: i64, replicas| sum.saturating_add(*replicas));
    Ok(scale)
}

/// Who scales the pods of a controller, by uid, and how many it wants.
async fn find(shared: &Shared, controller: OwnerReference<'_>, namespace: &str) -> Result<Option<(Str, i64)>, String> {
    let group = controller.api_version().split_once('/').map_or("", |(group, _)| group);
    let known = match (group, controller.kind()) {
        ("", "ReplicationController") => Some(GrRef::new("", "replicationcontrollers")),
        ("apps" | "extensions", "ReplicaSet") => Some(GrRef::new("apps", "replicasets")),
        ("apps", "StatefulSet") => Some(GrRef::new("apps", "statefulsets")),
        _ => None,
    };
    if let Some(resource) = known
        && let Some(object) = owner(shared, resource, controller, namespace).await?
    {
        let above = Meta::of(&object).controller().filter(|_| resource.resource == "replicasets");
        match above {
            Some(above) if above.kind() == "Deployment" => {
                if let Some(deployment) = owner(shared, GrRef::new("apps", "deployments"), above, namespace).await? {
                    return Ok(Some(replicas_of(&deployment)));
                }
            }
            _ => return Ok(Some(replicas_of(&object))),
        }
    }
    of_subresource(shared, controller, namespace).await
}

/// The object that a reference means, if it is there.
async fn owner(
    shared: &Shared,
    resource: GrRef<'static>,
    reference: OwnerReference<'_>,
    namespace: &str,
) -> Result<Option<Value>, String> {
    let lister = shared.lister(resource.group, resource.resource);
    let text = |status: Status| status.message;
    let Some(object) = lister.find(namespace, reference.name()).await.map_err(text)? else { return Ok(None) };
    let object = lister.decode(object.bytes()).map_err(text)?;
    Ok(Some(object).filter(|object| Meta::of(object).uid() == reference.uid()))
}

fn replicas_of(object: &Value) -> (Str, i64) {
    let replicas = object.at(&["spec", "replicas"]).and_then(Value::as_i64);
    (Meta::of(object).uid().into(), replicas.unwrap_or(1))
}

/// Asks the scale of any other controller.
async fn of_subresource(
    shared: &Shared,
    controller: OwnerReference<'_>,
    namespace: &str,
) -> Result<Option<(Str, i64)>, String> {
    let list = shared.kinds.list();
    let Some(kind) = list.find(controller.api_version(), controller.kind()) else {
        return Err(format!("no matches for kind {:?} in version {:?}", controller.kind(), controller.api_version()));
    };
    if !kind.has_scale {
        let qualified = kind.lister.row.qualified();
        return Err(format!("{qualified} does not implement the scale subresource"));
    }
    let namespace = if kind.namespaced { namespace } else { "" };
    let path = format!("{}/scale", kind.path(namespace, controller.name()));
    match shared.client().get(&path, "application/json").await {
        Ok(scale) if Meta::of(&scale).uid() == controller.uid() => {
            let replicas = scale.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
            Ok(Some((controller.uid().into(), replicas)))
        }
        Ok(_) => Ok(None),
        Err(status) if status.is_not_found() => Ok(None),
        Err(status) => Err(status.message),
    }
}
