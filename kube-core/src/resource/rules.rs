//! Rules of devices and claims to them.

use machinery::Value;

use crate::{
    defaults::{each, number, text, within},
    strategy::Rules,
};

/// The rules of claims.
pub(super) const CLAIMS: Rules = Rules::STATUS.returns_deleted().defaults(|claim| within(claim, "spec", claim_spec));

/// The rules of templates of claims.
pub(super) const TEMPLATES: Rules = Rules::PLAIN
    .returns_deleted()
    .defaults(|template| within(template, "spec", |spec| within(spec, "spec", claim_spec)));

fn claim_spec(spec: &mut Value) {
    within(spec, "devices", |devices| {
        each(devices, "requests", |request| {
            within(request, "exactly", device_request);
            each(request, "firstAvailable", device_request);
        });
    });
}

fn device_request(request: &mut Value) {
    text(request, "allocationMode", "ExactCount");
    if request.str_at(&["allocationMode"]) == Some("ExactCount") {
        number(request, "count", 1);
    }
    each(request, "tolerations", |toleration| text(toleration, "operator", "Equal"));
}
