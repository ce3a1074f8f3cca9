//! Tokens that a controller keeps in secrets of the type `kubernetes.io/service-account-token`: they do not expire, and are
//! good as long as their secret holds them.

use auth::{User, service_account_of_name};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use machinery::{
    Str, Value,
    codec::json,
    meta::{Meta, status::Status},
};

use super::{
    claims::text,
    lookup::{Bound, Kind, Lookup},
    verify::user,
};

/// The issuer of such tokens.
pub(super) const ISSUER: &str = "kubernetes/serviceaccount";

const PREFIX: &str = "kubernetes.io/serviceaccount/";
/// The label by which a cleaner marks a token that nobody has used for long.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// What such a token says.
pub(super) struct Legacy {
    namespace: Str,
    secret: Str,
    account: Str,
    uid: Str,
}

impl Legacy {
    /// Reads the claims that such tokens have beside the public ones.
    pub(super) fn of(claims: &Value, subject: &str) -> Result<Self, String> {
        let claim = |name: &str| text(claims, &format!("{PREFIX}{name}"));
        let legacy = Legacy {
            namespace: claim("namespace")?,
            secret: claim("secret.name")?,
            account: claim("service-account.name")?,
            uid: claim("service-account.uid")?,
        };
        for (value, missing) in [
            (subject, "sub claim is missing"),
            (&legacy.namespace, "namespace claim is missing"),
            (&legacy.secret, "secretName claim is missing"),
            (&legacy.account, "serviceAccountName claim is missing"),
            (&legacy.uid, "serviceAccountUID claim is missing"),
        ] {
            if value.is_empty() {
                return Err(missing.to_owned());
            }
        }
        if service_account_of_name(subject) != Some((&legacy.namespace, &legacy.account)) {
            return Err("sub claim is invalid".to_owned());
        }
        Ok(legacy)
    }

    /// The account that must be there.
    pub(super) fn account(&self, lookup: &Lookup) -> Bound {
        lookup.bound(Kind::Account, &self.namespace, &self.account, &self.uid)
    }

    /// Who the token is.
    pub(super) fn user(&self) -> User {
        user(&self.namespace, &self.account, &self.uid, Vec::new())
    }

    /// Whether the secret still holds the token.
    pub(super) async fn check_secret(&self, lookup: &Lookup, token: &str) -> Result<(), String> {
        let invalidated = || "Token has been invalidated".to_owned();
        let object = lookup.secret(&self.namespace, &self.secret).await.ok_or_else(invalidated)?;
        let secret = json::decode(object.bytes()).map_err(|e| Status::internal_error(e).message)?;
        let meta = Meta::of(&secret);
        if meta.is_terminating() {
            return Err(invalidated());
        }
        let held = secret.str_at(&["data", "token"]).and_then(|data| BASE64.decode(data).ok()).unwrap_or_default();
        if held != token.as_bytes() {
            return Err("Token does not match server's copy".to_owned());
        }
        if meta.label(INVALID_SINCE).is_some_and(|since| !since.is_empty()) {
            let Legacy { namespace, secret, account, .. } = self;
            return Err(format!(
                "the token in secret {namespace}/{secret} for service account {namespace}/{account} has been marked invalid. Use \
                 tokens from the TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' label \
                 from the secret to temporarily allow use of this token"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    #[test]
    fn all_claims_are_there_and_agree() {
        let claims = |account: &str, uid: &str| {
            object! {
                "kubernetes.io/serviceaccount/namespace" => "n",
                "kubernetes.io/serviceaccount/secret.name" => "s",
                "kubernetes.io/serviceaccount/service-account.name" => account,
                "kubernetes.io/serviceaccount/service-account.uid" => uid,
            }
        };
        let check = |subject: &str, account: &str, uid: &str, expect: Option<&str>| {
            assert_eq!(Legacy::of(&claims(account, uid), subject).err().as_deref(), expect, "{subject}");
        };
        check("system:serviceaccount:n:robot", "robot", "u", None);
        check("system:serviceaccount:n:other", "robot", "u", Some("sub claim is invalid"));
        check("system:serviceaccount:n:Robot", "Robot", "u", Some("sub claim is invalid"));
        check("system:serviceaccount:n:robot", "robot", "", Some("serviceAccountUID claim is missing"));
        check("", "robot", "u", Some("sub claim is missing"));
        let mut mistyped = claims("robot", "u");
        mistyped.set(&["kubernetes.io/serviceaccount/secret.name"], 7);
        assert!(Legacy::of(&mistyped, "system:serviceaccount:n:robot").is_err());
    }
}
