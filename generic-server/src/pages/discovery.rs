//! `/api`, `/apis` and the documents below them, for the whole chain.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use async_trait::async_trait;
use http::{HeaderValue, Method, StatusCode, header};
use machinery::{
    Str,
    meta::{GroupVersion, status::Status},
};

use super::discovery_metrics::{Event, count};
use crate::discovery::{Document, Documents, Group, Listing, merge};
use crate::{
    body::Body,
    endpoint::{Endpoint, VersionEndpoints},
    negotiate::{Accepted, Form, Media, Offer, asks_for_one_server},
    request::Request,
    response::{self, Response},
    table::ResourceTable,
};

/// Groups that are served by others (the aggregator's remote servers).
pub trait RemoteGroups: Send + Sync {
    /// A number that changes whenever the groups do.
    fn generation(&self) -> u64;

    /// The groups as they are now.
    fn groups(&self) -> Vec<Group>;

    /// Groups of which only that counts which nobody else serves.
    fn others(&self) -> Vec<Group> {
        Vec::new()
    }
}

/// No remote groups.
pub struct NoRemotes;

impl RemoteGroups for NoRemotes {
    fn generation(&self) -> u64 {
        0
    }

    fn groups(&self) -> Vec<Group> {
        Vec::new()
    }
}

/// Discovery of a chain of servers.
pub struct Discovery {
    tables: Vec<Arc<ArcSwap<ResourceTable>>>,
    remotes: Arc<dyn RemoteGroups>,
    /// Where clients find this server.
    address: Str,
    made: ArcSwapOption<Made>,
    /// Discovery with what peers serve, which clients see who do not say that they want to know of this server alone.
    whole: Option<Arc<Discovery>>,
}

/// Documents, and the state of the rows they were made from.
struct Made {
    tables: Vec<Arc<ResourceTable>>,
    remotes: u64,
    remote_groups: Arc<Remote>,
    documents: Documents,
}

/// What others serve, by the groups' names.
#[derive(Default)]
struct Remote {
    groups: BTreeMap<Str, Vec<Group>>,
    /// Of these that which nobody else serves.
    others: BTreeMap<Str, Vec<Group>>,
}

impl Remote {
    fn names(&self) -> impl Iterator<Item = &Str> {
        self.groups.keys().chain(self.others.keys())
    }
}

impl Made {
    /// The names of the groups that may be others now.
    fn differences(&self, tables: &[Arc<ResourceTable>], remote: &Arc<Remote>) -> BTreeSet<Str> {
        let own = self.tables.iter().zip(tables).flat_map(|(before, now)| now.changed_groups(before));
        let mut changed: BTreeSet<Str> = own.collect();
        if !Arc::ptr_eq(&self.remote_groups, remote) {
            changed.extend(self.remote_groups.names().chain(remote.names()).cloned());
        }
        changed
    }
}

fn by_name(groups: Vec<Group>) -> BTreeMap<Str, Vec<Group>> {
    let mut by_name: BTreeMap<Str, Vec<Group>> = BTreeMap::new();
    for group in groups {
        by_name.entry(group.name.clone()).or_default().push(group);
    }
    by_name
}

impl Discovery {
    /// Of these servers' tables, and of what others serve.
    pub fn new(tables: Vec<Arc<ArcSwap<ResourceTable>>>, remotes: Arc<dyn RemoteGroups>, address: Str) -> Arc<Self> {
        Arc::new(Discovery { tables, remotes, address, made: ArcSwapOption::empty(), whole: None })
    }

    /// The same; clients that do not ask for this server alone (`profile=nopeer`) see all groups in another one.
    pub fn within(self: Arc<Self>, whole: Arc<Discovery>) -> Arc<Self> {
        let Discovery { tables, remotes, address, .. } = &*self;
        let (tables, remotes, address) = (tables.clone(), remotes.clone(), address.clone());
        Arc::new(Discovery { tables, remotes, address, made: ArcSwapOption::empty(), whole: Some(whole) })
    }

