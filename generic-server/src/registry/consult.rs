//! What is wrong with a write by the state of other objects or by what its author may do: rules that a kind's strategy, which
//! is pure, cannot know.

use async_trait::async_trait;
use machinery::{Value, meta::field_error::FieldError, request::Verb};

use super::{Registry, Write};
use auth::User;

/// A write that is about to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// What is done: [`Verb::Create`], [`Verb::Update`] or [`Verb::Patch`].
    pub verb: Verb,
    /// The namespace; empty for cluster-scoped resources.
    pub namespace: &'a str,
    /// The subresource; empty for the resource itself.
    pub subresource: &'a str,
    /// Who writes.
    pub user: &'a User,
}

/// Rules that look beyond the object.
#[async_trait]
pub trait Consult: Send + Sync {
    /// What is wrong. It is told before what the strategy finds. Objects are in the storage version, prepared.
    async fn findings(&self, write: Judged<'_>, new: &Value, old: Option<&Value>) -> Vec<FieldError>;
}

impl Registry {
    /// What the rules that look beyond the object find.
    pub(super) async fn consult(
        &self,
        write: &Write<'_>,
        verb: Verb,
        new: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        let Some(rules) = &self.consult else { return Vec::new() };
        let judged = Judged { verb, namespace: write.namespace, subresource: write.subresource, user: write.user };
        rules.findings(judged, new, old).await
    }
}
