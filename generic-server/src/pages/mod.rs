//! Pages for whoever looks after the server: `/statusz`, `/flagz`, `/debug/flags`, `/debug/pprof`. They are text that no
//! program should read; the first two have documents for programs beside it.

mod debug;
mod differences;
mod discovery;
mod discovery_metrics;
mod file;
mod flagz;
mod forks;
mod index;
mod logs;
mod openapi;
mod profile;
mod snapshots;
mod socket;
mod statusz;

pub use debug::{Profiles, SetVerbosity, Verbosity, VerbosityError};
pub use differences::Differences;
pub use discovery::{Discovery, DiscoveryPaths, NoRemotes, RemoteGroups};
pub use discovery_metrics::register_discovery;
pub use flagz::Flagz;
pub use forks::Forks;
pub use index::{Build, Index, NothingHere, Version};
pub use logs::Logs;
pub use openapi::OpenApi;
pub use snapshots::Snapshots;
pub use socket::DebugSocket;
pub use statusz::Statusz;

use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use machinery::{Value, meta::status::Status};

use crate::{
    negotiate::{Accepted, Form, Media},
    request::Request,
    response::{self, Response},
};

/// What the component calls itself.
const COMPONENT: &str = "apiserver";

const GROUP: &str = "config.k8s.io";
/// The versions of the documents, which are the same.
const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];

/// How a client wants a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Text,
    /// As a document of this version.
    Document(Media, &'static str),
}

/// Reads `Accept`. Documents must be asked for by their kind: what is accepted by its media type alone is the text.
fn wanted(accept: &str, kind: &str, serves_cbor: bool) -> Option<Wanted> {
    if accept.is_empty() {
        return Some(Wanted::Text);
    }
    let mut clauses: Vec<(f32, Wanted)> = accept.split(',').filter_map(|clause| clause_of(clause, kind)).collect();
    clauses.retain(|(_, wanted)| serves_cbor || !matches!(wanted, Wanted::Document(Media::Cbor, _)));
    clauses.sort_by(|a, b| b.0.total_cmp(&a.0));
    clauses.first().map(|(_, wanted)| *wanted)
}

fn clause_of(clause: &str, kind: &str) -> Option<(f32, Wanted)> {
    let mut parts = clause.split(';').map(str::trim);
    let media = match parts.next()? {
        "text/plain" | "text/*" | "*/*" => None,
        "application/json" => Some(Media::Json),
        "application/yaml" => Some(Media::Yaml),
        "application/cbor" => Some(Media::Cbor),
        _ => return None,
    };
    let (mut quality, mut asked) = (1.0, [None; 3]);
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        match name {
            "q" => quality = value.parse().unwrap_or(1.0),
            "as" => asked[0] = Some(value),
            "g" => asked[1] = Some(value),
            "v" => asked[2] = Some(value),
            _ => {}
        }
    }
    match (media, asked) {
        (None, _) => Some((quality, Wanted::Text)),
        (Some(media), [Some(as_kind), Some(GROUP), Some(version)]) if as_kind == kind => {
            let version = VERSIONS.into_iter().find(|known| *known == version)?;
            Some((quality, Wanted::Document(media, version)))
        }
        _ => None,
    }
}

/// Answers with the text or the document of a page. `document` is without kind and apiVersion.
fn page(
    request: &Request,
    kind: &'static str,
    text: impl FnOnce() -> String,
    document: impl FnOnce() -> Value,
) -> Result<Response, Status> {
    let serves_cbor = request.serves_cbor();
    match wanted(request.header("accept").unwrap_or(""), kind, serves_cbor) {
        None => {
            let known = ["application/json", "application/yaml", "text/plain", "application/cbor"];
            Err(Status::not_acceptable(&known[..if serves_cbor { 4 } else { 3 }]))
        }
        Some(Wanted::Text) => Ok(response::text(StatusCode::OK, text())),
        Some(Wanted::Document(media, version)) => {
            let mut document = document();
            document.set(&["kind"], kind);
            document.set(&["apiVersion"], format!("{GROUP}/{version}"));
            document.set(&["metadata", "name"], COMPONENT);
            let accepted = Accepted { media, form: Form::Whole, pretty: false };
            let mut response = response::document(StatusCode::OK, &document, accepted);
            let content_type = format!("{};g={GROUP};v={version};as={kind}", media.name());
            if let Ok(content_type) = HeaderValue::from_str(&content_type) {
                response.headers_mut().insert(CONTENT_TYPE, content_type);
            }
            Ok(response)
        }
    }
}

/// The first lines of the text of a page.
fn heading(page: &str) -> String {
    format!(
        "\n{COMPONENT} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
         guarantees and is for debugging purposes only.\n\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_for_whoever_names_no_document() {
        let check =
            |accept: &str, expect: Option<Wanted>| assert_eq!(wanted(accept, "Statusz", false), expect, "{accept}");
        check("", Some(Wanted::Text));
        check("*/*", Some(Wanted::Text));
        check("text/plain;q=0.1", Some(Wanted::Text));
        check("application/json", None);
        check("text/html", None);
        let document = "application/json;as=Statusz;v=v1alpha1;g=config.k8s.io";
        check(document, Some(Wanted::Document(Media::Json, "v1alpha1")));
        check(&format!("{document};q=0.5,text/plain"), Some(Wanted::Text));
        check("application/yaml;as=Statusz;v=v1beta1;g=config.k8s.io", Some(Wanted::Document(Media::Yaml, "v1beta1")));
        check("application/json;as=Flagz;v=v1beta1;g=config.k8s.io", None);
        let cbor = "application/cbor;as=Statusz;v=v1beta1;g=config.k8s.io";
        check(cbor, None);
        assert_eq!(wanted(cbor, "Statusz", true), Some(Wanted::Document(Media::Cbor, "v1beta1")));
        check("application/json;as=Statusz;v=v9;g=config.k8s.io", None);
    }
}
