//! Authenticates service account tokens.

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use auth::{TokenAuthenticator, TokenError, TokenNotes, TokenOwner, User, jwt::Token};
use generic_server::registry::Registry;
use machinery::{Str, meta::Timestamp};

use super::{
    TokenSettings,
    claims::{Claims, OwnClaims, Reference},
    legacy::{self, Legacy},
    lookup::{Bound, Kind, Lookup},
    notes::{Noted, Uses},
    verified::{Verified, VerifiedTokens, fingerprint},
};

/// Knows tokens of service accounts.
pub struct Verifier {
    settings: TokenSettings,
    lookup: Lookup,
    verified: VerifiedTokens,
    /// Where it is noted that tokens of secrets are used.
    secrets: Option<Arc<Registry>>,
    uses: Uses,
}

#[async_trait]
impl TokenAuthenticator for Verifier {
    async fn authenticate(&self, token: &str, audiences: Option<&[Str]>) -> Result<Option<TokenOwner>, TokenError> {
        if token.bytes().filter(|b| *b == b'.').count() != 2 {
            return Ok(None);
        }
        let now = Timestamp::now().seconds();
        let fingerprint = fingerprint(token);
        let mut notes = TokenNotes::default();
        let verified = match self.verified.get(&fingerprint) {
            Some(verified) => {
                verified.noted.signed(&mut notes, &self.uses);
                verified
            }
            None => {
                let Some(parsed) = Token::parse(token).filter(|parsed| self.is_ours(parsed)) else { return Ok(None) };
                let verified = self.verify(&parsed, &mut notes).await;
                let verified = Arc::new(verified.map_err(|why| why.noted(std::mem::take(&mut notes)))?);
                self.verified.put(fingerprint, verified.clone(), now);
                verified
            }
        };
        match self.judge(&verified, token, audiences, now, &mut notes).await {
            Ok(audiences) => Ok(Some(TokenOwner { user: verified.user.clone(), audiences, notes: notes.if_any() })),
            Err(why) => Err(why.noted(notes)),
        }
    }
}

impl Verifier {
    /// With these keys and audiences; what tokens are bound to is looked for with `lookup`.
    pub fn new(settings: TokenSettings, lookup: Lookup) -> Self {
        Verifier { settings, lookup, verified: VerifiedTokens::default(), secrets: None, uses: Uses::default() }
    }

    /// Shows in metrics how tokens are used. There is one such verifier a registry.
    #[must_use]
    pub fn counting_uses(self, metrics: &prometheus::Registry) -> Self {
        Verifier { uses: Uses::registered(metrics), ..self }
    }

    /// Notes at secrets that their tokens are used.
    #[must_use]
    pub fn noting_uses(self, secrets: Arc<Registry>) -> Self {
        Verifier { secrets: Some(secrets), ..self }
    }

    /// Whether a token says that it is of one of our issuers.
    fn is_ours(&self, token: &Token<'_>) -> bool {
        let issuer = token.claims.str_at(&["iss"]).unwrap_or_default();
        issuer == legacy::ISSUER || self.settings.issuers.iter().any(|known| known == issuer)
    }

    /// Whether a token whose signature is good is good now, and of the audiences asked for those that it is for.
    async fn judge(
        &self,
        verified: &Verified,
        token: &str,
        audiences: Option<&[Str]>,
        now: i64,
        notes: &mut TokenNotes,
    ) -> Result<Arc<[Str]>, TokenError> {
        let audiences = self.shared_audiences(verified, audiences)?;
        verified.validity.check(now).map_err(|why| TokenError::Invalid(why.to_owned()))?;
        let legacy = verified.legacy.as_ref().filter(|_| self.settings.lookup);
        let secret = match legacy {
            Some(legacy) => {
                let secret = legacy.check_secret(&self.lookup, token).await.map_err(TokenError::Invalid)?;
                Some((legacy, secret))
            }
            None => None,
        };
        for bound in &verified.bound {
            self.lookup.check(bound, now).await.map_err(TokenError::Invalid)?;
        }
        if let Some((legacy, secret)) = secret {
            let unmarked = legacy.check_mark(&secret, notes, &self.uses);
            if unmarked.is_ok() {
                legacy.note_use(&self.lookup, notes, &self.uses).await;
            }
            if let Some(secrets) = &self.secrets {
                legacy.mark_use(&secret, secrets).await;
            }
            unmarked.map_err(TokenError::Invalid)?;
        }
        verified.noted.good(now, notes, &self.uses);
        Ok(audiences)
    }

