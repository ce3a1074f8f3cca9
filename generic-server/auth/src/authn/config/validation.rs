//! Validates authentication configurations. Its expressions are compiled on the way.

use std::{collections::HashSet, fmt::Display};

use machinery::{
    Str,
    meta::{BadValue, FieldError, domains::domain_prefixed_path, go_url::GoUrl},
    object,
};
use x509::Roots;

use super::{AuthenticationConfiguration, ClaimMappings, Issuer, JwtAuthenticator, Mapping};
use crate::authn::oidc::expressions::{
    ExpressionError, Expressions, Rule, claims_expression, reads_claim, user_expression,
};

/// The most identity providers.
const MAX_AUTHENTICATORS: usize = 64;

/// The compiled expressions of each identity provider.
pub type Authenticators = Vec<Expressions>;

/// What a configuration is judged by beside itself.
#[derive(Clone, Debug)]
pub struct IssuerRules {
    /// This server's own issuers, which nobody else may be.
    pub own_issuers: Vec<Str>,
    /// Whether issuers may be reached through a proxy (the gate StructuredAuthenticationConfigurationEgressSelector).
    pub egress: bool,
}

impl Default for IssuerRules {
    fn default() -> Self {
        IssuerRules { own_issuers: Vec::new(), egress: true }
    }
}

/// Checks a configuration.
///
/// # Errors
/// All that is wrong, in upstream's words.
pub fn validate(config: &AuthenticationConfiguration, rules: &IssuerRules) -> Result<Authenticators, Vec<FieldError>> {
    let (mut errors, mut compiled) = (Vec::new(), Vec::new());
    if config.jwt.len() > MAX_AUTHENTICATORS {
        return Err(vec![FieldError::too_many("jwt", config.jwt.len(), MAX_AUTHENTICATORS)]);
    }
    let (mut issuers, mut discoveries) = (HashSet::new(), HashSet::new());
    for (at, authenticator) in config.jwt.iter().enumerate() {
        let path = format!("jwt[{at}]");
        compiled.push(Check { errors: &mut errors, path: &path, rules }.authenticator(authenticator));
        let issuer = &authenticator.issuer;
        if !issuers.insert(&issuer.url) {
            errors.push(FieldError::duplicate(format!("{path}.issuer.url"), issuer.url.clone()));
        }
        if !issuer.discovery_url.is_empty() && !discoveries.insert(&issuer.discovery_url) {
            errors.push(FieldError::duplicate(format!("{path}.issuer.discoveryURL"), issuer.discovery_url.clone()));
        }
    }
    if let Some(anonymous) = &config.anonymous
        && !anonymous.enabled
        && !anonymous.paths.is_empty()
    {
        let shown: Vec<_> = anonymous.paths.iter().map(|path| object! { "Path" => path }).collect();
        let detail = "enabled should be set to true when conditions are defined";
        errors.push(FieldError::invalid("anonymous.conditions", shown, detail));
    }
    if errors.is_empty() { Ok(compiled) } else { Err(errors) }
}

/// Whether a provider calls itself as this server does; upstream finds that when it makes its authenticator.
///
/// # Errors
/// If so.
pub(in crate::authn) fn check_issuer(issuer: &Issuer, own_issuers: &[Str]) -> Result<(), FieldError> {
    overlap(&issuer.url, own_issuers, "issuer.url").map_or(Ok(()), Err)
}

fn overlap(url: &Str, own_issuers: &[Str], path: impl Display) -> Option<FieldError> {
    if !own_issuers.contains(url) {
        return None;
    }
    let mut own: Vec<&str> = own_issuers.iter().map(Str::as_str).collect();
    own.sort_unstable();
    let detail = format!("URL must not overlap with disallowed issuers: [{}]", own.join(" "));
    Some(FieldError::invalid(path, url.clone(), detail))
}

/// The check of one provider.
struct Check<'a> {
    errors: &'a mut Vec<FieldError>,
    path: &'a str,
    rules: &'a IssuerRules,
}

