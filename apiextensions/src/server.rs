//! The server of definitions and of custom resources: the last one of the chain.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;
use generic_server::{
    registry::{Backing, Registry},
    server::{Builder, Claims, GenericServer},
    table::{Entry, ResourceTable},
    tasks::Task,
};
use outbound::Services;

use crate::{
    controller::{self, Acceptances, Controller, Settle},
    definition::{self, Shelf},
    serving::{ConversionMetrics, Means},
};

/// The built server, and what others need of it.
pub struct ApiExtensions {
    /// The server.
    pub server: Arc<GenericServer>,
    /// Its rows: those of definitions, and of custom resources as they come and go.
    pub table: Arc<ArcSwap<ResourceTable>>,
    /// The definitions.
    pub definitions: Arc<Registry>,
    /// What runs beside the requests.
    pub tasks: Vec<Task>,
    /// What is counted of conversions.
    pub metrics: Arc<ConversionMetrics>,
}

/// Builds the server. What it does not claim is a 404. Conversion webhooks are found among `services`.
pub fn build(backing: &Backing, services: &Arc<Services>) -> ApiExtensions {
    let row = definition::row();
    let definitions = Registry::start(row.clone(), backing);
    let table = Arc::new(ArcSwap::<ResourceTable>::default());
    let metrics = Arc::new(ConversionMetrics::new());
    let means = Means {
        shelf: Arc::new(Shelf::new(definitions.clone())),
        backing: backing.clone(),
        services: services.clone(),
        metrics: metrics.clone(),
    };
    let controller = Arc::new(Controller::new(definitions.clone(), table.clone(), means));
    definitions.set_reserve(Arc::new(Acceptances(controller.clone())));
    let entry = Arc::new(Entry {
        row,
        registry: Some(definitions.clone()),
        endpoints: HashMap::new(),
        after_write: Some(Arc::new(Settle(controller.clone()))),
        openapi: Default::default(),
    });
    table.store(Arc::new(ResourceTable::new([entry].into_iter().filter(|e| backing.settings.serves(&e.row)))));
    let server = Builder::new("apiextensions", Claims::Groups).table(table.clone()).build();
    ApiExtensions { server, table, definitions, tasks: controller::tasks(&controller), metrics }
}
