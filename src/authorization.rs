//! The authorizers, made of what the configuration says.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result};
use auth::{
    Authorizer,
    authz::{Abac, AuthorizerMetrics, Authorizers, AuthorizersError, ReloadableAuthorizer},
    reload::{Followed, ReloadError, ReloadMetrics},
};
use kube_core::{node_authorizer::NodeAuthorizer, rbac::Rbac};
use outbound::egress::{Egress, Network};
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use crate::config::Config;

/// system:masters first, then those of the configuration in order. Those of a file are made anew when it changes; `server` is
/// who tells it in metrics. It is followed until `cancel`.
pub(crate) fn authorizer(
    config: &Config,
    rbac: &Arc<Rbac>,
    nodes: &Arc<NodeAuthorizer>,
    registry: &Registry,
    (server, egress): (&str, &Egress),
    cancel: &CancellationToken,
) -> Result<Arc<dyn Authorizer>> {
    let authorization = &config.authorization;
    let authorizers = Authorizers {
        node: nodes.clone(),
        rbac: rbac.clone(),
        abac: authorization.policies.as_ref().map(abac).transpose()?,
        dial: egress.to(Network::ControlPlane).cloned(),
        metrics: AuthorizerMetrics::new(registry),
    };
    let invalid = |why: AuthorizersError| anyhow::anyhow!("invalid authorization config: {why}");
    let Some((path, content)) = &authorization.file else {
        return Ok(Arc::new(authorizers.build(&authorization.authorizers).map_err(invalid)?));
    };
    let reloadable = Arc::new(ReloadableAuthorizer::new(authorizers, &authorization.authorizers).map_err(invalid)?);
    let metrics = ReloadMetrics::new(registry, "authorization_config_controller", server, content);
    let followed = Followed::new("authorization configuration", path.clone(), content.clone());
    tokio::spawn(follow(followed, reloadable.clone(), metrics, cancel.clone()));
    Ok(reloadable)
}

async fn follow(
    followed: Followed,
    authorizer: Arc<ReloadableAuthorizer>,
    metrics: ReloadMetrics,
    cancel: CancellationToken,
) {
    let replace = |content: Vec<u8>| {
        let authorizer = authorizer.clone();
        async move {
            // Other files are read for it.
            let replaced = tokio::task::spawn_blocking(move || authorizer.replace(&content)).await;
            let replaced = replaced.map_err(|error| error.to_string());
            replaced.and_then(|replaced| replaced.map_err(|why| why.to_string())).map_err(ReloadError::Invalid)
        }
    };
    followed.follow(Some(metrics), cancel, replace).await;
}

fn abac(path: &PathBuf) -> Result<Arc<Abac>> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let policies = Abac::parse(&path.display().to_string(), &text);
    policies.map(Arc::new).map_err(|why| anyhow::anyhow!("invalid authorization config: {why}"))
}