impl Check<'_> {
    fn at(&self, rest: impl Display) -> String {
        format!("{}.{rest}", self.path)
    }

    fn invalid(&mut self, rest: impl Display, value: impl Into<BadValue>, detail: impl Into<String>) {
        self.errors.push(FieldError::invalid(self.at(rest), value, detail));
    }

    fn required(&mut self, rest: impl Display, detail: impl Into<String>) {
        self.errors.push(FieldError::required(self.at(rest), detail));
    }

    fn authenticator(&mut self, authenticator: &JwtAuthenticator) -> Expressions {
        let mut compiled = Expressions::default();
        self.issuer(&authenticator.issuer);
        self.claim_rules(authenticator, &mut compiled);
        self.mappings(&authenticator.claim_mappings, &mut compiled);
        self.user_rules(authenticator, &mut compiled);
        compiled
    }

    fn issuer(&mut self, issuer: &Issuer) {
        if issuer.url.is_empty() {
            self.required("issuer.url", "");
        } else {
            self.url(&issuer.url, "issuer.url", &self.rules.own_issuers);
        }
        if !issuer.discovery_url.is_empty() {
            let same = issuer.url.trim_end_matches('/') == issuer.discovery_url.trim_end_matches('/');
            if same && !issuer.url.is_empty() {
                let detail = "discoveryURL must be different from URL";
                self.invalid("issuer.discoveryURL", issuer.discovery_url.clone(), detail);
            }
            self.url(&issuer.discovery_url, "issuer.discoveryURL", &[]);
        }
        self.audiences(issuer);
        if !issuer.certificate_authority.is_empty() && Roots::from_pem(issuer.certificate_authority.as_bytes()).is_err()
        {
            let detail = "data does not contain any valid RSA or ECDSA certificates";
            self.invalid("issuer.certificateAuthority", "<omitted>", detail);
        }
        let selected = &issuer.egress_selector_type;
        if !selected.is_empty() && !self.rules.egress {
            let detail = "egress selector is not supported when StructuredAuthenticationConfigurationEgressSelector \
                          feature gate is disabled";
            self.invalid("issuer.egressSelectorType", selected.clone(), detail);
        }
        match selected.as_str() {
            "" | "controlplane" | "cluster" => {}
            other => {
                let detail = "egress selector must be either controlplane or cluster";
                self.invalid("issuer.egressSelectorType", other, detail);
            }
        }
    }

    fn url(&mut self, text: &Str, path: &str, own_issuers: &[Str]) {
        self.errors.extend(overlap(text, own_issuers, self.at(path)));
        let url = match GoUrl::parse(text) {
            Ok(url) => url,
            Err(why) => {
                let detail = format!("parse {}: {why}", machinery::meta::go_text::quote(text));
                return self.invalid(path, text.clone(), detail);
            }
        };
        for (wrong, detail) in [
            (url.scheme != "https", "URL scheme must be https"),
            (url.user.is_some(), "URL must not contain a username or password"),
            (!url.query.is_empty(), "URL must not contain a query"),
            (!url.fragment.is_empty(), "URL must not contain a fragment"),
        ] {
            if wrong {
                self.invalid(path, text.clone(), detail);
            }
        }
    }

    fn audiences(&mut self, issuer: &Issuer) {
        let policy = &issuer.audience_match_policy;
        let mut seen = HashSet::new();
        for (at, audience) in issuer.audiences.iter().enumerate() {
            let path = format!("issuer.audiences[{at}]");
            if audience.is_empty() {
                self.required(&path, "");
            }
            if !seen.insert(audience) {
                self.errors.push(FieldError::duplicate(self.at(&path), audience.clone()));
            }
        }
        let path = "issuer.audienceMatchPolicy";
        match issuer.audiences.len() {
            0 => {
                let own = self.at("issuer.audiences");
                self.required("issuer.audiences", format!("at least one {own} is required"));
            }
            1 if !policy.is_empty() && policy != "MatchAny" => {
                self.invalid(path, policy.clone(), "audienceMatchPolicy must be empty or MatchAny for single audience");
            }
            2.. if policy != "MatchAny" => {
                self.invalid(path, policy.clone(), "audienceMatchPolicy must be MatchAny for multiple audiences");
            }
            _ => {}
        }
    }

    fn claim_rules(&mut self, authenticator: &JwtAuthenticator, compiled: &mut Expressions) {
        let (mut claims, mut expressions) = (HashSet::new(), HashSet::new());
        for (at, rule) in authenticator.claim_validation_rules.iter().enumerate() {
            let path = format!("claimValidationRules[{at}]");
            match (rule.claim.is_empty(), rule.expression.is_empty()) {
                (false, false) => self.invalid(path, rule.claim.clone(), "claim and expression can't both be set"),
                (true, true) => self.required(path, "claim or expression is required"),
                (false, true) => {
                    if !rule.message.is_empty() {
                        let detail = "may not be specified when claim is set";
                        self.invalid(format!("{path}.message"), rule.message.clone(), detail);
                    }
                    if !claims.insert(&rule.claim) {
                        self.errors.push(FieldError::duplicate(self.at(format!("{path}.claim")), rule.claim.clone()));
                    }
                }
                (true, false) => {
                    if !rule.required_value.is_empty() {
                        let detail = "may not be specified when expression is set";
                        self.invalid(format!("{path}.requiredValue"), rule.required_value.clone(), detail);
                    }
                    let path = format!("{path}.expression");
                    if !expressions.insert(&rule.expression) {
                        self.errors.push(FieldError::duplicate(self.at(path), rule.expression.clone()));
                        continue;
                    }
                    let program = self.compiled(&path, &rule.expression, claims_expression(&rule.expression, true));
                    compiled
                        .claim_rules
                        .extend(program.map(|expression| Rule { expression, message: rule.message.clone() }));
                }
            }
        }
    }

    fn user_rules(&mut self, authenticator: &JwtAuthenticator, compiled: &mut Expressions) {
        let mut seen = HashSet::new();
        for (at, rule) in authenticator.user_validation_rules.iter().enumerate() {
            let path = format!("userValidationRules[{at}].expression");
            if rule.expression.is_empty() {
                self.required(path, "");
            } else if !seen.insert(&rule.expression) {
                self.errors.push(FieldError::duplicate(self.at(path), rule.expression.clone()));
            } else {
                let program = self.compiled(&path, &rule.expression, user_expression(&rule.expression));
                compiled
                    .user_rules
                    .extend(program.map(|expression| Rule { expression, message: rule.message.clone() }));
            }
        }
    }

    fn mappings(&mut self, mappings: &ClaimMappings, compiled: &mut Expressions) {
        compiled.username = self.mapping(&mappings.username, "claimMappings.username", true);
        compiled.groups = self.mapping(&mappings.groups, "claimMappings.groups", false);
        let uid = &mappings.uid;
        if !uid.claim.is_empty() && !uid.expression.is_empty() {
            self.invalid("claimMappings.uid", "", "claim and expression can't both be set");
        } else if !uid.expression.is_empty() {
            let path = "claimMappings.uid.expression";
            compiled.uid = self.compiled(path, &uid.expression, claims_expression(&uid.expression, false));
        }
        self.extra(mappings, compiled);
        let name = &mappings.username.expression;
        let verified = || {
            let extra = compiled.extra.iter().map(|(_, expression)| expression);
            let rules = compiled.claim_rules.iter().map(|rule| &rule.expression);
            let own = compiled.username.iter();
            own.chain(extra).chain(rules).any(|expression| reads_claim(&expression.text, "email_verified"))
        };
        if compiled.username.is_some() && reads_claim(name, "email") && !verified() {
            self.invalid(
                "claimMappings.username.expression",
                name.clone(),
                "claims.email_verified must be used in claimMappings.username.expression or \
                 claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in \
                 claimMappings.username.expression",
            );
        }
    }

    fn mapping(&mut self, mapping: &Mapping, path: &str, required: bool) -> Option<super::super::oidc::Expression> {
        match (mapping.claim.is_empty(), mapping.expression.is_empty()) {
            (false, false) => self.invalid(path, "", "claim and expression can't both be set"),
            (true, true) if required => self.required(path, "claim or expression is required"),
            (true, true) => {}
            (true, false) => {
                let prefix = mapping.prefix.as_ref();
                if let Some(prefix) = prefix {
                    let detail = "may not be specified when expression is set";
                    self.invalid(format!("{path}.prefix"), prefix.clone(), detail);
                }
                let text = &mapping.expression;
                let found = self.compiled(&format!("{path}.expression"), text, claims_expression(text, false));
                return found.filter(|_| prefix.is_none());
            }
            (false, true) if mapping.prefix.is_none() => {
                let detail =
                    "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                self.required(format!("{path}.prefix"), detail);
            }
            (false, true) => {}
        }
        None
    }

    fn extra(&mut self, mappings: &ClaimMappings, compiled: &mut Expressions) {
        let mut seen = HashSet::new();
        for (at, mapping) in mappings.extra.iter().enumerate() {
            let path = format!("claimMappings.extra[{at}]");
            let (key, key_path) = (&mapping.key, format!("{path}.key"));
            let own = self.at(&key_path);
            self.errors.extend(domain_prefixed_path(key, own.as_str()));
            if key.to_lowercase() != key.as_str() {
                self.invalid(&key_path, key.clone(), "must be lowercase");
            }
            let domain = key.split_once('/').map_or("", |(domain, _)| domain);
            let reserved = |own: &str| domain == own || domain.strip_suffix(own).is_some_and(|d| d.ends_with('.'));
            if reserved("kubernetes.io") || reserved("k8s.io") {
                let detail = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
                self.invalid(&key_path, key.clone(), detail);
            }
            let path = format!("{path}.valueExpression");
            if !seen.insert(key) {
                self.errors.push(FieldError::duplicate(self.at(&key_path), key.clone()));
            } else if mapping.value_expression.is_empty() {
                self.required(path, "");
            } else {
                let text = &mapping.value_expression;
                let program = self.compiled(&path, text, claims_expression(text, false));
                compiled.extra.extend(program.map(|program| (key.clone(), program)));
            }
        }
    }

    fn compiled<T>(&mut self, path: &str, text: &Str, found: Result<T, ExpressionError>) -> Option<T> {
        match found {
            Ok(expression) => return Some(expression),
            Err(ExpressionError::Invalid(why)) => self.invalid(path, text.clone(), why),
            Err(ExpressionError::Internal(why)) => self.errors.push(FieldError::internal(self.at(path), why)),
        }
        None
    }
}
