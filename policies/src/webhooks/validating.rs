//! ValidatingAdmissionWebhook: all webhooks are called at once, when the object is final.

use std::time::Instant;

use async_trait::async_trait;
use futures_util::future::join_all;
use generic_server::admission::{Admission, Attributes, Steps};
use machinery::{Value, meta::status::Status};

use crate::{
    engine::MatchedWrite,
    webhooks::{Target, Webhooks, notes},
};

/// The plugin.
pub(super) struct Validating(pub(super) Webhooks);

#[async_trait]
impl Admission for Validating {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, object: &Value, warnings: &mut Vec<String>) -> Result<(), Status> {
        let Some(hooks) = self.0.source.hooks(a.row).await? else { return Ok(()) };
        let mut found = self.0.engine.begin_any(a, object).await?;
        let mut targets = Vec::new();
        for hook in hooks.iter() {
            targets.extend(self.0.target(hook, &mut found).await?);
        }
        let mut refusal = None;
        let calls = targets.iter().enumerate().map(|(index, target)| self.invoke(index, target, &found));
        for (result, told) in join_all(calls).await {
            warnings.extend(told);
            refusal = refusal.or(result.err());
        }
        refusal.map_or(Ok(()), Err)
    }
}

impl Validating {
    async fn invoke(
        &self,
        index: usize,
        target: &Target<'_>,
        found: &MatchedWrite<'_>,
    ) -> (Result<(), Status>, Vec<String>) {
        let begun = Instant::now();
        let (answer, told) = self.0.call(target, found, false).await;
        let ignored = self.0.observe(target, found, &answer, begun);
        if ignored {
            notes::failed_open("validating", (0, index), found.subject.a, &target.hook.name);
        }
        let result = match answer {
            Ok(_) => Ok(()),
            Err(_) if ignored => Ok(()),
            Err(failure) => Err(failure.into_status(&target.hook.name)),
        };
        (result, told)
    }
}
