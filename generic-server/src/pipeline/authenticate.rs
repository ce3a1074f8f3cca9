//! Step: who asks? Front proxy, client certificate, bearer token; the first that knows wins, the first that objects
//! ends the request with a 401, and whom nobody knows is anonymous if that is allowed.

use std::{collections::HashSet, sync::Arc, time::Instant};

use http::header::AUTHORIZATION;
use machinery::{
    Str,
    meta::{Timestamp, status::Status},
};

use super::{
    authentication_metrics::{Attempt, AuthenticationMetrics},
    internal::Known,
};
use crate::{
    metrics::Metrics,
    request::Request,
    serve::{Peer, PeerInfo},
};
use auth::{
    CertificateError, ClientCertificates, RequestHeader, TokenAuthenticators, TokenOwner, UnknownToken, User,
    websocket::{self, WebSocketTokenError},
};

/// How requests are authenticated.
pub struct Authentication {
    /// Headers of a front proxy.
    pub request_header: Option<RequestHeader>,
    /// Client certificates.
    pub client_certificates: Option<Arc<ClientCertificates>>,
    /// Whether they may name a UID (the gate AllowParsingUserUIDFromCertAuth).
    pub certificates_name_uids: bool,
    /// Bearer tokens.
    pub tokens: Arc<TokenAuthenticators>,
    /// The server's own token, for its own clients.
    pub loopback_token: Str,
    /// Which strangers are let through as system:anonymous.
    pub anonymous: Anonymous,
    /// What is counted.
    pub metrics: AuthenticationMetrics,
}

/// Where those whom nobody knows are let through as system:anonymous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anonymous {
    /// Nowhere.
    Refused,
    /// Everywhere.
    Everywhere,
    /// At exactly these paths.
    At(HashSet<Str>),
}

impl Anonymous {
    fn allows(&self, path: &str) -> bool {
        match self {
            Anonymous::Refused => false,
            Anonymous::Everywhere => true,
            Anonymous::At(paths) => paths.contains(path),
        }
    }
}

