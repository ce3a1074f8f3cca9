//! Pages for whoever looks after the server: `/statusz`, `/flagz`, `/debug/flags`, `/debug/pprof`. They are text that no
//! program should read; the first two have documents for programs beside it.

mod debug;
mod differences;
mod discovery;
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

pub use debug::{Profiles, SetVerbosity, Verbosity};
pub use differences::Differences;
pub use discovery::{Discovery, DiscoveryPaths, NoRemotes, RemoteGroups};
pub use flagz::Flagz;
pub use forks::Forks;
pub use index::{Build, Index, NothingHere, Version};
pub use logs::Logs;
pub use openapi::OpenApi;
pub use snapshots::Snapshots;
pub use socket::DebugSocket;
pub use statusz::Statusz;

use http::StatusCode;
use machinery::{Value, meta::status::Status};

use crate::{
    negotiate::{Accepted, Form, Media},
    request::Request,
    response::{self, Response},
};

/// What the component calls itself.
const COMPONENT: &str = "kube-apiserver";

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
fn wanted(accept: &str, kind: &str) -> Option<Wanted> {
    if accept.is_empty() {
        return Some(Wanted::Text);
    }
    let mut clauses: Vec<(f32, Wanted)> = accept.split(',').filter_map(|clause| clause_of(clause, kind)).collect();
    clauses.sort_by(|a, b| b.0.total_cmp(&a.0));
    clauses.first().map(|(_, wanted)| *wanted)
}

fn clause_of(clause: &str, kind: &str) -> Option<(f32, Wanted)> {
    let mut parts = clause.split(';').map(str::trim);
    let media = match parts.next()? {
        "text/plain" | "text/*" | "*/*" => None,
        "application/json" => Some(Media::Json),
        "application/yaml" => Some(Media::Yaml),
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
    match wanted(request.header("accept").unwrap_or(""), kind) {
        None => Err(Status::not_acceptable(&["application/json", "application/yaml", "text/plain"])),
        Some(Wanted::Text) => Ok(response::text(StatusCode::OK, text())),
        Some(Wanted::Document(media, version)) => {
            let mut document = document();
            document.set(&["kind"], kind);
            document.set(&["apiVersion"], format!("{GROUP}/{version}"));
            document.set(&["metadata", "name"], COMPONENT);
            let accepted = Accepted { media, form: Form::Whole, pretty: false };
            Ok(response::document(StatusCode::OK, &document, accepted))
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
        let check = |accept: &str, expect: Option<Wanted>| assert_eq!(wanted(accept, "Statusz"), expect, "{accept}");
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
        check("application/json;as=Statusz;v=v9;g=config.k8s.io", None);
    }
}
