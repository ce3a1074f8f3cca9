//! Who a client is: certificates, tokens, headers of trusted proxies.

use std::{path::PathBuf, time::Duration};

use super::{Authorization, AuthorizationMode, Findings};
use crate::flags::Parsed;

const HOUR: Duration = Duration::from_secs(3600);

/// Who a client is.
#[derive(Clone, Debug)]
pub struct Authentication {
    /// `--anonymous-auth`, off when everything is allowed to everyone.
    pub anonymous: bool,
    /// `--client-ca-file`; `None`: the server's own authority.
    pub client_ca: Option<PathBuf>,
    /// `--token-auth-file`.
    pub token_file: Option<PathBuf>,
    /// The `--requestheader-*` flags.
    pub request_header: RequestHeader,
    /// Service account tokens.
    pub service_accounts: ServiceAccounts,
}

/// Whom to believe when it names a user in headers, and in which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// `--requestheader-client-ca-file`, the authority of the proxies' certificates; `None`: the server's own.
    pub client_ca: Option<PathBuf>,
    /// Common names that may; empty: any, of the server's own authority its own proxy.
    pub allowed_names: Vec<String>,
    /// Headers with the user's name.
    pub username_headers: Vec<String>,
    /// Headers with the user's uid.
    pub uid_headers: Vec<String>,
    /// Headers with the user's groups.
    pub group_headers: Vec<String>,
    /// Prefixes of headers with extra attributes.
    pub extra_header_prefixes: Vec<String>,
}

/// Service account tokens.
#[derive(Clone, Debug)]
pub struct ServiceAccounts {
    /// `--service-account-issuer`; the first signs. Never empty.
    pub issuers: Vec<String>,
    /// `--api-audiences`; the issuers when it is not given.
    pub audiences: Vec<String>,
    /// `--service-account-key-file`; empty: the public half of the signing key.
    pub keys: Vec<PathBuf>,
    /// `--service-account-signing-key-file`; `None`: the server's own key.
    pub signing_key: Option<PathBuf>,
    /// `--service-account-lookup`.
    pub lookup: bool,
    /// `--service-account-extend-token-expiration`.
    pub extend_expiration: bool,
    /// `--service-account-max-token-expiration`; `None`: as long as asked for.
    pub max_expiration: Option<Duration>,
    /// `--service-account-jwks-uri`, empty when unset.
    pub jwks_uri: String,
}

impl Authentication {
    pub(super) fn from_flags(flags: &Parsed, authorization: &Authorization, findings: &mut Findings) -> Self {
        let mut anonymous = flags.bool("anonymous-auth");
        if anonymous && authorization.modes.contains(&AuthorizationMode::AlwaysAllow) {
            // As upstream: everything for everyone must not mean everything for strangers.
            anonymous = false;
            if flags.is_given("anonymous-auth") {
                findings.warn("anonymous requests are refused, because AlwaysAllow would let them do anything");
            }
        }
        if findings.file(flags, "authentication-config").is_some() {
            // It may restrict what is allowed without it.
            findings.error("--authentication-config is not read by this server yet");
        }
        if !flags.text("service-account-signing-endpoint").is_empty() {
            // Tokens would be signed by another key than the one that was asked for.
            findings.error("--service-account-signing-endpoint is not followed by this server yet");
        }
        Self {
            anonymous,
            client_ca: findings.file(flags, "client-ca-file"),
            token_file: findings.file(flags, "token-auth-file"),
            request_header: request_header(flags, findings),
            service_accounts: service_accounts(flags, findings),
        }
    }
}

/// Without flags: the headers that every aggregated API server expects.
fn request_header(flags: &Parsed, findings: &mut Findings) -> RequestHeader {
    let client_ca = findings.file(flags, "requestheader-client-ca-file");
    let mut headers = |flag: &str, usual: &str| {
        let names = flags.list(flag);
        for name in &names {
            if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
                findings.error(format!("--{flag}: {name:?} is not a valid header name"));
            }
        }
        if names.is_empty() && !usual.is_empty() { vec![usual.to_owned()] } else { names }
    };
    RequestHeader {
        client_ca,
        allowed_names: flags.list("requestheader-allowed-names"),
        username_headers: headers("requestheader-username-headers", "X-Remote-User"),
        uid_headers: headers("requestheader-uid-headers", ""),
        group_headers: headers("requestheader-group-headers", "X-Remote-Group"),
        extra_header_prefixes: headers("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
    }
}

fn service_accounts(flags: &Parsed, findings: &mut Findings) -> ServiceAccounts {
    let mut issuers = flags.list("service-account-issuer");
    for issuer in &issuers {
        // A plain name is allowed; with a colon it must be a URL, as the tokens' specification asks.
        let is_url = issuer.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty());
        if issuer.is_empty() {
            findings.error("service-account-issuer is a required flag");
        } else if issuer.contains(':') && !is_url {
            findings.error(format!("service-account-issuer {issuer:?} contained a ':' but was not a valid URL"));
        }
    }
    if issuers.is_empty() {
        issuers.push("https://kubernetes.default.svc.cluster.local".to_owned());
    }
    let max_expiration =
        Some(findings.duration(flags, "service-account-max-token-expiration")).filter(|d| !d.is_zero());
    if max_expiration.is_some_and(|max| max < HOUR || max > Duration::from_secs(1 << 32)) {
        findings.error("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds");
    }
    let audiences = flags.list("api-audiences");
    let keys: Vec<PathBuf> = flags.list("service-account-key-file").into_iter().map(PathBuf::from).collect();
    keys.iter().for_each(|key| findings.check_file("service-account-key-file", key));
    ServiceAccounts {
        audiences: if audiences.is_empty() { issuers.clone() } else { audiences },
        issuers,
        keys,
        signing_key: findings.file(flags, "service-account-signing-key-file"),
        lookup: flags.bool("service-account-lookup"),
        extend_expiration: flags.bool("service-account-extend-token-expiration"),
        max_expiration,
        jwks_uri: flags.text("service-account-jwks-uri"),
    }
}
