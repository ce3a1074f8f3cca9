//! The group certificates.k8s.io: requests to sign certificates.

mod conditions;
mod request;
mod rules;

use generic_server::resource::{Resource, SelectableField as Field, UnknownField::Unsupported};
use machinery::request::Verbs;

use crate::{
    printer,
    row::{GroupVersion, Row},
};

pub(crate) use request::parse as parse_request;

const V1: GroupVersion = GroupVersion("certificates.k8s.io", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [V1.cluster("certificatesigningrequests", "CertificateSigningRequest", "95fRKMXA+00=")
        .table(printer::SIGNING_REQUESTS)
        .strategy(rules::SIGNING_REQUESTS)
        .short(&["csr"])
        .sub("approval", Verbs::STATUS)
        .status()
        .fields(Unsupported, [Field::new("spec.signerName")])]
    .into_iter()
    .map(Row::build)
    .collect()
}
