//! The flag table: every flag of upstream's kube-apiserver v1.36, and the few of our own. The parser, the help and the
//! warnings all read it; `config` reads the values by name.

use super::Kind::{self, *};

/// Where the help shows a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Ours,
    Generic,
    Etcd,
    SecureServing,
    Auditing,
    Features,
    Authentication,
    Authorization,
    ApiEnablement,
    EgressSelector,
    Admission,
    Metrics,
    Logs,
    Traces,
    Misc,
    Global,
}

/// Whether setting a flag changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Used,
    /// Accepted and checked; the server says once that it has no effect: what it is about is not in this server, as its help says.
    NotHere,
}

/// One flag.
#[derive(Debug)]
pub(crate) struct Flag {
    pub(crate) section: Section,
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// As the help shows it; empty: the kind's zero.
    pub(crate) default: &'static str,
    pub(crate) effect: Effect,
    pub(crate) help: &'static str,
}

const fn row(
    section: Section,
    name: &'static str,
    kind: Kind,
    default: &'static str,
    effect: Effect,
    help: &'static str,
) -> Flag {
    Flag { section, name, kind, default, effect, help }
}

/// The flag of this name, written with `-` or `_`.
pub(crate) fn find(name: &str) -> Option<&'static Flag> {
    let dashed = name.replace('_', "-");
    FLAGS.iter().find(|flag| flag.name == dashed)
}

use Effect::*;
use Section::*;

