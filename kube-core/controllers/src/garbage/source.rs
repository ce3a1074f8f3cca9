//! Where the objects of a kind are: in this server's store, or in another server behind the aggregator.

use std::sync::Arc;

use machinery::{Str, meta::GrRef};

use crate::{kinds::StoredKind, remote::Resource};

/// A kind whose objects are collected.
#[derive(Clone)]
pub(super) enum Source {
    /// It is read from its watch cache.
    Own(Arc<StoredKind>),
    /// Another server is asked.
    Remote(Arc<Resource>),
}

/// Whatever the version.
impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Source {
    /// Its resource, whatever the version.
    pub(super) fn name(&self) -> GrRef<'_> {
        match self {
            Source::Own(kind) => GrRef::new(&kind.group, &kind.plural),
            Source::Remote(resource) => GrRef::new(&resource.group, &resource.plural),
        }
    }

    /// The kind.
    pub(super) fn kind(&self) -> &Str {
        match self {
            Source::Own(kind) => &kind.kind,
            Source::Remote(resource) => &resource.kind,
        }
    }

    /// `v1` or `apps/v1`.
    pub(super) fn api_version(&self) -> Str {
        match self {
            Source::Own(kind) => kind.api_version(),
            Source::Remote(resource) => resource.api_version(),
        }
    }

    /// The path of an object.
    pub(super) fn path(&self, namespace: &str, name: &str) -> String {
        match self {
            Source::Own(kind) => kind.path(namespace, name),
            Source::Remote(resource) => resource.path(namespace, name),
        }
    }
}
