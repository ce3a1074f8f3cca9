//! GET with `watch`: what happens to a collection, as it happens.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use machinery::{
    Str, Value,
    codec::json,
    meta::{field_error::FieldError, status::Status},
    object, schema,
};
use storage::cache::{CacheError, EventType, ReadAt, Scope, Start, WatchEvent, WatchOptions, Watcher};
use streaming::websocket::is_websocket;

use super::{
    Target, converted,
    list_options::{ListOptions, Selection},
    span,
    transform::View,
    websocket,
};
use crate::registry::read_error;
use crate::{
    body::Body,
    metrics::Metrics,
    negotiate::{Form, Media},
    offload,
    registry::Lister,
    request::Request,
    response::{self, Response},
    serve::Lifecycle,
    table::TableEntry,
};

/// Answers the request.
pub(super) async fn serve(mut target: Target) -> Result<Response, Status> {
    let begun = Instant::now();
    let view = View::of_request(&target.request, &target.entry)?.compact();
    if view.media() == Media::Yaml {
        let streams = Media::readable(&target.request.extensions).iter().filter_map(|media| media.stream_name());
        return Err(Status::not_acceptable(&streams.collect::<Vec<_>>()));
    }
    let features = &target.registry.settings().features;
    let options = ListOptions::read(&target.request, &target.entry.row, true, features)?;
    let name = &target.request.info.name;
    if !name.is_empty() && !options.selection.is_of(name) {
        return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
    }
    let start = start_of(&options)?;
    let selected = view.remote_version().is_some() && options.selection.looks_into_objects();
    let selection = selected.then(|| options.selection.clone());
    let options = match &selection {
        Some(selection) => ListOptions { selection: Arc::new(selection.of_names()), ..options },
        None => options,
    };
    let watch = WatchOptions {
        scope: scope(&target, &options),
        filter: options.selection.clone(),
        bookmarks: options.bookmarks,
        initial_events_end: options.send_initial_events == Some(true),
        timeout: options.timeout.or_else(|| default_timeout(target.registry.settings().min_watch_timeout)),
    };
    let listing = watch.initial_events_end.then(|| {
        let scope = match watch.scope {
            Scope::Object { .. } => "resource",
            Scope::Namespace(_) => "namespace",
            Scope::All | Scope::Field { .. } => "cluster",
        };
        (begun, scope)
    });
    let media = view.media();
    let content_type = match media {
        Media::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        Media::Cbor => "application/cbor-seq",
        Media::Json | Media::Yaml => "application/json",
    };
    let (entry, lister) = (target.entry.clone(), target.registry.lister().clone());
    let frames = Frames { view, entry, lister, selection, columns: true, failed: false };
    frames.prepare(start, &watch.scope).await;
    let span = span::of_cache("cacher.Watch", &target.request, || target.registry.group_resource());
    let watcher = span.within(pin!(target.registry.cache().watch(start, watch))).await;
    drop(span);
    let body = match watcher {
        Ok(watcher) => events(watcher, frames, &target.request, listing),
        // The request was well-formed: what cannot be watched from there is told as an event, as upstream.
        Err(error @ (CacheError::Expired { .. } | CacheError::TooLarge { .. })) => {
            Body::full(frames.status(&read_error(&error)))
        }
        Err(error) => return Err(read_error(&error)),
    };
    if is_websocket(&target.request.headers) {
        return websocket::watch(&mut target.request, body, media);
    }
    Ok(response::bytes(StatusCode::OK, content_type, body))
}

/// How long a watch lasts that names no time: the least one, and up to as long again, so that not all end at once.
fn default_timeout(least: Duration) -> Option<Duration> {
    let share = f64::from(uuid::Uuid::new_v4().as_u64_pair().0 as u32) / f64::from(u32::MAX);
    (!least.is_zero()).then(|| least.mul_f64(1.0 + share))
}

