//! The group certificates.k8s.io: requests to sign certificates, and whom to trust.

mod conditions;
mod permission;
mod pod_request;
mod pod_request_status;
mod request;
mod rules;
mod trust_bundle;

use generic_server::resource::{Resource, SelectableField as Field, UnknownField::Unsupported};
use machinery::request::Verbs;

use crate::{
    printer,
    row::{GroupVersion, Row},
};

pub(crate) use permission::may;
pub(crate) use pod_request::SigningGrant;
pub(crate) use request::parse as parse_request;

const V1: GroupVersion = GroupVersion("certificates.k8s.io", "v1");
const V1BETA1: GroupVersion = GroupVersion("certificates.k8s.io", "v1beta1");
const V1ALPHA1: GroupVersion = GroupVersion("certificates.k8s.io", "v1alpha1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    let requests = ["spec.signerName", "spec.podName", "spec.nodeName"].map(Field::new);
    [
        V1.cluster("certificatesigningrequests", "CertificateSigningRequest", "95fRKMXA+00=")
            .table(printer::SIGNING_REQUESTS)
            .strategy(rules::SIGNING_REQUESTS)
            .short(&["csr"])
            .sub("approval", Verbs::STATUS)
            .status()
            .fields(Unsupported, [Field::new("spec.signerName")]),
        trust_bundles(V1BETA1),
        V1BETA1
            .namespaced("podcertificaterequests", "PodCertificateRequest", "wYA9yXQH8fg=")
            .table(pod_request::TABLE)
            .strategy(pod_request::RULES)
            .status()
            .fields(Unsupported, requests)
            .gated("PodCertificateRequest")
            .since(35),
        trust_bundles(V1ALPHA1).renamed_from(V1BETA1).deprecated_since(34, None),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}

fn trust_bundles(version: GroupVersion) -> Row {
    version
        .cluster("clustertrustbundles", "ClusterTrustBundle", "v5yhuVertL4=")
        .table(trust_bundle::TABLE)
        .strategy(trust_bundle::RULES)
        .fields(Unsupported, [Field::new("spec.signerName")])
        .gated("ClusterTrustBundle")
}
