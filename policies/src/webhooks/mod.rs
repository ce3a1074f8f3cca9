//! The plugins MutatingAdmissionWebhook and ValidatingAdmissionWebhook: writes are judged by servers that users name.
//!
//! A `source` holds the webhooks of all configurations. For a write, `Webhooks::target` finds out whether a
//! webhook is to be called, with the same matching and conditions as policies have; `review` writes the question and reads
//! the answer; `call` sends it and says what counts as which failure.

mod call;
mod metrics;
mod mutating;
mod notes;
mod review;
mod source;
mod validating;

use std::sync::Arc;

use generic_server::{admission::Admission, registry::Lister};
use machinery::{
    Value,
    meta::{GroupResource, status::Status},
};
use outbound::Resolver;

pub(crate) use metrics::Metrics;

use crate::{
    activation::{Activation, Scene},
    conditions::Verdict,
    engine::{Documents, Engine, MatchedWrite},
    manifest::{ManifestError, Manifests},
    matching::Matched,
    webhooks::source::{Callers, Hook, WebhookSource},
    write::Request,
};

/// What both plugins work with.
pub(crate) struct Webhooks {
    engine: Arc<Engine>,
    source: WebhookSource,
    metrics: Metrics,
    /// As metrics call the plugin.
    kind: &'static str,
}

/// A webhook that is to be called, and what it is told.
struct Target<'h> {
    hook: &'h Hook,
    matched: Matched,
    documents: Documents,
}

/// The plugin `name`, reading configurations from `lister` and from files; `None` if it is none of these.
///
/// # Errors
/// What is wrong with a file.
pub(crate) fn plugin(
    name: &str,
    (engine, services, metrics): (&Arc<Engine>, &Arc<Resolver>, &Metrics),
    lister: impl Fn(&'static str) -> Arc<Lister>,
    manifests: &Manifests,
) -> Result<Option<Arc<dyn Admission>>, ManifestError> {
    let webhooks = |plugin, plural, kind| {
        let callers = Callers { services: services.clone(), users: manifests.users(plugin) };
        let of_files = callers.clone();
        let files = manifests.of(plugin, move |loaded| Hook::all_of_files(&loaded, &of_files))?;
        Ok::<_, ManifestError>(Webhooks {
            engine: engine.clone(),
            source: WebhookSource::new(lister(plural), callers, files),
            metrics: metrics.clone(),
            kind,
        })
    };
    Ok(Some(match name {
        "MutatingAdmissionWebhook" => {
            let webhooks = webhooks("MutatingAdmissionWebhook", "mutatingwebhookconfigurations", "admit")?;
            Arc::new(mutating::Mutating(webhooks))
        }
        "ValidatingAdmissionWebhook" => {
            let webhooks = webhooks("ValidatingAdmissionWebhook", "validatingwebhookconfigurations", "validating")?;
            Arc::new(validating::Validating(webhooks))
        }
        _ => return Ok(None),
    }))
}

impl Webhooks {
    /// Whether a webhook is to be called about a write, and with what.
    ///
    /// # Errors
    /// A namespace that is not there, a condition that cannot be judged, and what a conversion answers.
    async fn target<'h>(&self, hook: &'h Hook, found: &mut MatchedWrite<'_>) -> Result<Option<Target<'h>>, Status> {
        if !hook.matches.may_match(&found.subject) {
            return Ok(None);
        }
        let Ok(matched) = self.engine.matched(&hook.matches, found).await else {
            return Err(found.no_namespace());
        };
        let Some(matched) = matched else { return Ok(None) };
        let documents = self.engine.documents(found, &matched).await.map_err(|s| Status::internal_error(s.message))?;
        let target = Target { hook, matched, documents };
        Ok(self.meets_conditions(&target, found).await?.then_some(target))
    }

    async fn meets_conditions(&self, target: &Target<'_>, found: &mut MatchedWrite<'_>) -> Result<bool, Status> {
        let conditions = &target.hook.conditions;
        if conditions.is_empty() {
            return Ok(true);
        }
        let asker = self.engine.asker(found);
        let subject = &found.subject;
        let judge = || {
            let request = Request::new(subject, &target.matched.kind, &subject.resource);
            let scene = Scene {
                object: &target.documents.object,
                old: &target.documents.old,
                namespace: &Value::Null,
                params: &Value::Null,
                request: &request,
                asker: Some(&asker),
            };
            conditions.judge(&Activation::new(scene, &[]), target.hook.fail)
        };
        match asker.with_answers(judge).await {
            Verdict::Matches => Ok(true),
            Verdict::Differs => {
                self.metrics.excluded(&target.hook.name, self.kind, subject.a.operation);
                Ok(false)
            }
            Verdict::Fails(why) => {
                let row = subject.a.row;
                let resource = GroupResource::new(row.group.clone(), row.plural.clone());
                Err(Status::forbidden(&resource, subject.a.name, why))
            }
        }
    }
}
