//! `GenericServer`: what it claims, it serves; what it does not claim goes to its delegate.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Weak},
};

use arc_swap::ArcSwap;
use http::header::WARNING;
use machinery::{Str, meta::status::Status};

use crate::{
    endpoint::{Endpoint, VersionEndpoints},
    handlers,
    metrics::Metrics,
    request::Request,
    response::{self, Response, page_not_found},
    table::{ResourceTable, TableEntry},
};
use machinery::request::Route;

/// What a server answers for beyond its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerScope {
    /// All of a group that has a row of a built-in type: an unknown version or resource in it is a 404 with a Status.
    Groups,
    /// Only the resources that have a row: anything else is the delegate's.
    Resources,
}

/// One server of the chain.
pub struct GenericServer {
    /// A name for logs.
    pub name: &'static str,
    claims: ServerScope,
    table: Arc<ArcSwap<ResourceTable>>,
    paths: HashMap<Str, Arc<dyn Endpoint>>,
    prefixes: Vec<(Str, Arc<dyn Endpoint>)>,
    unlisted: BTreeSet<Str>,
    versions: Option<Arc<dyn VersionEndpoints>>,
    delegate: Option<Arc<GenericServer>>,
}

/// Builds a server.
pub struct Builder(GenericServer);

impl Builder {
    /// A server that has nothing yet.
    pub fn new(name: &'static str, claims: ServerScope) -> Self {
        Builder(GenericServer {
            name,
            claims,
            table: Arc::default(),
            paths: HashMap::new(),
            prefixes: Vec::new(),
            unlisted: BTreeSet::new(),
            versions: None,
            delegate: None,
        })
    }

    /// With these rows; the owner of the `ArcSwap` may exchange them later.
    #[must_use]
    pub fn table(mut self, table: Arc<ArcSwap<ResourceTable>>) -> Self {
        self.0.table = table;
        self
    }

    /// Serves one path.
    #[must_use]
    pub fn path(mut self, path: impl Into<Str>, endpoint: Arc<dyn Endpoint>) -> Self {
        self.0.paths.insert(path.into(), endpoint);
        self
    }

    /// Serves one path that the index does not list.
    #[must_use]
    pub fn unlisted(mut self, path: impl Into<Str>, endpoint: Arc<dyn Endpoint>) -> Self {
        let path = path.into();
        self.0.unlisted.insert(path.clone());
        self.path(path, endpoint)
    }

    /// Serves all paths that start so.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<Str>, endpoint: Arc<dyn Endpoint>) -> Self {
        self.0.prefixes.push((prefix.into(), endpoint));
        self
    }

    /// Whole group versions by a rule.
    #[must_use]
    pub fn versions(mut self, versions: Arc<dyn VersionEndpoints>) -> Self {
        self.0.versions = Some(versions);
        self
    }

    /// Where requests go that this server does not claim.
    #[must_use]
    pub fn delegate(mut self, delegate: Arc<GenericServer>) -> Self {
        self.0.delegate = Some(delegate);
        self
    }

    /// The server.
    pub fn build(self) -> Arc<GenericServer> {
        Arc::new(self.0)
    }

    /// The server, with pages that show the server itself.
    pub fn build_cyclic(self, pages: impl FnOnce(Self, &Weak<GenericServer>) -> Self) -> Arc<GenericServer> {
        Arc::new_cyclic(|server| pages(self, server).0)
    }
}

