//! Metrics of single controllers: registered when a controller works first, kept for the next time.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use prometheus::Registry;

/// The families of each controller, by their type. Clones are handles to the same ones.
#[derive(Clone)]
pub(crate) struct Families {
    registry: Registry,
    made: Arc<Mutex<HashMap<TypeId, Box<dyn Any + Send>>>>,
}

impl Families {
    pub(crate) fn new(registry: &Registry) -> Self {
        Families { registry: registry.clone(), made: Arc::default() }
    }

    /// Those of one type, made and registered when they are asked for first.
    pub(crate) fn get<T: Clone + Send + 'static>(&self, make: fn(&Registry) -> T) -> T {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let families = made.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(make(&self.registry)));
        families.downcast_ref::<T>().expect("it is kept under its type").clone()
    }
}
