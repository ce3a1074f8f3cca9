//! Files that are followed while the server runs, alone or those of a directory. When one changes it is read again; what is
//! wrong with the new content is logged and counted, and the old content stays in use.

mod directory;

use std::{
    fs::Metadata,
    future::Future,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::digest::{SHA256, digest};
use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts, Registry};
use tokio_util::sync::CancellationToken;

pub use directory::Directory;

/// How often it is asked whether a file was replaced or written.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A file is read again after so many looks, whether it seems to have changed or not.
const READ_EVERY: u32 = 60;

/// Why new content is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReloadError {
    /// It is wrong, and stays so until the file changes again.
    #[error("{0}")]
    Invalid(String),
    /// It may be right later, for something that it names is not there yet: it is tried again within a minute.
    #[error("{0}")]
    NotYet(String),
}

/// What is followed: the content of a file, or that of the files of a [`Directory`].
pub trait Content: Clone + PartialEq + Send + Sync + 'static {
    /// Reads what is there now. Blocks.
    ///
    /// # Errors
    /// What cannot be read.
    fn read(path: &Path) -> io::Result<Self>;

    /// By what can be told that something was replaced or written. Blocks.
    fn stamp(path: &Path) -> Stamp;

    /// What metrics call the content: [`hash`].
    fn hash(&self) -> String;
}

impl Content for Vec<u8> {
    fn read(path: &Path) -> io::Result<Self> {
        std::fs::read(path)
    }

    fn stamp(path: &Path) -> Stamp {
        Stamp::of([std::fs::metadata(path).ok()])
    }

    fn hash(&self) -> String {
        hash(self)
    }
}

/// By what files differ that were replaced or written.
#[derive(PartialEq)]
pub struct Stamp(Vec<Option<(u64, u64, Option<SystemTime>)>>);

impl Stamp {
    fn of(files: impl IntoIterator<Item = Option<Metadata>>) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let one = |meta: Metadata| (meta.ino(), meta.len(), meta.modified().ok());
        Stamp(files.into_iter().map(|meta| meta.map(one)).collect())
    }
}

/// A file or directory whose content is in use.
pub struct Followed<C = Vec<u8>> {
    /// What it is, for the log.
    what: &'static str,
    path: PathBuf,
    /// The content that was looked at last.
    content: C,
}

impl<C: Content> Followed<C> {
    /// A file or directory; `content` is in use already.
    pub fn new(what: &'static str, path: PathBuf, content: C) -> Self {
        Followed { what, path, content }
    }

    /// Hands new content to `reload`, until it is cancelled.
    pub async fn follow<F, Fut>(mut self, metrics: Option<ReloadMetrics>, cancel: CancellationToken, reload: F)
    where
        F: Fn(C) -> Fut,
        Fut: Future<Output = Result<(), ReloadError>>,
    {
        let (mut stamp, mut looks) = (self.at_path(C::stamp).await, 0_u32);
        // What was written between the first reading and now has a stamp that is not new.
        self.look(metrics.as_ref(), &reload).await;
        while cancel.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
            looks += 1;
            let now = self.at_path(C::stamp).await;
            if now == stamp && looks < READ_EVERY {
                continue;
            }
            (stamp, looks) = (now, 0);
            self.look(metrics.as_ref(), &reload).await;
        }
    }

    /// What a function that blocks finds; `None` if the server ends.
    async fn at_path<T: Send + 'static>(&self, find: fn(&Path) -> T) -> Option<T> {
        let path = self.path.clone();
        tokio::task::spawn_blocking(move || find(&path)).await.ok()
    }

    async fn look<F, Fut>(&mut self, metrics: Option<&ReloadMetrics>, reload: &F)
    where
        F: Fn(C) -> Fut,
        Fut: Future<Output = Result<(), ReloadError>>,
    {
        let Some(read) = self.at_path(C::read).await else { return };
        let (what, path) = (self.what, self.path.display());
        let content = match read {
            Ok(content) if content == self.content => return,
            Ok(content) => content,
            Err(error) => {
                tracing::error!(%path, %error, "cannot read the {what}, the old one stays in use");
                metrics.inspect(|metrics| metrics.failed());
                return;
            }
        };
        match reload(content.clone()).await {
            Ok(()) => {
                tracing::info!(%path, "reloaded the {what}");
                metrics.inspect(|metrics| metrics.succeeded(&content));
                self.content = content;
            }
            Err(error) => {
                tracing::error!(%path, %error, "the new {what} is not used, the old one stays in use");
                metrics.inspect(|metrics| metrics.failed());
                if matches!(error, ReloadError::Invalid(_)) {
                    self.content = content;
                }
            }
        }
    }
}

/// Upstream's metrics of a configuration file that is reloaded, or of one of several.
#[derive(Clone)]
pub struct ReloadMetrics {
    reloads: IntCounterVec,
    last: GaugeVec,
    info: IntGaugeVec,
    /// The values of the labels that all have in common: which of several files, and which server.
    labels: Vec<String>,
    /// The hash that is shown, if there is one yet.
    shown: Arc<Mutex<Option<String>>>,
}

