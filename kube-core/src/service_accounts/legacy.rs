//! Tokens that a controller keeps in secrets of the type `kubernetes.io/service-account-token`: they do not expire, and are
//! good as long as their secret holds them.

use std::sync::Arc;

use auth::{TokenNotes, User, service_account_of_name};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use generic_server::registry::Registry;
use machinery::{
    Str, Value,
    codec::json,
    meta::{Meta, TimeForm, Timestamp, status::Status},
};

use super::{
    claims::text,
    lookup::{Bound, Kind, Lookup},
    notes::Uses,
    verify::user,
};

/// The issuer of such tokens.
pub(super) const ISSUER: &str = "kubernetes/serviceaccount";

const PREFIX: &str = "kubernetes.io/serviceaccount/";
/// The label by which a cleaner marks a token that nobody has used for long.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// The label that says on which day a token was used last.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// What clients are told whose token was made without anybody's asking.
const AUTO_GENERATED: &str = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens.";

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
        lookup.bound(Kind::LegacyAccount, &self.namespace, &self.account, &self.uid)
    }

    /// Who the token is.
    pub(super) fn user(&self) -> User {
        user(&self.namespace, &self.account, &self.uid, Vec::new())
    }

    /// The secret, if it still holds the token.
    pub(super) async fn check_secret(&self, lookup: &Lookup, token: &str) -> Result<Value, String> {
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
        Ok(secret)
    }

    /// Whether no cleaner has marked the secret. One that has is noted.
    pub(super) fn check_mark(&self, secret: &Value, notes: &mut TokenNotes, uses: &Uses) -> Result<(), String> {
        if Meta::of(secret).label(INVALID_SINCE).is_none_or(str::is_empty) {
            return Ok(());
        }
        let Legacy { namespace, secret, account, .. } = self;
        let place = Str::from(format!("{secret}/{namespace}"));
        notes.annotations.push(("authentication.k8s.io/legacy-token-invalidated", place));
        uses.invalidated.inc();
        Err(format!(
            "the token in secret {namespace}/{secret} for service account {namespace}/{account} has been marked invalid. Use \
             tokens from the TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' label \
             from the secret to temporarily allow use of this token"
        ))
    }

    /// Notes that the token is used, for those who read the audit log and for its client.
    pub(super) async fn note_use(&self, lookup: &Lookup, notes: &mut TokenNotes, uses: &Uses) {
        let account = lookup.account(&self.namespace, &self.account).await.unwrap_or(Value::Null);
        let owned = account.get("secrets").and_then(Value::as_array).unwrap_or_default();
        let is_made_for_account = owned.iter().any(|reference| reference.str_at(&["name"]) == Some(&*self.secret));
        if is_made_for_account {
            notes.warnings.push(AUTO_GENERATED.to_owned());
        }
        let (key, counter) = match is_made_for_account {
            true => ("authentication.k8s.io/legacy-token-autogenerated-secret", &uses.automatic),
            false => ("authentication.k8s.io/legacy-token-manual-secret", &uses.manual),
        };
        notes.annotations.push((key, self.secret.clone()));
        counter.inc();
    }

    /// Notes at the secret, once a day, that its token is used: cleaners of unused tokens go by that.
    pub(super) async fn mark_use(&self, secret: &Value, secrets: &Arc<Registry>) {
        let now = Timestamp::now().seconds();
        let (today, tomorrow) = (date(now), date(now + 86_400));
        let meta = Meta::of(secret);
        // The clock of another server may be ahead.
        if meta.label(LAST_USED).is_some_and(|day| day == today || day == tomorrow) {
            return;
        }
        let edit = |found: &Value| {
            let mut found = found.clone();
            if Meta::of(&found).uid() == meta.uid() {
                found.set(&["metadata", "labels", LAST_USED], today.as_str());
            }
            Ok(found)
        };
        if let Err(status) = secrets.edit(&self.namespace, &self.secret, "", edit).await {
            let (namespace, secret) = (self.namespace.as_str(), self.secret.as_str());
            tracing::error!(namespace, secret, why = %status.message, "cannot note the use of a token of a secret");
        }
    }
}

/// The day of a time, as labels have it.
fn date(seconds: i64) -> String {
    let text = Timestamp::new(seconds, 0).text(TimeForm::Seconds);
    text.split('T').next().unwrap_or_default().to_owned()
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
