//! etcd's flags and environment, as they are typed, checked, and made a configuration.

mod error;
mod table;

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use storage::embedded::{EmbeddedOptions, UnsyncedFiles};
use tracing::level_filters::LevelFilter;

pub use self::error::{FlagError, UrlFault};
use self::table::{Effect, FLAGS, Kind, Row};
use crate::{
    compaction::{self, Retention},
    database::Limits,
    serve::{Config, Listen, TlsFiles},
};

/// The quota where none is set, as etcd has it.
const QUOTA: u64 = 2 << 30;
const CLIENTS: &str = "http://localhost:2379";
const PEERS: &str = "http://localhost:2380";

/// What the arguments ask for.
#[derive(Debug)]
pub enum Asked {
    /// To serve.
    Run(Box<Flags>),
    /// To tell the version.
    Version,
    /// To tell the flags.
    Help,
}

/// What the flags say.
#[derive(Debug)]
pub struct Flags {
    /// How the server works.
    pub config: Config,
    /// What is logged.
    pub log_level: LevelFilter,
}

/// All flags, for people.
pub fn help() -> String {
    let row = |row: &Row| {
        let value = if row.kind == Kind::Value { " VALUE" } else { "" };
        let refused = if row.effect == Effect::Refused { "Refused. " } else { "" };
        format!("  --{}{value}\n        {refused}{}", row.name, row.help)
    };
    let rows: Vec<String> = FLAGS.iter().map(row).collect();
    format!(
        "Usage: etcd [FLAGS]\n\nEvery flag can be given by the environment too: --data-dir is ETCD_DATA_DIR.\n\n{}",
        rows.join("\n")
    )
}

impl Flags {
    /// Reads arguments, and the environment (`ETCD_DATA_DIR` is `--data-dir`), which counts less.
    ///
    /// # Errors
    /// A flag that there is not or that is refused, a value that is wrong, flags that do not go together.
    pub fn parse(
        arguments: impl Iterator<Item = String>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Asked, FlagError> {
        let mut given = Given::default();
        let by_variable: HashMap<String, &Row> = FLAGS.iter().map(|row| (variable(row.name), row)).collect();
        for (name, value) in environment {
            if let Some(row) = by_variable.get(&name) {
                given.set(row, value)?;
            }
        }
        let mut arguments = arguments.peekable();
        while let Some(argument) = arguments.next() {
            let Some(text) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
                return Err(FlagError::NoFlag(argument));
            };
            let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
            match name {
                "version" => return Ok(Asked::Version),
                "help" | "h" => return Ok(Asked::Help),
                _ => {}
            }
            let row = FLAGS.iter().find(|row| row.name == name);
            let row = row.ok_or_else(|| FlagError::Unknown(name.to_owned()))?;
            let value = match (value, row.kind) {
                (Some(value), _) => value.to_owned(),
                (None, Kind::Bool) => "true".into(),
                (None, Kind::Value) => arguments.next().ok_or(FlagError::NoValue(row.name))?,
            };
            given.set(row, value)?;
        }
        given.flags().map(|flags| Asked::Run(Box::new(flags)))
    }
}

fn variable(flag: &str) -> String {
    format!("ETCD_{}", flag.replace('-', "_").to_uppercase())
}

