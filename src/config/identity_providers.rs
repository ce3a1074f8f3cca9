//! Whose tokens are believed besides the server's own: identity providers, by `--oidc-*` flags or by the file of
//! `--authentication-config`, which also says where requests may be anonymous.

use std::path::PathBuf;

use auth::{
    authn::config::{
        AnonymousConfig, AuthenticationConfiguration, Authenticators, ClaimMappings, ClaimValidationRule, Issuer,
        IssuerRules, JwtAuthenticator, Mapping, all_of, validate,
    },
    jwt::Algorithm,
};
use generic_server::{features::GateState, pipeline::Anonymous};
use machinery::Str;

use super::Findings;
use crate::flags::Parsed;

/// The flags that speak of one provider.
const FLAGS: [&str; 9] = [
    "oidc-issuer-url",
    "oidc-client-id",
    "oidc-ca-file",
    "oidc-username-claim",
    "oidc-username-prefix",
    "oidc-groups-claim",
    "oidc-groups-prefix",
    "oidc-signing-algs",
    "oidc-required-claim",
];

/// The identity providers.
#[derive(Clone, Debug, Default)]
pub struct IdentityProviders {
    /// `--authentication-config`, and what it holds; it is followed.
    pub file: Option<(PathBuf, Vec<u8>)>,
    /// What it says, or the flags.
    pub config: AuthenticationConfiguration,
    /// The compiled expressions of each provider.
    pub compiled: Authenticators,
    /// How tokens may be signed.
    pub algorithms: Vec<Algorithm>,
}

impl IdentityProviders {
    pub(super) fn from_flags(flags: &Parsed, features: &GateState, findings: &mut Findings) -> Self {
        let given = FLAGS.iter().any(|flag| flags.is_given(flag));
        let file = flags.text("authentication-config");
        let mut providers = if !file.is_empty() {
            if given {
                findings.error("authentication-config file and oidc-* flags are mutually exclusive");
            }
            of_file(file.into(), findings)
        } else if given && (flags.text("oidc-issuer-url").is_empty() || flags.text("oidc-client-id").is_empty()) {
            findings
                .error("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set");
            Self::default()
        } else if given {
            of_flags(flags, findings)
        } else {
            Self::default()
        };
        if providers.config.anonymous.is_some() && flags.is_given("anonymous-auth") {
            findings.error(
                "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in \
                 authentication configuration file",
            );
        }
        let egress = features.is_on("StructuredAuthenticationConfigurationEgressSelector");
        match validate(&providers.config, &IssuerRules { own_issuers: Vec::new(), egress }) {
            Ok(compiled) => providers.compiled = compiled,
            Err(errors) => {
                let why = format!("invalid authentication configuration: {}", all_of(&errors));
                findings.error(match &providers.file {
                    Some((path, _)) => in_file(path, &why),
                    None => why,
                });
            }
        }
        providers
    }

    /// Where requests may be anonymous, if the file says something about that.
    pub(super) fn anonymous(&self) -> Option<Anonymous> {
        Some(match self.config.anonymous.as_ref()? {
            AnonymousConfig { enabled: false, .. } => Anonymous::Refused,
            AnonymousConfig { paths, .. } if paths.is_empty() => Anonymous::Everywhere,
            AnonymousConfig { paths, .. } => Anonymous::At(paths.iter().cloned().collect()),
        })
    }
}

fn in_file(path: &std::path::Path, why: &str) -> String {
    format!("failed to load authentication configuration from file {:?}: {why}", path.display().to_string())
}

fn of_file(path: PathBuf, findings: &mut Findings) -> IdentityProviders {
    let content = std::fs::read(&path)
        .map_err(|error| format!("open {}: {}", path.display(), crate::plain_io_error(&error).to_lowercase()));
    let read = content.and_then(|content| match AuthenticationConfiguration::read(&content) {
        Ok(config) => Ok((content, config)),
        Err(why) => Err(why.to_string()),
    });
    match read {
        Ok((content, config)) => IdentityProviders {
            file: Some((path, content)),
            config,
            compiled: Vec::new(),
            algorithms: Algorithm::ALL.to_vec(),
        },
        Err(why) => {
            findings.error(in_file(&path, &why));
            IdentityProviders::default()
        }
    }
}

