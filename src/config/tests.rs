use std::ffi::OsString;

use auth::authz::config::AuthorizerType;
use generic_server::pipeline::Anonymous;

use super::*;
use crate::flags;

fn configure(arguments: &[&str]) -> Result<Config, String> {
    let parsed = flags::parse(arguments.iter().map(OsString::from)).expect("parses");
    Config::from_flags(&parsed).map_err(|error| error.to_string())
}

#[test]
fn a_file_tells_plugins_what_to_do() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).expect("is written");
        format!("--admission-control-config-file={}", dir.path().join(name).display())
    };
    write(
        "quota.yaml",
        "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\nlimitedResources:\n\
         - resource: pods\n  matchContains: [cpu]\n",
    );
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n";
    let file = write(
        "all.yaml",
        &format!("{head}- name: ResourceQuota\n  path: quota.yaml\n- name: EventRateLimit\n  configuration: {{}}\n"),
    );
    let config = configure(&[&file]).expect("is valid");
    assert_eq!(config.admission.settings.limited_resources[0].contains, ["cpu"]);
    assert!(config.warnings.iter().any(|warning| warning.contains("EventRateLimit")), "{:?}", config.warnings);
    let hook = "- name: MutatingAdmissionWebhook\n  configuration: {kind: WebhookAdmission, apiVersion: v1}\n";
    let file = write("hook.yaml", &format!("{head}{hook}"));
    let why = configure(&[&file]).expect_err("a configuration of another kind");
    assert!(why.starts_with("couldn't init admission plugin \"MutatingAdmissionWebhook\": no kind "), "{why}");
    let policies = "- name: MutatingAdmissionPolicy\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, \
                    kind: MutatingAdmissionPolicyConfiguration, staticManifestsDir: ";
    let place = dir.path().display();
    let file = write("policies.yaml", &format!("{head}{policies}{place}}}\n"));
    let gate = "--feature-gates=ManifestBasedAdmissionControlConfig=true";
    let config = configure(&[&file, gate]).expect("is valid");
    let [(plugin, told)] = config.admission.configs.as_slice() else { panic!("one plugin is told something") };
    assert_eq!((*plugin, told.directory.as_deref()), ("MutatingAdmissionPolicy", Some(dir.path())));
    let why = configure(&[&file]).expect_err("the gate is off");
    assert!(why.contains("staticManifestsDir: Forbidden"), "{why}");
    let file = write("typed.yaml", &head.replace("plugins:", "plugins: 7"));
    let why = configure(&[&file]).expect_err("no list");
    assert!(
        why.ends_with(
            "typed.yaml: json: cannot unmarshal number into Go struct field AdmissionConfiguration.plugins of type \
             []v1.AdmissionPluginConfiguration"
        ),
        "{why}"
    );
    let file = write("odd.yaml", &format!("{head}- name: PodSecurity\n  configuration: {{kind: Odd}}\n"));
    let why = configure(&[&file]).expect_err("a configuration of another kind");
    assert_eq!(why, "failed to read plugin config: PodSecurity:  Odd is no PodSecurityConfiguration");
}

/// The types of the authorizers.
fn types(config: &Config) -> Vec<AuthorizerType> {
    config.authorization.authorizers.iter().map(|authorizer| authorizer.of_type).collect()
}

