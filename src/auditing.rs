//! Builds the auditor: the policy is read, and the backends are opened.

use std::{fs, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use audit::{
    Auditor, Metrics, Policy,
    backend::{Backend, Deliver, DeliveryError, Log, Output, Webhook},
};
use bytes::Bytes;
use outbound::{
    Call, KubeconfigWebhook,
    egress::{Egress, Network},
};

use crate::config::Config;

/// How long the webhook may take (upstream: the same), and the largest answer that is read.
const TIMEOUT: Duration = Duration::from_secs(30);
const ANSWER: usize = 1 << 20;

/// The server that events are posted to. What it answers is of no interest, as long as it is a success.
struct Events(KubeconfigWebhook);

#[async_trait]
impl Deliver for Events {
    async fn deliver(&self, list: Bytes) -> Result<(), DeliveryError> {
        let call = Call { timeout: TIMEOUT, limit: ANSWER };
        self.0.call(list, call).await.map(drop).map_err(|error| DeliveryError(error.into()))
    }
}

/// The auditor, if there is a policy and somewhere for its events to go.
pub(crate) fn auditor(config: &Config, egress: &Egress, metrics: &Metrics) -> Result<Option<Arc<Auditor>>> {
    let audit = &config.audit;
    let policy = audit.policy_file.as_deref().map(read_policy).transpose()?;
    let mut backends = Vec::new();
    if let Some(log) = &audit.log {
        let opened = match &log.file {
            Some(file) => Log::file(file.clone(), log.format, metrics),
            None => Log::stdout(log.format, metrics),
        };
        let opened = opened.context("ensureLogFile")?;
        backends.push(Backend::new(Output::Log(opened), log.mode.clone(), log.limits, metrics));
    }
    let Some(policy) = policy else { return Ok(None) };
    if let Some(webhook) = &audit.webhook {
        let remote = KubeconfigWebhook::load_through(&webhook.file, egress.to(Network::ControlPlane));
        let remote = remote.map_err(|why| anyhow::anyhow!("initializing audit webhook: {why}"))?;
        let output = Webhook::new(Arc::new(Events(remote)), webhook.backoff, metrics);
        backends.push(Backend::new(Output::Webhook(output), webhook.mode.clone(), webhook.limits, metrics));
    }
    Ok((!backends.is_empty()).then(|| Auditor::new(policy, backends, metrics.clone())))
}

fn read_policy(path: &Path) -> Result<Policy> {
    let shown = path.display();
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) => {
            let why = crate::plain_io_error(&error);
            bail!("loading audit policy file: failed to read file path {:?}: open {shown}: {why}", shown.to_string());
        }
    };
    let read =
        Policy::read(&text).map_err(|why| anyhow::anyhow!("loading audit policy file: {why}: from file {shown}"))?;
    if let Some(warning) = read.warning {
        tracing::warn!(warning, "the audit policy is read leniently");
    }
    Ok(read.policy)
}