    /// The documents for the rows as they are now, and whether they had to be made. Only groups that may have changed are
    /// looked at.
    fn documents(&self) -> (Arc<Made>, bool) {
        let tables: Vec<Arc<ResourceTable>> = self.tables.iter().map(|t| t.load_full()).collect();
        let remotes = self.remotes.generation();
        let before = self.made.load_full();
        if let Some(made) = &before
            && made.remotes == remotes
            && made.tables.iter().zip(&tables).all(|(a, b)| Arc::ptr_eq(a, b))
        {
            return (made.clone(), false);
        }
        let known = before.as_ref().filter(|made| made.remotes == remotes).map(|made| made.remote_groups.clone());
        let remote_groups = known.unwrap_or_else(|| {
            Arc::new(Remote { groups: by_name(self.remotes.groups()), others: by_name(self.remotes.others()) })
        });
        let changed = match &before {
            Some(before) => before.differences(&tables, &remote_groups),
            None => tables.iter().flat_map(|t| t.group_names()).chain(remote_groups.names()).cloned().collect(),
        };
        let of_name = |name: Str| {
            let own = tables.iter().filter_map(|table| table.group(&name)).flat_map(|rows| rows.discovery());
            let parts = remote_groups.groups.get(&name).into_iter().flatten().chain(own).cloned();
            let mut group = merge(parts).pop();
            for other in remote_groups.others.get(&name).into_iter().flatten() {
                match &mut group {
                    Some(group) => group.complete(other),
                    None => group = Some(other.clone()),
                }
            }
            (name, group)
        };
        let none = Documents::default();
        let documents = before.as_ref().map_or(&none, |made| &made.documents).with(changed.into_iter().map(of_name));
        let made = Arc::new(Made { tables, remotes, remote_groups, documents });
        self.made.store(Some(made.clone()));
        count(Event::Made);
        (made, true)
    }

    fn answer(&self, request: &Request, place: &Place) -> Result<Response, Status> {
        let (made, _) = self.documents();
        let documents = &made.documents;
        let get_only = match place {
            Place::Core => true,
            Place::Version(GroupVersion { group, .. }) => self.is_built_in(group),
            Place::Groups { .. } | Place::Group(_) => false,
        };
        if get_only && request.method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        match place {
            Place::Core => {
                let accepted = response::accepted(request, &Offer { routed: true, ..Offer::DISCOVERY })?;
                if accepted.form == Form::Aggregated {
                    return Ok(aggregated(request, documents.aggregated_core(), accepted));
                }
                let versions = documents.core_versions(&self.address);
                Ok(response::document(StatusCode::OK, &versions, accepted))
            }
            Place::Groups { aggregates } => {
                let offer = if *aggregates { Offer::DISCOVERY } else { Offer { routed: false, ..Offer::WITHOUT_CBOR } };
                let accepted = response::accepted(request, &offer)?;
                if accepted.form == Form::Aggregated {
                    let accept = request.header("accept").unwrap_or_default();
                    if accept.contains("nopeer") && asks_for_one_server(accept) {
                        count(Event::Alone);
                    } else if let Some(whole) = &self.whole {
                        let (all, is_new) = whole.documents();
                        count(if is_new { Event::Miss } else { Event::Hit });
                        return Ok(aggregated(request, all.documents.aggregated_groups(), accepted));
                    }
                    return Ok(aggregated(request, documents.aggregated_groups(), accepted));
                }
                Ok(listing(documents.group_list(), accepted))
            }
            Place::Group(group) => {
                let accepted = response::accepted(request, &Offer { routed: false, ..Offer::WITHOUT_CBOR })?;
                documents.group(group).map(|d| plain(d, accepted)).ok_or_else(Status::path_not_found)
            }
            Place::Version(GroupVersion { group, version }) => {
                let offer = match self.is_built_in(group) {
                    true => Offer::PLAIN,
                    false => Offer { routed: false, ..Offer::WITHOUT_CBOR },
                };
                let accepted = response::accepted(request, &offer)?;
                documents.resources(group, version).map(|d| plain(d, accepted)).ok_or_else(Status::path_not_found)
            }
        }
    }

