//! A webhook that a kubeconfig file names. The files that this one names may change while the server runs.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use tokio::time::Instant;
use traces::Dial;

use crate::{
    Call, CallError, ContentSource, Credentials, Identity, Kubeconfig, KubeconfigError, Webhook, WebhookTarget,
    webhook::Access,
};

/// How often files are read that the kubeconfig names (client-go: tokens once a minute).
const READ_EVERY: Duration = Duration::from_secs(60);

/// The webhook.
pub struct KubeconfigWebhook {
    config: Kubeconfig,
    dial: Option<Dial>,
    current: ArcSwap<Loaded>,
    /// When the files were read last.
    read: Mutex<Instant>,
}

/// What the files said, and the webhook made of it.
struct Loaded {
    files: Files,
    webhook: Webhook,
}

/// The content of everything that may be in a file.
#[derive(PartialEq, Eq)]
pub(crate) struct Files {
    bundle: Vec<u8>,
    pub(crate) identity: Option<Identity>,
    token: Option<String>,
}

impl KubeconfigWebhook {
    /// Reads a kubeconfig file and those that it names.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn load(path: &Path) -> Result<Self, KubeconfigError> {
        Self::load_through(path, None)
    }

    /// The same, whose connections are opened by `dial`, if there is one.
    ///
    /// # Errors
    /// What is wrong with the files.
    pub fn load_through(path: &Path, dial: Option<&Dial>) -> Result<Self, KubeconfigError> {
        let config = Kubeconfig::load(path)?;
        let files = Files::read(&config)?;
        let loaded = Loaded::new(&config, files, dial)?;
        let dial = dial.cloned();
        Ok(KubeconfigWebhook { config, dial, current: ArcSwap::from_pointee(loaded), read: Mutex::new(Instant::now()) })
    }

    /// Sends a document and gives the answer's body.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn call(&self, document: impl Into<Bytes>, call: Call) -> Result<Bytes, CallError> {
        self.reread().await;
        let current = self.current.load_full();
        current.webhook.call(document, call).await
    }

    /// Takes what the files say now, once in a while. Where they say nothing that can be used, what they said before counts.
    async fn reread(&self) {
        let is_due = {
            let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = self.config.names_files() && read.elapsed() >= READ_EVERY;
            if is_due {
                *read = Instant::now();
            }
            is_due
        };
        if !is_due {
            return;
        }
        let (config, dial) = (self.config.clone(), self.dial.clone());
        let current = self.current.load_full();
        let again = move || {
            let files = Files::read(&config)?;
            if files == current.files { Ok(None) } else { Loaded::new(&config, files, dial.as_ref()).map(Some) }
        };
        match tokio::task::spawn_blocking(again).await {
            Ok(Ok(Some(loaded))) => self.current.store(Arc::new(loaded)),
            Ok(Ok(None)) => {}
            Ok(Err(why)) => {
                tracing::error!(server = %self.config.server, %why, "the old files of a kubeconfig stay in use")
            }
            Err(why) => tracing::error!(%why, "reading files of a kubeconfig was given up"),
        }
    }
}

impl Files {
    pub(crate) fn read(config: &Kubeconfig) -> Result<Self, KubeconfigError> {
        let bundle = config.authorities.as_ref().map(content).transpose()?.unwrap_or_default();
        let identity = match &config.identity {
            Some((certificate, key)) => Some(Identity { certificate: content(certificate)?, key: content(key)? }),
            None => None,
        };
        let token = match &config.credentials {
            Credentials::Token(token) => Some(token.clone()),
            Credentials::TokenFile(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| unread(path, &error))?;
                let token = text.trim();
                if token.is_empty() {
                    return Err(KubeconfigError::EmptyToken(path.clone()));
                }
                Some(token.to_owned())
            }
            Credentials::None | Credentials::Basic(..) => None,
        };
        Ok(Files { bundle, identity, token })
    }
}

fn unread(path: &Path, error: &std::io::Error) -> KubeconfigError {
    KubeconfigError::Content { path: path.to_owned(), why: error.to_string() }
}

fn content(source: &ContentSource) -> Result<Vec<u8>, KubeconfigError> {
    match source {
        ContentSource::Inline(bytes) => Ok(bytes.clone()),
        ContentSource::File(path) => std::fs::read(path).map_err(|error| unread(path, &error)),
    }
}