#[test]
fn no_flags_make_a_configuration() {
    let config = configure(&[]).expect("is valid");
    assert_eq!(config.data_dir, PathBuf::from("data"));
    assert_eq!(config.serving.bind.port, 6443);
    assert!(config.serving.bind.address.is_unspecified());
    assert!(config.serving.http2);
    assert_eq!(config.serving.connection.max_streams, 100);
    assert_eq!(config.serving.shutdown.drain.as_secs(), 60);
    assert_eq!(types(&config), [AuthorizerType::AlwaysAllow]);
    assert_eq!(
        config.authentication.anonymous,
        Anonymous::Refused,
        "strangers are refused where everything is allowed"
    );
    assert_eq!(config.authentication.service_accounts.issuers, ["https://kubernetes.default.svc.cluster.local"]);
    assert!(config.storage.etcd.is_none());
    assert_eq!(config.storage.prefix, "/registry");
    assert_eq!(config.storage.event_ttl.as_secs(), 3600);
    assert_eq!(config.services.api_server_ip().map(|ip| ip.to_string()).as_deref(), Some("10.0.0.1"));
    assert_eq!(config.services.node_ports, (30_000, 32_767));
    assert_eq!(config.kubelet.address_types.len(), 5);
    assert!(config.admission.plugins.contains(&"NamespaceLifecycle"));
    assert!(!config.admission.plugins.contains(&"NodeRestriction"));
    assert!(config.without_effect.is_empty() && config.warnings.is_empty());
}

#[test]
fn flags_become_the_configuration() {
    let config = configure(&[
        "--data-dir=/tmp/x",
        "--secure-port=0",
        "--bind-address=127.0.0.1",
        "--authorization-mode=Node,RBAC",
        "--http2-max-streams-per-connection=1000",
        "--disable-http2-serving",
        "--tls-min-version=VersionTLS13",
        "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        "--tls-curve-preferences=29,23",
        "--service-cluster-ip-range=10.96.0.0/12,fd00::/108",
        "--service-account-issuer=https://a",
        "--service-account-issuer=b",
        "--etcd-servers=https://e1:2379,https://e2:2379",
        "--etcd-prefix=/other/",
        "--strict-transport-security-directives=max-age=31536000,includeSubDomains",
        "--enable-admission-plugins=NodeRestriction",
        "--disable-admission-plugins=ResourceQuota",
        "--runtime-config=api/all=true,batch/v1",
        "--feature-gates=APIResponseCompression=false,AllAlpha=true",
        "--vmodule=storage=6",
        "-v=4",
        "--logging-format=json",
        "--profiling=false",
    ])
    .expect("is valid");
    assert_eq!(types(&config), [AuthorizerType::Node, AuthorizerType::Rbac]);
    assert_eq!(config.authentication.anonymous, Anonymous::Everywhere);
    assert_eq!(config.serving.connection.max_streams, 1000);
    assert!(!config.serving.http2 && config.serving.only_tls13);
    assert_eq!(config.serving.cipher_suites[1], "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256");
    assert_eq!(config.serving.curves, [29, 23]);
    assert_eq!(config.serving.connection.response_headers[0].1, "max-age=31536000; includeSubDomains");
    assert_eq!(config.services.api_server_ip().map(|ip| ip.to_string()).as_deref(), Some("10.96.0.1"));
    assert_eq!(config.authentication.service_accounts.issuers, ["https://a", "b"]);
    assert_eq!(config.authentication.service_accounts.audiences, ["https://a", "b"]);
    assert_eq!(config.storage.etcd.map(|etcd| etcd.servers.len()), Some(2));
    assert_eq!(config.storage.prefix, "/other");
    assert!(config.admission.plugins.contains(&"NodeRestriction"));
    assert!(!config.admission.plugins.contains(&"ResourceQuota"));
    assert_ne!(config.apis, generic_server::resource::Enablement::default());
    assert!(!config.features.is_on("APIResponseCompression") && config.features.is_on("AllAlpha"));
    assert!(config.features.is_on("SidecarContainers") && !config.features.is_on("NoSuchFeature"));
    assert_eq!((config.logging.verbosity, config.logging.modules.get("storage")), (4, Some(&6)));
    assert_eq!(config.logging.format, LogFormat::Json);
    assert!(!config.profiling && config.flags.get("profiling").is_some_and(|value| value == "false"));
    assert!(config.without_effect.is_empty(), "{:?}", config.without_effect);
}

