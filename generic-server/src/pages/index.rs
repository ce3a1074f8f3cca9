//! `/`, `/index.html` and `/version`.

use std::sync::Weak;

use async_trait::async_trait;
use http::{Method, StatusCode};
use machinery::{Map, Str, Value, meta::status::Status, object};

use prometheus::{IntGaugeVec, Opts};

use crate::{
    endpoint::Endpoint,
    features::{Minor, Versions},
    metrics::{Metrics, register},
    negotiate::{Accepted, Media, Offer},
    request::Request,
    response::{self, Response},
    server::GenericServer,
};

/// The list of all paths of a chain.
#[derive(Default)]
pub struct Index(pub Weak<GenericServer>);

impl Index {
    /// All paths that are listed, sorted.
    pub fn paths(&self) -> Vec<Str> {
        self.0.upgrade().map(|front| front.all_paths().into_iter().collect()).unwrap_or_default()
    }
}

#[async_trait]
impl Endpoint for Index {
    async fn serve(&self, _request: Request) -> Result<Response, Status> {
        let paths: Value = self.paths().into_iter().map(Value::from).collect();
        let text = machinery::codec::json::encode_pretty(&object! { "paths" => paths });
        Ok(response::bytes(StatusCode::OK, Media::Json.name(), text.into()))
    }
}

/// What was built.
#[derive(Clone, Debug)]
pub struct Build {
    /// The version that is reported: `v1.36.2`, `v1.36.2-custom`.
    pub version: String,
    /// The commit; empty if it is not known.
    pub commit: &'static str,
    /// Whether the sources were those of the commit: `clean` or `dirty`; empty if it is not known.
    pub tree_state: &'static str,
    /// When it was built, as RFC 3339.
    pub date: String,
    /// The versions that it behaves by.
    pub versions: Versions,
}

impl Build {
    /// What every answer about it says, in upstream's order.
    fn facts(&self) -> [(&'static str, &'static str, String); 13] {
        let mut parts = self.version.trim_start_matches('v').split('.');
        let mut next = || parts.next().unwrap_or_default().to_owned();
        let (major, minor) = (next(), next());
        let Versions { emulated, compatible } = self.versions;
        [
            ("major", "Major", major.clone()),
            ("minor", "Minor", minor),
            ("emulationMajor", "EmulationMajor", major.clone()),
            ("emulationMinor", "EmulationMinor", emulated.to_string()),
            ("minCompatibilityMajor", "MinCompatibilityMajor", major),
            ("minCompatibilityMinor", "MinCompatibilityMinor", compatible.to_string()),
            ("gitVersion", "GitVersion", self.version.clone()),
            ("gitCommit", "GitCommit", self.commit.to_owned()),
            ("gitTreeState", "GitTreeState", self.tree_state.to_owned()),
            ("buildDate", "BuildDate", self.date.clone()),
            ("goVersion", "GoVersion", concat!("rust ", env!("CARGO_PKG_RUST_VERSION")).to_owned()),
            ("compiler", "Compiler", "rustc".to_owned()),
            ("platform", "Platform", format!("{}/{}", std::env::consts::OS, go_architecture())),
        ]
    }

    /// Has the metrics say what build this is.
    pub fn describe(&self, metrics: &Metrics) {
        const LABELS: [(&str, &str); 9] = [
            ("major", "major"),
            ("minor", "minor"),
            ("git_version", "gitVersion"),
            ("git_commit", "gitCommit"),
            ("git_tree_state", "gitTreeState"),
            ("build_date", "buildDate"),
            ("go_version", "goVersion"),
            ("compiler", "compiler"),
            ("platform", "platform"),
        ];
        let facts = self.facts();
        let value = |fact| facts.iter().find(|(key, ..)| *key == fact).map_or("", |(_, _, value)| value.as_str());
        let info = Opts::new("kubernetes_build_info", "1, with what build this is.");
        let info = register(metrics.registry(), IntGaugeVec::new(info, &LABELS.map(|(label, _)| label)));
        info.with_label_values(&LABELS.map(|(_, fact)| value(fact))).set(1);
        let Versions { emulated, compatible } = self.versions;
        let binary = self.version.trim_start_matches('v');
        let info = Opts::new("version_info", "1, with the versions that the component behaves by.");
        let info =
            register(metrics.registry(), IntGaugeVec::new(info, &["component", "binary", "emulation", "min_compat"]));
        info.with_label_values(&["kube", binary, &Minor(emulated).to_string(), &Minor(compatible).to_string()]).set(1);
    }

    /// What `--version=raw` shows. What the server is compatible with is not said there.
    pub fn raw(&self) -> String {
        let shown = self.facts().map(|(key, member, value)| {
            let held = if key.starts_with("emulation") || key.starts_with("minCompat") { String::new() } else { value };
            format!("{member}:{held:?}")
        });
        format!("version.Info{{{}}}", shown.join(", "))
    }
}

/// The version, as clients read it.
pub struct Version(Value);

impl Version {
    /// Of a build.
    pub fn new(build: &Build) -> Self {
        let facts = build.facts().into_iter().map(|(key, _, value)| (Str::new_static(key), Value::from(value)));
        Version(facts.collect::<Map>().into())
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
        // A router looks at the media type, and nobody at its parameters.
        if !Offer::JSON.has_media(request.header("accept").unwrap_or("")) {
            response::accepted(&request, &Offer::JSON)?;
        }
        // Meant for people, whoever asks.
        let document = response::document(StatusCode::OK, &self.0, Accepted { pretty: true, ..Accepted::JSON });
        Ok(response::unrecorded(document))
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
