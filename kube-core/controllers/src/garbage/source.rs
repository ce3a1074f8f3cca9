//! Where the objects of a kind are: in this server's store, or in another server behind the aggregator.

use std::sync::Arc;

use machinery::Str;

use crate::{kinds::Kind, remote::Resource};

/// A kind whose objects are collected.
#[derive(Clone)]
pub(super) enum Source {
    /// It is read from its watch cache.
    Own(Arc<Kind>),
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
    /// Group and plural name.
    pub(super) fn name(&self) -> (&Str, &Str) {
        match self {
            Source::Own(kind) => (&kind.group, &kind.plural),
            Source::Remote(resource) => (&resource.group, &resource.plural),
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
