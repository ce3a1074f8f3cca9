//! The server of definitions and of custom resources: the last one of the chain.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;
use generic_server::{
    admission::Admission,
    registry::{Backing, Lister, Registry},
    server::{Builder, GenericServer, ServerScope},
    table::{ResourceTable, TableEntry},
    tasks::Task,
};
use outbound::Resolver;

use crate::{
    controller::{self, Acceptances, Controller, Settle},
    definition::{self, Shelf},
    serving::{ConversionMetrics, Means},
};

/// What the server is built of.
pub struct Options<'a> {
    /// Where its objects are kept.
    pub backing: &'a Backing,
    /// Who admits writes.
    pub admission: &'a Arc<dyn Admission>,
    /// Where conversion webhooks are found.
    pub services: &'a Arc<Resolver>,
    /// Where its rows are put: those of definitions, and of custom resources as they come and go.
    pub table: &'a Arc<ArcSwap<ResourceTable>>,
}

/// The built server, and what others need of it.
pub struct ApiExtensions {
    /// The server.
    pub server: Arc<GenericServer>,
    /// The definitions.
    pub definitions: Arc<Registry>,
    /// What runs beside the requests.
    pub tasks: Vec<Task>,
    /// What is counted of conversions.
    pub metrics: Arc<ConversionMetrics>,
}

/// Builds the server. What it does not claim is a 404.
pub fn build(options: Options<'_>) -> ApiExtensions {
    let Options { backing, admission, services, table } = options;
    let mut row = definition::row();
    row.show_hash(&backing.settings.features);
    let lister = Lister::start(row.clone(), backing);
    let metrics = Arc::new(ConversionMetrics::new());
    let means = Means {
        shelf: Arc::new(Shelf::new(lister.clone())),
        backing: backing.clone(),
        admission: admission.clone(),
        services: services.clone(),
        metrics: metrics.clone(),
    };
    let plain = Registry::new(lister, admission.clone());
    let controller = Arc::new(Controller::new(Arc::new(plain.clone()), table.clone(), means));
    let definitions = Arc::new(plain.reserving(Arc::new(Acceptances(controller.clone()))));
    let entry = Arc::new(TableEntry {
        row,
        registry: Some(definitions.clone()),
        endpoints: HashMap::new(),
        after_write: Some(Arc::new(Settle(controller.clone()))),
        openapi: Default::default(),
    });
    table.store(Arc::new(ResourceTable::new([entry].into_iter().filter(|e| backing.settings.serves(&e.row)))));
    let server = Builder::new("apiextensions", ServerScope::Groups).table(table.clone()).build();
    ApiExtensions { server, definitions, tasks: controller::tasks(&controller), metrics }
}
