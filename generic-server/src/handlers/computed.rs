//! Virtual resources that are read: their objects are made when a client asks for them.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use http::StatusCode;
use machinery::{Value, meta::status::Status, request::Verb};

use super::{list_options::ListOptions, transform::View};
use crate::{
    endpoint::Endpoint, features::Features, request::Request, resource::Resource, response::Response, table::TableEntry,
};

/// Where the objects of a virtual resource come from. They are few, and have kind and apiVersion.
#[async_trait]
pub trait ComputedSource: Send + Sync {
    /// All of them.
    async fn all(&self) -> Vec<Value>;

    /// The one of a name.
    ///
    /// # Errors
    /// There is none.
    async fn one(&self, name: &str) -> Result<Value, Status>;
}

/// Serves such a resource: gets and lists, selected and in every form that stored objects have.
pub struct Computed<S> {
    entry: Arc<TableEntry>,
    source: S,
}

impl<S: ComputedSource> Computed<S> {
    /// Of a row and the source of its objects.
    pub fn new(row: Resource, source: S) -> Self {
        let entry = TableEntry {
            row,
            registry: None,
            endpoints: HashMap::new(),
            after_write: None,
            openapi: Default::default(),
        };
        Computed { entry: Arc::new(entry), source }
    }
}

#[async_trait]
impl<S: ComputedSource> Endpoint for Computed<S> {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        let view = View::of_request(&request, &self.entry)?;
        if request.info.verb == Verb::Get {
            return view.document(StatusCode::OK, &self.source.one(&request.info.name).await?);
        }
        let options = ListOptions::read_whole(&request, &self.entry.row, false, &Features::default())?;
        let mut objects = self.source.all().await;
        objects.retain(|object| options.selection.matches_value(object));
        view.documents(objects)
    }
}