impl ReloadMetrics {
    /// Metrics `apiserver_CONTROLLER_…` of the server with this identity; `content` is in use.
    pub fn new(registry: &Registry, controller: &str, server: &str, content: &[u8]) -> Self {
        let metrics = Self::with(registry, controller, server, None);
        metrics.uses(hash(content));
        metrics
    }

    /// The same for several files, which a label tells apart: each has its own by [`ReloadMetrics::of`].
    pub fn several(registry: &Registry, controller: &str, server: &str, label: &'static str) -> Self {
        Self::with(registry, controller, server, Some(label))
    }

    /// Those of one of several files.
    pub fn of(&self, value: &str) -> Self {
        let labels = std::iter::once(value.to_owned()).chain(self.labels.iter().cloned()).collect();
        ReloadMetrics { labels, shown: Arc::default(), ..self.clone() }
    }

    fn with(registry: &Registry, controller: &str, server: &str, label: Option<&'static str>) -> Self {
        let opts = |name: &str, help: &str| Opts::new(format!("apiserver_{controller}_{name}"), help);
        let own = [label, Some("apiserver_id_hash")];
        let labels =
            |last: [Option<&'static str>; 1]| own.into_iter().chain(last).flatten().collect::<Vec<&'static str>>();
        let metrics = ReloadMetrics {
            reloads: IntCounterVec::new(
                opts("automatic_reloads_total", "Reloads of the configuration file."),
                &labels([Some("status")]),
            )
            .expect("valid names"),
            last: GaugeVec::new(
                opts("automatic_reload_last_timestamp_seconds", "When the configuration file was reloaded last."),
                &labels([Some("status")]),
            )
            .expect("valid names"),
            info: IntGaugeVec::new(
                opts("last_config_info", "The hash of the configuration that is in use."),
                &labels([Some("hash")]),
            )
            .expect("valid names"),
            labels: vec![hash(server.as_bytes())],
            shown: Arc::default(),
        };
        for collector in [
            Box::new(metrics.reloads.clone()) as Box<dyn prometheus::core::Collector>,
            Box::new(metrics.last.clone()),
            Box::new(metrics.info.clone()),
        ] {
            registry.register(collector).expect("each kind of files has metrics of its own");
        }
        metrics
    }

    fn values<'a>(&'a self, last: &'a str) -> Vec<&'a str> {
        self.labels.iter().map(String::as_str).chain([last]).collect()
    }

    fn uses(&self, hash: String) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = shown.as_deref() {
            let _ = self.info.remove_label_values(&self.values(before)); // it was there
        }
        self.info.with_label_values(&self.values(&hash)).set(1);
        *shown = Some(hash);
    }

    /// Counts that content came into use.
    pub fn succeeded(&self, content: &impl Content) {
        self.count("success");
        self.uses(content.hash());
    }

    fn failed(&self) {
        self.count("failure");
    }

    fn count(&self, status: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
        self.reloads.with_label_values(&self.values(status)).inc();
        self.last.with_label_values(&self.values(status)).set(now);
    }
}

/// How metrics name what they must not show: `sha256:` and the hash; nothing for nothing.
pub fn hash(data: &[u8]) -> String {
    if data.is_empty() {
        return String::new();
    }
    let hex: String = digest(&SHA256, data).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn new_content_is_used_and_what_is_wrong_with_it_is_counted() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("config");
        std::fs::write(&path, "one").expect("written");
        let registry = Registry::new();
        let metrics = ReloadMetrics::new(&registry, "x_controller", "server", b"one");
        let (seen, mut reloaded) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        let followed = Followed::new("x configuration", path.clone(), b"one".to_vec());
        let task = tokio::spawn(followed.follow(Some(metrics), cancel.clone(), move |content| {
            let text = String::from_utf8(content).expect("text");
            let answer = if text == "wrong" { Err(ReloadError::Invalid("wrong".into())) } else { Ok(()) };
            seen.send(text).expect("somebody listens");
            std::future::ready(answer)
        }));
        for text in ["wrong", "three"] {
            std::fs::write(dir.path().join("new"), text).expect("written");
            std::fs::rename(dir.path().join("new"), &path).expect("renamed");
            assert_eq!(reloaded.recv().await.as_deref(), Some(text));
        }
        cancel.cancel();
        task.await.expect("it ends");
        let mut text = String::new();
        prometheus::TextEncoder::new().encode_utf8(&registry.gather(), &mut text).expect("text");
        let server = hash(b"server");
        for line in [
            format!(
                "apiserver_x_controller_automatic_reloads_total{{apiserver_id_hash=\"{server}\",status=\"failure\"}} 1"
            ),
            format!(
                "apiserver_x_controller_automatic_reloads_total{{apiserver_id_hash=\"{server}\",status=\"success\"}} 1"
            ),
            format!(
                "apiserver_x_controller_last_config_info{{apiserver_id_hash=\"{server}\",hash=\"{}\"}} 1",
                hash(b"three")
            ),
        ] {
            assert!(text.contains(&line), "{line} in {text}");
        }
        assert!(!text.contains(&hash(b"one")), "{text}");
    }
}