#[test]
fn what_does_not_hold_together_is_refused_with_the_reason() {
    let check = |arguments: &[&str], expect: &str| {
        let refused = configure(arguments).map(|_| ());
        assert_eq!(refused.expect_err(expect), expect, "{arguments:?}");
    };
    check(&["--data-dir="], "--data-dir must not be empty");
    check(
        &["--history=1h", "--etcd-servers=http://a"],
        "--history is for the embedded store, and --etcd-servers chooses etcd",
    );
    check(&["--from-snapshot=/nowhere"], "--from-snapshot: /nowhere: No such file or directory");
    check(
        &["--from-snapshot=/dev/null", "--etcd-servers=http://a"],
        "--from-snapshot is for the embedded store, and --etcd-servers chooses etcd",
    );
    check(&["--secure-port=70000"], "--secure-port 70000 must be between 0 and 65535, inclusive");
    check(&["--request-timeout=-1s"], "--request-timeout can not be negative value");
    check(&["--max-requests-inflight=-1"], "--max-requests-inflight can not be negative value");
    check(&["--goaway-chance=0.03"], "--goaway-chance can not be less than 0 or greater than 0.02");
    check(&["--tls-min-version=TLS1.2"], "unknown tls version \"TLS1.2\"");
    check(
        &["--tls-cipher-suites=FOO"],
        "[Cipher suite FOO not supported or doesn't exist, --tls-cipher-suites: none of the given cipher suites can be used]",
    );
    check(&["--tls-curve-preferences=7"], "--tls-curve-preferences: 7 is not a known curve");
    check(&["--tls-cert-file=/dev/null"], "--tls-cert-file and --tls-private-key-file must be given together");
    check(&["--client-ca-file=/no/such"], "--client-ca-file: /no/such: No such file or directory");
    check(&["--authorization-mode=Rbac"], "authorization-mode \"Rbac\" is not a valid mode");
    check(
        &["--authorization-mode=RBAC,RBAC"],
        "authorization-mode [\"RBAC\" \"RBAC\"] has mode specified more than once",
    );
    check(&["--authorization-mode=RBAC,Webhook"], "authorization-mode Webhook's authorization config file not passed");
    check(
        &[
            "--authorization-mode=Webhook",
            "--authorization-webhook-config-file=/dev/null",
            "--authorization-webhook-version=v2",
        ],
        "unsupported webhook authorizer version \"v2\", supported versions are \"v1\", \"v1beta1\"",
    );
    check(
        &["--authorization-mode=RBAC", "--authorization-webhook-config-file=/dev/null"],
        "cannot specify --authorization-webhook-config-file without mode Webhook",
    );
    check(&["--authorization-mode=ABAC"], "authorization-mode ABAC's authorization policy file not passed");
    check(&["--authorization-policy-file=/dev/null"], "cannot specify --authorization-policy-file without mode ABAC");
    check(&["--authorization-mode="], "at least one authorization-mode must be passed");
    check(
        &["--service-account-issuer=:a"],
        "service-account-issuer \":a\" contained a ':' but was not a valid URL: parse \":a\": missing protocol scheme",
    );
    check(&["--service-account-issuer="], "service-account-issuer should not be an empty string");
    check(
        &["--service-account-issuer=a", "--service-account-issuer=a"],
        "service-account-issuer \"a\" is already specified",
    );
    check(
        &["--service-account-jwks-uri=http://a"],
        "service-account-jwks-uri requires https scheme, parsed as: http://a",
    );
    check(
        &["--service-account-signing-endpoint=/s", "--service-account-key-file=/dev/null"],
        "can't set `--service-account-signing-key-file` and/or `--service-account-key-file` with \
         `--service-account-signing-endpoint` (They are mutually exclusive)",
    );
    check(
        &["--service-account-signing-endpoint=@a..b"],
        "invalid value \"@a..b\" passed for `--service-account-signing-endpoint`, when prefixed with @ must be a valid \
         abstract socket name",
    );
    check(
        &["--authentication-token-webhook-config-file=/no/such"],
        "--authentication-token-webhook-config-file: open /no/such: no such file or directory",
    );
    check(
        &["--authentication-token-webhook-config-file=/dev/null"],
        "--authentication-token-webhook-config-file: error loading config file \"/dev/null\": invalid configuration: no \
         configuration has been provided, try setting KUBERNETES_MASTER environment variable",
    );
    check(
        &["--service-account-max-token-expiration=5m"],
        "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds",
    );
    check(
        &["--etcd-servers=localhost:2379"],
        "--etcd-servers: \"localhost:2379\" must be of the form scheme://host:port",
    );
    check(
        &["--storage-backend=etcd2"],
        "--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'",
    );
    check(&["--event-ttl=0s"], "--event-ttl must be positive");
    check(
        &["--encryption-provider-config=/no/such.yaml"],
        "--encryption-provider-config: /no/such.yaml: No such file or directory",
    );
    check(
        &["--encryption-provider-config-automatic-reload"],
        "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config",
    );
    check(
        &["--authorization-config=/dev/null", "--authorization-mode=AlwaysAllow"],
        "[--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined, \
         --authorization-config: /dev/null: authorizers: Required value: at least one authorization mode must be defined]",
    );
    check(&["--service-cluster-ip-range=10.0.0.0"], "--service-cluster-ip-range: invalid CIDR address: 10.0.0.0");
    check(&["--service-cluster-ip-range=10.0.0.0/31"], "--service-cluster-ip-range: 10.0.0.0/31 is too small");
    check(
        &["--service-cluster-ip-range=10.0.0.0/24,10.1.0.0/24"],
        "--service-cluster-ip-range and --secondary-service-cluster-ip-range must be of different IP family",
    );
    check(&["--service-node-port-range=0-10"], "--service-node-port-range must not contain port 0");
    check(&["--enable-admission-plugins=Foo"], "enable-admission-plugins plugin \"Foo\" is unknown");
    check(
        &["--enable-admission-plugins=AlwaysDeny", "--disable-admission-plugins=AlwaysDeny"],
        "[AlwaysDeny] in enable-admission-plugins and disable-admission-plugins overlapped",
    );
    check(
        &["--admission-control=AlwaysAdmit", "--enable-admission-plugins=AlwaysDeny"],
        "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive",
    );
    check(&["--feature-gates=Foo=true"], "unrecognized feature gate: Foo");
    check(
        &["--feature-gates=SidecarContainers=false"],
        "cannot set feature gate SidecarContainers to false, feature is locked to true",
    );
    check(
        &["--emulated-version=1.34", "--feature-gates=AggregatedDiscoveryRemoveBetaType=false"],
        "cannot set feature gate AggregatedDiscoveryRemoveBetaType to false: this server does not do without it yet",
    );
    check(&["--runtime-config=api/all=false"], "invalid runtime-config with only api/all=false");
    check(
        &["--runtime-config=apps/v1=maybe"],
        "invalid value of apps/v1: maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
    );
    check(&["--runtime-config=apps"], "runtime-config invalid key apps");
    check(&["--logging-format=xml"], "format: Invalid value: \"xml\": Unsupported log format");
    check(
        &["--event-ttl=0s", "--request-timeout=-1s"],
        "[--request-timeout can not be negative value, --event-ttl must be positive]",
    );
}

