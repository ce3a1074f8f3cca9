//! MutatingAdmissionWebhook: webhooks are called one after the other, each sees what those before it have changed.

use std::time::Instant;

use async_trait::async_trait;
use generic_server::admission::{Admission, Attributes, Steps};
use machinery::{Value, codec::json, meta::status::Status, patch::json_patch};

use crate::{
    engine::MatchedWrite,
    patch::conformed,
    webhooks::{Target, Webhooks, call::Failure, notes, review::Answer, source::Hook},
};

/// The plugin's name, by which it remembers what it has done.
const PLUGIN: &str = "MutatingAdmissionWebhook";

/// The plugin.
pub(super) struct Mutating(pub(super) Webhooks);

#[async_trait]
impl Admission for Mutating {
    fn steps(&self) -> Steps {
        Steps::Mutate
    }

    async fn mutate(&self, a: &Attributes<'_>, object: &mut Value, warnings: &mut Vec<String>) -> Result<(), Status> {
        let Some(hooks) = self.0.source.hooks(a.row).await? else { return Ok(()) };
        let mut found = self.0.engine.begin_any(a, object).await?;
        a.rounds.begin(PLUGIN, object);
        let before = found.documents.object.clone();
        for (index, hook) in hooks.iter().enumerate() {
            self.invoke(index, hook, &mut found, warnings).await?;
        }
        found.write_back(&before, object);
        a.rounds.end(PLUGIN, object);
        Ok(())
    }
}

impl Mutating {
    async fn invoke(
        &self,
        index: usize,
        hook: &Hook,
        found: &mut MatchedWrite<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let Some(target) = self.0.target(hook, found).await? else { return Ok(()) };
        let rounds = &found.subject.a.rounds;
        if !rounds.may_call(PLUGIN, &hook.key) {
            return Ok(());
        }
        let begun = Instant::now();
        let (answer, told) = self.0.call(&target, found, true).await;
        warnings.extend(told);
        let a = found.subject.a;
        let place = (usize::from(rounds.is_second()), index);
        let changed = answer.and_then(|answer| changed(&target, found, &answer, place));
        let ignored = self.0.observe(&target, found, &changed, begun);
        let is_changed = matches!(&changed, Ok(Some(_)));
        notes::mutated(place, a, hook, is_changed);
        if ignored {
            notes::failed_open("mutation", place, a, &hook.name);
        }
        if is_changed {
            rounds.changed(PLUGIN);
        }
        if hook.again {
            rounds.called(PLUGIN, hook.key.clone());
        }
        match changed {
            Ok(Some(object)) => {
                found.documents.object = self.0.engine.in_request(found, &target.matched, object).await?;
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(_) if ignored => Ok(()),
            Err(failure) => Err(failure.into_status(&hook.name)),
        }
    }
}

/// What the object becomes, if the answer changes it.
fn changed(
    target: &Target<'_>,
    found: &MatchedWrite<'_>,
    answer: &Answer,
    place: (usize, usize),
) -> Result<Option<Value>, Failure> {
    if answer.patch.is_empty() {
        return Ok(None);
    }
    let undecodable =
        |why: String| Failure::Call(format!("received undecodable patch in webhook response: {why}"), 503);
    let patch = json::decode(&answer.patch).map_err(|e| undecodable(e.to_string()))?;
    if json_patch::operations(&patch).map_err(|e| undecodable(e.to_string()))?.is_empty() {
        return Ok(None);
    }
    let broken = |status: Status| Failure::Broken(Box::new(status));
    let object = &target.documents.object;
    if object.is_null() {
        let why = "attempted to modify the object, which is not supported for this operation";
        return Err(broken(Status::internal_error(format!("admission webhook {:?} {why}", target.hook.name.as_str()))));
    }
    if answer.patch_type != "JSONPatch" {
        return Err(Failure::Call(format!("unsupported patch type {:?}", answer.patch_type.as_str()), 400));
    }
    let patched = json_patch::apply(object, &patch).map_err(|e| broken(Status::internal_error(e)))?;
    let row = target.matched.entry.as_ref().map_or(found.subject.a.row, |entry| &entry.row);
    // What the type does not know is dropped, as it is from what clients send.
    let patched = conformed(row, &target.matched.kind, patched, &mut Vec::new()).map_err(broken)?;
    notes::patched(place, found.subject.a, target.hook, &patch);
    Ok((patched != *object).then_some(patched))
}