/// All flags, in the order of the help.
#[rustfmt::skip]
pub(crate) static FLAGS: &[Flag] = &[
    // Ours: upstream has no such flags.
    row(Ours, "data-dir", String, "data", Used, "The folder of everything that this server keeps: the embedded store, certificates, keys and the admin's kubeconfig."),
    row(Ours, "controllers", Strings, "[-*]", Used, "The controllers that run in this process, as kube-controller-manager's flag says it: '*' all that there are, 'name' this one, '-name' not this one. Default: none. They stand down while a kube-controller-manager holds its lease. All: certificatesigningrequest-approving-controller, certificatesigningrequest-cleaner-controller, certificatesigningrequest-signing-controller, clusterrole-aggregation-controller, disruption-controller, endpoints-controller, endpointslice-controller, endpointslice-mirroring-controller, garbage-collector-controller, kube-apiserver-serving-clustertrustbundle-publisher-controller, legacy-serviceaccount-token-cleaner-controller, namespace-controller, persistentvolume-protection-controller, persistentvolumeclaim-protection-controller, podcertificaterequest-cleaner-controller, resourcequota-controller, root-ca-certificate-publisher-controller, serviceaccount-controller, storage-version-migrator-controller, storageversion-garbage-collector-controller, token-cleaner-controller (not with '*'), ttl-after-finished-controller."),
    row(Ours, "cluster-signing-cert-file", String, "", Used, "The authority that signs requests for certificates, for all signers of Kubernetes itself, in PEM, as kube-controller-manager's flag says it. Unset: this server's own, unless --client-ca-file names another."),
    row(Ours, "cluster-signing-key-file", String, "", Used, "The key of that authority."),
    row(Ours, "cluster-signing-duration", Duration, "8760h0m0s", Used, "How long certificates last that do not ask for less (spec.expirationSeconds)."),
    row(Ours, "cluster-signing-kube-apiserver-client-cert-file", String, "", Used, "The authority for the signer kubernetes.io/kube-apiserver-client. Where any signer has its own, those without one do not sign."),
    row(Ours, "cluster-signing-kube-apiserver-client-key-file", String, "", Used, "The key of that authority."),
    row(Ours, "cluster-signing-kubelet-client-cert-file", String, "", Used, "The authority for the signer kubernetes.io/kube-apiserver-client-kubelet."),
    row(Ours, "cluster-signing-kubelet-client-key-file", String, "", Used, "The key of that authority."),
    row(Ours, "cluster-signing-kubelet-serving-cert-file", String, "", Used, "The authority for the signer kubernetes.io/kubelet-serving."),
    row(Ours, "cluster-signing-kubelet-serving-key-file", String, "", Used, "The key of that authority."),
    row(Ours, "cluster-signing-legacy-unknown-cert-file", String, "", Used, "The authority for the signer kubernetes.io/legacy-unknown."),
    row(Ours, "cluster-signing-legacy-unknown-key-file", String, "", Used, "The key of that authority."),
    row(Ours, "root-ca-file", String, "", Used, "The authority that the controllers publish for pods to trust this server by. Unset: the one of this server's own certificate."),
    row(Ours, "from-snapshot", String, "", Used, "A snapshot or a fork (/debug/storage/snapshot, /debug/storage/fork) that the embedded store begins as, if --data-dir holds none yet."),
    row(Ours, "history", Duration, "", Used, "For how long the embedded store keeps what was, at least: lists and gets ask for it by resourceVersion or by ?at=TIME. Unset: about as long as etcd-compaction-interval."),
    // Generic
    row(Generic, "advertise-address", Ip, "", Used, "The address that members of the cluster reach this server at. Unset: the bind address, or the host's own."),
    row(Generic, "cors-allowed-origins", Strings, "", Used, "Regular expressions of the origins that may use this server from a browser. None: CORS is off."),
    row(Generic, "emulated-version", Strings, "", Used, "The version to behave like: APIs and features are there as they were in it. kube=1.33..1.36, kube= may be left out."),
    row(Generic, "emulation-forward-compatible", Bool, "", Used, "With an emulated version: serve newer versions too, beta or stable, of what is served."),
    row(Generic, "external-hostname", String, "", Used, "The host name that generated addresses (such as the token issuer's documents) use."),
    row(Generic, "feature-gates", FeatureGates, "", Used, "Features to switch on or off, as Name=true,Other=false. One that this server cannot switch stops the start. Those that may be set:"),
    row(Generic, "goaway-chance", Float, "", Used, "The chance (0 to 0.02) that an HTTP/2 request has its client told to open a new connection."),
    row(Generic, "livez-grace-period", Duration, "", Used, "After a start, livez counts tasks that are still starting as alive for so long."),
    row(Generic, "max-mutating-requests-inflight", Int, "200", Used, "How many writes may run at once; 0: no limit."),
    row(Generic, "max-requests-inflight", Int, "400", Used, "How many reads may run at once; 0: no limit."),
    row(Generic, "min-compatibility-version", Strings, "", Used, "The oldest version in the control plane: objects are stored in versions that it knows. From kube=1.33 to the emulated one; unset: the one before that."),
    row(Generic, "min-request-timeout", Int, "1800", Used, "Seconds that a watch lasts at least; each gets a random time between this and twice as much."),
    row(Generic, "request-timeout", Duration, "1m0s", Used, "How long a request may take, unless it is a watch or another stream."),
    row(Generic, "runtime-config-emulation-forward-compatible", Bool, "", Used, "With an emulated version: serve newer versions and resources that runtime-config names, instead of refusing to start."),
    row(Generic, "send-retry-after-while-not-ready-once", Bool, "", Used, "Answer 503 with Retry-After, except about health and metrics, until the server was ready for the first time."),
    row(Generic, "shutdown-delay-duration", Duration, "", Used, "After a signal: how long requests are still served while readyz fails."),
    row(Generic, "shutdown-send-retry-after", Bool, "", Used, "After a signal: answer new requests with 429 while old ones finish, instead of closing the port at once."),
    row(Generic, "shutdown-watch-termination-grace-period", Duration, "", Used, "After a signal: the time over which watches are ended one by one."),
    row(Generic, "storage-initialization-timeout", Duration, "1m0s", Used, "How long a start waits for the storage before it gives up."),
    row(Generic, "strict-transport-security-directives", Strings, "", Used, "Directives for the Strict-Transport-Security header. None: the header is not sent."),
    // Etcd
    row(Etcd, "delete-collection-workers", Int, "1", Used, "How many objects a collection's deletion removes at once."),
    row(Etcd, "enable-garbage-collector", Bool, "true", Used, "Mark dependents and owners for the garbage collector of the controller manager."),
    row(Etcd, "encryption-provider-config", String, "", Used, "A file that says how which resources are encrypted in the storage."),
    row(Etcd, "encryption-provider-config-automatic-reload", Bool, "", Used, "Read the encryption file again when it changes."),
    row(Etcd, "etcd-cafile", String, "", Used, "The certificate authority of the etcd servers."),
    row(Etcd, "etcd-certfile", String, "", Used, "The client certificate for etcd."),
    row(Etcd, "etcd-compaction-interval", Duration, "5m0s", Used, "How often old revisions are compacted; 0: never."),
    row(Etcd, "etcd-count-metric-poll-period", Duration, "1m0s", Used, "How often the number of objects of each resource is counted for metrics."),
    row(Etcd, "etcd-db-metric-poll-interval", Duration, "30s", Used, "How often the size of the database is measured for metrics."),
    row(Etcd, "etcd-healthcheck-timeout", Duration, "2s", Used, "How long the health check of the storage may take."),
    row(Etcd, "etcd-keyfile", String, "", Used, "The key of the client certificate for etcd."),
    row(Etcd, "etcd-prefix", String, "/registry", Used, "What all keys in the storage start with."),
    row(Etcd, "etcd-readycheck-timeout", Duration, "2s", Used, "How long the readiness check of the storage may take."),
    row(Etcd, "etcd-servers", Strings, "", Used, "Addresses of the etcd servers (scheme://host:port). None: the embedded store in --data-dir."),
    row(Etcd, "etcd-servers-overrides", Strings, "", Used, "Other etcd servers for some resources: group/resource#server1;server2. With --etcd-servers, and the same certificates."),
    row(Etcd, "lease-reuse-duration-seconds", Int, "60", Used, "How long one etcd lease is shared by events that expire together."),
    row(Etcd, "storage-backend", String, "", Used, "The kind of storage behind --etcd-servers: etcd3."),
    row(Etcd, "storage-media-type", String, "application/vnd.kubernetes.protobuf", Used, "How built-in objects are written to etcd: application/json or application/vnd.kubernetes.protobuf; both are read. Differs: unset, it is JSON, which costs nothing when it is read; the embedded store is always written in JSON."),
    row(Etcd, "watch-cache", Bool, "true", NotHere, "Answer reads from the watch cache. It is always on here: reads know no other way."),
    row(Etcd, "watch-cache-sizes", Strings, "", NotHere, "Sizes of the watch caches of some resources. Here they follow the objects."),
    // Secure serving
    row(SecureServing, "bind-address", Ip, "0.0.0.0", Used, "The address to listen on; 0.0.0.0 or ::: all addresses of both families."),
    row(SecureServing, "cert-dir", String, "/var/run/kubernetes", Used, "Where the serving certificate that the server makes for itself is kept. Differs: unset, it is in --data-dir."),
    row(SecureServing, "disable-http2-serving", Bool, "", Used, "Offer HTTP/1.1 only."),
    row(SecureServing, "http2-max-streams-per-connection", Int, "", Used, "Streams that a client may open on one HTTP/2 connection; 0: the default of 100."),
    row(SecureServing, "permit-address-sharing", Bool, "", NotHere, "SO_REUSEADDR on the port. It is always set here, so that a restart never waits for old connections."),
    row(SecureServing, "permit-port-sharing", Bool, "", Used, "SO_REUSEPORT: several servers may listen on the same port."),
    row(SecureServing, "secure-port", Int, "6443", Used, "The port to listen on. Differs: 0 picks a free one."),
    row(SecureServing, "tls-cert-file", String, "", Used, "The serving certificate and its chain, PEM. Unset: the server makes one."),
    row(SecureServing, "tls-cipher-suites", Strings, "", Used, "Cipher suites for TLS 1.2. None: all that are secure."),
    row(SecureServing, "tls-curve-preferences", Int32Slice, "[]", Used, "Key exchange groups to allow, by IANA number, best first."),
    row(SecureServing, "tls-min-version", String, "", Used, "The oldest TLS version: VersionTLS12 or VersionTLS13 (older ones are never spoken)."),
    row(SecureServing, "tls-private-key-file", String, "", Used, "The key of the serving certificate, PEM."),
    row(SecureServing, "tls-sni-cert-key", NamedCertKey, "[]", Used, "Another certificate, for other names: cert.pem,key.pem or cert.pem,key.pem:name1,name2. May be repeated."),
    // Auditing
    row(Auditing, "audit-log-batch-buffer-size", Int, "10000", Used, "Events that wait for the log in batch mode."),
    row(Auditing, "audit-log-batch-max-size", Int, "1", Used, "Events in one batch for the log."),
    row(Auditing, "audit-log-batch-max-wait", Duration, "", Used, "How long a batch for the log waits to fill."),
    row(Auditing, "audit-log-batch-throttle-burst", Int, "", Used, "Batches for the log that may go out at once."),
    row(Auditing, "audit-log-batch-throttle-enable", Bool, "", Used, "Limit the rate of batches for the log."),
    row(Auditing, "audit-log-batch-throttle-qps", Float32, "", Used, "Batches for the log per second."),
    row(Auditing, "audit-log-compress", Bool, "", Used, "Compress audit log files that were rotated."),
    row(Auditing, "audit-log-format", String, "json", Used, "legacy or json."),
    row(Auditing, "audit-log-maxage", Int, "366", Used, "Days that rotated audit logs are kept."),
    row(Auditing, "audit-log-maxbackup", Int, "100", Used, "Rotated audit logs that are kept."),
    row(Auditing, "audit-log-maxsize", Int, "100", Used, "Megabytes after which the audit log is rotated."),
    row(Auditing, "audit-log-mode", String, "blocking", Used, "blocking, blocking-strict or batch."),
    row(Auditing, "audit-log-path", String, "", Used, "The audit log; - is standard output."),
    row(Auditing, "audit-log-truncate-enabled", Bool, "", Used, "Shorten events that are too large for the log."),
    row(Auditing, "audit-log-truncate-max-batch-size", Int, "10485760", Used, "Bytes of a batch for the log."),
    row(Auditing, "audit-log-truncate-max-event-size", Int, "102400", Used, "Bytes of an event for the log."),
    row(Auditing, "audit-log-version", String, "audit.k8s.io/v1", Used, "The API version of the events in the log."),
    row(Auditing, "audit-policy-file", String, "", Used, "Which requests are audited, and how much of them."),
    row(Auditing, "audit-webhook-batch-buffer-size", Int, "10000", Used, "Events that wait for the webhook in batch mode."),
    row(Auditing, "audit-webhook-batch-max-size", Int, "400", Used, "Events in one batch for the webhook."),
    row(Auditing, "audit-webhook-batch-max-wait", Duration, "30s", Used, "How long a batch for the webhook waits to fill."),
    row(Auditing, "audit-webhook-batch-throttle-burst", Int, "15", Used, "Batches for the webhook that may go out at once."),
    row(Auditing, "audit-webhook-batch-throttle-enable", Bool, "true", Used, "Limit the rate of batches for the webhook."),
    row(Auditing, "audit-webhook-batch-throttle-qps", Float32, "10", Used, "Batches for the webhook per second."),
    row(Auditing, "audit-webhook-config-file", String, "", Used, "A kubeconfig of the audit webhook."),
    row(Auditing, "audit-webhook-initial-backoff", Duration, "10s", Used, "How long to wait before the first retry of a call to the audit webhook."),
    row(Auditing, "audit-webhook-mode", String, "batch", Used, "blocking, blocking-strict or batch."),
    row(Auditing, "audit-webhook-truncate-enabled", Bool, "", Used, "Shorten events that are too large for the webhook."),
    row(Auditing, "audit-webhook-truncate-max-batch-size", Int, "10485760", Used, "Bytes of a batch for the webhook."),
    row(Auditing, "audit-webhook-truncate-max-event-size", Int, "102400", Used, "Bytes of an event for the webhook."),
    row(Auditing, "audit-webhook-version", String, "audit.k8s.io/v1", Used, "The API version of the events for the webhook."),
    // Features
    row(Features, "contention-profiling", Bool, "", NotHere, "Profile locks of the Go runtime, which this server has none of."),
    row(Features, "debug-socket-path", String, "", Used, "A Unix socket that serves /debug/pprof and /debug/flags to whoever may open it, without asking who it is."),
    row(Features, "enable-priority-and-fairness", Bool, "true", Used, "Let requests take turns by priority levels and flows, within the sum of both limits of requests at once."),
    row(Features, "profiling", Bool, "true", Used, "Serve profiles under /debug/pprof."),
    // Authentication
    row(Authentication, "anonymous-auth", Bool, "true", Used, "Requests without credentials are system:anonymous instead of being refused."),
    row(Authentication, "api-audiences", Strings, "", Used, "The audiences that this server's tokens are for. None: the service account issuers."),
    row(Authentication, "authentication-config", String, "", Used, "A file that configures identity providers and anonymous requests; it is followed."),
    row(Authentication, "authentication-token-webhook-cache-ttl", Duration, "2m0s", Used, "How long the answers of the token webhook are kept."),
    row(Authentication, "authentication-token-webhook-config-file", String, "", Used, "A kubeconfig of the webhook that judges bearer tokens."),
    row(Authentication, "authentication-token-webhook-version", String, "v1beta1", Used, "The API version of the TokenReviews that are sent to the webhook."),
    row(Authentication, "client-ca-file", String, "", Used, "Client certificates signed by one of these authorities authenticate their common name. Unset: those of the CA in --data-dir."),
    row(Authentication, "enable-bootstrap-token-auth", Bool, "", Used, "Accept bootstrap tokens from secrets in kube-system."),
    row(Authentication, "oidc-ca-file", String, "", Used, "The certificate authority of the OpenID server."),
    row(Authentication, "oidc-client-id", String, "", Used, "The client that OpenID tokens must be for."),
    row(Authentication, "oidc-groups-claim", String, "", Used, "The claim with the user's groups."),
    row(Authentication, "oidc-groups-prefix", String, "", Used, "What is put before every OpenID group."),
    row(Authentication, "oidc-issuer-url", String, "", Used, "The issuer of OpenID tokens."),
    row(Authentication, "oidc-required-claim", Claims, "", Used, "A claim=value that OpenID tokens must have. May be repeated."),
    row(Authentication, "oidc-signing-algs", Strings, "[RS256]", Used, "Signature algorithms of OpenID tokens."),
    row(Authentication, "oidc-username-claim", String, "sub", Used, "The claim with the user's name."),
    row(Authentication, "oidc-username-prefix", String, "", Used, "What is put before every OpenID user name."),
    row(Authentication, "requestheader-allowed-names", Strings, "", Used, "Common names of the client certificates that may name users in headers. None: any."),
    row(Authentication, "requestheader-client-ca-file", String, "", Used, "The authority of the client certificates that may name users in headers."),
    row(Authentication, "requestheader-extra-headers-prefix", Strings, "", Used, "Prefixes of the headers with the user's extra attributes."),
    row(Authentication, "requestheader-group-headers", Strings, "", Used, "Headers with the user's groups."),
    row(Authentication, "requestheader-uid-headers", Strings, "", Used, "Headers with the user's uid."),
    row(Authentication, "requestheader-username-headers", Strings, "", Used, "Headers with the user's name."),
    row(Authentication, "service-account-extend-token-expiration", Bool, "true", Used, "Tokens that pods get are valid for a year, to find clients that do not renew them."),
    row(Authentication, "service-account-issuer", StringArray, "", Used, "The issuer of service account tokens; the first signs, all are accepted. May be repeated."),
    row(Authentication, "service-account-jwks-uri", String, "", Used, "Where clients find the keys of service account tokens."),
    row(Authentication, "service-account-key-file", StringArray, "", Used, "Keys that service account tokens are checked with, PEM. May be repeated."),
    row(Authentication, "service-account-lookup", Bool, "true", Used, "A service account token is only good while its account exists."),
    row(Authentication, "service-account-max-token-expiration", Duration, "", Used, "The longest validity of a service account token."),
    row(Authentication, "token-auth-file", String, "", Used, "A CSV file of static tokens: token,user,uid,\"group1,group2\"."),
    // Authorization
    row(Authorization, "authorization-config", String, "", Used, "A file that configures authorization, followed while the server runs. In place of the other flags of authorization."),
    row(Authorization, "authorization-mode", Strings, "", Used, "Who decides, in order: AlwaysAllow, AlwaysDeny, ABAC, Webhook, RBAC, Node. Unset: AlwaysAllow."),
    row(Authorization, "authorization-policy-file", String, "", Used, "The policies of the ABAC mode."),
    row(Authorization, "authorization-webhook-cache-authorized-ttl", Duration, "5m0s", Used, "How long a webhook's yes is kept."),
    row(Authorization, "authorization-webhook-cache-unauthorized-ttl", Duration, "30s", Used, "How long a webhook's no is kept."),
    row(Authorization, "authorization-webhook-config-file", String, "", Used, "A kubeconfig of the authorization webhook."),
    row(Authorization, "authorization-webhook-version", String, "v1beta1", Used, "The API version of the SubjectAccessReviews that are sent to the webhook."),
    // API enablement
    row(ApiEnablement, "runtime-config", Map, "", Used, "API versions to switch on or off: apps/v1=true, api/beta=false, api/all=true."),
    // Egress selector
    row(EgressSelector, "egress-selector-config-file", String, "", Used, "A file that says through which proxies connections to the cluster, the control plane and etcd leave."),
    // Admission
    row(Admission, "admission-control", Strings, "", Used, "Deprecated: exactly these admission plugins, in order."),
    row(Admission, "admission-control-config-file", String, "", Used, "A file that configures admission plugins."),
    row(Admission, "default-not-ready-toleration-seconds", Int, "300", Used, "How long pods tolerate a node that is not ready, unless they say otherwise."),
    row(Admission, "default-unreachable-toleration-seconds", Int, "300", Used, "How long pods tolerate a node that is unreachable, unless they say otherwise."),
    row(Admission, "disable-admission-plugins", Strings, "", Used, "Admission plugins to switch off."),
    row(Admission, "enable-admission-plugins", Strings, "", Used, "Admission plugins to switch on."),
    // Metrics
    row(Metrics, "allow-metric-labels", StringToString, "[]", Used, "Values that labels of metrics may have; others become \"unexpected\"."),
    row(Metrics, "allow-metric-labels-manifest", String, "", Used, "The same, from a file."),
    row(Metrics, "disabled-metrics", Strings, "", Used, "Metrics to leave out."),
    row(Metrics, "show-hidden-metrics-for-version", String, "", Used, "Show metrics that were hidden since that version, which may only be the last one: none was."),
    // Logs
    row(Logs, "log-flush-frequency", Duration, "5s", Used, "How long lines of logs are kept back at most that are no errors, where they are buffered."),
    row(Logs, "log-json-info-buffer-size", Quantity, "", Used, "In JSON, split: how many bytes of lines that are no errors are kept back until they are written; 0: none. With the feature LoggingAlphaOptions."),
    row(Logs, "log-json-split-stream", Bool, "", Used, "In JSON: errors go to standard error, the rest to standard output. With the feature LoggingAlphaOptions."),
    row(Logs, "log-text-info-buffer-size", Quantity, "", Used, "In text, split: how many bytes of lines that are no errors are kept back until they are written; 0: none. With the feature LoggingAlphaOptions."),
    row(Logs, "log-text-split-stream", Bool, "", Used, "In text: errors go to standard error, the rest to standard output. With the feature LoggingAlphaOptions."),
    row(Logs, "logging-format", String, "text", Used, "text or json."),
    row(Logs, "v", Level, "", Used, "How much to log: 0 (warnings and what matters) to 10."),
    row(Logs, "vmodule", Pattern, "", Used, "Other levels for some modules: module=level, comma separated."),
    // Traces
    row(Traces, "tracing-config-file", String, "", Used, "A file that says which requests are traced, and to which OpenTelemetry collector (OTLP over gRPC) their spans are sent."),
    // Misc
    row(Misc, "aggregator-reject-forwarding-redirect", Bool, "true", Used, "Answer an aggregated server's redirect with an error instead of passing it on."),
    row(Misc, "allow-privileged", Bool, "", Used, "Accept privileged containers."),
    row(Misc, "coordinated-leadership-lease-duration", Duration, "15s", Used, "How long a lease of coordinated leader election is good for that this server holds and does not renew."),
    row(Misc, "coordinated-leadership-renew-deadline", Duration, "10s", Used, "How long this server tries to renew that lease before it gives up."),
    row(Misc, "coordinated-leadership-retry-period", Duration, "2s", Used, "How often it renews that lease, or tries to get it."),
    row(Misc, "enable-aggregator-routing", Bool, "", Used, "Send aggregated requests to the endpoints' addresses instead of the service's."),
    row(Misc, "enable-logs-handler", Bool, "", Used, "Deprecated: serve what is in /var/log below /logs."),
    row(Misc, "endpoint-reconciler-type", String, "lease", Used, "Who keeps the addresses of the kubernetes service: lease, master-count or none."),
    row(Misc, "event-ttl", Duration, "1h0m0s", Used, "How long events are kept."),
    row(Misc, "kubelet-certificate-authority", String, "", Used, "The certificate authority of the kubelets."),
    row(Misc, "kubelet-client-certificate", String, "", Used, "The client certificate for kubelets."),
    row(Misc, "kubelet-client-key", String, "", Used, "The key of the client certificate for kubelets."),
    row(Misc, "kubelet-preferred-address-types", Strings, "[Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP]", Used, "Which of a node's addresses to use, best first."),
    row(Misc, "kubelet-timeout", Duration, "5s", NotHere, "How long a kubelet may take to answer. Requests to kubelets last as long as those that ask for them, here as in upstream's server, which does not read it either."),
    row(Misc, "kubernetes-service-node-port", Int, "", Used, "The node port of the kubernetes service; 0: it has none."),
    row(Misc, "max-connection-bytes-per-sec", Int, "", Used, "What an upgraded connection (exec, attach, port-forward, proxies) carries a second in each direction, in bytes; 0: no limit."),
    row(Misc, "peer-advertise-ip", String, "", Used, "The address at which other API servers reach this one, with --peer-advertise-port; unset: --advertise-address and the port."),
    row(Misc, "peer-advertise-port", String, "", Used, "The port at which other API servers reach this one, with --peer-advertise-ip."),
    row(Misc, "peer-ca-file", String, "", Used, "The certificate authority of the other API servers. With it, and with etcd, requests for what only they serve are handed on to them."),
    row(Misc, "proxy-client-cert-file", String, "", Used, "The client certificate that this server shows aggregated API servers and webhooks. Unset: one of its own."),
    row(Misc, "proxy-client-key-file", String, "", Used, "The key of that certificate."),
    row(Misc, "service-account-signing-endpoint", String, "", Used, "The socket of an external signer of service account tokens; a name after @: an abstract one."),
    row(Misc, "service-account-signing-key-file", String, "", Used, "The key that signs service account tokens, PEM. Unset: one of its own."),
    row(Misc, "service-cluster-ip-range", String, "", Used, "The network (or two, of different families) that services get their addresses from. Unset: 10.0.0.0/24."),
    row(Misc, "service-node-port-range", PortRange, "30000-32767", Used, "The ports that services of type NodePort get theirs from."),
    // Global
    row(Global, "help", Help, "", Used, "Show this text."),
    row(Global, "version", Version, "", Used, "Show the version; raw: with its parts."),
];
