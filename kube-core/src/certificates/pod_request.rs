//! PodCertificateRequests: a node asks for a certificate for a pod that runs there.

use std::sync::Arc;

use async_trait::async_trait;
use auth::Authorizer;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use generic_server::{
    printer::{Doc, NAME, Table, items, labels, name, text, text_at},
    registry::{Consult, Judged},
};
use machinery::{
    Value,
    meta::{
        field_error::{BadValue, FieldError},
        names,
    },
};

use x509::{CertificateRequest, KeyKind, SubjectKey};

use super::{permission::may, pod_request_status};
use crate::{
    core::pods::validation::{internal::shown, signers},
    strategy::{Rules, restore_metadata},
    validation::{Errors, Field},
};

/// The rules.
pub(super) const RULES: Rules = Rules::STATUS
    .conditional()
    .status_update(|_, new, old| restore_metadata(new, old))
    .validate(|_, new, errors| validate(new, errors))
    .validate_update(|_, new, old, errors| {
        let (spec, before) = (new.at("spec"), old.at("spec"));
        if !spec.same(&before) {
            spec.invalid_as(shown("PodCertificateRequestSpec", spec.value()), "field is immutable", errors);
        }
    })
    .validate_status(|_, new, old, errors| pod_request_status::validate(new, old, errors));

const HOUR: i64 = 3600;
const MAX_KEY: usize = 10 * 1024;

fn validate(request: &Field<'_>, errors: &mut Errors) {
    let spec = request.at("spec");
    let signer = spec.at("signerName");
    signers::signer_name(&signer, errors);
    signers::user_annotations(&spec.at("unverifiedUserAnnotations"), errors);
    spec.at("podName").check(names::dns1123_subdomain, errors);
    uid(&spec.at("podUID"), errors);
    spec.at("serviceAccountName").check(names::dns1123_subdomain, errors);
    uid(&spec.at("serviceAccountUID"), errors);
    spec.at("nodeName").check(names::dns1123_subdomain, errors);
    uid(&spec.at("nodeUID"), errors);
    let most = spec.at("maxExpirationSeconds");
    let Some(seconds) = most.int() else {
        most.required("must be set", errors);
        return;
    };
    let longest = if signers::is_kubernetes(signer.text()) { 24 * HOUR } else { 91 * 24 * HOUR };
    if !(HOUR..=longest).contains(&seconds) {
        most.invalid(format!("must be in the range [{HOUR}, {longest}]"), errors);
    }
    let [stub, key, proof] = ["stubPKCS10Request", "pkixPublicKey", "proofOfPossession"].map(|member| spec.at(member));
    match (stub.is_empty(), key.is_empty(), proof.is_empty()) {
        (false, true, true) => stub_request(&stub, errors),
        (true, false, false) => public_key(&key, &proof, spec.at("podUID").text(), errors),
        _ => {
            let why = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
            spec.invalid_as(BadValue::Omitted, why, errors);
        }
    }
}

fn uid(uid: &Field<'_>, errors: &mut Errors) {
    const MAX: usize = 128;
    if uid.is_empty() {
        uid.invalid_text("must not be empty", errors);
    }
    if uid.text().len() > MAX {
        errors.push(FieldError::too_long(uid, MAX));
    }
}

/// Bytes, as a field holds them.
pub(super) fn decoded(data: &Field<'_>) -> Vec<u8> {
    BASE64.decode(data.text()).unwrap_or_default()
}

fn omitted(field: &Field<'_>, why: &str, errors: &mut Errors) {
    field.invalid_as(BadValue::Omitted, why, errors);
}

fn stub_request(stub: &Field<'_>, errors: &mut Errors) {
    let der = decoded(stub);
    if der.len() > MAX_KEY {
        errors.push(FieldError::too_long(stub, MAX_KEY));
        return;
    }
    let Ok(request) = CertificateRequest::parse(&der) else {
        return omitted(stub, "must be a valid PKCS#10 CSR", errors);
    };
    let Some(key) = SubjectKey::of_request(&request) else {
        return omitted(stub, "must be a valid PKCS#10 CSR", errors);
    };
    if let Some((shown, why)) = unfit(key.kind(), "elliptic public keys must use curve P256, P384, or P521") {
        stub.invalid_as(shown, why, errors);
    } else if request.check_signature().is_err() {
        omitted(stub, "invalid signature", errors);
    }
}

