//! Filter: may the user act as somebody else? Then the request goes on as that somebody.
//!
//! Constrained impersonation (KEP-5284): several modes are tried in turn, the narrow ones first, the verb `impersonate`
//! that allows everything last. A mode of the narrow kind asks twice: whether the user may be that somebody at all, and
//! whether for this request. What is refused is reported as the first mode that fits put it, about the request itself.
//!
//! Differs: nothing that was allowed is kept, as the authorizers answer from memory.

mod headers;
mod metrics;
mod mode;
mod recent;

use std::{sync::Arc, time::Instant};

use audit::Layer;
use machinery::{meta::status::Status, request::RequestInfo};

use self::{
    headers::Form,
    metrics::ImpersonationMetrics,
    mode::{Attempt, Mode},
    recent::Recent,
};
use crate::{metrics::Step, request::Request};
use auth::{Authorizer, User};

/// How impersonation is judged.
pub struct Impersonation {
    /// Whether the narrow modes are tried (the gate ConstrainedImpersonation).
    constrained: bool,
    /// By which mode a user last impersonated: most keep to one, so it is tried first.
    last: Recent<Mode>,
    metrics: ImpersonationMetrics,
}

impl Impersonation {
    /// Judges; counts in `registry`.
    pub fn new(constrained: bool, registry: &prometheus::Registry) -> Self {
        Impersonation { constrained, last: Recent::default(), metrics: ImpersonationMetrics::new(registry) }
    }

    /// The step as it is timed.
    pub(super) fn step(&self) -> Step {
        if self.constrained { Step::ConstrainedImpersonation } else { Step::Impersonation }
    }

    /// What the step is called.
    pub(super) fn name(&self) -> &'static str {
        if self.constrained { "constrainedimpersonation" } else { "impersonation" }
    }

    /// Takes the impersonation headers out of the request and, if they are allowed, exchanges the user.
    pub(super) async fn impersonate(&self, authorizer: &dyn Authorizer, request: &mut Request) -> Result<(), Status> {
        let form = if self.constrained { Form::Constrained } else { Form::Legacy };
        let Some(wanted) = headers::take(&mut request.headers, form)? else { return Ok(()) };
        let started = Instant::now();
        let outcome = self.find(authorizer, &request.user, &request.info, &wanted).await;
        let mode = outcome.as_ref().ok().map(|(mode, _)| *mode);
        let took = started.elapsed();
        self.metrics.attempted(mode, took);
        request.audit.took(Layer::Impersonation, took);
        let (mode, user) = outcome?;
        request.audit.impersonated(|| super::audit::shown(&user), mode.constraint());
        tracing::debug!(requestor = %request.user.name, user = %user.name, "impersonates");
        request.user = Arc::new(user);
        Ok(())
    }

    async fn find(
        &self,
        authorizer: &dyn Authorizer,
        requestor: &User,
        info: &RequestInfo,
        wanted: &User,
    ) -> Result<(Mode, User), Status> {
        let attempt = |mode| Attempt {
            mode,
            authorizer,
            metrics: &self.metrics,
            requestor,
            info,
            wanted,
            uid_last: !self.constrained,
        };
        if !self.constrained {
            return Ok((Mode::Legacy, attempt(Mode::Legacy).check().await?));
        }
        let last = self.last.get(&requestor.name);
        let others = Mode::ALL.into_iter().filter(|mode| Some(*mode) != last);
        let mut refusal = None;
        for mode in last.into_iter().chain(others) {
            if !mode.fits(wanted, requestor) {
                continue;
            }
            match attempt(mode).check().await {
                Ok(user) => {
                    if Some(mode) != last {
                        self.last.set(&requestor.name, mode);
                    }
                    return Ok((mode, user));
                }
                Err(status) => {
                    refusal.get_or_insert(status);
                }
            }
        }
        Err(refusal.expect("the legacy mode fits everybody"))
    }
}

#[cfg(test)]
mod tests;