fn of_flags(flags: &Parsed, findings: &mut Findings) -> IdentityProviders {
    let text = |flag: &str| Str::from(flags.text(flag));
    let (url, claim, prefix) = (text("oidc-issuer-url"), text("oidc-username-claim"), text("oidc-username-prefix"));
    let prefix = match prefix.as_str() {
        // Names of several providers must not be the same; addresses are.
        "" if claim != "email" => format!("{url}#").into(),
        "-" => Str::default(),
        _ => prefix,
    };
    let groups = text("oidc-groups-claim");
    let groups = match groups.is_empty() {
        true => Mapping::default(),
        false => Mapping { claim: groups, prefix: Some(text("oidc-groups-prefix")), ..Mapping::default() },
    };
    let authority = findings.file(flags, "oidc-ca-file").and_then(|path| std::fs::read(path).ok());
    let required = flags.map("oidc-required-claim").into_iter().map(|(claim, value)| ClaimValidationRule {
        claim: claim.into(),
        required_value: value.into(),
        ..ClaimValidationRule::default()
    });
    let mut algorithms = Vec::new();
    for name in flags.list("oidc-signing-algs") {
        match Algorithm::of_name(&name) {
            Some(algorithm) => algorithms.push(algorithm),
            None => findings.error(format!("oidc: unsupported signing alg: {name:?}")),
        }
    }
    let authenticator = JwtAuthenticator {
        issuer: Issuer {
            url,
            certificate_authority: String::from_utf8_lossy(&authority.unwrap_or_default()).as_ref().into(),
            audiences: vec![text("oidc-client-id")],
            ..Issuer::default()
        },
        claim_validation_rules: required.collect(),
        claim_mappings: ClaimMappings {
            username: Mapping { claim, prefix: Some(prefix), ..Mapping::default() },
            groups,
            ..ClaimMappings::default()
        },
        user_validation_rules: Vec::new(),
    };
    let config = AuthenticationConfiguration { jwt: vec![authenticator], anonymous: None };
    IdentityProviders { config, algorithms, ..IdentityProviders::default() }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use generic_server::features::Versions;

    use super::*;

    fn configure(arguments: &[&str]) -> (IdentityProviders, Vec<String>) {
        configure_with(arguments, &[])
    }

    fn configure_with(arguments: &[&str], gates: &[(&str, bool)]) -> (IdentityProviders, Vec<String>) {
        let gates = gates.iter().map(|(gate, on)| ((*gate).to_owned(), *on)).collect();
        let features = GateState::new(Versions::default(), &gates).expect("gates that may be set");
        let parsed = crate::flags::parse(arguments.iter().map(OsString::from)).expect("parses");
        let mut findings = Findings::default();
        let providers = IdentityProviders::from_flags(&parsed, &features, &mut findings);
        (providers, findings.errors)
    }

    #[test]
    fn flags_speak_of_one_provider() {
        let usual = ["--oidc-issuer-url=https://a", "--oidc-client-id=b"];
        let (providers, errors) = configure(&usual);
        assert!(errors.is_empty(), "{errors:?}");
        let [one] = providers.config.jwt.as_slice() else { panic!("{providers:?}") };
        assert_eq!((one.issuer.url.as_str(), one.issuer.audiences.as_slice()), ("https://a", &["b".into()][..]));
        let username = &one.claim_mappings.username;
        assert_eq!((username.claim.as_str(), username.prefix.as_deref()), ("sub", Some("https://a#")));
        assert_eq!(providers.algorithms, [Algorithm::Rs256]);
        for (more, prefix) in [
            ("--oidc-username-claim=email", ""),
            ("--oidc-username-prefix=-", ""),
            ("--oidc-username-prefix=x:", "x:"),
            ("--oidc-username-claim=name", "https://a#"),
        ] {
            let (providers, _) = configure(&[usual[0], usual[1], more]);
            assert_eq!(providers.config.jwt[0].claim_mappings.username.prefix.as_deref(), Some(prefix), "{more}");
        }
        let (providers, _) = configure(&[
            usual[0],
            usual[1],
            "--oidc-required-claim=a=b,c=d",
            "--oidc-required-claim=e=f",
            "--oidc-signing-algs=ES256,PS512",
        ]);
        let rules = &providers.config.jwt[0].claim_validation_rules;
        let rules: Vec<_> = rules.iter().map(|rule| (rule.claim.as_str(), rule.required_value.as_str())).collect();
        assert_eq!(rules, [("a", "b,c=d"), ("e", "f")]);
        assert_eq!(providers.algorithms, [Algorithm::Es256, Algorithm::Ps512]);
        assert!(configure(&[]).0.config.jwt.is_empty());
    }

    #[test]
    fn flags_that_do_not_go_together_are_refused() {
        let check = |arguments: &[&str], expect: &str| assert_eq!(configure(arguments).1, [expect], "{arguments:?}");
        let together = "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set";
        check(&["--oidc-issuer-url=https://a"], together);
        check(&["--oidc-groups-prefix=a"], together);
        check(
            &["--oidc-issuer-url=http://a", "--oidc-client-id=b"],
            "invalid authentication configuration: jwt[0].issuer.url: Invalid value: \"http://a\": URL scheme must be https",
        );
        check(
            &["--oidc-issuer-url=https://a", "--oidc-client-id=b", "--oidc-signing-algs=RS256,HS256"],
            "oidc: unsupported signing alg: \"HS256\"",
        );
        check(
            &["--oidc-issuer-url=https://a", "--oidc-client-id=b", "--oidc-username-claim="],
            "invalid authentication configuration: jwt[0].claimMappings.username: Required value: claim or expression is \
             required",
        );
    }

    #[test]
    fn issuers_are_reached_through_a_proxy_if_the_feature_is_on() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("authn.yaml");
        let flag = format!("--authentication-config={}", path.display());
        let check = |network: &str, on: bool, expect: &str| {
            let text = format!(
                "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: [{{issuer: {{url: \
                 'https://a', audiences: [b], egressSelectorType: {network}}}, claimMappings: {{username: {{claim: sub, \
                 prefix: ''}}}}}}]\n"
            );
            std::fs::write(&path, text).expect("written");
            let gate = ("StructuredAuthenticationConfigurationEgressSelector", on);
            let found = configure_with(&[&flag], &[gate]).1.concat();
            let why = found.split_once("invalid authentication configuration: ").map_or("", |(_, why)| why);
            assert_eq!(why, expect, "{network} {on} {found}");
        };
        let off = "egress selector is not supported when StructuredAuthenticationConfigurationEgressSelector feature gate is \
                   disabled";
        let other = "egress selector must be either controlplane or cluster";
        let said =
            |network: &str, why: &str| format!("jwt[0].issuer.egressSelectorType: Invalid value: {network:?}: {why}");
        check("cluster", true, "");
        check("cluster", false, &said("cluster", off));
        check("etcd", true, &said("etcd", other));
        check("etcd", false, &format!("[{}, {}]", said("etcd", off), said("etcd", other)));
    }

    #[test]
    fn a_file_is_refused_with_its_name_and_the_field() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("authn.yaml");
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
        let flag = format!("--authentication-config={}", path.display());
        let said = |why: &str| format!("failed to load authentication configuration from file {path:?}: {why}");
        let check = |body: &str, more: &[&str], expect: &str| {
            std::fs::write(&path, format!("{head}{body}")).expect("written");
            let arguments: Vec<&str> = [flag.as_str()].into_iter().chain(more.iter().copied()).collect();
            assert_eq!(configure(&arguments).1, [expect], "{body}");
        };
        check("foo: 1\n", &[], &said("strict decoding error: unknown field \"foo\""));
        check(
            "jwt: [{}]\n",
            &[],
            &said(
                "invalid authentication configuration: [jwt[0].issuer.url: Required value, jwt[0].issuer.audiences: \
                 Required value: at least one jwt[0].issuer.audiences is required, jwt[0].claimMappings.username: Required \
                 value: claim or expression is required]",
            ),
        );
        check(
            "anonymous: {enabled: false, conditions: [{path: /a}]}\n",
            &[],
            &said(
                "invalid authentication configuration: anonymous.conditions: Invalid value: [{\"Path\":\"/a\"}]: enabled \
                 should be set to true when conditions are defined",
            ),
        );
        check(
            "anonymous: {enabled: true}\n",
            &["--anonymous-auth=true"],
            "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication \
             configuration file",
        );
        check("", &["--oidc-client-id=a"], "authentication-config file and oidc-* flags are mutually exclusive");
        std::fs::remove_file(&path).expect("removed");
        let expect = said(&format!("open {}: no such file or directory", path.display()));
        assert_eq!(configure(&[&flag]).1, [expect]);
    }
}
