//! What a server serves that behaves like an older version of Kubernetes: what that version had.

use std::collections::{BTreeMap, BTreeSet};

use machinery::meta::GroupVersionResource;

use super::{Enablement, REGISTERED, Resource, compare_versions};

/// Which version a server behaves like, and what else it serves.
#[derive(Clone, Copy, Debug)]
pub struct Emulation {
    /// The minor version of Kubernetes 1.
    pub minor: u32,
    /// `--emulation-forward-compatible`: newer versions, beta or stable, of what is served in an older one.
    pub forward: bool,
    /// `--runtime-config-emulation-forward-compatible`: what is switched on by its name, however new it is.
    pub named_forward: bool,
}

/// Whether a server serves the rows that were looked at while it behaves like an older version.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Emulated(BTreeMap<GroupVersionResource, bool>);

impl Emulated {
    /// Nothing, if the row is none that was looked at.
    pub(super) fn serves(&self, row: &Resource) -> Option<bool> {
        self.0.get(&row.gvr()).copied()
    }
}

/// What is switched on by its name, and is newer than the version that is emulated. Shown, it is what upstream says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmulationError {
    /// A version, none of whose resources is there.
    #[error(
        "cannot enable version {group}/{version} in runtime-config because all the resources have been introduced after the \
         current version 1.{emulated}. Consider setting --runtime-config-emulation-forward-compatible=true"
    )]
    Version {
        /// Its group.
        group: String,
        /// The version.
        version: String,
        /// The minor version that is emulated.
        emulated: u32,
    },
    /// A resource.
    #[error(
        "cannot enable resource {}/{}, Resource={} in runtime-config because it is introduced at 1.{introduced} after the \
         current version 1.{emulated}. Consider setting --runtime-config-emulation-forward-compatible=true",
        .resource.group, .resource.version, .resource.resource
    )]
    Resource {
        /// The resource.
        resource: GroupVersionResource,
        /// The minor version that has it first.
        introduced: u32,
        /// The minor version that is emulated.
        emulated: u32,
    },
}

impl Enablement {
    /// What is served of these rows by a server that behaves like an older version.
    ///
    /// # Errors
    /// What is switched on by its name and not there yet.
    pub fn emulating(mut self, emulation: Emulation, rows: &[Resource]) -> Result<Self, EmulationError> {
        let mut rows: Vec<&Resource> = rows.iter().collect();
        // What an older version of a resource is decides on the newer ones.
        rows.sort_by(|a, b| compare_versions(&b.version, &a.version));
        let (mut served, mut lasting) = (BTreeMap::new(), BTreeSet::new());
        for row in &rows {
            let resource = (row.group.clone(), row.plural.clone());
            let is_served =
                self.allows_emulating(emulation, row) && self.is_there(emulation, row, lasting.contains(&resource))?;
            served.insert(row.gvr(), is_served);
            if is_served && !is_alpha(&row.version) {
                lasting.insert(resource);
            }
        }
        for named in self.named_versions() {
            let mut of_version = served.iter().filter(|(resource, _)| resource.group_version() == *named).peekable();
            if of_version.peek().is_some() && !of_version.any(|(_, is_served)| *is_served) {
                return Err(EmulationError::Version {
                    group: named.group.to_string(),
                    version: named.version.to_string(),
                    emulated: emulation.minor,
                });
            }
        }
        self.emulated = Some(Emulated(served));
        Ok(self)
    }

    /// Whether a row is switched on, by what is said of it, or since an older version of it is.
    fn allows_emulating(&self, emulation: Emulation, row: &Resource) -> bool {
        let (group, version, plural) = (row.group.as_str(), row.version.as_str(), row.plural.as_str());
        let said = self.resource(group, version, plural).or_else(|| self.version(group, version));
        said.unwrap_or_else(|| {
            let older = || {
                let versions = REGISTERED.iter().find(|(known, _)| *known == group).map_or(&[][..], |(_, all)| *all);
                versions.iter().copied().filter(|v| compare_versions(v, version).is_gt() && !is_alpha(v))
            };
            let is_on = |v: &str| self.resource(group, v, plural) == Some(true) || self.allows_version(group, v);
            self.allows_version(group, version) || (emulation.forward && older().any(is_on))
        })
    }

    /// Whether a row is there although it may be newer. `lasting`: an older version of the resource is served, and no alpha.
    fn is_there(&self, emulation: Emulation, row: &Resource, lasting: bool) -> Result<bool, EmulationError> {
        let (introduced, minor) = (row.availability.introduced, emulation.minor);
        if row.availability.is_gone(minor) {
            return Ok(false);
        }
        let by_name = self.resource(&row.group, &row.version, &row.plural) == Some(true);
        if introduced <= minor || (emulation.forward && lasting) {
            return Ok(true);
        }
        if emulation.named_forward && (by_name || self.version(&row.group, &row.version) == Some(true)) {
            return Ok(true);
        }
        if by_name {
            let resource = GroupVersionResource {
                group: row.group.clone(),
                version: row.version.clone(),
                resource: row.plural.clone(),
            };
            return Err(EmulationError::Resource { resource, introduced, emulated: minor });
        }
        Ok(false)
    }
}

fn is_alpha(version: &str) -> bool {
    version.contains("alpha")
}