#[test]
fn what_is_asked_for_and_not_there_stops_the_start() {
    let check = |arguments: &[&str], expect: &str| {
        assert_eq!(configure(arguments).expect_err("is refused"), expect, "{arguments:?}");
    };
    let egress = "egress-selector-config-file";
    check(&[&format!("--{egress}=/no/such")], &format!("{egress} /no/such does not exist"));
    check(&["--audit-policy-file=/no/such"], "--audit-policy-file: /no/such: No such file or directory");
    let expect = "couldn't init admission plugin \"ImagePolicyWebhook\": no config specified";
    check(&["--enable-admission-plugins=AlwaysDeny,ImagePolicyWebhook"], expect);
    check(
        &["--enable-admission-plugins=EventRateLimit"],
        "couldn't init admission plugin \"EventRateLimit\": limits: Invalid value: null: must not be empty",
    );
    let config = configure(&["--disable-admission-plugins=AlwaysDeny"]).expect("nobody asks for it");
    assert!(!config.admission.plugins.contains(&"JobValidation"), "its gate is off");
    assert!(config.admission.plugins.contains(&"NodeDeclaredFeatureValidator"));
    let config = configure(&["--feature-gates=AllBeta=false"]).expect("is valid");
    assert!(!config.admission.plugins.contains(&"NodeDeclaredFeatureValidator"));
}