/// Serves a row; whatever comes of it, the user of a deprecated version is told so first.
async fn serve_row(request: Request, entry: Arc<TableEntry>) -> Result<Response, Status> {
    let Some(deprecation) = entry.row.deprecation.clone() else { return handlers::serve(request, entry).await };
    if let Some(metrics) = request.extensions.get::<Arc<Metrics>>() {
        metrics.deprecated(&entry.row, &request.info.subresource, &deprecation.removed_in);
    }
    let (wanted, audit) = (response::wanted(&request), request.audit.clone());
    let answer = handlers::serve(request, entry).await;
    // What has no route has none to warn of, nor has what a route does not take or give: its status is in its text.
    let is_routed = |status: &Status| {
        ![Status::path_not_found(), Status::method_not_allowed()].contains(status)
            && !["406: ", "415: "].iter().any(|code| status.message.starts_with(code))
    };
    if answer.as_ref().is_err_and(|status| !is_routed(status)) {
        return answer;
    }
    audit.annotate_at_end("k8s.io/deprecated", "true");
    if !deprecation.removed_in.is_empty() {
        audit.annotate_at_end("k8s.io/removed-release", deprecation.removed_in);
    }
    let mut response = answer.unwrap_or_else(|status| response::error(&status, wanted));
    let later: Vec<_> = response.headers().get_all(WARNING).iter().cloned().collect();
    response.headers_mut().remove(WARNING);
    let mut response = response::add_warnings(response, &[deprecation.warning.to_string()]);
    let headers = response.headers_mut();
    later.into_iter().for_each(|warning| {
        headers.append(WARNING, warning);
    });
    Ok(response)
}

/// What a server makes of a request.
enum Claim {
    Resource(Arc<TableEntry>),
    Endpoint(Arc<dyn Endpoint>),
    /// The group version is ours, but there is no such thing in it.
    NoSuchResource,
}

impl GenericServer {
    /// Answers a request that has passed the pipeline: this server or the first delegate that claims it, else a 404.
    pub async fn serve(&self, request: Request) -> Result<Response, Status> {
        let mut server = self;
        loop {
            match server.claim(&request) {
                Some(Claim::Resource(entry)) => return serve_row(request, entry).await,
                Some(Claim::Endpoint(endpoint)) => return endpoint.serve(request).await,
                Some(Claim::NoSuchResource) => return Err(Status::path_not_found()),
                None => match &server.delegate {
                    Some(delegate) => server = delegate,
                    None => return Ok(page_not_found()),
                },
            }
        }
    }

    fn claim(&self, request: &Request) -> Option<Claim> {
        let info = &request.info;
        if let Some(endpoint) = self.paths.get(&info.path) {
            return Some(Claim::Endpoint(endpoint.clone()));
        }
        if let Some(endpoint) = self.versions.as_ref().and_then(|versions| versions.endpoint(request)) {
            return Some(Claim::Endpoint(endpoint));
        }
        if info.is_resource && !info.path.starts_with("//") {
            let table = self.table.load();
            let entry = table.get(&info.group, &info.version, &info.resource);
            match entry {
                Some(entry) if info.route != Route::Malformed => return Some(Claim::Resource(entry.clone())),
                _ if self.claims == ServerScope::Groups
                    && table.group(&info.group).is_some_and(|g| g.is_built_in()) =>
                {
                    return Some(Claim::NoSuchResource);
                }
                _ => {}
            }
        }
        self.prefixes
            .iter()
            .find(|(prefix, _)| info.path.starts_with(prefix.as_str()))
            .map(|(_, endpoint)| Claim::Endpoint(endpoint.clone()))
    }

    /// The rows of this server as they are now.
    pub fn table(&self) -> arc_swap::Guard<Arc<ResourceTable>> {
        self.table.load()
    }

    /// The paths of this server and its delegates, for the index page.
    pub fn all_paths(&self) -> BTreeSet<Str> {
        let mut all = BTreeSet::new();
        let mut server = Some(self);
        while let Some(this) = server {
            all.extend(this.paths.keys().filter(|path| !this.unlisted.contains(*path)).cloned());
            all.extend(this.prefixes.iter().flat_map(|(_, endpoint)| endpoint.listed()).map(Str::from));
            if this.versions.is_some() {
                all.extend(["/api", "/apis", "/apis/"].map(Str::new_static));
            }
            for entry in this.table.load().entries() {
                let row = &entry.row;
                if row.group.is_empty() {
                    all.insert(Str::from(format!("/api/{}", row.version)));
                } else {
                    all.insert(Str::from(format!("/apis/{}", row.group)));
                    all.insert(Str::from(format!("/apis/{}/{}", row.group, row.version)));
                }
            }
            server = this.delegate.as_deref();
        }
        all
    }
}
