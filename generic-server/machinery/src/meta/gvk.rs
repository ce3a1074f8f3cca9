//! Names of groups, versions, kinds and resources, and how they read in messages.

use std::fmt;

use crate::Str;

/// An API group and version: `apps/v1`, or `v1` for the core group, whose name is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// The group; empty for core.
    pub group: Str,
    /// The version.
    pub version: Str,
}

/// A kind without its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// The group; empty for core.
    pub group: Str,
    /// The kind, in CamelCase.
    pub kind: Str,
}

/// A kind in a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// The group; empty for core.
    pub group: Str,
    /// The version.
    pub version: Str,
    /// The kind, in CamelCase.
    pub kind: Str,
}

/// A kind in a version, whose names are somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GvkRef<'a> {
    /// The group; empty for core.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind, in CamelCase.
    pub kind: &'a str,
}

impl<'a> GvkRef<'a> {
    /// A group, version and kind.
    pub const fn new(group: &'a str, version: &'a str, kind: &'a str) -> Self {
        GvkRef { group, version, kind }
    }

    /// With names of its own.
    pub fn to_owned(self) -> GroupVersionKind {
        GroupVersionKind::new(self.group, self.version, self.kind)
    }
}

/// A resource without its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// The group; empty for core.
    pub group: Str,
    /// The plural name, and after a slash a subresource: `pods`, `pods/status`.
    pub resource: Str,
}

/// A resource without its version, whose names are somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GrRef<'a> {
    /// The group; empty for core.
    pub group: &'a str,
    /// The plural name, and after a slash a subresource: `pods`, `pods/status`.
    pub resource: &'a str,
}

impl<'a> GrRef<'a> {
    /// A group and resource.
    pub const fn new(group: &'a str, resource: &'a str) -> Self {
        GrRef { group, resource }
    }

    /// With names of its own.
    pub fn to_owned(self) -> GroupResource {
        GroupResource::new(self.group, self.resource)
    }

    /// The resource in a version.
    pub const fn in_version(self, version: &'a str) -> GvrRef<'a> {
        GvrRef { group: self.group, version, resource: self.resource }
    }
}

/// A resource in a version, whose names are somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GvrRef<'a> {
    /// The group; empty for core.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The plural name.
    pub resource: &'a str,
}

impl<'a> GvrRef<'a> {
    /// A group, version and resource.
    pub const fn new(group: &'a str, version: &'a str, resource: &'a str) -> Self {
        GvrRef { group, version, resource }
    }

    /// With names of its own.
    pub fn to_owned(self) -> GroupVersionResource {
        GroupVersionResource::new(self.group, self.version, self.resource)
    }
}

/// A resource in a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    /// The group; empty for core.
    pub group: Str,
    /// The version.
    pub version: Str,
    /// The plural name.
    pub resource: Str,
}

/// An apiVersion that has more than one slash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected GroupVersion string: {0}")]
pub struct BadGroupVersion(pub String);

impl GroupVersion {
    /// A group and version.
    pub fn new(group: impl Into<Str>, version: impl Into<Str>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Reads an apiVersion. No text, and a lone slash, are the empty group version.
    pub fn parse(api_version: &str) -> Result<Self, BadGroupVersion> {
        if matches!(api_version, "" | "/") {
            return Ok(Self::default());
        }
        match api_version.split_once('/') {
            None => Ok(Self::new("", api_version)),
            Some((group, version)) if !version.contains('/') => Ok(Self::new(group, version)),
            Some(_) => Err(BadGroupVersion(api_version.to_owned())),
        }
    }

    /// A kind of this group version.
    pub fn kind(&self, kind: impl Into<Str>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }

    /// A resource of this group version.
    pub fn resource(&self, resource: impl Into<Str>) -> GroupVersionResource {
        GroupVersionResource { group: self.group.clone(), version: self.version.clone(), resource: resource.into() }
    }

    /// The text of `apiVersion`.
    pub fn api_version(&self) -> Str {
        if self.group.is_empty() { self.version.clone() } else { smol_str::format_smolstr!("{self}") }
    }
}

impl GroupKind {
    /// A group and kind.
    pub fn new(group: impl Into<Str>, kind: impl Into<Str>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }
}

impl GroupVersionKind {
    /// A group, version and kind.
    pub fn new(group: impl Into<Str>, version: impl Into<Str>, kind: impl Into<Str>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// From an object's `apiVersion` and `kind`. An apiVersion that does not parse leaves group and version empty, as
    /// upstream's FromAPIVersionAndKind has it.
    pub fn from_api_version(api_version: &str, kind: impl Into<Str>) -> Self {
        GroupVersion::parse(api_version).unwrap_or_default().kind(kind)
    }

    /// The same names, borrowed.
    pub fn as_ref(&self) -> GvkRef<'_> {
        GvkRef::new(&self.group, &self.version, &self.kind)
    }

