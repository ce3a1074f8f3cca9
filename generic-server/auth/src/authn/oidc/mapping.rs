//! From claims to a user.

use machinery::{Map, Str, Value};

use super::{
    super::config::{ClaimMappings, JwtAuthenticator},
    claims::{flag, text, texts},
    expressions::{Expressions, check, claims_value, texts_of, user_value},
};
use crate::User;

/// The key of the extra fact that says by which credential a user came.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The user that verified claims name, if the rules let it pass.
///
/// # Errors
/// A claim that is missing or of a wrong type, an expression that fails, a rule that is not met.
pub(super) fn user_of(config: &JwtAuthenticator, expressions: &Expressions, claims: &Map) -> Result<User, String> {
    let mappings = &config.claim_mappings;
    // Made for expressions alone, once for all of them.
    let value = match expressions.read_claims() {
        true => claims_value(&Value::Object(claims.clone())),
        false => cel::Value::Null,
    };
    let user = User {
        name: name(mappings, expressions, claims, &value)?,
        groups: groups(mappings, expressions, claims, &value)?,
        uid: uid(mappings, expressions, claims, &value)?,
        extra: extra(expressions, claims, &value)?,
    };
    for rule in config.claim_validation_rules.iter().filter(|rule| !rule.claim.is_empty()) {
        let (claim_name, want) = (&rule.claim, &rule.required_value);
        if claims.get(claim_name).is_none() {
            return Err(format!("oidc: required claim {claim_name} not present in ID token"));
        }
        let got = text(claims, claim_name).map_err(|why| format!("oidc: parse claim {claim_name}: {why}"))?;
        if got != *want {
            return Err(format!("oidc: required claim {claim_name} value does not match. Got = {got}, want = {want}"));
        }
    }
    check(&expressions.claim_rules, &value)
        .map_err(|why| format!("oidc: error evaluating claim validation expression: {why}"))?;
    if !expressions.user_rules.is_empty() {
        check(&expressions.user_rules, &user_value(&user))
            .map_err(|why| format!("oidc: error evaluating user info validation rule: {why}"))?;
    }
    Ok(user)
}

fn name(mappings: &ClaimMappings, expressions: &Expressions, claims: &Map, value: &cel::Value) -> Result<Str, String> {
    if let Some(expression) = &expressions.username {
        let name = expression.text(value, "username");
        let name = name.map_err(|why| format!("oidc: error evaluating username claim expression: {why}"))?;
        if name.is_empty() {
            return Err("oidc: empty username via CEL expression is not allowed".to_owned());
        }
        return Ok(name);
    }
    let claim_name = mappings.username.claim.as_str();
    let name = text(claims, claim_name);
    let name = name.map_err(|why| format!("oidc: parse username claims {claim_name:?}: {why}"))?;
    if claim_name == "email"
        && let Some(verified) = claims.get("email_verified")
    {
        let verified = flag(verified).map_err(|why| format!("oidc: parse 'email_verified' claim: {why}"))?;
        if !verified {
            return Err("oidc: email not verified".to_owned());
        }
    }
    Ok(prefixed(mappings.username.prefix.as_ref(), &name))
}

fn groups(
    mappings: &ClaimMappings,
    expressions: &Expressions,
    claims: &Map,
    value: &cel::Value,
) -> Result<Vec<Str>, String> {
    let claim_name = mappings.groups.claim.as_str();
    if let Some(groups) = claims.get(claim_name).filter(|_| !claim_name.is_empty()) {
        let groups = texts(groups).map_err(|why| format!("oidc: parse groups claim {claim_name:?}: {why}"))?;
        return Ok(groups.iter().map(|group| prefixed(mappings.groups.prefix.as_ref(), group)).collect());
    }
    let Some(expression) = &expressions.groups else { return Ok(Vec::new()) };
    expression.texts(value).map_err(|why| format!("oidc: error evaluating group claim expression: {why}"))
}

fn uid(mappings: &ClaimMappings, expressions: &Expressions, claims: &Map, value: &cel::Value) -> Result<Str, String> {
    let claim_name = mappings.uid.claim.as_str();
    if !claim_name.is_empty() {
        return text(claims, claim_name).map_err(|why| format!("oidc: parse uid claim {claim_name:?}: {why}"));
    }
    let Some(expression) = &expressions.uid else { return Ok(Str::default()) };
    expression.text(value, "uid").map_err(|why| format!("oidc: error evaluating uid claim expression: {why}"))
}

fn extra(expressions: &Expressions, claims: &Map, value: &cel::Value) -> Result<Vec<(Str, Vec<Str>)>, String> {
    let mut extra = Vec::new();
    if let Some(id) = claims.get("jti").and_then(Value::as_str).filter(|id| !id.is_empty()) {
        extra.push((Str::new_static(CREDENTIAL_ID), vec![Str::from(format!("JTI={id}"))]));
    }
    // All are evaluated before one is read.
    let found: Vec<_> = expressions.extra.iter().map(|(_, e)| e.evaluate(value)).collect::<Result<_, _>>()?;
    for ((key, expression), found) in expressions.extra.iter().zip(&found) {
        let values = texts_of(found)
            .map_err(|why| format!("oidc: error evaluating extra claim expression: {}: {why}", expression.text))?;
        if !values.is_empty() {
            extra.push((key.clone(), values));
        }
    }
    Ok(extra)
}

