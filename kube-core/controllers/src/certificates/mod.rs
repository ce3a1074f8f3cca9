//! Requests for certificates: approved where a kubelet asks for what it may have, signed, and deleted in time; and the bundle that
//! tells whom to trust.

mod approver;
mod cleaner;
mod kubelet;
mod pod_request_cleaner;
mod publisher;
mod signer;

use machinery::{
    Value,
    codec::pem,
    meta::{GrRef, TimeForm, Timestamp, status::Status},
    object,
};
use x509::CertificateRequest;

pub(crate) use approver::run as approve;
pub(crate) use cleaner::run as clean;
pub(crate) use pod_request_cleaner::run as clean_pod_requests;
pub(crate) use publisher::run as publish;
pub(crate) use signer::run as sign;

const REQUESTS: GrRef<'static> = GrRef::new("certificates.k8s.io", "certificatesigningrequests");

fn conditions(request: &Value) -> &[Value] {
    request.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default()
}

/// Whether a request has a condition of a type. Upstream looks at no status of Approved and Denied, which is True always.
fn has_condition(request: &Value, kind: &str) -> bool {
    conditions(request).iter().any(|condition| condition.str_at(&["type"]) == Some(kind))
}

fn has_certificate(request: &Value) -> bool {
    request.str_at(&["status", "certificate"]).is_some_and(|certificate| !certificate.is_empty())
}

fn signer_of(request: &Value) -> &str {
    request.str_at(&["spec", "signerName"]).unwrap_or_default()
}

fn usages(request: &Value) -> Vec<&str> {
    let usages = request.at(&["spec", "usages"]).and_then(Value::as_array).unwrap_or_default();
    usages.iter().filter_map(Value::as_str).collect()
}

/// The request itself: base64 of PEM.
fn parsed(request: &Value) -> Result<CertificateRequest, Status> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let wrong = |why: &dyn std::fmt::Display| {
        let name = machinery::meta::Meta::of(request).name();
        Status::internal_error(format!("unable to parse csr {name:?}: {why}"))
    };
    let text = request.str_at(&["spec", "request"]).unwrap_or_default();
    let text = STANDARD.decode(text).map_err(|error| wrong(&error))?;
    let block = pem::first(&text).map(|(block, _)| block).filter(|block| block.label == b"CERTIFICATE REQUEST");
    let block = block.ok_or_else(|| wrong(&"PEM block type must be CERTIFICATE REQUEST"))?;
    CertificateRequest::parse(&block.der).map_err(|error| wrong(&error))
}

/// Adds a condition that is True.
fn add_condition(request: &mut Value, kind: &str, reason: &str, message: &str) {
    let mut all = conditions(request).to_vec();
    all.push(object! {
        "type" => kind, "status" => "True", "reason" => reason, "message" => message,
        "lastUpdateTime" => Timestamp::now().text(TimeForm::Seconds),
    });
    request.set(&["status", "conditions"], Value::from(all));
}
