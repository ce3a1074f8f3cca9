//! `serviceaccounts/token`: a token is asked for.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{endpoint::Endpoint, registry::Registry, request::Request, response::Response};
use machinery::{
    Str, Value,
    meta::{FieldError, GroupKind, GroupResource, GvkRef, Meta, TimeForm, Timestamp, status::Status},
    object,
};
use storage::cache::ReadAt;

use super::{TokenSettings, claims::NewToken, lookup::Lookup};
use crate::{
    defaults::{part, pointer},
    posted::Posted,
};

const KIND: GvkRef<'static> = GvkRef::new("authentication.k8s.io", "v1", "TokenRequest");
/// The validity, in seconds, of a token for which none is asked.
const DEFAULT_SECONDS: i64 = 3600;
/// The validity, in seconds, that kubelets ask for when they fetch a pod's token: clients that do not renew it get more time.
const POD_TOKEN_SECONDS: i64 = 3607;

/// Serves requests for tokens.
pub(crate) struct TokenRequests {
    pub(crate) settings: TokenSettings,
    /// Their admission judges.
    pub(crate) accounts: Arc<Registry>,
    pub(crate) lookup: Lookup,
}

/// What the audit log shows of a token that is issued.
const ISSUED: &str = "authentication.kubernetes.io/issued-credential-id";
/// The annotation of a token that was asked for under another identity than the account has.
const UID_MISMATCH: &str = "authentication.k8s.io/token-request-uid-mismatch";

/// What a token is bound to, besides its account.
#[derive(Default)]
struct Binding {
    objects: Vec<(&'static str, Value)>,
    to_pod: bool,
}

#[async_trait]
impl Endpoint for TokenRequests {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        let accounts = &self.accounts;
        let mut posted = Posted::read(request, &accounts.row, KIND).await?;
        let made = self.make(&mut posted).await;
        Ok(posted.answer(made))
    }
}

impl TokenRequests {
    /// The document with a token, if there is one to be had.
    async fn make(&self, posted: &mut Posted) -> Result<Value, Status> {
        let accounts = &self.accounts;
        let (name, namespace) = (posted.request.info.name.clone(), posted.request.info.namespace.clone());
        pointer(part(&mut posted.document, "spec"), "expirationSeconds", DEFAULT_SECONDS);
        posted.request.audit.object(&posted.document);
        posted.track();
        // Plugins see which audiences were asked for: none, if those of this server will do.
        posted.mutate(accounts, &accounts.row, &name).await?;
        check_place(&posted.document, &namespace, &name)?;
        let account = accounts.get_value(&namespace, &name).await?;
        if let Err(why) = check_uid(&posted.document, &account) {
            if accounts.settings().features.is_on("TokenRequestServiceAccountUIDValidation") {
                return Err(Status::conflict(&GroupResource::new(KIND.group, KIND.kind), &name, &why));
            }
            posted.request.audit.annotate(UID_MISMATCH, why);
        }
        let now = Timestamp::now();
        self.complete(&mut posted.document, &account, now);
        validate(&posted.document)?;
        posted.validate(accounts, &accounts.row, &name).await?;
        let binding = self.binding(&posted.document, &account).await?;
        let seconds = self.limit(posted);
        let id = uuid::Uuid::new_v4().to_string();
        let token = self.token(&posted.document, &account, (&binding, &id), now).await?;
        posted.request.audit.annotate(ISSUED, format!("JTI={id}"));
        let expires = now.plus_seconds(seconds).text(TimeForm::Seconds);
        posted.document.set(&["status"], object! { "token" => token, "expirationTimestamp" => expires });
        Ok(posted.document.clone())
    }

    /// Fills in what the request left out.
    fn complete(&self, request: &mut Value, account: &Value, now: Timestamp) {
        let account = Meta::of(account);
        request.set(&["metadata", "name"], account.name());
        request.set(&["metadata", "namespace"], account.namespace());
        request.set(&["metadata", "creationTimestamp"], now.text(TimeForm::Seconds));
        request.set(&["metadata", "uid"], account.uid());
        let audiences = request.at(&["spec", "audiences"]).and_then(Value::as_array);
        if audiences.is_none_or(<[Value]>::is_empty) {
            request.set(&["spec", "audiences"], self.settings.audiences.to_vec());
        }
        // Admission sees the status that Go's type has before there is a token.
        request.set(&["status"], object! { "token" => "", "expirationTimestamp" => Value::Null });
    }