#[test]
fn a_server_that_emulates_a_version_has_its_features_and_apis() {
    let config = configure(&["--emulated-version=kube=1.34"]).expect("is valid");
    assert_eq!(config.versions, Versions { emulated: 34, compatible: 33 });
    assert!(!config.features.is_on("ConstrainedImpersonation"), "it is newer");
    assert!(config.warnings.iter().any(|warning| warning.starts_with("these features stay")), "{:?}", config.warnings);
    let config = configure(&["--min-compatibility-version=1.36"]).expect("is valid");
    assert_eq!(config.versions, Versions { emulated: 36, compatible: 36 });
    let check = |arguments: &[&str], expect: &str| {
        assert_eq!(configure(arguments).expect_err("is refused"), expect, "{arguments:?}");
    };
    check(&["--emulated-version=1.37"], "emulation version 1.37 is not between [1.33, 1.36.0]");
    check(
        &["--emulated-version=1.34", "--min-compatibility-version=1.35"],
        "minCompatibilityVersion version 1.35 is not between [1.33, 1.34]",
    );
    check(
        &["--emulation-forward-compatible"],
        "ServerRunOptions.EmulationForwardCompatible cannot be set to true if the emulation version is the same as the \
         binary version",
    );
    check(
        &["--emulated-version=1.33", "--runtime-config=resource.k8s.io/v1=true"],
        "cannot enable version resource.k8s.io/v1 in runtime-config because all the resources have been introduced after the \
         current version 1.33. Consider setting --runtime-config-emulation-forward-compatible=true",
    );
}

#[test]
fn gates_that_do_what_they_say_are_no_reason_for_a_warning() {
    let gates = "--feature-gates=APIResponseCompression=false,ConstrainedImpersonation=false,SchedulerAsyncAPICalls=true,\
                 AllAlpha=false";
    let config = configure(&[gates]).expect("is valid");
    assert!(config.without_effect.is_empty() && config.warnings.is_empty(), "{:?}", config.warnings);
    let config = configure(&["--feature-gates=AllAlpha=true,AllBeta=true"]).expect("is valid");
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn the_front_proxy_headers_can_be_named() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("a name");
    let config = configure(&[
        &format!("--requestheader-client-ca-file={path}"),
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-User,X-Other",
    ])
    .expect("is valid");
    let header = config.authentication.request_header;
    assert_eq!(header.allowed_names, ["front-proxy"]);
    assert_eq!(header.username_headers, ["X-User", "X-Other"]);
    assert_eq!(header.group_headers, ["X-Remote-Group"], "the usual ones where none are named");
    assert!(header.uid_headers.is_empty(), "which are none for UIDs");
    let error =
        configure(&[&format!("--requestheader-client-ca-file={path}"), "--requestheader-group-headers=not a header"]);
    assert_eq!(
        error.expect_err("is refused"),
        "--requestheader-group-headers: \"not a header\" is not a valid header name"
    );
}

