//! Approves requests of kubelets for client certificates whose authors may make them (nodeclient, selfnodeclient).

use std::sync::Arc;

use machinery::{
    Value,
    meta::{Meta, status::Status},
    object,
};

use super::{REQUESTS, add_condition, has_certificate, has_condition, kubelet, parsed, signer_of, usages};
use crate::{
    authorities::KUBELET_CLIENT,
    client::Client,
    objects::{self, Each, Key},
    ready::Ready,
    shared::Shared,
    workqueue::Outcome,
};

const WORKERS: usize = 5;
/// What an author must be allowed to create, and what is said then. The first is for the node that the request is about.
const GRANTS: [(&str, bool, &str); 2] = [
    ("selfnodeclient", true, "Auto approving self kubelet client certificate after SubjectAccessReview."),
    ("nodeclient", false, "Auto approving kubelet client certificate after SubjectAccessReview."),
];

/// Approves them as they come.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let of = Each { queue: "certificate_approving", resource: REQUESTS, workers: WORKERS, concerns: |_| true };
    objects::each(&shared, ready, of, |shared, key| async move { sync(&shared, &key).await }).await;
}

async fn sync(shared: &Shared, key: &Key) -> Result<Outcome, Status> {
    let Some(mut request) = objects::read(shared, REQUESTS, key).await? else { return Ok(Outcome::Done) };
    let is_decided = has_condition(&request, "Approved") || has_condition(&request, "Denied");
    if has_certificate(&request) || is_decided || signer_of(&request) != KUBELET_CLIENT {
        return Ok(Outcome::Done);
    }
    let asked = parsed(&request)?;
    if kubelet::client(&asked, &usages(&request)).is_err() {
        return Ok(Outcome::Done);
    }
    let is_own = request.str_at(&["spec", "username"]) == Some(asked.common_name());
    let client = shared.client();
    for (subresource, _, message) in GRANTS.iter().filter(|(_, own, _)| is_own || !own) {
        if !may_create(&client, &request, subresource).await? {
            continue;
        }
        add_condition(&mut request, "Approved", "AutoApproved", message);
        let path = format!("{}/approval", key.path(REQUESTS.in_version("v1")));
        return objects::written(client.update(&path, &request).await);
    }
    // The right may be given later.
    tracing::debug!(request = Meta::of(&request).name(), "a kubelet asks for what its author may not have");
    Ok(Outcome::Retry)
}

/// Whether the author of a request may create it of this kind.
async fn may_create(client: &Client, request: &Value, subresource: &str) -> Result<bool, Status> {
    let of = |member: &str| request.at(&["spec", member]).cloned().unwrap_or_default();
    let attributes = object! {
        "group" => REQUESTS.group, "resource" => REQUESTS.resource, "verb" => "create", "subresource" => subresource, "version" => "*",
    };
    let review = object! {
        "kind" => "SubjectAccessReview", "apiVersion" => "authorization.k8s.io/v1",
        "spec" => object! {
            "user" => of("username"), "uid" => of("uid"), "groups" => of("groups"), "extra" => of("extra"),
            "resourceAttributes" => attributes,
        },
    };
    let answer = client.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await?;
    Ok(answer.at(&["status", "allowed"]).and_then(Value::as_bool).unwrap_or(false))
}
