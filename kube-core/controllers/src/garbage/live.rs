//! The state of an object as it is now, of which only the metadata counts.

use std::sync::Arc;

use machinery::{
    Str, Value,
    meta::{Meta, status::Status},
};
use storage::cache::{Object, ReadAt};

use super::{facts::Facts, graph::Place, source::Source};
use crate::{client::Client, kinds::StoredKind};

/// An object.
pub(super) struct Live {
    pub(super) facts: Facts,
    form: Form,
}

enum Form {
    /// As it is stored: it is decoded when it is to be changed.
    Stored(Arc<StoredKind>, Arc<Object>),
    Decoded(Value),
}

impl Live {
    /// Reads the object with this uid; none if it is gone, or another one has its name.
    pub(super) async fn read(client: &Client, place: &Place<Source>, uid: &str) -> Result<Option<Live>, Status> {
        let read = match &place.kind {
            Source::Own(kind) => {
                let object = kind.lister.get(&place.namespace, &place.name, ReadAt::Latest).await;
                object
                    .map(|object| Live { facts: Facts::read(object.bytes()), form: Form::Stored(kind.clone(), object) })
            }
            Source::Remote(resource) => {
                let object = client.get_remote(&resource.path(&place.namespace, &place.name)).await;
                object.map(|object| Live { facts: Facts::of(&object), form: Form::Decoded(object) })
            }
        };
        match read {
            Ok(live) => Ok((live.facts.uid == uid).then_some(live)),
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Its resourceVersion.
    pub(super) fn version(&self) -> Str {
        match &self.form {
            Form::Stored(_, object) => object.revision().to_string().into(),
            Form::Decoded(object) => Meta::of(object).resource_version().into(),
        }
    }

    /// The object; what another server has sent may be its metadata alone.
    pub(super) fn decode(&self) -> Result<Value, Status> {
        match &self.form {
            Form::Stored(kind, object) => kind.lister.decode(object.bytes()),
            Form::Decoded(object) => Ok(object.clone()),
        }
    }
}