    /// Versions that are served, and all others of the built-in groups, which have no other owner.
    fn answers_for(&self, group: &str, version: &str) -> bool {
        self.documents().0.documents.resources(group, version).is_some() || self.is_built_in(group)
    }

    fn is_built_in(&self, group: &str) -> bool {
        self.tables.iter().any(|table| table.load().group(group).is_some_and(|rows| rows.is_built_in()))
    }

    fn knows_group(&self, group: &str) -> bool {
        self.documents().0.documents.has_group(group)
    }
}

/// A document of discovery.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    /// `/api`
    Core,
    /// `/apis`; with a slash behind it there is no aggregated form.
    Groups { aggregates: bool },
    /// `/apis/GROUP`
    Group(Str),
    /// `/apis/GROUP/VERSION` and `/api/VERSION`
    Version(GroupVersion),
}

impl Place {
    fn of(path: &str) -> Option<Place> {
        let parts: Vec<&str> = path.strip_prefix('/')?.trim_end_matches('/').split('/').collect();
        match parts.as_slice() {
            ["api"] => Some(Place::Core),
            ["apis"] => Some(Place::Groups { aggregates: path == "/apis" }),
            ["api", version] => Some(Place::Version(GroupVersion::new("", *version))),
            ["apis", group] => Some(Place::Group(Str::from(*group))),
            ["apis", group, version] => Some(Place::Version(GroupVersion::new(*group, *version))),
            _ => None,
        }
    }
}

fn plain(document: &Document, accepted: Accepted) -> Response {
    if accepted == Accepted::JSON {
        return response::object(StatusCode::OK, Body::full(document.json()), accepted);
    }
    response::document(StatusCode::OK, document.value(), accepted)
}

fn listing(listing: &Listing, accepted: Accepted) -> Response {
    if accepted.media == Media::Json && !accepted.pretty {
        return response::object(StatusCode::OK, Body::pieces(listing.json()), accepted);
    }
    response::document(StatusCode::OK, &listing.value(), accepted)
}

/// The aggregated form, which clients cache by its ETag.
fn aggregated(request: &Request, document: &Listing, accepted: Accepted) -> Response {
    let known = request.header("if-none-match").is_some_and(|tag| tag == document.etag().as_str());
    let mut response = if known {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        listing(document, accepted)
    };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(document.etag()) {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

/// One place, as an endpoint.
struct At {
    discovery: Arc<Discovery>,
    place: Place,
}

#[async_trait]
impl Endpoint for At {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        self.discovery.answer(&request, &self.place)
    }
}

/// Claims the paths of discovery. Groups that nobody serves are left to whoever comes behind.
pub struct DiscoveryPaths(pub Arc<Discovery>);

impl VersionEndpoints for DiscoveryPaths {
    fn endpoint(&self, request: &Request) -> Option<Arc<dyn Endpoint>> {
        if request.info.is_resource {
            return None;
        }
        let place = Place::of(&request.info.path)?;
        let ours = match &place {
            Place::Group(group) => self.0.knows_group(group),
            Place::Version(GroupVersion { group, version }) => self.0.answers_for(group, version),
            Place::Core | Place::Groups { .. } => true,
        };
        ours.then(|| Arc::new(At { discovery: self.0.clone(), place }) as Arc<dyn Endpoint>)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_from_paths() {
        let check = |path: &str, expect: Option<Place>| assert_eq!(Place::of(path), expect, "{path}");
        check("/api", Some(Place::Core));
        check("/api/", Some(Place::Core));
        check("/apis", Some(Place::Groups { aggregates: true }));
        check("/apis/", Some(Place::Groups { aggregates: false }));
        check("/api/v1/", Some(Place::Version(GroupVersion::new("", "v1"))));
        check("/apis/apps", Some(Place::Group("apps".into())));
        check("/apis/apps/v1", Some(Place::Version(GroupVersion::new("apps", "v1"))));
        check("/healthz", None);
        check("/api/v1/pods", None);
    }
}
