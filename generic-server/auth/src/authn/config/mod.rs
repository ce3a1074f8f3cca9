//! `AuthenticationConfiguration` of `apiserver.config.k8s.io`: which identity providers are believed, what their tokens'
//! claims say of users, and where users may be anonymous.

mod validation;

use machinery::{
    Str, Value,
    config::{self, APISERVER_CONFIG_SIBLINGS, ConfigError, ConfigKind},
    meta::FieldError,
    schema::{Schema, Shape},
};

pub(super) use validation::check_issuer;
pub use validation::{Authenticators, IssuerRules, validate};

/// The file's kind.
pub const KIND: ConfigKind = ConfigKind {
    group: "apiserver.config.k8s.io",
    kind: "AuthenticationConfiguration",
    versions: &["v1", "v1beta1", "v1alpha1"],
    siblings: APISERVER_CONFIG_SIBLINGS,
    registry: "pkg/kubeapiserver/options/authentication.go:879",
    schema: shape,
};

/// The configuration. All versions say the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthenticationConfiguration {
    /// Identity providers.
    pub jwt: Vec<JwtAuthenticator>,
    /// Anonymous requests, if the file speaks of them.
    pub anonymous: Option<AnonymousConfig>,
}

/// Who may be anonymous.
#[derive(Clone, Debug, PartialEq)]
pub struct AnonymousConfig {
    /// Whether anybody.
    pub enabled: bool,
    /// On which paths; none: on all.
    pub paths: Vec<Str>,
}

/// An identity provider, and how its tokens are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JwtAuthenticator {
    /// The provider.
    pub issuer: Issuer,
    /// What claims must be.
    pub claim_validation_rules: Vec<ClaimValidationRule>,
    /// What claims say of users.
    pub claim_mappings: ClaimMappings,
    /// What users must be.
    pub user_validation_rules: Vec<UserValidationRule>,
}

/// An identity provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Issuer {
    /// Its URL, which tokens name as their issuer.
    pub url: Str,
    /// Where it describes itself, if not below its URL; empty if so.
    pub discovery_url: Str,
    /// Its authorities, as PEM; empty: those that the machine believes.
    pub certificate_authority: Str,
    /// The audiences of tokens; one of them must be a token's.
    pub audiences: Vec<Str>,
    /// How they must match; `MatchAny` or empty.
    pub audience_match_policy: Str,
    /// By which proxy it is reached.
    pub egress_selector_type: Str,
}

/// A claim that must have a value, or an expression that must be true.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimValidationRule {
    /// The claim.
    pub claim: Str,
    /// Its value.
    pub required_value: Str,
    /// The expression.
    pub expression: Str,
    /// What is said when it is false.
    pub message: Str,
}

/// What claims say of users.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimMappings {
    /// The name.
    pub username: Mapping,
    /// The groups.
    pub groups: Mapping,
    /// The unique id; it has no prefix.
    pub uid: Mapping,
    /// More facts, by key.
    pub extra: Vec<ExtraMapping>,
}

/// A claim, with what stands before its value, or an expression.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mapping {
    /// The claim.
    pub claim: Str,
    /// What stands before the value.
    pub prefix: Option<Str>,
    /// The expression.
    pub expression: Str,
}

/// A fact about users.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtraMapping {
    /// Its key.
    pub key: Str,
    /// Its value or values.
    pub value_expression: Str,
}

/// An expression about users that must be true.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserValidationRule {
    /// The expression.
    pub expression: Str,
    /// What is said when it is false.
    pub message: Str,
}

