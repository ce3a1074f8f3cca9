//! A built-in kind, its objects in memory, and the handlers that a request for it reaches.

use std::sync::Arc;

use auth::Mode;
use bytes::Bytes;
use generic_server::{
    admission::{Admission, Chain},
    handlers,
    registry::{Backing, Listers, Registries, RegistrySettings, StoredForm},
    request::{Request, RequestParts},
    response::{self, Response},
    table::{Endpoints, TableEntry, entries},
};
use http::{HeaderMap, HeaderValue, Method, Uri};
use http_body_util::BodyExt;
use machinery::Value;
use storage::{Expect, Memory, Store};

/// What serves the kind.
pub(crate) struct Served {
    entries: Vec<Arc<TableEntry>>,
}

impl Served {
    /// Serves `objects` of the kind that is stored as `group`'s `plural`, in all its versions.
    pub(crate) async fn start(group: &str, plural: &str, objects: &[Value]) -> Self {
        Self::start_with(group, plural, objects, |_, stored| stored).await
    }

    /// [`Served::start`] with what `change` makes of the bytes that are stored of each object.
    pub(crate) async fn start_with(
        group: &str,
        plural: &str,
        objects: &[Value],
        change: impl Fn(usize, Bytes) -> Bytes,
    ) -> Self {
        let rows: Vec<_> =
            kube_core::resources().into_iter().filter(|row| row.group == group && row.plural == plural).collect();
        let stored = rows.iter().find(|row| row.is_storage_version()).expect("the kind is stored");
        let form = StoredForm::new(stored, &rows);
        let store = Memory::new();
        for (i, object) in objects.iter().enumerate() {
            let text = |member| object.str_at(&["metadata", member]).expect("it has one");
            let key = format!("/registry/{}/{}/{}", stored.storage_path, text("namespace"), text("name"));
            store.put(&key, change(i, form.encode(object)), Expect::Absent, None).await.expect("the write succeeds");
        }
        let backing =
            Backing { store, encryption: None, root: "/registry".into(), settings: RegistrySettings::default() };
        let admission: Arc<dyn Admission> = Arc::new(Chain::default());
        let registries = Registries::new(&Listers::start(&rows, &backing), &admission);
        Served { entries: entries(rows, &backing.settings, &registries, &Endpoints::new()) }
    }

    /// What a GET of a path answers to a client that accepts `accept`.
    pub(crate) async fn get(&self, path: &str, accept: &str) -> Response {
        let uri: Uri = path.parse().expect("a path");
        let mut headers = HeaderMap::new();
        headers.insert("accept", HeaderValue::from_str(accept).expect("a header"));
        let request = Request::from(RequestParts::new(Method::GET, uri, headers, Arc::new(Mode::AlwaysAllow)));
        let version = &request.info.version;
        let entry = self.entries.iter().find(|entry| entry.row.version == *version).expect("it is served");
        let wanted = response::wanted(&request);
        handlers::serve(request, entry.clone()).await.unwrap_or_else(|status| response::error(&status, wanted))
    }
}

/// All bytes of an answer.
pub(crate) async fn bytes(response: Response) -> Bytes {
    response.into_body().collect().await.expect("no error").to_bytes()
}
