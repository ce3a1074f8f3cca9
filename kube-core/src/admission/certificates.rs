//! CertificateApproval, CertificateSigning, CertificateSubjectRestriction and ClusterTrustBundleAttest: who approves and who
//! signs requests of which signer, what no request may ask for, and who says which authorities a signer has.

use std::sync::Arc;

use async_trait::async_trait;
use auth::{Authorizer, User};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use generic_server::admission::{Admission, Attributes, Operation, Steps};
use machinery::{Value, meta::status::Status};

use crate::{
    certificates::{may, parse_request},
    rbac::same_but_for_owners,
};

const GROUP: &str = "certificates.k8s.io";

/// Whether a write is one of a signing request through this subresource.
fn writes(a: &Attributes<'_>, operation: Operation, subresource: &str) -> bool {
    a.operation == operation
        && a.subresource == subresource
        && a.row.group == GROUP
        && a.row.plural == "certificatesigningrequests"
}

fn signer(request: &Value) -> &str {
    request.str_at(&["spec", "signerName"]).unwrap_or_default()
}

/// CertificateApproval: approving takes a permission for the signer.
pub(super) struct Approval(pub(super) Arc<dyn Authorizer>);

#[async_trait]
impl Admission for Approval {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, object: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let Some(old) = a.old.filter(|_| writes(a, Operation::Update, "approval")) else { return Ok(()) };
        let signer = signer(old);
        if may(&*self.0, a.user, "approve", signer).await {
            return Ok(());
        }
        Err(a.forbidden(object, format!("user not permitted to approve requests with signerName {signer:?}")))
    }
}

/// CertificateSigning: so does issuing a certificate.
pub(super) struct Signing(pub(super) Arc<dyn Authorizer>);

#[async_trait]
impl Admission for Signing {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, object: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let Some(old) = a.old.filter(|_| writes(a, Operation::Update, "status")) else { return Ok(()) };
        let same = |member: &str| object.at(&["status", member]) == old.at(&["status", member]);
        let signer = signer(old);
        if (same("certificate") && same("conditions")) || may(&*self.0, a.user, "sign", signer).await {
            return Ok(());
        }
        Err(a.forbidden(object, format!("user not permitted to sign requests with signerName {signer:?}")))
    }
}

/// CertificateSubjectRestriction: nobody becomes a master of the cluster by a certificate.
pub(super) struct SubjectRestriction;

const API_CLIENT: &str = "kubernetes.io/kube-apiserver-client";

#[async_trait]
impl Admission for SubjectRestriction {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, object: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if !writes(a, Operation::Create, "") || signer(object) != API_CLIENT {
            return Ok(());
        }
        let pem = object.str_at(&["spec", "request"]).unwrap_or_default();
        let parsed = parse_request(&BASE64.decode(pem).unwrap_or_default())
            .map_err(|why| a.forbidden(object, format!("failed to parse CSR: {why}")))?;
        if parsed.organizations().iter().any(|group| group == User::MASTERS) {
            let why = format!("use of {API_CLIENT} signer with {} group is not allowed", User::MASTERS);
            return Err(a.forbidden(object, why));
        }
        Ok(())
    }
}

/// ClusterTrustBundleAttest: the bundle of a signer is written by who may attest for the signer.
pub(super) struct Attesting(pub(super) Arc<dyn Authorizer>);

#[async_trait]
impl Admission for Attesting {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, bundle: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let writes = matches!(a.operation, Operation::Create | Operation::Update);
        let signer = signer(bundle);
        if !writes || !a.is_of(GROUP, "clustertrustbundles") || signer.is_empty() {
            return Ok(());
        }
        // Owners and finalizers are the garbage collector's business.
        let is_collected =
            a.operation == Operation::Update && a.old.is_some_and(|old| same_but_for_owners(bundle, old));
        if is_collected || may(&*self.0, a.user, "attest", signer).await {
            return Ok(());
        }
        Err(a.forbidden(bundle, format!("user not permitted to attest for signerName {signer:?}")))
    }
}