/// All that is wrong, as one text.
pub fn all_of(errors: &[FieldError]) -> String {
    crate::aggregate(&errors.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap_or_default()
}

/// The shape of a version.
fn shape(version: &str) -> Schema {
    let object = |name: &str, fields: Vec<_>| config::object(format!("{version}.{name}"), fields);
    let text = config::text;
    let prefix = || config::pointer("prefix", Schema::of(Shape::String(Default::default())));
    let discovery = config::pointer("discoveryURL", Schema::of(Shape::String(Default::default())));
    let issuer = vec![
        text("url"),
        discovery,
        text("certificateAuthority"),
        config::texts("audiences"),
        text("audienceMatchPolicy"),
        text("egressSelectorType"),
    ];
    let rule = vec![text("claim"), text("requiredValue"), text("expression"), text("message")];
    let prefixed = || object("PrefixedClaimOrExpression", vec![text("claim"), prefix(), text("expression")]);
    let extra = object("ExtraMapping", vec![text("key"), text("valueExpression")]);
    let mappings = vec![
        config::field("username", prefixed()),
        config::field("groups", prefixed()),
        config::field("uid", object("ClaimOrExpression", vec![text("claim"), text("expression")])),
        config::list("extra", extra),
    ];
    let user_rule = object("UserValidationRule", vec![text("expression"), text("message")]);
    let jwt = vec![
        config::field("issuer", object("Issuer", issuer)),
        config::list("claimValidationRules", object("ClaimValidationRule", rule)),
        config::field("claimMappings", object("ClaimMappings", mappings)),
        config::list("userValidationRules", user_rule),
    ];
    let condition = object("AnonymousAuthCondition", vec![text("path")]);
    let anonymous = vec![config::flag("enabled"), config::list("conditions", condition)];
    config::root(
        format!("{version}.AuthenticationConfiguration"),
        vec![
            config::list("jwt", object("JWTAuthenticator", jwt)),
            config::pointer("anonymous", object("AnonymousAuthConfig", anonymous)),
        ],
    )
}

impl AuthenticationConfiguration {
    /// Reads a file's content.
    ///
    /// # Errors
    /// What is wrong with its form.
    pub fn read(content: &[u8]) -> Result<Self, ConfigError> {
        let document = KIND.read(content)?.document;
        let anonymous =
            document.get("anonymous").filter(|a| a.as_object().is_some()).map(|anonymous| AnonymousConfig {
                enabled: anonymous.get("enabled").and_then(Value::as_bool).unwrap_or(false),
                paths: each(anonymous, "conditions", |condition| text(condition, "path")),
            });
        Ok(AuthenticationConfiguration { jwt: each(&document, "jwt", JwtAuthenticator::of), anonymous })
    }
}

impl JwtAuthenticator {
    fn of(value: &Value) -> Self {
        let part = |name: &str| value.get(name).unwrap_or(&Value::Null);
        let (issuer, mappings) = (part("issuer"), part("claimMappings"));
        let mapping = |name: &str| {
            let mapping = mappings.get(name).unwrap_or(&Value::Null);
            Mapping {
                claim: text(mapping, "claim"),
                prefix: mapping.get("prefix").and_then(Value::as_shared_str).cloned(),
                expression: text(mapping, "expression"),
            }
        };
        JwtAuthenticator {
            issuer: Issuer {
                url: text(issuer, "url"),
                discovery_url: text(issuer, "discoveryURL"),
                certificate_authority: text(issuer, "certificateAuthority"),
                audiences: each(issuer, "audiences", |a| a.as_shared_str().cloned().unwrap_or_default()),
                audience_match_policy: text(issuer, "audienceMatchPolicy"),
                egress_selector_type: text(issuer, "egressSelectorType"),
            },
            claim_validation_rules: each(value, "claimValidationRules", |rule| ClaimValidationRule {
                claim: text(rule, "claim"),
                required_value: text(rule, "requiredValue"),
                expression: text(rule, "expression"),
                message: text(rule, "message"),
            }),
            claim_mappings: ClaimMappings {
                username: mapping("username"),
                groups: mapping("groups"),
                uid: mapping("uid"),
                extra: each(mappings, "extra", |extra| ExtraMapping {
                    key: text(extra, "key"),
                    value_expression: text(extra, "valueExpression"),
                }),
            },
            user_validation_rules: each(value, "userValidationRules", |rule| UserValidationRule {
                expression: text(rule, "expression"),
                message: text(rule, "message"),
            }),
        }
    }
}

fn text(value: &Value, name: &str) -> Str {
    value.get(name).and_then(Value::as_shared_str).cloned().unwrap_or_default()
}

fn each<T>(value: &Value, name: &str, read: impl Fn(&Value) -> T) -> Vec<T> {
    value.get(name).and_then(Value::as_array).unwrap_or_default().iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_in_each_version() {
        let text = "kind: AuthenticationConfiguration
anonymous: {enabled: true, conditions: [{path: /livez}]}
jwt:
- issuer: {url: https://a, discoveryURL: https://b, audiences: [a, b], audienceMatchPolicy: MatchAny}
  claimValidationRules: [{claim: tenant, requiredValue: blue}, {expression: 'true', message: why}]
  claimMappings:
    username: {claim: sub, prefix: ''}
    groups: {expression: claims.roles}
    uid: {claim: sub}
    extra: [{key: a.b/c, valueExpression: claims.c}]
  userValidationRules: [{expression: 'true'}]
";
        for version in ["v1", "v1beta1", "v1alpha1"] {
            let text = format!("apiVersion: apiserver.config.k8s.io/{version}\n{text}");
            let read = AuthenticationConfiguration::read(text.as_bytes()).expect("a configuration");
            let anonymous = read.anonymous.expect("it speaks of them");
            assert_eq!((anonymous.enabled, anonymous.paths), (true, vec![Str::from("/livez")]));
            let [jwt] = read.jwt.as_slice() else { panic!("{:?}", read.jwt) };
            assert_eq!((jwt.issuer.url.as_str(), jwt.issuer.audiences.len()), ("https://a", 2));
            assert_eq!(jwt.claim_validation_rules[0].required_value, "blue");
            assert_eq!(jwt.claim_mappings.username.prefix.as_deref(), Some(""));
            assert_eq!(jwt.claim_mappings.groups.prefix, None);
            assert_eq!(jwt.claim_mappings.extra[0].value_expression, "claims.c");
            assert_eq!(jwt.user_validation_rules.len(), 1);
        }
    }

    #[test]
    fn what_is_wrong_with_the_form_is_told_as_upstream_does() {
        let check = |body: &str, expect: &str| {
            let text = format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n{body}");
            let why = AuthenticationConfiguration::read(text.as_bytes()).expect_err(body);
            assert_eq!(why.to_string(), expect, "{body}");
        };
        let go = "json: cannot unmarshal";
        check(
            "jwt: 3",
            &format!("{go} number into Go struct field AuthenticationConfiguration.jwt of type []v1.JWTAuthenticator"),
        );
        check(
            "jwt:\n- issuer: {audiences: a}",
            &format!("{go} string into Go struct field Issuer.jwt.issuer.audiences of type []string"),
        );
        check(
            "jwt:\n- claimMappings: {username: {claim: a, prefix: 1}}",
            &format!(
                "{go} number into Go struct field PrefixedClaimOrExpression.jwt.claimMappings.username.prefix of type string"
            ),
        );
        check(
            "jwt:\n- foo: 1\n  bar: 2\nbaz: 3\n",
            "strict decoding error: unknown field \"baz\", unknown field \"jwt[0].bar\", unknown field \"jwt[0].foo\"",
        );
        check("metadata: {name: x}", "strict decoding error: unknown field \"metadata\"");
    }
}
