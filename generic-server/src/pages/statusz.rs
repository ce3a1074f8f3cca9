//! `/statusz`: since when the server runs, and what it is.

use std::{sync::Arc, time::SystemTime};

use async_trait::async_trait;
use machinery::{
    Value,
    meta::{TimeForm, Timestamp, status::Status},
    object,
};

use super::{heading, page};
use crate::{
    endpoint::Endpoint,
    features::{Minor, Versions},
    pages::Index,
    request::Request,
    response::Response,
};

/// The page.
pub struct Statusz {
    started: SystemTime,
    /// Without the `v` in front.
    version: &'static str,
    emulated: Minor,
    index: Arc<Index>,
}

impl Statusz {
    /// Of a server that starts now. `version` is like `v1.36.2`; `index` knows the paths.
    pub fn new(version: &'static str, versions: Versions, index: Arc<Index>) -> Self {
        let emulated = Minor(versions.emulated);
        Statusz { started: SystemTime::now(), version: version.trim_start_matches('v'), emulated, index }
    }

    fn uptime(&self) -> u64 {
        self.started.elapsed().map_or(0, |time| time.as_secs())
    }

    /// The first segments of all paths.
    fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> =
            self.index.paths().iter().filter_map(|path| Some(format!("/{}", path.split('/').nth(1)?))).collect();
        paths.dedup();
        paths
    }

    fn text(&self) -> String {
        let up = self.uptime();
        format!(
            "{}Started: {}\nUp: {} hr {:02} min {:02} sec\nGo version: {}\nBinary version: {}\nEmulation version: {}\n\
             Paths: {}\n",
            heading("statusz"),
            httpdate::fmt_http_date(self.started),
            up / 3600,
            up / 60 % 60,
            up % 60,
            concat!("rust ", env!("CARGO_PKG_RUST_VERSION")),
            self.version,
            self.emulated,
            self.paths().join(" "),
        )
    }

    fn document(&self) -> Value {
        let since = self.started.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
        object! {
            "startTime" => Timestamp::new(since.cast_signed(), 0).text(TimeForm::Seconds),
            "uptimeSeconds" => self.uptime().cast_signed(),
            "goVersion" => concat!("rust ", env!("CARGO_PKG_RUST_VERSION")),
            "binaryVersion" => self.version,
            "emulationVersion" => self.emulated.to_string(),
            "paths" => self.paths(),
        }
    }
}

#[async_trait]
impl Endpoint for Statusz {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        page(&request, "Statusz", || self.text(), || self.document())
    }
}