/// Where the watch begins. An unreadable resourceVersion is a plain 500, as upstream answers it here.
fn start_of(options: &ListOptions) -> Result<Start, Status> {
    let version = options.resource_version.as_str();
    let parsed = match version {
        "" | "0" => 0,
        text => super::list_options::parse_revision(text)
            .map_err(|error: FieldError| Status::unknown_error(error.to_string()))?,
    };
    Ok(match (options.send_initial_events, version) {
        (Some(true), "0") => Start::Initial(ReadAt::Any),
        (Some(true), "") => Start::Initial(ReadAt::Latest),
        (Some(true), _) => Start::Initial(ReadAt::NotOlderThan(parsed)),
        (Some(false), "" | "0") => Start::Now,
        (None, "") => Start::Initial(ReadAt::Latest),
        (None, "0") => Start::Initial(ReadAt::Any),
        (_, _) => Start::After(parsed),
    })
}

fn scope(target: &Target, options: &ListOptions) -> Scope {
    let info = &target.request.info;
    let name = options.selection.name().or_else(|| (!info.name.is_empty()).then_some(info.name.as_str()));
    let namespaced = target.entry.row.namespaced;
    // A namespace stands in its own namespace in a path, but not in the store.
    let namespace = (namespaced && !info.namespace.is_empty()).then(|| info.namespace.clone());
    match (name, namespace) {
        (Some(name), namespace) if namespace.is_some() == namespaced => {
            Scope::Object { namespace, name: Str::from(name) }
        }
        (_, Some(namespace)) => Scope::Namespace(namespace),
        (_, None) => match options.selection.pinned_field(&target.registry.indexed_fields()) {
            Some((field, value)) => Scope::Field { field, value: value.into() },
            None => Scope::All,
        },
    }
}