#[test]
fn authorities_of_clients_are_those_of_proxies_only_where_proxies_are_named() {
    let block = |label: &str, content: &str| format!("-----BEGIN {label}-----\n{content}\n-----END {label}-----\n");
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: String| {
        std::fs::write(dir.path().join(name), text).expect("written");
        dir.path().join(name).display().to_string()
    };
    let (one, two, other) = (block("CERTIFICATE", "YQ=="), block("CERTIFICATE", "Yg=="), block("KEY", "YQ=="));
    let check = |clients: String, proxies: String, more: &[&str], is_refused: bool| {
        let flags = [
            format!("--client-ca-file={}", write("clients", clients)),
            format!("--requestheader-client-ca-file={}", write("proxies", proxies)),
        ];
        let arguments: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let why = configure(&arguments).err().unwrap_or_default();
        assert_eq!(why.contains("contain overlapping certificates"), is_refused, "{why}");
    };
    check(one.clone(), two.clone(), &[], false);
    check(format!("{two}{one}"), one.clone(), &[], true);
    check(one.clone(), one.clone(), &["--requestheader-allowed-names=front-proxy"], false);
    check(other, one, &[], false);
}

#[test]
fn every_flag_that_is_read_is_in_the_table_with_the_kind_that_is_read() {
    // from_flags reads every flag it knows whatever was given; a wrong name or kind would panic.
    let all = [
        "--advertise-address=10.1.2.3",
        "--oidc-issuer-url=https://x",
        "--oidc-client-id=x",
        "--etcd-servers=https://c:1",
        "--etcd-servers-overrides=/events#https://a:1;https://b:2",
        "--admission-control=AlwaysAdmit",
        "--tls-min-version=VersionTLS11",
        "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_RC4_128_SHA",
        "--cors-allowed-origins=example.com",
    ];
    let config = configure(&all).expect("is valid");
    assert_eq!(config.admission.plugins, ["AlwaysAdmit"]);
    assert_eq!(config.warnings.len(), 3, "{:?}", config.warnings);
}

#[test]
fn controllers_run_that_are_asked_for_and_help_names_all() {
    let runs = |arguments: &[&str], name: &str| configure(arguments).expect("is valid").controllers.selection.has(name);
    for name in ::controllers::names() {
        assert!(flags::help().contains(name), "{name}");
        assert!(!runs(&[], name) && runs(&[&format!("--controllers={name}")], name), "{name}");
    }
    assert!(runs(&["--controllers=*"], "namespace-controller"));
    assert!(!runs(&["--controllers=*,-namespace-controller"], "namespace-controller"));
    let why = configure(&["--controllers=*,nosuch"]).expect_err("nobody has this name");
    assert_eq!(why, "\"nosuch\" is not in the list of known controllers");
}

#[test]
fn one_authority_signs_for_all_signers_or_each_has_its_own() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = |name: &str| {
        std::fs::write(dir.path().join(name), "PEM").expect("is written");
        dir.path().join(name).display().to_string()
    };
    let (certificate, key) = (file("ca.crt"), file("ca.key"));
    let pair = |signer: &str| {
        [
            format!("--cluster-signing{signer}-cert-file={certificate}"),
            format!("--cluster-signing{signer}-key-file={key}"),
        ]
    };
    let authorities = |arguments: &[String]| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        configure(&arguments).map(|config| config.controllers)
    };
    assert_eq!(authorities(&[]).expect("is valid").authorities, None);
    let one = authorities(&pair("")).expect("is valid").authorities.expect("one");
    assert!(one.kubelet_serving.is_some() && one.api_server_client == one.legacy);
    assert_eq!(one.duration.as_secs(), 8760 * 3600);
    let some = authorities(&pair("-kubelet-serving")).expect("is valid").authorities.expect("one");
    assert!(some.kubelet_serving.is_some() && some.kubelet_client.is_none() && some.legacy.is_none());
    let both = authorities(&[pair(""), pair("-legacy-unknown")].concat()).expect_err("both");
    assert_eq!(both, "cannot specify default and per controller certs at the same time");
    let half = authorities(&pair("-kubelet-client")[..1]).expect_err("no key");
    assert!(half.contains("must be given together"), "{half}");
}
