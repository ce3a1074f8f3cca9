//! Encryption at rest: stores that encrypt a resource's values as `--encryption-provider-config` says, in upstream's
//! stored forms (`k8s:enc:…`), so that either server reads what the other wrote.

mod config;
mod data_key;
mod error;
mod keys;
mod kms;
mod rule;
mod store;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;

pub use self::error::{CipherError, EncryptionError, EncryptionFault, KmsError, ObjectError, UnwellPlugin};
use self::{keys::Cipher, kms::Kms, rule::Rule, store::Encrypted};
use crate::Store;

/// What every encrypted value starts with.
const ENCRYPTED: &[u8] = b"k8s:enc:";
/// What stands in the place of a value that cannot be decrypted, before the reason.
const BROKEN: &[u8] = b"k8s:enc:broken:";

/// Why a value that a store gave could not be decrypted; `None` if it is a value.
///
/// A store gives such a stand-in for the value alone, so that the other objects of a list or watch are not harmed, and
/// the object can still be deleted.
pub fn broken(value: &[u8]) -> Option<&str> {
    let reason = value.strip_prefix(BROKEN)?;
    Some(std::str::from_utf8(reason).unwrap_or("the value cannot be decrypted"))
}

/// How long the KMS providers of a new configuration may take until they are well (upstream: the same).
const PATIENCE: Duration = Duration::from_secs(10);

/// An encryption configuration in use.
pub struct Encryption {
    file: PathBuf,
    allowed: EncryptionRules,
    current: ArcSwap<Loaded>,
}

struct Loaded {
    text: String,
    /// By resource as the file names it: `secrets`, `deployments.apps`, `*.apps`, `*.`, `*.*`.
    rules: HashMap<String, Arc<Vec<Provider>>>,
    kms: Vec<Arc<Kms>>,
}

/// What a file may say beside what every file may.
#[derive(Clone, Copy, Debug, Default)]
pub struct EncryptionRules {
    /// Plugins may speak the first protocol (the gate KMSv1).
    pub kms_v1: bool,
    /// The file is followed: all plugins have names of their own.
    pub reload: bool,
}

enum Provider {
    Identity,
    Local { prefix: String, cipher: Cipher },
    Kms { prefix: String, kms: Arc<Kms> },
}

impl Encryption {
    /// Reads the file.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn load(file: &Path, allowed: EncryptionRules) -> Result<Arc<Encryption>, EncryptionError> {
        let fault = |fault| EncryptionError::File { file: file.to_owned(), fault };
        let text = std::fs::read_to_string(file).map_err(|error| fault(EncryptionFault::Read(error)))?;
        let current = ArcSwap::from_pointee(Loaded::read(text, allowed, None).map_err(fault)?);
        Ok(Arc::new(Encryption { file: file.into(), allowed, current }))
    }

    /// The content of the file that is in use.
    pub fn text(&self) -> String {
        self.current.load().text.clone()
    }

    /// Takes another content of the file from now on, when its KMS providers are well
    /// (`--encryption-provider-config-automatic-reload`).
    ///
    /// # Errors
    /// It cannot be used; then the old one stays.
    pub async fn replace(&self, text: String) -> Result<(), EncryptionError> {
        let next = Loaded::read(text, self.allowed, Some(&self.current.load_full()));
        let next = next.map_err(|fault| EncryptionError::File { file: self.file.clone(), fault })?;
        next.wait_until_well(PATIENCE).await?;
        self.current.store(Arc::new(next));
        Ok(())
    }

    /// The store for one resource's keys: encrypts what is put, decrypts what is read. What the file does not name is
    /// stored as it is.
    pub fn wrap(self: &Arc<Self>, store: Arc<dyn Store>, group: &str, resource: &str) -> Arc<dyn Store> {
        let name = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let names = [name, format!("*.{group}"), "*.*".to_owned()];
        Arc::new(Encrypted { store, rule: Arc::new(Rule::new(self.clone(), names)) })
    }

    /// Waits until the KMS providers are well, for at most `patience`: what is read before may not be decrypted at first.
    ///
    /// # Errors
    /// One that is not.
    pub async fn wait_until_well(&self, patience: Duration) -> Result<(), UnwellPlugin> {
        self.current.load_full().wait_until_well(patience).await
    }

    /// Each KMS provider's name and whether it is well (readyz's `kms-provider-0`, …).
    pub fn kms_health(&self) -> Vec<(String, Result<(), KmsError>)> {
        self.current.load().kms.iter().map(|kms| (kms.name().to_owned(), kms.health())).collect()
    }

    /// Whether a KMS provider speaks the first protocol.
    pub fn has_first_kms(&self) -> bool {
        self.current.load().kms.iter().any(|kms| kms.is_first())
    }
}