impl Loaded {
    fn new(config: &Kubeconfig, files: Files, dial: Option<&Dial>) -> Result<Self, KubeconfigError> {
        let access = Access {
            bundle: files.bundle.clone(),
            insecure: config.insecure,
            server_name: config.server_name.clone(),
            identity: files.identity.clone(),
            dial: dial.cloned(),
            headers: headers_of(config, &files)?,
        };
        let target = WebhookTarget::Url(config.server.as_str().into());
        let webhook = Webhook::with_access(target, access, None);
        webhook.check()?;
        Ok(Loaded { files, webhook })
    }
}

/// The headers that say who calls.
pub(crate) fn headers_of(config: &Kubeconfig, files: &Files) -> Result<HeaderMap, KubeconfigError> {
    let mut headers = HeaderMap::new();
    let authorization = match (&config.credentials, &files.token) {
        (_, Some(token)) => Some(format!("Bearer {token}")),
        (Credentials::Basic(user, password), None) => {
            Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
        }
        _ => None,
    };
    if let Some(text) = authorization {
        let mut value = HeaderValue::from_str(&text).map_err(|_| KubeconfigError::Credentials)?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    for (name, value) in &config.impersonation {
        let wrong = |name: String, why: String| KubeconfigError::Impersonation { name, why };
        let name =
            HeaderName::from_bytes(name.as_bytes()).map_err(|error| wrong(format!("{name:?}"), error.to_string()))?;
        let value = HeaderValue::from_str(value).map_err(|error| wrong(name.to_string(), error.to_string()))?;
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};
    use hyper::{Request, Response, body::Incoming, service::service_fn};
    use hyper_util::rt::TokioIo;
    use tokio::net::TcpListener;

    use super::*;

    /// A server without TLS that answers each request by what `answer` makes of the number of requests before and of it.
    async fn serve(answer: fn(usize, &Request<Incoming>) -> Response<Full<Bytes>>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let served = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let served = served.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let served = served.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let response = answer(served, &request);
                    async move {
                        request.into_body().collect().await?;
                        Ok::<_, hyper::Error>(response)
                    }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        address.to_string()
    }

    fn webhook(dir: &Path, server: &str, user: &str) -> KubeconfigWebhook {
        let text = format!(
            "clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        let path = dir.join("kubeconfig");
        std::fs::write(&path, text).expect("written");
        KubeconfigWebhook::load(&path).expect("valid")
    }

    const CALL: Call = Call { timeout: Duration::from_secs(20), limit: 100 };

    #[tokio::test]
    async fn who_asks_for_patience_is_called_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let server = serve(|served, request| {
            assert_eq!(request.uri().query(), Some("timeout=20s"));
            let response = Response::builder().status(if served == 0 { 503 } else { 200 });
            let response = if served == 0 { response.header("retry-after", "0") } else { response };
            response.body(Full::new(request.uri().path().to_owned().into())).expect("a response")
        });
        let hook = webhook(dir.path(), &format!("http://{}/path", server.await), "");
        assert_eq!(hook.call(b"{}".to_vec(), CALL).await.as_deref(), Ok(&b"/path"[..]));
    }

    #[tokio::test]
    async fn a_token_is_not_said_without_tls() {
        let dir = tempfile::tempdir().expect("a folder");
        let server = serve(|_, request| {
            let said = request.headers().contains_key("authorization");
            Response::new(Full::new(said.to_string().into()))
        });
        let hook = webhook(dir.path(), &format!("http://{}", server.await), "token: secret");
        assert_eq!(hook.call(b"{}".to_vec(), CALL).await.as_deref(), Ok(&b"false"[..]));
    }

    #[test]
    fn files_that_cannot_be_used_are_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let load = |cluster: &str, user: &str| {
            let text = format!(
                "clusters: [{{name: c, cluster: {{server: 'https://h', {cluster}}}}}]\n\
                 users: [{{name: u, user: {{{user}}}}}]\n\
                 contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
            );
            std::fs::write(dir.path().join("kubeconfig"), text).expect("written");
            KubeconfigWebhook::load(&dir.path().join("kubeconfig")).map(|_| ()).expect_err("wrong").to_string()
        };
        std::fs::write(dir.path().join("empty"), " \n").expect("written");
        let why = load("", "tokenFile: empty");
        assert!(why.starts_with("read empty token from file"), "{why}");
        assert!(load("", "tokenFile: nowhere").contains("nowhere"));
        assert!(!load("certificate-authority: empty", "").is_empty());
        assert!(!load("", "client-certificate: empty, client-key: empty").is_empty());
        assert!(!load("", "token: \"a\\nb\"").contains("a\nb"), "secrets are not shown");
    }
}
