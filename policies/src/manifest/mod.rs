//! Policies and webhooks that stand in files of the server's (the gate ManifestBasedAdmissionControlConfig): they count
//! from the first request on, before those of the API, nobody can change them by a request, and they judge writes of what configures
//! admission, too.
//!
//! `load` reads a directory as strictly as a client can ask for; a [`Static`] is what one plugin has made of it, and follows it.

mod error;
mod load;

use std::{path::PathBuf, sync::Arc};

use arc_swap::ArcSwap;
use auth::reload::{Content as _, Directory, Followed, ReloadError, ReloadMetrics};
use generic_server::resource::Resource;
use outbound::WebhookUsers;
use tokio_util::sync::CancellationToken;

pub use error::{ClientFault, ManifestError, ManifestFault, ObjectFault};
pub(crate) use load::Loaded;

use load::Kinds;

/// What names of such objects end with, and no others may.
pub const SUFFIX: &str = ".static.k8s.io";

/// What the configuration of a plugin says.
#[derive(Clone, Debug, Default)]
pub struct PluginConfig {
    /// The directory that it reads.
    pub directory: Option<PathBuf>,
    /// As whom it calls webhooks.
    pub users: Option<Arc<WebhookUsers>>,
}

/// What plugins read.
pub struct Manifests {
    /// What each plugin is told, by its name.
    plugins: Vec<(&'static str, PluginConfig)>,
    /// The rows of v1 of the kinds.
    rows: Vec<Resource>,
    metrics: ReloadMetrics,
    cancel: CancellationToken,
}

impl Manifests {
    /// What plugins are told. Their directories are read as objects of `rows`, in a server of the name `server`, and followed
    /// until `cancel`.
    pub fn new(
        plugins: Vec<(&'static str, PluginConfig)>,
        rows: impl IntoIterator<Item = Resource>,
        registry: &prometheus::Registry,
        server: &str,
        cancel: CancellationToken,
    ) -> Self {
        let is_one = |row: &Resource| row.group == "admissionregistration.k8s.io" && row.version == "v1";
        let controller = "manifest_admission_config_controller";
        Manifests {
            plugins,
            rows: rows.into_iter().filter(is_one).collect(),
            metrics: ReloadMetrics::several(registry, controller, server, "plugin"),
            cancel,
        }
    }

    /// As whom a plugin calls webhooks.
    pub(crate) fn users(&self, plugin: &str) -> Option<Arc<WebhookUsers>> {
        self.config(plugin).and_then(|config| config.users.clone())
    }

    fn config(&self, plugin: &str) -> Option<&PluginConfig> {
        self.plugins.iter().find(|(name, _)| *name == plugin).map(|(_, config)| config)
    }

    /// Nothing at all.
    pub fn none() -> Self {
        Self::new(Vec::new(), [], &prometheus::Registry::new(), "", CancellationToken::new())
    }

    /// What `make` makes of the objects that the plugin reads, if it reads some; from now on anew whenever they change.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub(crate) fn of<H: Send + Sync + 'static>(
        &self,
        plugin: &'static str,
        make: impl Fn(Loaded) -> Vec<H> + Send + Sync + 'static,
    ) -> Result<Option<Arc<Static<H>>>, ManifestError> {
        let Some(directory) = self.config(plugin).and_then(|config| config.directory.as_ref()) else {
            return Ok(None);
        };
        let kinds = Arc::new(Kinds::of(plugin, &self.rows));
        let load = move |files: &Directory| kinds.load(files).map(&make);
        let files = Directory::read(directory).map_err(ManifestFault::Read);
        let loaded = files.and_then(|files| load(&files).map(|hooks| (files, hooks)));
        let (files, hooks) = loaded.map_err(|fault| ManifestError {
            of: if plugin.ends_with("Webhook") { "webhook" } else { "policy" },
            directory: directory.clone(),
            fault: Box::new(fault),
        })?;
        let found = Arc::new(Static(ArcSwap::from_pointee(hooks)));
        let metrics = self.metrics.of(plugin);
        metrics.succeeded(&files);
        let (current, load) = (found.clone(), Arc::new(load));
        let reload = move |files: Directory| {
            let (current, load) = (current.clone(), load.clone());
            async move {
                // What is wrong may be half of a change: it is looked at again.
                let loaded = tokio::task::spawn_blocking(move || load(&files)).await;
                let loaded = loaded.map_err(|e| e.to_string()).and_then(|l| l.map_err(|why| why.to_string()));
                let hooks = loaded.map_err(ReloadError::NotYet)?;
                current.0.store(Arc::new(hooks));
                Ok(())
            }
        };
        let followed = Followed::new("admission manifests", directory.clone(), files);
        tokio::spawn(followed.follow(Some(metrics), self.cancel.clone(), reload));
        Ok(Some(found))
    }
}

/// What stands in the files of one plugin.
pub(crate) struct Static<H>(ArcSwap<Vec<H>>);

impl<H> Static<H> {
    /// What counts now.
    pub(crate) fn current(&self) -> Arc<Vec<H>> {
        self.0.load_full()
    }
}

/// What counts now of files, if some are read and hold something.
pub(crate) fn current<H>(files: Option<&Arc<Static<H>>>) -> Option<Arc<Vec<H>>> {
    files.map(|files| files.current()).filter(|hooks| !hooks.is_empty())
}
