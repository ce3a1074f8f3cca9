//! Files that are followed while the server runs. When one changes it is read again; what is wrong with the new content is
//! logged and counted, and the old content stays in use.

use std::{
    future::Future,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::digest::{SHA256, digest};
use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts, Registry};
use tokio_util::sync::CancellationToken;

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

/// A file whose content is in use.
pub struct Followed {
    /// What the file is, for the log.
    what: &'static str,
    path: PathBuf,
    /// The content that was looked at last.
    content: Vec<u8>,
}

impl Followed {
    /// A file; `content` is in use already.
    pub fn new(what: &'static str, path: PathBuf, content: Vec<u8>) -> Self {
        Followed { what, path, content }
    }

    /// Hands new content to `reload`, until it is cancelled.
    pub async fn follow<F, Fut>(mut self, metrics: Option<ReloadMetrics>, cancel: CancellationToken, reload: F)
    where
        F: Fn(Vec<u8>) -> Fut,
        Fut: Future<Output = Result<(), ReloadError>>,
    {
        let (mut stamp, mut looks) = (Stamp::of(&self.path).await, 0_u32);
        // What was written between the first reading and now has a stamp that is not new.
        self.look(metrics.as_ref(), &reload).await;
        while cancel.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
            looks += 1;
            let now = Stamp::of(&self.path).await;
            if now == stamp && looks < READ_EVERY {
                continue;
            }
            (stamp, looks) = (now, 0);
            self.look(metrics.as_ref(), &reload).await;
        }
    }

    async fn look<F, Fut>(&mut self, metrics: Option<&ReloadMetrics>, reload: &F)
    where
        F: Fn(Vec<u8>) -> Fut,
        Fut: Future<Output = Result<(), ReloadError>>,
    {
        let (what, path) = (self.what, self.path.display());
        let content = match tokio::fs::read(&self.path).await {
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

/// By what a file differs that was replaced or written.
#[derive(PartialEq)]
struct Stamp(Option<(u64, u64, Option<SystemTime>)>);

impl Stamp {
    async fn of(path: &Path) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let meta = tokio::fs::metadata(path).await.ok();
        Stamp(meta.map(|meta| (meta.ino(), meta.len(), meta.modified().ok())))
    }
}

/// Upstream's metrics of a configuration file that is reloaded.
#[derive(Clone)]
pub struct ReloadMetrics {
    reloads: IntCounterVec,
    last: GaugeVec,
    info: IntGaugeVec,
    server: String,
}

impl ReloadMetrics {
    /// Metrics `apiserver_CONTROLLER_…` of the server with this identity; `content` is in use.
    pub fn new(registry: &Registry, controller: &str, server: &str, content: &[u8]) -> Self {
        let opts = |name: &str, help: &str| Opts::new(format!("apiserver_{controller}_{name}"), help);
        let labels = ["status", "apiserver_id_hash"];
        let metrics = ReloadMetrics {
            reloads: IntCounterVec::new(opts("automatic_reloads_total", "Reloads of the configuration file."), &labels)
                .expect("valid names"),
            last: GaugeVec::new(
                opts("automatic_reload_last_timestamp_seconds", "When the configuration file was reloaded last."),
                &labels,
            )
            .expect("valid names"),
            info: IntGaugeVec::new(
                opts("last_config_info", "The hash of the configuration that is in use."),
                &["apiserver_id_hash", "hash"],
            )
            .expect("valid names"),
            server: hash(server.as_bytes()),
        };
        for collector in [
            Box::new(metrics.reloads.clone()) as Box<dyn prometheus::core::Collector>,
            Box::new(metrics.last.clone()),
            Box::new(metrics.info.clone()),
        ] {
            registry.register(collector).expect("each file has metrics of its own");
        }
        metrics.uses(content);
        metrics
    }

    fn uses(&self, content: &[u8]) {
        self.info.reset();
        self.info.with_label_values(&[self.server.as_str(), &hash(content)]).set(1);
    }

    fn succeeded(&self, content: &[u8]) {
        self.count("success");
        self.uses(content);
    }

    fn failed(&self) {
        self.count("failure");
    }

    fn count(&self, status: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
        self.reloads.with_label_values(&[status, &self.server]).inc();
        self.last.with_label_values(&[status, &self.server]).set(now);
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
