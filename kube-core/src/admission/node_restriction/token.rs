//! Tokens that kubelets ask for: bound to a pod on the node, and for audiences that the pod's volumes name.

use std::sync::Arc;

use auth::Authorizer;
use generic_server::{
    admission::{Attributes, Operation},
    registry::Lister,
};
use machinery::request::{RequestInfo, resource_info};
use machinery::{
    Value,
    meta::{Meta, go_text::quote, status::Status},
};

use super::{holds, node_name, refused};
use crate::admission::{aggregated, found};

/// What kubelets need to be allowed to get a token for an audience that no volume names.
const VERB: &str = "request-serviceaccounts-token-audience";

/// Drivers that serve volumes which were once served in the tree, by the member of the volume's source.
const MIGRATED: [(&str, &str); 7] = [
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

/// Who judges the audiences of tokens.
pub(super) struct Audiences {
    pub(super) authorizer: Arc<dyn Authorizer>,
    pub(super) claims: Arc<Lister>,
    pub(super) volumes: Arc<Lister>,
    pub(super) drivers: Arc<Lister>,
}

/// Whether the node may have the token.
pub(super) async fn check(
    a: &Attributes<'_>,
    request: &Value,
    node: &str,
    pods: &Lister,
    audiences: Option<&Audiences>,
) -> Result<(), Status> {
    if a.operation != Operation::Create {
        return Ok(());
    }
    let text = |member: &str| request.str_at(&["spec", "boundObjectRef", member]).unwrap_or_default();
    if text("apiVersion") != "v1" || text("kind") != "Pod" || text("name").is_empty() {
        return Err(a.forbidden(request, "node requested token not bound to a pod"));
    }
    let uid = text("uid");
    if uid.is_empty() {
        return Err(a.forbidden(request, "node requested token with a pod binding without a uid"));
    }
    let pod = found(pods, a.namespace, text("name")).await?;
    if uid != Meta::of(&pod).uid() {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        return Err(a.forbidden(request, why));
    }
    let why = "node requested token bound to a pod scheduled on a different node";
    refused(a, request, holds(node_name(&pod) == node, why))?;
    match audiences {
        Some(audiences) => refused(a, request, audiences.check(a, request, &pod).await),
        None => Ok(()),
    }
}

impl Audiences {
    async fn check(&self, a: &Attributes<'_>, request: &Value, pod: &Value) -> Result<(), String> {
        let audience = match request.at(&["spec", "audiences"]).and_then(Value::as_array).unwrap_or_default() {
            [] => "",
            [one] => one.as_str().unwrap_or_default(),
            _ => return Err("node may only request 0 or 1 audiences".to_owned()),
        };
        let named = self.is_named(pod, audience).await;
        if named.map_err(|why| format!("error validating audience {}: {why}", quote(audience)))? {
            return Ok(());
        }
        let info = resource_info(VERB, "", "v1", audience);
        let info = RequestInfo { namespace: a.namespace.into(), name: a.name.into(), ..info };
        let decision = self.authorizer.authorize(&auth::Attributes { user: a.user, info: &info }).await;
        if decision.is_allowed() {
            return Ok(());
        }
        let (audience, user) = (quote(audience), &a.user.name);
        Err(format!(
            "audience {audience} not found in pod spec volume, {user} is not authorized to request tokens for this audience"
        ))
    }

    /// Whether a volume of the pod gets a token for the audience: as a file, or by way of its driver.
    async fn is_named(&self, pod: &Value, audience: &str) -> Result<bool, String> {
        let mut faults = Vec::new();
        for volume in pod.at(&["spec", "volumes"]).and_then(Value::as_array).unwrap_or_default() {
            if in_projection(volume, audience) {
                return Ok(true);
            }
            let driver = match self.driver(pod, volume).await {
                Ok(driver) => driver,
                Err(why) => {
                    faults.push(why.message);
                    continue;
                }
            };
            let Some(driver) = driver.filter(|driver| !driver.is_empty()) else { continue };
            match found(&self.drivers, "", &driver).await {
                Ok(driver) if asks_for(&driver, audience) => return Ok(true),
                Ok(_) => {}
                Err(why) => faults.push(why.message),
            }
        }
        if faults.is_empty() { Ok(false) } else { Err(aggregated(faults)) }
    }

    /// The driver that serves a volume.
    async fn driver(&self, pod: &Value, volume: &Value) -> Result<Option<String>, Status> {
        let namespace = Meta::of(pod).namespace();
        if volume.at(&["ephemeral", "volumeClaimTemplate"]).is_some_and(|template| !template.is_null()) {
            let claim = format!("{}-{}", Meta::of(pod).name(), volume.str_at(&["name"]).unwrap_or_default());
            return self.driver_of_claim(namespace, &claim).await;
        }
        if let Some(claim) = volume.get("persistentVolumeClaim").filter(|claim| !claim.is_null()) {
            return self.driver_of_claim(namespace, claim.str_at(&["claimName"]).unwrap_or_default()).await;
        }
        Ok(driver_of(volume).map(str::to_owned))
    }

    async fn driver_of_claim(&self, namespace: &str, claim: &str) -> Result<Option<String>, Status> {
        let claim = found(&self.claims, namespace, claim).await?;
        let volume = found(&self.volumes, "", claim.str_at(&["spec", "volumeName"]).unwrap_or_default()).await?;
        Ok(volume.get("spec").and_then(driver_of).map(str::to_owned))
    }
}

fn in_projection(volume: &Value, audience: &str) -> bool {
    let sources = volume.at(&["projected", "sources"]).and_then(Value::as_array).unwrap_or_default();
    let mut tokens = sources.iter().filter_map(|s| s.get("serviceAccountToken")).filter(|token| !token.is_null());
    tokens.any(|token| token.str_at(&["audience"]).unwrap_or_default() == audience)
}

/// The driver that a volume's source, a pod's or a persistent volume's, names itself or was taken over by.
fn driver_of(source: &Value) -> Option<&str> {
    let has = |member: &str| source.get(member).is_some_and(|source| !source.is_null());
    if has("csi") {
        return source.str_at(&["csi", "driver"]);
    }
    MIGRATED.iter().find(|(member, _)| has(member)).map(|(_, driver)| *driver)
}

fn asks_for(driver: &Value, audience: &str) -> bool {
    let requests = driver.at(&["spec", "tokenRequests"]).and_then(Value::as_array).unwrap_or_default();
    requests.iter().any(|request| request.str_at(&["audience"]).unwrap_or_default() == audience)
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn a_volume_names_the_audiences_of_its_tokens() {
        let token = |token: Value| object! { "projected" => object! { "sources" => array![object! {}, token] } };
        let named = token(object! { "serviceAccountToken" => object! { "audience" => "vault" } });
        assert!(in_projection(&named, "vault") && !in_projection(&named, ""));
        let unnamed = token(object! { "serviceAccountToken" => object! { "path" => "p" } });
        assert!(in_projection(&unnamed, "") && !in_projection(&unnamed, "vault"));
        assert!(!in_projection(&token(object! { "secret" => object! {} }), ""));
        let driver = object! { "spec" => object! { "tokenRequests" => array![object! { "audience" => "vault" }] } };
        assert!(asks_for(&driver, "vault") && !asks_for(&driver, "") && !asks_for(&object! {}, ""));
    }

    #[test]
    fn volumes_are_served_by_drivers() {
        let check = |source: Value, expect| assert_eq!(driver_of(&source), expect);
        check(object! { "csi" => object! { "driver" => "d" } }, Some("d"));
        check(object! { "awsElasticBlockStore" => object! {} }, Some("ebs.csi.aws.com"));
        check(object! { "hostPath" => object! {} }, None);
    }
}