fn prefixed(prefix: Option<&Str>, name: &Str) -> Str {
    match prefix.filter(|prefix| !prefix.is_empty()) {
        Some(prefix) => format!("{prefix}{name}").into(),
        None => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;
    use crate::authn::config::{AuthenticationConfiguration, IssuerRules, validate};

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n\
                        - issuer: {url: https://a, audiences: [x]}\n";

    fn user(config: &str, claims: &str) -> Result<User, String> {
        let config = AuthenticationConfiguration::read(format!("{HEAD}{config}").as_bytes()).expect("a configuration");
        let expressions = validate(&config, &IssuerRules::default()).expect("it is valid");
        let claims = json::decode(claims.as_bytes()).expect("JSON");
        user_of(&config.jwt[0], &expressions[0], claims.as_object().expect("an object"))
    }

    #[test]
    fn claims_name_a_user() {
        let config = "  claimMappings:\n    username: {claim: email, prefix: 'oidc:'}\n    groups: {claim: roles, prefix: 'g:'}\n\
                      \n    uid: {claim: sub}\n  claimValidationRules: [{claim: tenant, requiredValue: blue}]\n";
        let ann = user(
            config,
            r#"{"email":"ann@x","email_verified":true,"roles":["a","b"],"sub":"1","tenant":"blue","jti":"j"}"#,
        );
        let ann = ann.expect("a user");
        assert_eq!((ann.name.as_str(), ann.uid.as_str()), ("oidc:ann@x", "1"));
        assert_eq!(ann.groups, ["g:a", "g:b"]);
        assert_eq!(ann.extra, [(CREDENTIAL_ID.into(), vec!["JTI=j".into()])]);
        assert_eq!(
            user(config, r#"{"email":"a","roles":"solo","sub":"1","tenant":"blue"}"#).expect("one").groups,
            ["g:solo"]
        );

        let check = |claims: &str, expect: &str| assert_eq!(user(config, claims), Err(expect.to_owned()), "{claims}");
        check("{}", "oidc: parse username claims \"email\": claim not present");
        check(
            r#"{"email":7}"#,
            "oidc: parse username claims \"email\": json: cannot unmarshal number into Go value of type string",
        );
        check(r#"{"email":"a","email_verified":false}"#, "oidc: email not verified");
        check(
            r#"{"email":"a","email_verified":"yes"}"#,
            "oidc: parse 'email_verified' claim: json: cannot unmarshal string into Go value of type bool",
        );
        check(
            r#"{"email":"a","roles":[1]}"#,
            "oidc: parse groups claim \"roles\": json: cannot unmarshal array into Go value of type string",
        );
        check(r#"{"email":"a"}"#, "oidc: parse uid claim \"sub\": claim not present");
        check(r#"{"email":"a","sub":"1"}"#, "oidc: required claim tenant not present in ID token");
        check(
            r#"{"email":"a","sub":"1","tenant":"red"}"#,
            "oidc: required claim tenant value does not match. Got = red, want = blue",
        );
        check(
            r#"{"email":"a","sub":"1","tenant":1}"#,
            "oidc: parse claim tenant: json: cannot unmarshal number into Go value of type string",
        );
    }

    #[test]
    fn expressions_name_a_user_and_rules_refuse_it() {
        let config = "  claimMappings:\n    username: {expression: \"'one:' + claims.sub\"}\n    groups: {expression: claims.roles}\n\
                      \n    uid: {expression: claims.sub}\n    extra: [{key: a.b/c, valueExpression: 'claims.?level.orValue(0) > 3 ? \"high\" : \"\"'}]\n\
                      \n  claimValidationRules: [{expression: 'claims.exp - claims.iat <= 100', message: too long}]\n\
                      \n  userValidationRules: [{expression: \"!user.username.startsWith('one:system:')\", message: reserved}]\n";
        let one = user(config, r#"{"sub":"u","roles":["a",""],"level":5,"exp":100,"iat":0}"#).expect("a user");
        assert_eq!((one.name.as_str(), one.uid.as_str(), one.groups.len()), ("one:u", "u", 1));
        assert_eq!(one.extra, [("a.b/c".into(), vec!["high".into()])]);
        let check = |claims: &str, expect: &str| assert_eq!(user(config, claims), Err(expect.to_owned()), "{claims}");
        check(
            r#"{"sub":"u","roles":[],"exp":101,"iat":0}"#,
            "oidc: error evaluating claim validation expression: validation expression 'claims.exp - claims.iat <= 100' \
             failed: too long",
        );
        check(
            r#"{"sub":"system:x","roles":[],"exp":1,"iat":0}"#,
            "oidc: error evaluating user info validation rule: validation expression \
             '!user.username.startsWith('one:system:')' failed: reserved",
        );
        check(
            r#"{"roles":[]}"#,
            "oidc: error evaluating username claim expression: expression ''one:' + claims.sub' resulted in error: no such \
             key: sub",
        );
        check(
            r#"{"sub":"u","roles":7}"#,
            "oidc: error evaluating group claim expression: expression must return a string or a list of strings",
        );
    }
}
