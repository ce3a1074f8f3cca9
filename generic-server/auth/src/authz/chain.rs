//! The authorizers of a server in their order, made of its configuration and made anew when that changes.

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use outbound::{KubeconfigError, KubeconfigWebhook, egress::Dial};

use super::{
    Abac, AuthorizerMetrics, WebhookAuthorizer,
    config::{self, AuthorizationConfigError, AuthorizerConfig, AuthorizerType},
    metrics::Decisions,
};
use crate::{Attributes, Authorizer, Decision, Mode, SystemMasters, User, UserRules};

/// Why a configuration's authorizers cannot be used. Shown, it is what upstream's server says.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AuthorizersError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] AuthorizationConfigError),
    /// One is of a type that the server can only begin with.
    #[error("authorizer type {} is not allowed if it was not enabled at initial server startup", .0.name())]
    NotBegun(AuthorizerType),
    /// A webhook of which nobody said where it is.
    #[error("a webhook without a configuration")]
    NoWebhook,
    /// A webhook's kubeconfig file is wrong.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
}

/// What authorizers are made of that stay when the configuration changes.
pub struct Authorizers {
    /// Of the type Node.
    pub node: Arc<dyn Authorizer>,
    /// Of the type RBAC.
    pub rbac: Arc<dyn Authorizer>,
    /// Of the type ABAC, if there are policies.
    pub abac: Option<Arc<Abac>>,
    /// How webhooks are reached; `None`: as usual.
    pub dial: Option<Dial>,
    /// What is counted of them all.
    pub metrics: AuthorizerMetrics,
}

impl Authorizers {
    /// system:masters first, then those of the configuration.
    ///
    /// # Errors
    /// A kubeconfig file is wrong.
    pub fn build(&self, configured: &[AuthorizerConfig]) -> Result<SystemMasters, AuthorizersError> {
        let built = configured.iter().map(|one| {
            let decisions = self.metrics.decisions(one.of_type.name(), &one.name);
            Ok(Arc::new(Counted { authorizer: self.one(one)?, decisions }) as Arc<dyn Authorizer>)
        });
        built.collect::<Result<_, AuthorizersError>>().map(SystemMasters)
    }

    fn one(&self, configured: &AuthorizerConfig) -> Result<Arc<dyn Authorizer>, AuthorizersError> {
        Ok(match configured.of_type {
            AuthorizerType::AlwaysAllow => Arc::new(Mode::AlwaysAllow),
            AuthorizerType::AlwaysDeny => Arc::new(Mode::AlwaysDeny),
            AuthorizerType::Node => self.node.clone(),
            AuthorizerType::Rbac => self.rbac.clone(),
            AuthorizerType::Abac => self.abac.clone().ok_or(AuthorizersError::NotBegun(AuthorizerType::Abac))?,
            AuthorizerType::Webhook => {
                let (settings, file) = configured.webhook.as_ref().ok_or(AuthorizersError::NoWebhook)?;
                let webhook = KubeconfigWebhook::load_through(file, self.dial.as_ref())?;
                Arc::new(WebhookAuthorizer::new(settings.clone(), webhook, &self.metrics))
            }
        })
    }
}

/// An authorizer whose decisions are counted.
struct Counted {
    authorizer: Arc<dyn Authorizer>,
    decisions: Decisions,
}

#[async_trait]
impl Authorizer for Counted {
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let decision = self.authorizer.authorize(attributes).await;
        self.decisions.count(decision.verdict);
        decision
    }

    async fn rules_of(&self, user: &User, namespace: &str) -> UserRules {
        self.authorizer.rules_of(user, namespace).await
    }
}

/// The authorizers of a file that may change.
pub struct ReloadableAuthorizer {
    authorizers: Authorizers,
    /// The types that the server began with: they stay.
    required: Vec<AuthorizerType>,
    current: ArcSwap<SystemMasters>,
}

impl ReloadableAuthorizer {
    /// The authorizers of a configuration.
    ///
    /// # Errors
    /// A kubeconfig file is wrong.
    pub fn new(authorizers: Authorizers, configured: &[AuthorizerConfig]) -> Result<Self, AuthorizersError> {
        let current = ArcSwap::from_pointee(authorizers.build(configured)?);
        let mut required: Vec<AuthorizerType> = configured.iter().map(|authorizer| authorizer.of_type).collect();
        required.retain(|of_type| *of_type != AuthorizerType::Webhook);
        required.sort_by_key(|of_type| of_type.name());
        Ok(ReloadableAuthorizer { authorizers, required, current })
    }

    /// Takes the content of a file from now on; questions that are open are answered by the old one.
    ///
    /// # Errors
    /// What is wrong with it; the old one stays.
    pub fn replace(&self, content: &[u8]) -> Result<(), AuthorizersError> {
        let configured = config::read(content, &self.required)?;
        for of_type in [AuthorizerType::Node, AuthorizerType::Rbac] {
            if configured.iter().any(|one| one.of_type == of_type) && !self.required.contains(&of_type) {
                return Err(AuthorizersError::NotBegun(of_type));
            }
        }
        self.current.store(Arc::new(self.authorizers.build(&configured)?));
        Ok(())
    }
}

#[async_trait]
impl Authorizer for ReloadableAuthorizer {
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let current = self.current.load_full();
        current.authorize(attributes).await
    }

    async fn rules_of(&self, user: &User, namespace: &str) -> UserRules {
        let current = self.current.load_full();
        current.rules_of(user, namespace).await
    }
}

#[cfg(test)]
mod tests {
    use machinery::request::{Query, resolve};
    use prometheus::Registry;

    use super::*;

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n";

    fn authorizers() -> Authorizers {
        Authorizers {
            dial: None,
            node: Arc::new(Mode::AlwaysDeny),
            rbac: Arc::new(Mode::AlwaysDeny),
            abac: None,
            metrics: AuthorizerMetrics::new(&Registry::new()),
        }
    }

    #[tokio::test]
    async fn a_wrong_file_leaves_the_old_one_in_use() {
        let begun = [AuthorizerConfig::of(AuthorizerType::Rbac)];
        let reloadable = ReloadableAuthorizer::new(authorizers(), &begun).expect("valid");
        let allowed = async || {
            let info = resolve("GET", "/healthz", &Query::default());
            reloadable.authorize(&Attributes { user: &User::anonymous(), info: &info }).await.is_allowed()
        };
        let replace = |lines: &str| {
            let replaced = reloadable.replace(format!("{HEAD}{lines}").as_bytes());
            replaced.map_err(|why| why.to_string())
        };
        assert!(!allowed().await);
        assert_eq!(replace("- {type: RBAC, name: rbac}\n- {type: AlwaysAllow, name: alwaysallow}"), Ok(()));
        assert!(allowed().await);
        let missing = replace("- {type: AlwaysDeny, name: alwaysdeny}");
        assert_eq!(missing, Err("missing required types: [RBAC]".to_owned()));
        let node = replace("- {type: RBAC, name: rbac}\n- {type: Node, name: node}");
        let why = "authorizer type Node is not allowed if it was not enabled at initial server startup";
        assert_eq!(node, Err(why.to_owned()));
        assert!(allowed().await);
        assert_eq!(replace("- {type: RBAC, name: rbac}"), Ok(()));
        assert!(!allowed().await);
    }
}
