//! Configuration of authentication: certificates, tokens, headers of trusted proxies.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    time::Duration,
};

use auth::{authn::webhook, authz::config::AuthorizerType};
use generic_server::{features::GateState, pipeline::Anonymous};
use machinery::{codec::pem, meta::go_url::GoUrl};
use outbound::Kubeconfig;

use super::{Authorization, Findings, IdentityProviders};
use crate::flags::Parsed;

const HOUR: Duration = Duration::from_secs(3600);

/// Who a client is.
#[derive(Clone, Debug)]
pub struct Authentication {
    /// `--anonymous-auth`, off when everything is allowed to everyone, or what the configuration file says.
    pub anonymous: Anonymous,
    /// `--oidc-*`, or `--authentication-config`.
    pub identity_providers: IdentityProviders,
    /// `--enable-bootstrap-token-auth`.
    pub bootstrap_tokens: bool,
    /// `--authentication-token-webhook-*`.
    pub token_webhook: Option<TokenWebhook>,
    /// `--client-ca-file`; `None`: the server's own authority.
    pub client_ca: Option<PathBuf>,
    /// `--token-auth-file`.
    pub token_file: Option<PathBuf>,
    /// The `--requestheader-*` flags.
    pub request_header: RequestHeader,
    /// Service account tokens.
    pub service_accounts: ServiceAccounts,
}

/// A webhook that judges bearer tokens.
#[derive(Clone, Debug)]
pub struct TokenWebhook {
    /// The kubeconfig.
    pub file: PathBuf,
    /// The version of the reviews.
    pub version: &'static str,
    /// How long its answers are kept; zero: not at all.
    pub cache_ttl: Duration,
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
    /// `--service-account-signing-endpoint`: the socket of an external signer, which has the keys then; empty: none.
    pub signing_endpoint: String,
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
    pub(super) fn from_flags(
        flags: &Parsed,
        authorization: &Authorization,
        features: &GateState,
        findings: &mut Findings,
    ) -> Self {
        let mut anonymous = flags.bool("anonymous-auth");
        if anonymous && authorization.file.is_none() && authorization.has(AuthorizerType::AlwaysAllow) {
            // As upstream: everything for everyone must not mean everything for strangers.
            anonymous = false;
            if flags.is_given("anonymous-auth") {
                findings.warn("anonymous requests are refused, because AlwaysAllow would let them do anything");
            }
        }
        let identity_providers = IdentityProviders::from_flags(flags, features, findings);
        check_uid_headers(flags, features, findings);
        let by_flag = if anonymous { Anonymous::Everywhere } else { Anonymous::Refused };
        Self {
            anonymous: identity_providers.anonymous().unwrap_or(by_flag),
            identity_providers,
            bootstrap_tokens: flags.bool("enable-bootstrap-token-auth"),
            token_webhook: token_webhook(flags, findings),
            client_ca: findings.file(flags, "client-ca-file"),
            token_file: findings.file(flags, "token-auth-file"),
            request_header: request_header(flags, findings),
            service_accounts: service_accounts(flags, findings),
        }
    }
}

fn token_webhook(flags: &Parsed, findings: &mut Findings) -> Option<TokenWebhook> {
    let flag = "authentication-token-webhook-config-file";
    let file = PathBuf::from(Some(flags.text(flag)).filter(|text| !text.is_empty())?);
    let read = Kubeconfig::load(&file).map(|_| ()).map_err(|why| format!("--{flag}: {why}"));
    let version = webhook::check_version(&flags.text("authentication-token-webhook-version"));
    let version = version.map_err(|why| why.to_string());
    let cache_ttl = flags.duration("authentication-token-webhook-cache-ttl").positive();
    match read.and(version) {
        Ok(version) => Some(TokenWebhook { file, version, cache_ttl }),
        Err(why) => {
            findings.error(why);
            None
        }
    }
}

/// Whoever has the headers of UIDs read must have the feature.
fn check_uid_headers(flags: &Parsed, features: &GateState, findings: &mut Findings) {
    const GATE: &str = "RemoteRequestHeaderUID";
    if !features.is_on(GATE) && !flags.list("requestheader-uid-headers").is_empty() {
        findings.error(format!("--requestheader-uid-headers requires the {GATE:?} feature to be enabled"));
    }
}

