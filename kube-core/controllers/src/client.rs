//! The way in for controllers: requests that go through this server's own pipeline, each controller as the service account
//! that kube-controller-manager gives it, so that the bootstrap policy's roles hold for them and audit tells them apart.

mod watch;

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use auth::User;
use bytes::Bytes;
use generic_server::{Body, pipeline::Pipeline};
use http::{
    HeaderValue, Method, Request,
    header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT},
};
use http_body_util::BodyExt;
use machinery::{
    Str, Value,
    codec::json,
    meta::{GroupResource, status::Status},
    object,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync;

pub(crate) use watch::Watch;

/// Fields are managed under kube-controller-manager's name, so that both take over from each other without conflicts.
const AGENT: &str = concat!("kube-controller-manager/v", env!("CARGO_PKG_VERSION"), " (in kube-apiserver)");
const JSON: &str = "application/json";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// What other servers may have or not; whole objects hold their metadata, too.
const METADATA_OR_ALL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST_OR_ALL: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// Objects on a page of a list of another server.
const PAGE: usize = 500;
/// How often a request is sent that the server has asked to send later (client-go: the same).
const MAX_ATTEMPTS: usize = 10;
/// No pause between attempts is longer, whatever is asked for.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// What paths leave as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// A name as a part of a path.
pub(crate) fn segment(name: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(name, SEGMENT)
}

/// Where the pipeline will be once the server is built. Clones are handles to the same one.
#[derive(Clone)]
pub struct Door(sync::watch::Sender<Option<Weak<Pipeline>>>);

impl Default for Door {
    fn default() -> Self {
        Door(sync::watch::Sender::new(None))
    }
}

impl Door {
    /// Lets requests in.
    pub fn open(&self, pipeline: &Arc<Pipeline>) {
        self.0.send_replace(Some(Arc::downgrade(pipeline)));
    }

    async fn pipeline(&self) -> Result<Arc<Pipeline>, Status> {
        let mut known = self.0.subscribe();
        let found = known.wait_for(Option::is_some).await.ok().and_then(|found| found.as_ref()?.upgrade());
        found.ok_or_else(|| Status::service_unavailable("the server is shutting down"))
    }
}

/// Who asks.
#[derive(Clone)]
pub(crate) struct Client {
    door: Door,
    user: Arc<User>,
}

/// How a deletion is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deletion<'a> {
    /// Background, Foreground or Orphan; empty: the kind's default.
    pub(crate) propagation: &'a str,
    /// Only the object with this uid; empty: any.
    pub(crate) uid: &'a str,
    /// Only the object at this resourceVersion; empty: any.
    pub(crate) version: &'a str,
}

impl Client {
    /// The client of the controller whose service account in kube-system has this name.
    pub(crate) fn of_controller(door: Door, account: &str) -> Self {
        let user = User {
            name: Str::from(format!("system:serviceaccount:kube-system:{account}")),
            groups: ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"]
                .map(Str::new_static)
                .to_vec(),
            ..User::default()
        };
        Client { door, user: Arc::new(user) }
    }

    /// The client of the server itself.
    pub(crate) fn of_server(door: Door) -> Self {
        Client { door, user: Arc::new(User::loopback()) }
    }

    /// Sends a request; what is to be sent again later is, a few times. The answer is a success, and its body may be still to come.
    async fn begin(
        &self,
        method: Method,
        path: &str,
        (accept, content_type): (&'static str, &'static str),
        body: Bytes,
    ) -> Result<http::Response<Body>, Status> {
        let uri: http::Uri = path.parse().map_err(|_| Status::internal_error(format!("not a path: {path}")))?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut request = Request::new(body.clone());
            *request.method_mut() = method.clone();
            *request.uri_mut() = uri.clone();
            let headers = request.headers_mut();
            headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            if !body.is_empty() {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            }
            let response = self.door.pipeline().await?.handle_as(self.user.clone(), request).await;
            if response.status().is_success() {
                return Ok(response);
            }
            let later = response.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse().ok());
            match later.filter(|_| attempts < MAX_ATTEMPTS) {
                Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds).min(MAX_PAUSE)).await,
                None => return Err(failure(&whole(response).await?)),
            }
        }
    }

    /// Sends a request, as often as it takes, and reads the answer.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        media: (&'static str, &'static str),
        body: Bytes,
    ) -> Result<Bytes, Status> {
        Ok(whole(self.begin(method, path, media, body).await?).await?.into_body())
    }

    async fn exchange(&self, method: Method, path: &str, document: Option<&Value>) -> Result<Value, Status> {
        let body = document.map(json::encode).unwrap_or_default().into();
        decoded(&self.send(method, path, (JSON, JSON), body).await?)
    }

    /// Reads what is at a path; `accept` may be a form of its own.
    pub(crate) async fn get(&self, path: &str, accept: &'static str) -> Result<Value, Status> {
        decoded(&self.send(Method::GET, path, (accept, JSON), Bytes::new()).await?)
    }

    /// The metadata of the objects in a collection.
    pub(crate) async fn list_metadata(&self, path: &str) -> Result<Vec<Value>, Status> {
        let list = self.get(path, METADATA_LIST).await?;
        Ok(list.get("items").and_then(Value::as_array).unwrap_or_default().to_vec())
    }

    /// The metadata of an object that another server may have.
    pub(crate) async fn get_remote(&self, path: &str) -> Result<Value, Status> {
        self.get(path, METADATA_OR_ALL).await
    }

    /// A page of the objects in a collection that another server has; an empty token: the first one.
    pub(crate) async fn list_remote(&self, path: &str, token: &str) -> Result<Value, Status> {
        self.get(&format!("{path}?limit={PAGE}&continue={}", segment(token)), METADATA_LIST_OR_ALL).await
    }

    /// What happens to the objects in a collection that another server has, from a resourceVersion on.
    pub(crate) async fn watch_remote(&self, path: &str, version: &str, time: Duration) -> Result<Watch, Status> {
        let path = format!(
            "{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
            time.as_secs(),
            segment(version)
        );
        let response = self.begin(Method::GET, &path, (METADATA_OR_ALL, JSON), Bytes::new()).await?;
        Ok(Watch::new(response.into_body()))
    }

    /// Makes an object in a collection.
    pub(crate) async fn create(&self, collection: &str, object: &Value) -> Result<Value, Status> {
        self.exchange(Method::POST, collection, Some(object)).await
    }

    /// Writes an object, or a subresource of it.
    pub(crate) async fn update(&self, path: &str, object: &Value) -> Result<Value, Status> {
        self.exchange(Method::PUT, path, Some(object)).await
    }

    /// Changes an object by a JSON merge patch.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Result<Value, Status> {
        let body = json::encode(patch).into();
        decoded(&self.send(Method::PATCH, path, (JSON, "application/merge-patch+json"), body).await?)
    }

    /// Deletes an object.
    pub(crate) async fn delete(&self, path: &str, deletion: Deletion<'_>) -> Result<(), Status> {
        let body = json::encode(&deletion.options()).into();
        self.send(Method::DELETE, path, (JSON, JSON), body).await.map(|_| ())
    }

    /// Deletes the objects of a collection.
    pub(crate) async fn delete_collection(&self, path: &str, deletion: Deletion<'_>) -> Result<(), Status> {
        let body = json::encode(&deletion.options()).into();
        self.send(Method::DELETE, path, (METADATA_LIST, JSON), body).await.map(|_| ())
    }
}