/// The flags as they were given.
#[derive(Default)]
struct Given(HashMap<&'static str, String>);

impl Given {
    fn set(&mut self, row: &Row, value: String) -> Result<(), FlagError> {
        if row.kind == Kind::Bool {
            parse_bool(row.name, &value)?;
        }
        // What says that something is off, or as it is anyway, asks for nothing.
        let is_nothing = matches!(&*value, "" | "0" | "false" | "0s");
        if row.effect == Effect::Refused && !is_nothing {
            return Err(FlagError::Refused { flag: row.name, value, why: row.help });
        }
        self.0.insert(row.name, value);
        Ok(())
    }

    fn get(&self, name: &str) -> Option<&str> {
        debug_assert!(FLAGS.iter().any(|row| row.name == name && row.effect == Effect::Used), "{name} is Used");
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn is_on(&self, name: &'static str) -> Result<bool, FlagError> {
        self.get(name).map_or(Ok(false), |value| parse_bool(name, value))
    }

    fn number<T: std::str::FromStr>(&self, name: &'static str, default: T) -> Result<T, FlagError> {
        let Some(text) = self.get(name) else { return Ok(default) };
        text.parse().map_err(|_| FlagError::invalid(name, text))
    }

    fn flags(&self) -> Result<Flags, FlagError> {
        let name = self.get("name").unwrap_or("default").to_owned();
        let peer_urls = self.urls("initial-advertise-peer-urls", PEERS)?;
        self.urls("listen-peer-urls", PEERS)?;
        self.check_cluster(&name)?;
        if self.get("listen-client-urls").is_some() && self.get("advertise-client-urls").is_none() {
            return Err(FlagError::NotAdvertised);
        }
        let quota: i64 = self.number("quota-backend-bytes", 0)?;
        let limits = Limits {
            txn_ops: self.number("max-txn-ops", 128)?,
            request_bytes: self.number("max-request-bytes", 1536 << 10)?,
            quota: if quota == 0 { QUOTA } else { u64::try_from(quota).unwrap_or(0) },
        };
        let config = Config {
            data_dir: self.get("data-dir").map_or_else(|| format!("{name}.etcd").into(), PathBuf::from),
            from_snapshot: self.get("from-snapshot").map(PathBuf::from),
            store: self.store()?,
            limits,
            listen: self.listen()?,
            tls: self.tls()?,
            client_urls: self.urls("advertise-client-urls", CLIENTS)?.into_iter().map(Url::into_text).collect(),
            peer_urls: peer_urls.into_iter().map(Url::into_text).collect(),
            progress_interval: self.progress_interval()?,
            retention: self.retention()?,
            name,
        };
        Ok(Flags { config, log_level: self.log_level()? })
    }

    fn store(&self) -> Result<EmbeddedOptions, FlagError> {
        Ok(match self.is_on("unsafe-no-fsync")? {
            true => EmbeddedOptions { relaxed: true, files: Arc::new(UnsyncedFiles), ..EmbeddedOptions::default() },
            false => EmbeddedOptions::default(),
        })
    }

    /// Refuses a cluster of others, or of several.
    fn check_cluster(&self, name: &str) -> Result<(), FlagError> {
        if let Some(state) = self.get("initial-cluster-state").filter(|state| !matches!(*state, "new" | "existing")) {
            return Err(FlagError::invalid("initial-cluster-state", state));
        }
        let Some(cluster) = self.get("initial-cluster") else { return Ok(()) };
        let mut names: Vec<&str> =
            cluster.split(',').map(|member| member.split_once('=').map_or(member, |(name, _)| name)).collect();
        names.dedup();
        match &*names {
            [one] if *one == name => Ok(()),
            [_] => Err(FlagError::NotOfCluster(name.to_owned())),
            _ => Err(FlagError::Cluster(cluster.to_owned())),
        }
    }

    fn listen(&self) -> Result<Vec<Listen>, FlagError> {
        let mut listen = Vec::new();
        for (flag, default, metrics_only) in [("listen-client-urls", CLIENTS, false), ("listen-metrics-urls", "", true)]
        {
            for url in self.urls(flag, default)? {
                listen.push(Listen { tls: url.tls, address: url.address, metrics_only });
            }
        }
        Ok(listen)
    }

    fn tls(&self) -> Result<Option<TlsFiles>, FlagError> {
        let ca = self.get("trusted-ca-file");
        match (self.get("cert-file"), self.get("key-file")) {
            (Some(certificate), Some(key)) => {
                let wanted = self.is_on("client-cert-auth")?;
                // etcd asks for certificates as soon as it knows who signs them.
                if wanted && ca.is_none() {
                    return Err(FlagError::NoClientAuthority);
                }
                let client_ca = ca.map(PathBuf::from);
                Ok(Some(TlsFiles { certificate: certificate.into(), key: key.into(), client_ca }))
            }
            (None, None) => Ok(None),
            _ => Err(FlagError::HalfIdentity),
        }
    }

    fn progress_interval(&self) -> Result<Duration, FlagError> {
        let names = ["watch-progress-notify-interval", "experimental-watch-progress-notify-interval"];
        let Some((name, text)) = names.iter().find_map(|name| Some((name, self.get(name)?))) else {
            return Ok(Duration::from_secs(600));
        };
        let interval = parse_duration(text).filter(|interval| *interval >= Duration::from_millis(1));
        interval.ok_or_else(|| FlagError::invalid(name, text))
    }

    fn retention(&self) -> Result<Option<Retention>, FlagError> {
        let mode = self.get("auto-compaction-mode").unwrap_or("periodic");
        Ok(compaction::parse(mode, self.get("auto-compaction-retention").unwrap_or("0"), parse_duration)?)
    }

    fn log_level(&self) -> Result<LevelFilter, FlagError> {
        match self.get("log-level").unwrap_or("info") {
            "debug" => Ok(LevelFilter::DEBUG),
            "info" => Ok(LevelFilter::INFO),
            "warn" => Ok(LevelFilter::WARN),
            "error" | "dpanic" | "panic" | "fatal" => Ok(LevelFilter::ERROR),
            other => Err(FlagError::LogLevel(other.to_owned())),
        }
    }

    fn urls(&self, name: &'static str, default: &str) -> Result<Vec<Url>, FlagError> {
        let text = self.get(name).unwrap_or(default);
        let urls = text.split(',').filter(|url| !url.is_empty());
        let wrong = |why| FlagError::Url { flag: name, value: text.to_owned(), why };
        urls.map(|url| Url::parse(url).map_err(wrong)).collect()
    }
}

/// A URL of a server, without a path.
struct Url {
    tls: bool,
    address: String,
    text: String,
}

impl Url {
    fn parse(text: &str) -> Result<Url, UrlFault> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlFault::NoScheme)?;
        let tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(UrlFault::Scheme(text.to_owned())),
        };
        let address = rest.strip_suffix('/').unwrap_or(rest);
        if address.contains('/') {
            return Err(UrlFault::Path(text.to_owned()));
        }
        let port = address.rsplit_once(':').map(|(_, port)| port);
        if port.and_then(|port| port.parse::<u16>().ok()).is_none() {
            return Err(UrlFault::NoPort(text.to_owned()));
        }
        Ok(Url { tls, address: address.to_owned(), text: text.to_owned() })
    }

    fn into_text(self) -> String {
        self.text
    }
}

fn parse_bool(name: &'static str, text: &str) -> Result<bool, FlagError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(FlagError::Bool { flag: name, value: text.to_owned() }),
    }
}

/// A duration as Go writes it: numbers with units, one after the other.
fn parse_duration(text: &str) -> Option<Duration> {
    let (mut rest, mut all) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(unit_at);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        all += Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        rest = next;
    }
    (!text.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests;