fn public_key(key: &Field<'_>, proof: &Field<'_>, pod: &str, errors: &mut Errors) {
    let (der, signature) = (decoded(key), decoded(proof));
    for (field, bytes) in [(key, &der), (proof, &signature)] {
        if bytes.len() > MAX_KEY {
            errors.push(FieldError::too_long(field, MAX_KEY));
            return;
        }
    }
    let Some(parsed) = SubjectKey::parse(&der) else {
        return key.invalid("must be a valid PKIX-serialized public key", errors);
    };
    if let Some((shown, why)) = unfit(parsed.kind(), "elliptic public keys must use curve P256 or P384") {
        let shown = if shown == BadValue::Omitted { BadValue::from(key.value()) } else { shown };
        key.invalid_as(shown, why, errors);
    } else if !parsed.has_signed(pod.as_bytes(), &signature) {
        omitted(proof, "could not verify proof-of-possession signature", errors);
    }
}

/// What is shown of a key that is not of the kinds that are taken, and why not.
fn unfit(kind: KeyKind, curves: &'static str) -> Option<(BadValue, &'static str)> {
    match kind {
        KeyKind::Ed25519 | KeyKind::Curve("P-256" | "P-384" | "P-521") | KeyKind::Rsa(3072 | 4096) => None,
        KeyKind::Curve(name) => Some((format!("curve {name}").into(), curves)),
        KeyKind::Rsa(bits) => {
            Some((format!("{bits}-bit modulus").into(), "RSA keys must have modulus size 3072 or 4096"))
        }
        KeyKind::Other => {
            Some((BadValue::Omitted, "unknown public key type; supported types are Ed25519, ECDSA, and RSA"))
        }
    }
}

/// Whoever changes the status signs for the signer.
pub(crate) struct SigningGrant(pub(crate) Arc<dyn Authorizer>);

#[async_trait]
impl Consult for SigningGrant {
    async fn findings(&self, write: Judged<'_>, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let Some(old) = old.filter(|_| write.subresource == "status") else { return Vec::new() };
        let status = |request: &Value| request.get("status").cloned().unwrap_or_default();
        if status(new).semantic_eq(&status(old)) || !self.is_sound(new, old) {
            return Vec::new();
        }
        let signer = old.str_at(&["spec", "signerName"]).unwrap_or_default();
        if may(&*self.0, write.user, "sign", signer).await {
            return Vec::new();
        }
        let user = machinery::meta::go_text::quote(&write.user.name);
        let signer = machinery::meta::go_text::quote(signer);
        let why = format!("User {user} is not permitted to \"sign\" for signer {signer}");
        vec![FieldError::forbidden("spec.signerName", why)]
    }
}

impl SigningGrant {
    /// Who writes a status that is wrong learns of that alone.
    fn is_sound(&self, new: &Value, old: &Value) -> bool {
        let mut errors = Errors::default();
        pod_request_status::validate(&Field::root(new), &Field::root(old), &mut errors);
        errors.into_vec().is_empty()
    }
}

const SPEC: &str = "certificates.v1beta1.PodCertificateRequestSpec";

/// For which pod each is, and what has become of it.
pub(super) const TABLE: Table = Table::new(
    &[
        NAME,
        text("PodName", Doc::Of(SPEC, "podName")),
        text("ServiceAccountName", Doc::Of(SPEC, "serviceAccountName")),
        text("NodeName", Doc::Of(SPEC, "nodeName")),
        text("SignerName", Doc::Of(SPEC, "signerName")),
        text("State", Doc::Text("Is the request Pending, Issued, Denied, or Failed?")),
        text("UnverifiedUserAnnotations", Doc::Of(SPEC, "unverifiedUserAnnotations")),
    ],
    |request, _| {
        let spec = |member| text_at(request, &["spec", member]);
        let mut states = items(request, &["status", "conditions"]).iter().filter_map(|c| c.str_at(&["type"]));
        let state = states.rfind(|state| pod_request_status::STATES.contains(state));
        vec![
            name(request),
            spec("podName"),
            spec("serviceAccountName"),
            spec("nodeName"),
            spec("signerName"),
            state.unwrap_or("Pending").into(),
            labels(request.at(&["spec", "unverifiedUserAnnotations"])),
        ]
    },
);