/// Without flags: the headers that every aggregated API server expects.
fn request_header(flags: &Parsed, findings: &mut Findings) -> RequestHeader {
    let client_ca = findings.file(flags, "requestheader-client-ca-file");
    let allowed_names = flags.list("requestheader-allowed-names");
    let clients = flags.text("client-ca-file");
    if let Some(proxies) = client_ca.as_deref().filter(|_| allowed_names.is_empty() && !clients.is_empty())
        && overlap(proxies, Path::new(&clients))
    {
        findings.error(
            "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; \
             --requestheader-allowed-names must be specified to ensure regular client certificates cannot set authenticating \
             proxy headers for arbitrary users",
        );
    }
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
        allowed_names,
        username_headers: headers("requestheader-username-headers", "X-Remote-User"),
        uid_headers: headers("requestheader-uid-headers", ""),
        group_headers: headers("requestheader-group-headers", "X-Remote-Group"),
        extra_header_prefixes: headers("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
    }
}

/// Whether two files have a certificate in common.
fn overlap(one: &Path, other: &Path) -> bool {
    let certificates = |path: &Path| -> HashSet<Vec<u8>> {
        let text = std::fs::read(path).unwrap_or_default(); // what cannot be read is told elsewhere
        let certificates = pem::blocks(&text).filter(|block| block.label == b"CERTIFICATE");
        certificates.map(|block| block.der).collect()
    };
    !certificates(one).is_disjoint(&certificates(other))
}

fn issuers(flags: &Parsed, findings: &mut Findings) -> Vec<String> {
    let issuers = flags.list("service-account-issuer");
    for (at, issuer) in issuers.iter().enumerate() {
        // A plain name is allowed; with a colon it must be a URL, as the tokens' specification asks.
        let url = if issuer.contains(':') { GoUrl::parse(issuer).map(|_| ()) } else { Ok(()) };
        if let Err(why) = url {
            findings.error(format!(
                "service-account-issuer {issuer:?} contained a ':' but was not a valid URL: parse {issuer:?}: {why}"
            ));
        } else if issuer.is_empty() {
            findings.error("service-account-issuer should not be an empty string");
        } else if issuers[..at].contains(issuer) {
            findings.error(format!("service-account-issuer {issuer:?} is already specified"));
        }
    }
    if issuers.is_empty() { vec!["https://kubernetes.default.svc.cluster.local".to_owned()] } else { issuers }
}

/// An external signer has all keys, so that none can be given beside it.
fn signing_endpoint(flags: &Parsed, findings: &mut Findings) -> String {
    let endpoint = flags.text("service-account-signing-endpoint");
    if endpoint.is_empty() {
        return endpoint;
    }
    let keys = ["service-account-signing-key-file", "service-account-key-file"];
    if keys.iter().any(|flag| flags.is_given(flag)) {
        findings.error(
            "can't set `--service-account-signing-key-file` and/or `--service-account-key-file` with \
             `--service-account-signing-endpoint` (They are mutually exclusive)",
        );
    }
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if endpoint.strip_prefix('@').is_some_and(|name| !name.split('.').all(is_word)) {
        findings.error(format!(
            "invalid value {endpoint:?} passed for `--service-account-signing-endpoint`, when prefixed with @ must be a valid \
             abstract socket name"
        ));
    }
    endpoint
}

fn check_jwks_uri(uri: &str, findings: &mut Findings) {
    match GoUrl::parse(uri) {
        _ if uri.is_empty() => {}
        Ok(url) if url.scheme == "https" => {}
        Ok(_) => findings.error(format!("service-account-jwks-uri requires https scheme, parsed as: {uri}")),
        Err(why) => {
            findings.error(format!("service-account-jwks-uri must be a valid URL: parse {uri:?}: {why}"));
        }
    }
}

fn service_accounts(flags: &Parsed, findings: &mut Findings) -> ServiceAccounts {
    let issuers = issuers(flags, findings);
    let max_expiration = flags.duration("service-account-max-token-expiration");
    let is_negative = max_expiration.0 < 0;
    let max_expiration = Some(max_expiration.positive()).filter(|d| !d.is_zero());
    if is_negative || max_expiration.is_some_and(|max| max < HOUR || max > Duration::from_secs(1 << 32)) {
        findings.error("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds");
    }
    let audiences = flags.list("api-audiences");
    let keys: Vec<PathBuf> = flags.list("service-account-key-file").into_iter().map(PathBuf::from).collect();
    keys.iter().for_each(|key| findings.check_file("service-account-key-file", key));
    let signing_endpoint = signing_endpoint(flags, findings);
    check_jwks_uri(&flags.text("service-account-jwks-uri"), findings);
    ServiceAccounts {
        audiences: if audiences.is_empty() { issuers.clone() } else { audiences },
        issuers,
        keys,
        signing_key: findings.file(flags, "service-account-signing-key-file"),
        signing_endpoint,
        lookup: flags.bool("service-account-lookup"),
        extend_expiration: flags.bool("service-account-extend-token-expiration"),
        max_expiration,
        jwks_uri: flags.text("service-account-jwks-uri"),
    }
}