    /// Finds the object that the token is to be bound to.
    async fn binding(&self, request: &Value, account: &Value) -> Result<Binding, Status> {
        let Some(reference) = request.at(&["spec", "boundObjectRef"]).filter(|r| !r.is_null()) else {
            return Ok(Binding::default());
        };
        let text = |key: &str| reference.str_at(&[key]).unwrap_or_default();
        let (group, version) = match text("apiVersion").split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", text("apiVersion")),
        };
        let (namespace, name) = (Meta::of(account).namespace(), text("name"));
        let mut binding = Binding::default();
        let object = match (group, text("kind")) {
            ("", "Pod") => {
                let pod = self.lookup.pods.get_value(namespace, name).await?;
                let account = Meta::of(account).name();
                if pod.str_at(&["spec", "serviceAccountName"]) != Some(account) {
                    return Err(Status::bad_request(format!(
                        "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
                    )));
                }
                if let Some(node) = self.node_of(&pod).await {
                    binding.objects.push(("node", node));
                }
                binding.to_pod = true;
                ("pod", pod)
            }
            ("", "Secret") => ("secret", self.lookup.secrets.get_value(namespace, name).await?),
            ("", "Node") => ("node", self.lookup.nodes.get_value("", name).await?),
            (_, kind) => {
                let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
                return Err(Status::bad_request(why));
            }
        };
        let uid = text("uid");
        if !uid.is_empty() && uid != Meta::of(&object.1).uid() {
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
                 deleted and then recreated"
            );
            return Err(Status::conflict(&GroupResource::new(group, text("kind")), name, why));
        }
        binding.objects.push(object);
        Ok(binding)
    }

    /// The node that runs a pod; its name alone if nobody knows it.
    async fn node_of(&self, pod: &Value) -> Option<Value> {
        let name = pod.str_at(&["spec", "nodeName"]).filter(|name| !name.is_empty())?;
        let nodes = &self.lookup.nodes;
        let found = nodes.get("", name, ReadAt::Any).await.ok().and_then(|node| nodes.decode(node.bytes()).ok());
        Some(found.unwrap_or_else(|| object! { "metadata" => object! { "name" => name } }))
    }

    /// Brings the validity down to the longest one allowed; answers it, in seconds.
    fn limit(&self, posted: &mut Posted) -> i64 {
        let (asked, max) = (seconds(&posted.document), self.settings.max_expiration_seconds);
        if max == 0 || asked <= max {
            return asked;
        }
        posted.warnings.push(format!("requested expiration of {asked} seconds shortened to {max} seconds"));
        posted.document.set(&["spec", "expirationSeconds"], max);
        max
    }

    async fn token(
        &self,
        request: &Value,
        account: &Value,
        (binding, id): (&Binding, &str),
        now: Timestamp,
    ) -> Result<String, Status> {
        let failed = |why: String| Status::unknown_error(format!("failed to generate token: {why}"));
        let audiences = request.at(&["spec", "audiences"]).and_then(Value::as_array).unwrap_or_default();
        let audiences: Vec<Str> = audiences.iter().filter_map(Value::as_shared_str).cloned().collect();
        let (mut lifetime, mut warn_after) = (seconds(request), 0);
        let for_us = audiences.iter().all(|audience| self.settings.audiences.contains(audience));
        if let Some(extended) = self.settings.extended_seconds
            && binding.to_pod
            && lifetime == POD_TOKEN_SECONDS
            && for_us
        {
            (lifetime, warn_after) = (extended, lifetime);
        }
        let token = NewToken {
            issuer: &self.settings.issuers[0],
            audiences: &audiences,
            account,
            bound: &binding.objects,
            lifetime,
            warn_after,
            id,
        };
        self.settings.keys.sign(&token.claims(now)).await.map_err(failed)
    }
}

fn seconds(request: &Value) -> i64 {
    request.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64).unwrap_or(0)
}

/// The document may name the account, and no other.
fn check_place(request: &Value, namespace: &str, name: &str) -> Result<(), Status> {
    let meta = Meta::of(request);
    for (member, found, expected) in [("name", meta.name(), name), ("namespace", meta.namespace(), namespace)] {
        if !found.is_empty() && found != expected {
            let detail = format!("must match the service account {member} if specified");
            let error = FieldError::invalid(format!("metadata.{member}"), found, detail);
            return Err(Status::invalid(&GroupKind::new(KIND.group, KIND.kind), name, vec![error]));
        }
    }
    Ok(())
}

/// The document may name the account's UID, and no other: of an account that was deleted and made anew.
fn check_uid(request: &Value, account: &Value) -> Result<(), String> {
    let (found, account) = (Meta::of(request).uid(), Meta::of(account));
    if found.is_empty() || found == account.uid() {
        return Ok(());
    }
    Err(format!(
        "the UID in the token request ({found}) does not match the UID of the service account ({})",
        account.uid()
    ))
}

fn validate(request: &Value) -> Result<(), Status> {
    let seconds = seconds(request);
    let detail = match seconds {
        ..600 => "may not specify a duration less than 10 minutes",
        4_294_967_297.. => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(()),
    };
    let error = FieldError::invalid("spec.expirationSeconds", seconds, detail);
    Err(Status::invalid(&GroupKind::new(KIND.group, KIND.kind), "", vec![error]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_validity_has_bounds() {
        let check = |seconds: i64, good: bool| {
            let request = object! { "spec" => object! { "expirationSeconds" => seconds } };
            assert_eq!(validate(&request).is_ok(), good, "{seconds}");
        };
        check(599, false);
        check(600, true);
        check(1 << 32, true);
        check((1 << 32) + 1, false);
    }

    #[test]
    fn the_document_names_its_account_or_none() {
        let request = |name: &str| object! { "metadata" => object! { "name" => name } };
        assert!(check_place(&request(""), "n", "robot").is_ok());
        assert!(check_place(&request("robot"), "n", "robot").is_ok());
        let status = check_place(&request("other"), "n", "robot").expect_err("another account");
        assert_eq!(
            status.message,
            "TokenRequest.authentication.k8s.io \"robot\" is invalid: metadata.name: Invalid value: \"other\": must match the \
             service account name if specified"
        );
    }
}
