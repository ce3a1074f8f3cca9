//! The paths of the front server that are no resources: its index, health, metrics, OpenAPI, and what it says of itself.

use std::sync::Arc;

use arc_swap::ArcSwap;
use generic_server::{
    flow_control::{Dumps, FlowControl},
    metrics::{Metrics, MetricsEndpoint},
    openapi::Published,
    pages::{
        Differences, Flagz, Forks, Index, Logs, NothingHere, OpenApi, Profiles, Snapshots, Statusz, Verbosity, Version,
    },
    registry::Lister,
    server::{Builder, GenericServer},
    table::ResourceTable,
};
use machinery::codec::json::scan::{self, Step};
use storage::embedded::Embedded;

use crate::{VERSION, config::Config, health::Checks, version};

/// What the pages show.
pub(crate) struct Sources<'a> {
    pub(crate) config: &'a Config,
    pub(crate) metrics: &'a Arc<Metrics>,
    pub(crate) flow_control: Option<&'a Arc<FlowControl>>,
    /// The store, if it is the embedded one.
    pub(crate) embedded: Option<Arc<Embedded>>,
    /// The rows of all servers.
    pub(crate) tables: Vec<Arc<ArcSwap<ResourceTable>>>,
    pub(crate) openapi: Arc<OpenApi>,
    pub(crate) checks: Checks,
}

impl Sources<'_> {
    /// The front server, with its pages.
    pub(crate) fn attach(self, front: Builder) -> Arc<GenericServer> {
        front.build_cyclic(|front, server| self.debug(self.plain(front, Arc::new(Index(server.clone())))))
    }

    fn plain(&self, front: Builder, index: Arc<Index>) -> Builder {
        let Sources { config, openapi, checks, .. } = self;
        let version = Arc::new(Version::new(&version::build(&config.version, config.versions)));
        let mut front = front
            .unlisted("/", index.clone())
            .unlisted("/index.html", index.clone())
            .path("/healthz", checks.healthz.clone())
            .prefix("/healthz/", checks.healthz.clone())
            .path("/livez", checks.livez.clone())
            .prefix("/livez/", checks.livez.clone())
            .path("/readyz", checks.readyz.clone())
            .prefix("/readyz/", checks.readyz.clone())
            .path("/version", version.clone())
            .unlisted("/version/", version)
            .prefix("/version/", Arc::new(NothingHere))
            .path("/openapi/v2", openapi.clone())
            .path("/openapi/v3", openapi.clone())
            .prefix("/openapi/v3/", openapi.clone())
            .path("/metrics", Arc::new(MetricsEndpoint(self.metrics.clone(), config.shown_metrics.clone())))
            .path("/metrics/slis", checks.slis.clone());
        if config.features.is_on("ComponentStatusz") {
            front = front.path("/statusz", Arc::new(Statusz::new(VERSION, config.versions, index)));
        }
        if config.features.is_on("ComponentFlagz") {
            front = front.path("/flagz", Arc::new(Flagz(config.flags.clone())));
        }
        front
    }

    fn debug(&self, mut front: Builder) -> Builder {
        if self.config.shows_logs {
            let logs = || Arc::new(Logs::default());
            front = front.unlisted("/logs", logs()).prefix("/logs/", logs());
        }
        if let Some(store) = &self.embedded {
            let snapshots = Snapshots::new(store.clone(), &self.config.data_dir);
            let forks = Arc::new(Forks::new(store.clone(), &self.config.data_dir));
            front = front
                .unlisted("/debug/storage/snapshot", Arc::new(snapshots))
                .unlisted("/debug/storage/fork", forks.clone())
                .prefix("/debug/storage/fork/", forks)
                .unlisted("/debug/storage/diff", Arc::new(Differences::new(store.clone(), self.tables.clone())));
        }
        if let Some(control) = self.flow_control {
            front = front.prefix("/debug/api_priority_and_fairness/", Arc::new(Dumps(control.clone())));
        }
        if self.config.profiling {
            let verbosity = Arc::new(Verbosity(crate::logging::set_verbosity));
            front = front
                .unlisted("/debug/pprof", Arc::new(Profiles))
                .prefix("/debug/pprof/", Arc::new(Profiles))
                .unlisted("/debug/flags", verbosity.clone())
                .prefix("/debug/flags/", verbosity);
        }
        front
    }
}

/// Finds the schemas of custom resources where they were written: in their definitions.
pub(crate) fn published(definitions: Arc<Lister>) -> Published {
    Arc::new(move |row| {
        let key = definitions.key("", &format!("{}.{}", row.plural, row.group));
        let snapshot = definitions.cache().latest();
        let text = snapshot.get(&key)?.object()?.bytes();
        let versions =
            (0..).map_while(|i| scan::at(text, &[Step::Member("spec"), Step::Member("versions"), Step::Item(i)]));
        let version =
            versions.into_iter().find(|v| scan::text(v, &["name"]).is_some_and(|name| row.version == *name))?;
        scan::field(version, &["schema", "openAPIV3Schema"]).map(|schema| text.slice_ref(schema))
    })
}
