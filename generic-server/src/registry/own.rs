//! What the server writes itself: its own objects, and conditions. Clients see it as writes of a manager's.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use machinery::{Str, Value, codec::json, meta::status::Status};

use super::{Change, Deleted, Registry, Write, Written, metadata};
use crate::{
    decode,
    negotiate::Media,
    options::{DeleteOptions, WriteOptions},
    registry::field_manager::{self, Apply},
};
use auth::User;

/// The manager of fields that the server sets where nothing else is said.
const MANAGER: &str = "kube-apiserver";

/// An object's namespace (empty for those of the cluster), name, and subresource (empty for the object itself).
pub type Place<'a> = (&'a str, &'a str, &'a str);

fn options_of(manager: &'static str) -> WriteOptions {
    WriteOptions { field_manager: Str::new_static(manager), ..Default::default() }
}

/// A change by a function of the current state.
struct Edit<F>(F);

#[async_trait]
impl<F> Change for Edit<F>
where
    F: Fn(&Value) -> Result<Value, Status> + Send + Sync,
{
    async fn apply(&self, current: Option<&Value>, _warnings: &mut Vec<String>) -> Result<Option<Value>, Status> {
        current.map(|value| (self.0)(value)).transpose()
    }
}

impl Registry {
    /// Makes an object as the server itself. It is decoded and defaulted here, as a client's would be.
    pub async fn create_as_server(&self, object: Value) -> Result<Written, Status> {
        self.create_as(MANAGER, object).await
    }

    /// The same, with a manager of its own for the fields.
    pub async fn create_as(&self, manager: &'static str, object: Value) -> Result<Written, Status> {
        let row = &self.row;
        let kind = row.gvk();
        let object = decode::conform(row, kind, object, &mut Vec::new());
        let object = object.map_err(|why| Status::bad_request(why.to_string()))?;
        let namespace = metadata::text(&object, "namespace").to_owned();
        let (options, user, mut warnings) = (options_of(manager), User::loopback(), Vec::new());
        let mut write = self.own(&options, &user, &mut warnings, (&namespace, ""));
        self.create(&mut write, object).await
    }

    /// Deletes an object as the server itself.
    pub async fn delete_as_server(&self, namespace: &str, name: &str) -> Result<Deleted, Status> {
        self.delete_as_server_if(namespace, name, &DeleteOptions::default()).await
    }

    /// The same, if the preconditions among these options hold.
    pub async fn delete_as_server_if(
        &self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let (write_options, user, mut warnings) = (options_of(MANAGER), User::loopback(), Vec::new());
        let mut write = self.own(&write_options, &user, &mut warnings, (namespace, ""));
        self.delete(&mut write, name, options).await
    }

    /// Reads, edits and writes an object as the server itself.
    pub async fn edit<F>(
        self: &Arc<Self>,
        namespace: &str,
        name: &str,
        subresource: &str,
        edit: F,
    ) -> Result<Written, Status>
    where
        F: Fn(&Value) -> Result<Value, Status> + Send + Sync,
    {
        self.edit_as(MANAGER, (namespace, name, subresource), edit).await
    }

    /// The stored form of what an object's status becomes after `first`, one write of the server's after the other.
    pub(super) async fn encode_sequel(&self, states: Vec<Value>, first: Value) -> Vec<Bytes> {
        let (options, user, mut warnings) = (options_of(MANAGER), User::loopback(), Vec::new());
        let write = self.own(&options, &user, &mut warnings, ("", "status"));
        let (mut before, mut encoded) = (first, Vec::with_capacity(states.len()));
        for mut state in states {
            if let Some(managers) = before.at(&["metadata", "managedFields"]) {
                state.set(&["metadata", "managedFields"], managers.clone());
            }
            field_manager::track(&write, self, Some(&before), &mut state).await;
            encoded.push(self.form.encode(&state));
            before = state;
        }
        encoded
    }

    /// The same, with a manager of its own for the fields.
    pub async fn edit_as<F>(&self, manager: &'static str, place: Place<'_>, edit: F) -> Result<Written, Status>
    where
        F: Fn(&Value) -> Result<Value, Status> + Send + Sync,
    {
        let (namespace, name, subresource) = place;
        let (options, user, mut warnings) = (options_of(manager), User::loopback(), Vec::new());
        let mut write = self.own(&options, &user, &mut warnings, (namespace, subresource));
        self.update(&mut write, name, &Edit(edit)).await
    }

    /// Applies a configuration (server-side apply), taking over what others manage.
    pub async fn apply_as(&self, manager: &'static str, place: Place<'_>, config: &Value) -> Result<Written, Status> {
        let (namespace, name, subresource) = place;
        let options = WriteOptions { force: true, ..options_of(manager) };
        let (user, mut warnings) = (User::loopback(), Vec::new());
        let config = json::encode(config).into();
        let apply = Apply::read(&self.row, self, place, (&config, Media::Yaml), &options)?;
        let mut write = self.own(&options, &user, &mut warnings, (namespace, subresource));
        self.update(&mut write, name, &apply).await
    }

    fn own<'a>(
        &'a self,
        options: &'a WriteOptions,
        user: &'a User,
        warnings: &'a mut Vec<String>,
        (namespace, subresource): (&'a str, &'a str),
    ) -> Write<'a> {
        Write { row: &self.row, namespace, subresource, user, audit: audit::OFF, options, warnings }
    }
}
