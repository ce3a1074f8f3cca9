//! `/`, `/index.html` and `/version`.

use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use http::{Method, StatusCode};
use machinery::{Str, Value, meta::status::Status, object};

use crate::{
    negotiate::{Accepted, Media, Offer},
    pipeline::respond::{self, Response},
    request::Request,
    server::{Endpoint, GenericServer},
};

/// The list of all paths of a chain.
#[derive(Default)]
pub struct Index(OnceLock<Weak<GenericServer>>);

impl Index {
    /// Says whose paths to list, once the front server is there.
    pub fn set(&self, front: &Arc<GenericServer>) {
        if self.0.set(Arc::downgrade(front)).is_err() {
            unreachable!("the index is set once, when the chain is linked");
        }
    }

    /// All paths that are listed, sorted.
    pub fn paths(&self) -> Vec<Str> {
        let front = self.0.get().and_then(Weak::upgrade);
        front.map(|front| front.all_paths().into_iter().collect()).unwrap_or_default()
    }
}

#[async_trait]
impl Endpoint for Index {
    async fn serve(&self, _request: Request) -> Result<Response, Status> {
        let paths: Value = self.paths().into_iter().map(Value::from).collect();
        let text = machinery::codec::json::encode_pretty(&object! { "paths" => paths });
        Ok(respond::bytes(StatusCode::OK, Media::Json.name(), text.into()))
    }
}

/// The version, as clients read it.
pub struct Version(pub Value);

impl Version {
    /// Of `v1.36.2` and the like.
    pub fn new(git_version: &str) -> Self {
        let mut parts = git_version.trim_start_matches('v').split('.');
        let (major, minor) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let before = minor.parse::<u32>().map_or(0, |m| m.saturating_sub(1)).to_string();
        Version(object! {
            "major" => major, "minor" => minor,
            "emulationMajor" => major, "emulationMinor" => minor,
            "minCompatibilityMajor" => major, "minCompatibilityMinor" => before,
            "gitVersion" => git_version, "gitCommit" => option_env!("GIT_COMMIT").unwrap_or("unknown"),
            "gitTreeState" => "", "buildDate" => "1970-01-01T00:00:00Z",
            "goVersion" => concat!("rust ", env!("CARGO_PKG_RUST_VERSION")), "compiler" => "rustc",
            "platform" => format!("{}/{}", std::env::consts::OS, go_architecture()),
        })
    }
}

/// The architecture by Go's name, which clients compare.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[async_trait]
impl Endpoint for Version {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        if request.method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        let accepted = respond::accepted(&request, &Offer::JSON)?;
        // Meant for people, whoever asks.
        Ok(respond::document(StatusCode::OK, &self.0, Accepted { pretty: true, ..accepted }))
    }
}

/// A path below another one that has nothing there.
pub struct NothingHere;

#[async_trait]
impl Endpoint for NothingHere {
    async fn serve(&self, _request: Request) -> Result<Response, Status> {
        Err(Status::path_not_found())
    }
}
