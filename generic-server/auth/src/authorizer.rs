//! May this user do this?

use std::sync::Arc;

use async_trait::async_trait;
use machinery::{Str, request::RequestInfo};

use super::User;

/// What is to be decided.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    /// Who.
    pub user: &'a User,
    /// What, as the request resolved (or as a review asks).
    pub info: &'a RequestInfo,
}

/// What an authorizer says, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Allow,
    /// No, whatever others say.
    Deny,
    /// The next authorizer decides; if there is none, that means no.
    NoOpinion,
}

/// What an authorizer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// In one word.
    pub verdict: Verdict,
    /// Why, or what was missing; empty if there is no more to say.
    pub reason: Str,
    /// What went wrong while it was found out.
    pub error: Option<Str>,
}

impl Decision {
    /// Yes.
    pub fn allow(reason: impl Into<Str>) -> Self {
        Decision { verdict: Verdict::Allow, reason: reason.into(), error: None }
    }

    /// No, whatever others say.
    pub fn deny(reason: impl Into<Str>) -> Self {
        Decision { verdict: Verdict::Deny, reason: reason.into(), error: None }
    }

    /// Others decide.
    pub fn no_opinion(reason: impl Into<Str>) -> Self {
        Decision { verdict: Verdict::NoOpinion, reason: reason.into(), error: None }
    }

    /// What counts where no answer could be found out.
    pub fn failed(verdict: Verdict, error: impl Into<Str>) -> Self {
        Decision { verdict, reason: Str::default(), error: Some(error.into()) }
    }

    /// Whether it is a yes. Errors on the way to it do not count.
    pub fn is_allowed(&self) -> bool {
        self.verdict == Verdict::Allow
    }
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

    /// Adds what another authorizer says.
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
            Mode::AlwaysAllow => Decision::allow(""),
            Mode::AlwaysDeny => Decision::no_opinion("Everything is forbidden."),
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
            return Decision::allow("");
        }
        let (mut reasons, mut errors) = (Vec::new(), Vec::new());
        for authorizer in &self.0 {
            let decision = authorizer.authorize(attributes).await;
            if decision.verdict != Verdict::NoOpinion {
                return decision;
            }
            errors.extend(decision.error);
            if !decision.reason.is_empty() {
                reasons.push(decision.reason);
            }
        }
        let reason = match reasons.as_slice() {
            [one] => one.clone(),
            several => several.join("\n").into(),
        };
        Decision { verdict: Verdict::NoOpinion, reason, error: aggregate(&errors).map(Str::from) }
    }

    async fn rules_of(&self, user: &User, namespace: &str) -> UserRules {
        let mut rules = UserRules::default();
        for authorizer in &self.0 {
            rules.extend(authorizer.rules_of(user, namespace).await);
        }
        rules
    }
}

/// Several errors as one, each once, in the form in which upstream shows them.
pub fn aggregate<T: AsRef<str>>(errors: &[T]) -> Option<String> {
    let mut told: Vec<&str> = Vec::new();
    for error in errors.iter().map(AsRef::as_ref) {
        if !told.contains(&error) {
            told.push(error);
        }
    }
    match told.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::request::{Query, resolve};

    async fn decide(mode: Mode, user: &User, path: &str) -> bool {
        let info = resolve("GET", path, &Query::default());
        SystemMasters(vec![Arc::new(mode)]).authorize(&Attributes { user, info: &info }).await == Decision::allow("")
    }

    /// Says always the same.
    struct Says(Decision);

    #[async_trait]
    impl Authorizer for Says {
        async fn authorize(&self, _: &Attributes<'_>) -> Decision {
            self.0.clone()
        }
    }

    #[tokio::test]
    async fn the_first_opinion_counts_and_what_led_to_none_is_told() {
        let check = async |said: &[Decision], expect: Decision| {
            let info = resolve("GET", "/api/v1/pods", &Query::default());
            let all = said.iter().map(|one| Arc::new(Says(one.clone())) as Arc<dyn Authorizer>).collect();
            let user = User::anonymous();
            let found = SystemMasters(all).authorize(&Attributes { user: &user, info: &info }).await;
            assert_eq!(found, expect, "{said:?}");
        };
        let (none, broken) = (Decision::no_opinion("a"), Decision::failed(Verdict::NoOpinion, "e"));
        check(&[], Decision::no_opinion("")).await;
        check(&[none.clone(), Decision::no_opinion(""), Decision::no_opinion("b")], Decision::no_opinion("a\nb")).await;
        check(&[none.clone(), Decision::deny("c"), Decision::allow("")], Decision::deny("c")).await;
        check(&[broken.clone(), Decision::allow("c")], Decision::allow("c")).await;
        check(&[broken.clone(), none.clone()], Decision { error: Some("e".into()), ..none.clone() }).await;
        let failed = Decision::failed(Verdict::NoOpinion, "[e, f]");
        check(&[broken.clone(), Decision::failed(Verdict::NoOpinion, "f"), broken.clone()], failed).await;
        let denied = Decision::failed(Verdict::Deny, "f");
        check(&[broken, denied.clone(), none], denied).await;
    }

    #[tokio::test]
    async fn system_masters_are_asked_by_nobody() {
        let (stranger, master) = (User::anonymous(), User::loopback());
        assert!(!decide(Mode::AlwaysDeny, &stranger, "/healthz").await);
        assert!(decide(Mode::AlwaysDeny, &master, "/api/v1/pods").await);
        assert!(decide(Mode::AlwaysAllow, &stranger, "/api/v1/pods").await);
    }
}