/// Why what a request shows makes it nobody's.
#[derive(Debug, thiserror::Error)]
enum Objection {
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("the certificate names nobody")]
    NamesNobody,
    #[error(transparent)]
    Token(#[from] UnknownToken),
    #[error(transparent)]
    WebSocket(#[from] WebSocketTokenError),
}

impl Authentication {
    /// Finds the user, or refuses the request. Credentials do not go further than this step.
    pub(super) async fn authenticate(&self, request: &mut Request) -> Result<(), Status> {
        if let Some(Known(user)) = request.extensions.remove::<Known>() {
            request.user = user;
            return Ok(());
        }
        let started = Instant::now();
        let peer = request.extensions.get::<Peer>().cloned();
        let found = self.find(request, peer.as_deref()).await;
        request.headers.remove(AUTHORIZATION);
        RequestHeader::clear(self.request_header.as_ref().map(|proxy| &proxy.options), &mut request.headers);
        let (attempt, outcome) = match found {
            Ok(Some(user)) => {
                request.user = user;
                (Attempt::Success, Ok(()))
            }
            // A request begins as anonymous.
            Ok(None) if self.anonymous.allows(&request.info.path) => (Attempt::Success, Ok(())),
            Ok(None) => (Attempt::Failure, Err(Status::unauthorized("Unauthorized"))),
            Err(why) => {
                tracing::info!(%why, "unauthenticated");
                (Attempt::Error, Err(Status::unauthorized("Unauthorized")))
            }
        };
        self.metrics.count(attempt, &request.user, started.elapsed());
        outcome
    }

    async fn find(&self, request: &mut Request, peer: Option<&PeerInfo>) -> Result<Option<Arc<User>>, Objection> {
        let mut objection = None;
        let chain = peer.map_or(&[][..], |peer| &peer.certificates);
        let websocket_token = websocket::take_token(&mut request.headers);
        if let Some(proxy) = &self.request_header {
            match proxy.authenticate(chain, &mut request.headers) {
                Ok(Some(user)) => return Ok(Some(Arc::new(user))),
                Ok(None) => {}
                Err(why) => objection = Some(why.into()),
            }
        }
        if let (Some(authorities), Some(peer), false) = (&self.client_certificates, peer, chain.is_empty()) {
            match authorities.user_of(chain, &peer.memo, self.certificates_name_uids) {
                Ok(Some(user)) => {
                    note_expiration(request, peer);
                    return Ok(Some(user));
                }
                // Nor is it a front proxy's: to upstream's server that is an objection.
                Ok(None) => objection = Some(Objection::NamesNobody),
                Err(why) => objection = Some(why.into()),
            }
        }
        if let Some(token) = request.header(AUTHORIZATION.as_str()).and_then(bearer_token) {
            if !self.loopback_token.is_empty() && constant_time_eq(token.as_bytes(), self.loopback_token.as_bytes()) {
                return Ok(Some(Arc::new(User::loopback())));
            }
            match self.tokens.owner(token, None).await {
                Ok(owner) => return Ok(Some(noted(request, owner))),
                Err(why) => objection = Some(refused(request, why).into()),
            }
        }
        match websocket_token {
            Ok(Some(token)) => match self.tokens.owner(&token, None).await {
                Ok(owner) => return Ok(Some(noted(request, owner))),
                Err(why) => objection = Some(refused(request, why).into()),
            },
            Ok(None) => {}
            Err(why) => objection = Some(why.into()),
        }
        objection.map_or(Ok(None), Err)
    }
}

/// The owner of the token that came with a request. What else is told of the token is noted, for the audit log and for the
/// client.
fn noted(request: &mut Request, owner: TokenOwner) -> Arc<User> {
    if let Some(notes) = owner.notes {
        for (key, value) in &notes.annotations {
            request.audit.annotate(*key, value.clone());
        }
        request.extensions.insert(notes);
    }
    owner.user
}

/// Notes what is told of a token that is nobody's, for the audit log.
fn refused(request: &Request, why: UnknownToken) -> UnknownToken {
    for (key, value) in why.notes().iter().flat_map(|notes| &notes.annotations) {
        request.audit.annotate(*key, value.clone());
    }
    why
}

/// Counts how long a certificate still lasts by which a request was authenticated.
fn note_expiration(request: &Request, peer: &PeerInfo) {
    let parse = || Some(x509::Certificate::parse(peer.certificates.first()?).ok()?.not_after());
    let until = *peer.lasts_until.get_or_init(parse);
    if let (Some(until), Some(metrics)) = (until, request.extensions.get::<Arc<Metrics>>()) {
        metrics.access.certificate_lasts(until, Timestamp::now().seconds());
    }
}

/// What clients are told whose token stands too far right.
pub(super) const EXTRA_SPACE: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// What stands between the first space of a header of the scheme Bearer and the next space. What is behind counts for
/// nothing.
fn bearer(header: &str) -> Option<&str> {
    let mut parts = header.trim().split(' ');
    let scheme = parts.next()?;
    parts.next().filter(|_| scheme.eq_ignore_ascii_case("bearer"))
}

fn bearer_token(header: &str) -> Option<&str> {
    bearer(header).filter(|token| !token.is_empty())
}

/// Whether there is a second space before the token, which is not read then.
pub(super) fn has_extra_space(request: &Request) -> bool {
    request.header(AUTHORIZATION.as_str()).and_then(bearer) == Some("")
}

/// Compares secrets without telling by its time how much of them agrees.
fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_let_through_where_they_may_be() {
        let at = Anonymous::At(HashSet::from(["/livez".into()]));
        for (path, expect) in [("/livez", true), ("/livez/ping", false), ("/livez/", false), ("/version", false)] {
            assert_eq!(at.allows(path), expect, "{path}");
            assert!(Anonymous::Everywhere.allows(path) && !Anonymous::Refused.allows(path));
        }
    }

    #[test]
    fn tokens_are_read_as_upstream_does() {
        let check = |header: &str, token: Option<&str>, extra_space: bool| {
            assert_eq!(bearer_token(header), token, "{header:?}");
            assert_eq!(bearer(header) == Some(""), extra_space, "{header:?}");
        };
        check("Bearer abc", Some("abc"), false);
        check(" bEARER abc ", Some("abc"), false);
        check("Bearer abc behind", Some("abc"), false);
        check("Bearer  abc", None, true);
        check("Bearer", None, false);
        check("Bearer ", None, false);
        check("Basic abc", None, false);
        check("Basic  abc", None, false);
        check("", None, false);
    }
}