    /// Checks the signature and reads the claims.
    async fn verify(&self, token: &Token<'_>, notes: &mut TokenNotes) -> Result<Verified, TokenError> {
        self.settings.keys.check_signature(token).await?;
        if let Some(claim) = token.doubled.first() {
            let claim = claim.split('"').nth(1).unwrap_or_default();
            return Err(TokenError::Invalid(format!("json: duplicate key '{claim}' in object")));
        }
        let claims = Claims::of(&token.claims).map_err(TokenError::Invalid)?;
        let mut audiences = claims.audiences.clone();
        let noted = Noted {
            subject: claims.subject.clone(),
            for_nobody: audiences.is_empty(),
            stale_after: claims.own.warn_after,
        };
        noted.signed(notes, &self.uses);
        if audiences.is_empty() {
            audiences = self.settings.audiences.to_vec();
        }
        let own = self.settings.audiences.iter().filter(|own| audiences.contains(own)).cloned().collect();
        let verified = |user: User, bound, legacy| Verified {
            user: Arc::new(user.authenticated()),
            audiences,
            own_audiences: own,
            validity: claims.validity,
            bound,
            legacy,
            noted,
        };
        if claims.issuer == legacy::ISSUER {
            let legacy = Legacy::of(&token.claims, &claims.subject).map_err(TokenError::Invalid)?;
            // With --service-account-lookup=false the signature is all that such a token needs.
            let account = self.settings.lookup.then(|| legacy.account(&self.lookup));
            return Ok(verified(legacy.user(), account.into_iter().collect(), Some(legacy)));
        }
        let (user, bound) = self.bound_token(&claims);
        Ok(verified(user, bound, None))
    }

    /// The user of a bound token, and what binds it.
    fn bound_token(&self, claims: &Claims) -> (User, Vec<Bound>) {
        let OwnClaims { namespace, account, pod, node, secret, .. } = &claims.own;
        let bind = |kind, namespace: &str, to: &Reference| self.lookup.bound(kind, namespace, &to.name, &to.uid);
        let mut bound = vec![bind(Kind::Account, namespace, account)];
        let mut extra: Vec<(Str, Vec<Str>)> = Vec::new();
        let mut tell = |key: &'static str, value: &str| {
            if !value.is_empty() {
                let key = Str::from(format!("authentication.kubernetes.io/{key}"));
                extra.push((key, vec![Str::from(value)]));
            }
        };
        if !claims.id.is_empty() {
            tell("credential-id", &format!("JTI={}", claims.id));
        }
        if let Some(node) = node {
            tell("node-name", &node.name);
            tell("node-uid", &node.uid);
            // The node of a pod is told, and may go: the pod goes then, too.
            if pod.is_none() {
                bound.push(bind(Kind::Node, "", node));
            }
        }
        if let Some(pod) = pod {
            tell("pod-name", &pod.name);
            tell("pod-uid", &pod.uid);
            bound.push(bind(Kind::Pod, namespace, pod));
        }
        if let Some(secret) = secret {
            bound.push(bind(Kind::Secret, namespace, secret));
        }
        (user(namespace, &account.name, &account.uid, extra), bound)
    }

    /// The audiences that were asked for and that the token is for.
    ///
    /// # Errors
    /// It is for none of them.
    fn shared_audiences(&self, verified: &Verified, asked: Option<&[Str]>) -> Result<Arc<[Str]>, TokenError> {
        let shared = match asked {
            None => verified.own_audiences.clone(),
            Some(asked) => {
                let own: HashSet<&Str> = verified.audiences.iter().collect();
                asked.iter().filter(|a| own.contains(a)).cloned().collect()
            }
        };
        if shared.is_empty() && !self.settings.audiences.is_empty() {
            let asked = asked.unwrap_or(&self.settings.audiences).to_vec();
            return Err(TokenError::Audiences { own: verified.audiences.clone(), asked });
        }
        Ok(shared)
    }
}

/// A service account as a user.
pub(super) fn user(namespace: &str, name: &str, uid: &str, extra: Vec<(Str, Vec<Str>)>) -> User {
    User {
        name: super::username(namespace, name).into(),
        uid: uid.into(),
        groups: vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}").into()],
        extra,
    }
}