    /// Without the version.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    /// Without the kind.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// The text of `apiVersion`.
    pub fn api_version(&self) -> Str {
        self.group_version().api_version()
    }
}

impl GroupResource {
    /// A group and resource.
    pub fn new(group: impl Into<Str>, resource: impl Into<Str>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    /// The same names, borrowed.
    pub fn as_ref(&self) -> GrRef<'_> {
        GrRef::new(&self.group, &self.resource)
    }

    /// Whether both names are empty: what a path that is no resource has.
    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.resource.is_empty()
    }
}

impl GroupVersionResource {
    /// A group, version and resource.
    pub fn new(group: impl Into<Str>, version: impl Into<Str>, resource: impl Into<Str>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// Without the version.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.resource.clone() }
    }

    /// Without the resource.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }
}

impl fmt::Display for GroupVersion {
    /// `apps/v1`, `v1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        f.write_str(&self.version)
    }
}

fn dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    f.write_str(name)?;
    if !group.is_empty() {
        write!(f, ".{group}")?;
    }
    Ok(())
}

impl fmt::Display for GroupKind {
    /// `Deployment.apps`, `Pod`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.kind, &self.group)
    }
}

impl fmt::Display for GroupResource {
    /// `deployments.apps`, `pods`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.resource, &self.group)
    }
}

impl fmt::Display for GroupVersionKind {
    /// `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

impl fmt::Display for GroupVersionResource {
    /// `apps/v1, Resource=deployments`, `/v1, Resource=pods`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_version_reads_and_writes() {
        for (text, group, version) in [("v1", "", "v1"), ("apps/v1", "apps", "v1"), ("", "", ""), ("/v1", "", "v1")] {
            let gv = GroupVersion::parse(text).expect(text);
            assert_eq!((gv.group.as_str(), gv.version.as_str()), (group, version), "{text}");
        }
        assert_eq!(GroupVersion::new("apps", "v1").api_version(), "apps/v1");
        assert_eq!(GroupVersion::new("", "v1").api_version(), "v1");
        let err = GroupVersion::parse("a/b/c").expect_err("two slashes");
        assert_eq!(err.to_string(), "unexpected GroupVersion string: a/b/c");
        assert_eq!(GroupVersionKind::from_api_version("a/b/c", "K"), GroupVersionKind::new("", "", "K"));
    }

    #[test]
    fn names_read_like_upstreams() {
        let gv = GroupVersion::new("apps", "v1");
        assert_eq!(gv.kind("Deployment").to_string(), "apps/v1, Kind=Deployment");
        assert_eq!(gv.kind("Deployment").group_kind().to_string(), "Deployment.apps");
        assert_eq!(gv.resource("deployments").to_string(), "apps/v1, Resource=deployments");
        assert_eq!(gv.resource("deployments").group_resource().to_string(), "deployments.apps");
        assert_eq!(GroupVersion::new("", "v1").kind("Pod").to_string(), "/v1, Kind=Pod");
        assert_eq!(GroupResource::new("", "pods").to_string(), "pods");
    }
}
