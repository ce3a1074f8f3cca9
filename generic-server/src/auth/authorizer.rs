//! May this user do this?

use std::sync::Arc;

use async_trait::async_trait;
use machinery::Str;

use super::User;
use crate::request::RequestInfo;

/// What is to be decided.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    /// Who.
    pub user: &'a User,
    /// What, as the request resolved (or as a review asks).
    pub info: &'a RequestInfo,
}

/// What an authoriser says.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Yes; the text says why, if there is more to say than that it is so.
    Allow(Str),
    /// No, whatever others say.
    Deny(Str),
    /// No opinion: the next one decides; none at all means no. The text says what was missing.
    NoOpinion(Str),
}

/// Decides about requests.
#[async_trait]
pub trait Authorizer: Send + Sync {
    /// The decision.
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision;

    /// What a user may do in a namespace, as far as it can be told as a list. Who cannot tell says so.
    async fn rules_of(&self, _user: &User, _namespace: &str) -> UserRules {
        UserRules { incomplete: true, ..UserRules::default() }
    }
}

/// What a user may do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserRules {
    /// With resources.
    pub resource: Vec<ResourceRule>,
    /// With other paths.
    pub non_resource: Vec<NonResourceRule>,
    /// Whether there may be more.
    pub incomplete: bool,
    /// What went wrong while they were gathered.
    pub errors: Vec<String>,
}

/// Verbs on resources. `*` stands for all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceRule {
    /// The verbs.
    pub verbs: Vec<Str>,
    /// The API groups.
    pub api_groups: Vec<Str>,
    /// The resources, `resource/subresource` among them.
    pub resources: Vec<Str>,
    /// The objects' names; none: all.
    pub resource_names: Vec<Str>,
}

/// Verbs on paths that are no resources. A `*` at the end stands for all that starts so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NonResourceRule {
    /// The verbs.
    pub verbs: Vec<Str>,
    /// The paths.
    pub urls: Vec<Str>,
}

impl UserRules {
    /// Everything.
    pub fn everything() -> Self {
        let all = || vec![Str::new_static("*")];
        UserRules {
            resource: vec![ResourceRule {
                verbs: all(),
                api_groups: all(),
                resources: all(),
                resource_names: Vec::new(),
            }],
            non_resource: vec![NonResourceRule { verbs: all(), urls: all() }],
            ..UserRules::default()
        }
    }

    /// Adds what another authoriser says.
    pub fn extend(&mut self, more: UserRules) {
        self.resource.extend(more.resource);
        self.non_resource.extend(more.non_resource);
        self.incomplete |= more.incomplete;
        self.errors.extend(more.errors);
    }
}

/// The modes that need nothing but the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `AlwaysAllow`
    AlwaysAllow,
    /// `AlwaysDeny`
    AlwaysDeny,
}

#[async_trait]
impl Authorizer for Mode {
    async fn authorize(&self, _attributes: &Attributes<'_>) -> Decision {
        match self {
            Mode::AlwaysAllow => Decision::Allow(Str::default()),
            Mode::AlwaysDeny => Decision::NoOpinion("Everything is forbidden.".into()),
        }
    }

    async fn rules_of(&self, _user: &User, _namespace: &str) -> UserRules {
        match self {
            Mode::AlwaysAllow => UserRules::everything(),
            Mode::AlwaysDeny => UserRules::default(),
        }
    }
}

/// system:masters may do everything; the others decide about everyone else, in order.
pub struct SystemMasters(pub Vec<Arc<dyn Authorizer>>);

#[async_trait]
impl Authorizer for SystemMasters {
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.in_group(User::MASTERS) {
            return Decision::Allow(Str::default());
        }
        let mut reasons = Vec::new();
        for authorizer in &self.0 {
            match authorizer.authorize(attributes).await {
                Decision::NoOpinion(reason) if reason.is_empty() => {}
                Decision::NoOpinion(reason) => reasons.push(reason.to_string()),
                decided => return decided,
            }
        }
        Decision::NoOpinion(reasons.join("\n").into())
    }

    async fn rules_of(&self, user: &User, namespace: &str) -> UserRules {
        let mut rules = UserRules::default();
        for authorizer in &self.0 {
            rules.extend(authorizer.rules_of(user, namespace).await);
        }
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{pipeline::resolve::resolve, request::Query};

    async fn decide(mode: Mode, user: &User, path: &str) -> bool {
        let info = resolve(&http::Method::GET, path, &Query::default());
        SystemMasters(vec![Arc::new(mode)]).authorize(&Attributes { user, info: &info }).await
            == Decision::Allow(Str::default())
    }

    #[tokio::test]
    async fn system_masters_are_asked_by_nobody() {
        let (stranger, master) = (User::anonymous(), User::loopback());
        assert!(!decide(Mode::AlwaysDeny, &stranger, "/healthz").await);
        assert!(decide(Mode::AlwaysDeny, &master, "/api/v1/pods").await);
        assert!(decide(Mode::AlwaysAllow, &stranger, "/api/v1/pods").await);
    }
}
