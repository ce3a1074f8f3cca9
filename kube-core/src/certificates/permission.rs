//! What users may do with the signers of certificates.

use auth::{Authorizer, User};
use machinery::request::{RequestInfo, resource_info};

/// Whether a user may do this with requests of a signer, or with those of all signers of its domain.
pub(crate) async fn may(authorizer: &dyn Authorizer, user: &User, verb: &str, signer: &str) -> bool {
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    for name in [signer, &domain] {
        let info = RequestInfo { name: name.into(), ..resource_info(verb, "certificates.k8s.io", "*", "signers") };
        let decision = authorizer.authorize(&auth::Attributes { user, info: &info }).await;
        if decision.is_allowed() {
            return true;
        }
    }
    false
}