impl Deletion<'_> {
    fn options(&self) -> Value {
        let mut options = object! { "kind" => "DeleteOptions", "apiVersion" => "v1" };
        if !self.propagation.is_empty() {
            options.set(&["propagationPolicy"], self.propagation);
        }
        if !self.uid.is_empty() {
            options.set(&["preconditions", "uid"], self.uid);
        }
        if !self.version.is_empty() {
            options.set(&["preconditions", "resourceVersion"], self.version);
        }
        options
    }
}

fn decoded(body: &Bytes) -> Result<Value, Status> {
    json::decode(body).map_err(|error| Status::internal_error(format!("an answer that is no JSON: {error}")))
}

/// An answer whose body was waited for.
async fn whole(response: http::Response<Body>) -> Result<http::Response<Bytes>, Status> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map_err(|error| Status::internal_error(error.to_string()))?;
    Ok(http::Response::from_parts(parts, body.to_bytes()))
}

/// What a refusal says; if it is no Status, what its code means.
fn failure(response: &http::Response<Bytes>) -> Status {
    let status = json::decode(response.body()).ok().and_then(|body| Status::from_value(&body));
    status.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(response.body());
        Status::generic(response.status().as_u16(), "", &GroupResource::default(), "", text.trim(), 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_not_served_is_not_found() {
        let answer = |code: u16, body: &'static str| {
            failure(
                &http::Response::builder().status(code).body(Bytes::from_static(body.as_bytes())).expect("an answer"),
            )
        };
        assert!(answer(404, "404 page not found\n").is_not_found());
        assert!(!answer(503, "service unavailable\n").is_not_found());
        let conflict = answer(
            409,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"m","reason":"Conflict","code":409}"#,
        );
        assert_eq!((conflict.code, &*conflict.message), (409, "m"));
    }

    #[test]
    fn deletions_say_what_must_hold() {
        let check = |deletion: Deletion<'_>, expect: &str| {
            let options = json::encode_text(&deletion.options());
            assert_eq!(options, format!(r#"{{"apiVersion":"v1","kind":"DeleteOptions"{expect}}}"#));
        };
        check(Deletion::default(), "");
        check(
            Deletion { propagation: "Background", uid: "u", version: "7" },
            r#","preconditions":{"resourceVersion":"7","uid":"u"},"propagationPolicy":"Background""#,
        );
    }

    #[test]
    fn names_are_parts_of_paths() {
        let check = |name: &str, expect: &str| assert_eq!(segment(name).to_string(), expect);
        check("system:controller:x-1.y", "system:controller:x-1.y");
        check("a b?#ü", "a%20b%3F%23%C3%BC");
    }

    #[test]
    fn a_refusal_that_is_no_status_keeps_its_code() {
        let response = |code: u16, body: &str| {
            let mut response = http::Response::new(Bytes::copy_from_slice(body.as_bytes()));
            *response.status_mut() = http::StatusCode::from_u16(code).expect("a code");
            response
        };
        assert_eq!(failure(&response(429, "Too many requests\n")).code, 429);
        let sent = json::encode(&Status::conflict(&Default::default(), "x", "why").to_value());
        let status = failure(&response(409, std::str::from_utf8(&sent).expect("text")));
        assert!(status.is_conflict(), "{status:?}");
    }
}