/// The events as a body. It ends with the watch, or when the server goes down.
fn events(watcher: Watcher, frames: Frames, request: &Request, listing: Option<(Instant, &'static str)>) -> Body {
    let metrics = request.extensions.get::<Arc<Metrics>>();
    let counted =
        metrics.map(|metrics| (metrics.long_running(request), metrics.watches.of(&frames.entry.row, listing)));
    // Waited for once a watch, not once an event: registering with the token takes its lock.
    let server_ends: Pin<Box<dyn Future<Output = ()> + Send>> = match request.extensions.get::<Lifecycle>() {
        Some(lifecycle) => Box::pin(lifecycle.stream_end()),
        None => Box::pin(std::future::pending()),
    };
    let state = (watcher, frames, server_ends, counted);
    // A list of partial objects cannot be made of an event: the first one ends the watch, as upstream.
    let shows = !matches!(state.1.view.accepted().form, Form::MetadataList { .. });
    Body::stream(stream::unfold(state, move |(mut watcher, mut frames, mut server_ends, mut counted)| async move {
        let (frame, ends_list) = loop {
            let next = tokio::select! {
                biased;
                next = watcher.next() => next,
                // Asked when there is nothing to send, not for each of many events.
                () = &mut server_ends => None,
            };
            // Too slow, or cut off from the store: the client lists and watches anew.
            let event = next?.ok().filter(|_| shows)?;
            if frames.failed {
                return None;
            }
            let ends_list = matches!(event, WatchEvent::Bookmark { initial_events_end: true, .. });
            match frames.selected(event).await {
                Ok(Some(frame)) => break (frame, ends_list),
                Ok(None) => {}
                // What somebody else should have converted ends the watch, as a cache in that version would end upstream's.
                Err(status) if frames.view.is_remote() => {
                    tracing::warn!(resource = %frames.lister.group_resource(), error = status.message, "a watch has ended");
                    return None;
                }
                Err(status) => {
                    frames.failed = true;
                    break (frames.status(&status), false);
                }
            }
        };
        if let Some((_, counter)) = &mut counted {
            counter.sent(frame.len());
            if ends_list {
                counter.listed();
            }
        }
        Some((Ok::<_, std::convert::Infallible>(frame), (watcher, frames, server_ends, counted)))
    }))
}

/// Encodes events in the form that was agreed on.
struct Frames {
    view: View,
    entry: Arc<TableEntry>,
    lister: Arc<Lister>,
    /// What is selected of the events, where that is known in the version asked for alone.
    selection: Option<Arc<Selection>>,
    /// Whether the next table names its columns: only a watch's first one does.
    columns: bool,
    /// An event could not be shown. The client has heard of it, and that is the end.
    failed: bool,
}

impl Frames {
    /// Has the objects converted that the watch begins with, all at once rather than event by event.
    async fn prepare(&self, start: Start, scope: &Scope) {
        if !self.view.is_remote() || !matches!(start, Start::Initial(_)) {
            return;
        }
        let lister = &self.lister;
        let prefix = match scope {
            Scope::Object { namespace, name } => lister.key(namespace.as_deref().unwrap_or(""), name),
            Scope::Namespace(namespace) => lister.namespace_prefix(namespace),
            Scope::All | Scope::Field { .. } => lister.prefix().to_owned(),
        };
        let snapshot = lister.cache().latest();
        let objects: Vec<_> = snapshot.range(&prefix, None).filter_map(|e| e.object().cloned()).collect();
        self.view.prepare(lister, objects).await;
    }

    /// An event as the client hears of it, if it is one of what is selected.
    async fn selected(&mut self, event: WatchEvent) -> Result<Option<Bytes>, Status> {
        let event = match &self.selection {
            Some(selection) => converted::seen(&self.lister, &self.view, selection, event).await?,
            None => Some(event),
        };
        match event {
            Some(event) => self.shown(&event).await.map(Some),
            None => Ok(None),
        }
    }

    /// An event as the client hears of it. Large objects that have to be encoded anew are so outside of the reactor.
    async fn shown(&mut self, event: &WatchEvent) -> Result<Bytes, Status> {
        let size = match event {
            WatchEvent::Object { object, .. } => object.bytes().len(),
            WatchEvent::Bookmark { .. } => 0,
        };
        if size <= offload::INLINE || (self.view.is_raw() && self.view.is_stored()) {
            return self.frame(event).await;
        }
        offload::run(offload::SHOWN, pin!(self.frame(event))).await?
    }

    async fn frame(&mut self, event: &WatchEvent) -> Result<Bytes, Status> {
        if let WatchEvent::Bookmark { revision, initial_events_end } = event {
            let object = self.bookmark(*revision, *initial_events_end);
            let bytes = if self.view.is_raw() {
                Bytes::from(json::encode(&object))
            } else {
                self.view.encode_value(&object, std::mem::take(&mut self.columns))?
            };
            return Ok(self.view.watch_frame("BOOKMARK", &bytes));
        }
        if self.view.is_raw() && self.view.is_stored() {
            return Ok(event.json_frame(|_, _| Bytes::new()));
        }
        let columns = std::mem::take(&mut self.columns);
        let json = match event {
            WatchEvent::Object { object, .. } => self.view.fetch(&self.lister, object).await?,
            WatchEvent::Bookmark { .. } => Bytes::new(),
        };
        let encode = |kind: EventType, _: &Arc<storage::cache::Object>| {
            let bytes = if self.view.is_raw() { json.clone() } else { self.view.encode_one(&json, columns)? };
            Ok(self.view.watch_frame(kind.as_str(), &bytes))
        };
        let frame = match (self.view.form_id(), event) {
            (Some(form), event) => event.frame(form, encode),
            (None, WatchEvent::Object { kind, object, .. }) => Some(encode(*kind, object)),
            (None, WatchEvent::Bookmark { .. }) => None,
        };
        frame.unwrap_or_else(|| Ok(Bytes::new()))
    }

    /// A bookmark's object: nothing but its version (and what Go writes of an empty object of the type).
    fn bookmark(&self, revision: u64, initial_events_end: bool) -> Value {
        let row = &self.entry.row;
        let mut object = object! {
            "kind" => &row.kind, "apiVersion" => row.api_version(),
            "metadata" => object! { "resourceVersion" => revision.to_string() },
        };
        if initial_events_end {
            object.set(&["metadata", "annotations"], object! { "k8s.io/initial-events-end" => "true" });
        }
        if row.built_in && matches!(self.view.accepted().form, Form::Whole) {
            if let Ok((typed, _)) = schema::decode(&row.schema, object.clone()) {
                return typed;
            }
        } else if !row.built_in && !initial_events_end {
            object.set(&["metadata", "creationTimestamp"], Value::Null);
        }
        object
    }

    /// An error as the only event.
    fn status(&self, status: &Status) -> Bytes {
        let accepted = self.view.accepted().whole();
        let object = Bytes::from(response::encode(&status.to_value(), accepted));
        self.view.watch_frame("ERROR", &object)
    }
}
