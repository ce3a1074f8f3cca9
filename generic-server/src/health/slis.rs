//! `/metrics/slis`: how often checks succeed.

use async_trait::async_trait;
use http::StatusCode;
use machinery::meta::status::Status;
use prometheus::{Encoder as _, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

use crate::{
    endpoint::Endpoint,
    request::Request,
    response::{self, Response},
};

/// The results of all checks, under upstream's names.
pub struct Slis {
    registry: Registry,
    last: IntGaugeVec,
    all: IntCounterVec,
}

impl Slis {
    /// None yet.
    pub fn new() -> Self {
        let registry = Registry::new();
        let last = Opts::new("kubernetes_healthcheck", "The result of the last run of a check: 1 is well.");
        let all = Opts::new("kubernetes_healthchecks_total", "The results of all runs of a check.");
        let last = IntGaugeVec::new(last, &["name", "type"]).expect("constant names and labels are valid");
        let all = IntCounterVec::new(all, &["name", "status", "type"]).expect("constant names and labels are valid");
        registry.register(Box::new(last.clone())).expect("the only one of its name");
        registry.register(Box::new(all.clone())).expect("the only one of its name");
        Slis { registry, last, all }
    }

    /// Notes one result of the check `name` of a path (`livez`).
    pub(super) fn note(&self, path: &str, name: &str, well: bool) {
        self.last.with_label_values(&[name, path]).set(well.into());
        self.all.with_label_values(&[name, if well { "success" } else { "error" }, path]).inc();
    }
}

impl Default for Slis {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Endpoint for Slis {
    async fn serve(&self, _request: Request) -> Result<Response, Status> {
        let mut out = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut out).map_err(Status::internal_error)?;
        Ok(response::bytes(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", out.into()))
    }
}