impl Loaded {
    async fn wait_until_well(&self, patience: Duration) -> Result<(), UnwellPlugin> {
        let since = tokio::time::Instant::now();
        loop {
            let unwell = self.kms.iter().find_map(|kms| kms.unwell());
            match unwell {
                None => return Ok(()),
                Some(unwell) if since.elapsed() >= patience => return Err(unwell),
                Some(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    fn read(text: String, allowed: EncryptionRules, before: Option<&Loaded>) -> Result<Loaded, EncryptionFault> {
        let config = config::parse(&text, allowed)?;
        let mut loaded = Loaded { text, rules: HashMap::new(), kms: Vec::new() };
        let mut rules: HashMap<String, Vec<(usize, usize)>> = HashMap::new();
        for (at, entry) in config.resources.iter().enumerate() {
            for resource in &entry.resources {
                rules
                    .entry(resource.clone())
                    .or_default()
                    .extend((0..entry.providers.len()).map(|provider| (at, provider)));
            }
        }
        let mut plugins = HashMap::new();
        let entries = config.resources.iter().enumerate();
        for (place, provider) in entries.flat_map(|(at, entry)| {
            entry.providers.iter().enumerate().map(move |(provider, config)| ((at, provider), config))
        }) {
            if let Some(kms) = &provider.kms {
                let (reached, protocol) = (kms.reached(), kms.protocol());
                let known = before.and_then(|before| before.kms.iter().find(|old| old.is(reached, protocol)));
                let plugin = known.cloned().map_or_else(|| Kms::start(reached, protocol), Ok)?;
                plugins.insert(place, plugin.clone());
                loaded.kms.push(plugin);
            }
        }
        for (resource, uses) in rules {
            let mut providers = Vec::new();
            for (entry, provider) in uses {
                let plugin = plugins.get(&(entry, provider));
                Provider::make(&config.resources[entry].providers[provider], plugin, &mut providers)?;
            }
            loaded.rules.insert(resource, Arc::new(providers));
        }
        Ok(loaded)
    }
}

impl Provider {
    /// Adds a provider as the file has it: one for each key.
    fn make(
        config: &config::ProviderConfig,
        plugin: Option<&Arc<Kms>>,
        into: &mut Vec<Provider>,
    ) -> Result<(), CipherError> {
        type Make = fn(&[u8]) -> keys::Result<Cipher>;
        let local: [(_, _, Make); 3] = [
            (&config.aesgcm, "aesgcm", Cipher::gcm),
            (&config.aescbc, "aescbc", Cipher::cbc),
            (&config.secretbox, "secretbox", Cipher::secretbox),
        ];
        for (keys, name, make) in local {
            for key in keys.iter().flat_map(|keys| &keys.keys) {
                let prefix = format!("k8s:enc:{name}:v1:{}:", key.name);
                into.push(Provider::Local { prefix, cipher: make(&key.secret())? });
            }
        }
        if let Some(kms) = plugin {
            into.push(Provider::Kms { prefix: kms.prefix(), kms: kms.clone() });
        }
        if config.identity.is_some() {
            into.push(Provider::Identity);
        }
        Ok(())
    }

    /// What follows this provider's prefix, if the value is one of its own.
    fn own<'a>(&self, stored: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            Provider::Identity => Some(stored),
            Provider::Local { prefix, .. } | Provider::Kms { prefix, .. } => stored.strip_prefix(prefix.as_bytes()),
        }
    }
}
