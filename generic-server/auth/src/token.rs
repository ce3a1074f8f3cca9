//! Bearer tokens, whatever their kind: who knows one says whose it is.

use std::sync::Arc;

use async_trait::async_trait;
use machinery::Str;

use super::User;

/// Whose a token is.
#[derive(Clone, Debug)]
pub struct TokenOwner {
    /// The user.
    pub user: Arc<User>,
    /// Of the audiences asked for (or of the server's own ones) those that the token is for.
    pub audiences: Arc<[Str]>,
    /// What else is to be told of its use.
    pub notes: Option<Arc<TokenNotes>>,
}

/// What is told of a token's use, besides whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenNotes {
    /// Of those who read the audit log.
    pub annotations: Vec<(&'static str, Str)>,
    /// Of the client.
    pub warnings: Vec<String>,
}

impl TokenOwner {
    /// A token of which nothing else is to be told.
    pub fn new(user: Arc<User>, audiences: Arc<[Str]>) -> Self {
        TokenOwner { user, audiences, notes: None }
    }
}

/// Knows bearer tokens of one kind.
#[async_trait]
pub trait TokenAuthenticator: Send + Sync {
    /// The token's owner; `None` if this is no token of the kind. The token must be for one of `audiences`; `None` asks for
    /// a token for this server.
    ///
    /// # Errors
    /// Why a token of the kind is not good.
    async fn authenticate(&self, token: &str, audiences: Option<&[Str]>) -> Result<Option<TokenOwner>, String>;
}

/// Of the audiences asked for, those of a server whose audiences are `own`; all of those if none are asked for. `None` if
/// a token of this server is for none of them. A server without audiences of its own does not look at them.
pub(crate) fn audiences_of(own: &Arc<[Str]>, asked: Option<&[Str]>) -> Option<Arc<[Str]>> {
    let shared = match asked {
        None => own.clone(),
        Some(asked) => asked.iter().filter(|audience| own.contains(audience)).cloned().collect(),
    };
    (!shared.is_empty() || own.is_empty()).then_some(shared)
}

/// All kinds of tokens that a server knows, asked in order: the first one that knows a token wins.
#[derive(Default)]
pub struct TokenAuthenticators(pub Vec<Arc<dyn TokenAuthenticator>>);

/// What is wrong with a token that nobody knows.
const INVALID: &str = "invalid bearer token";

impl TokenAuthenticators {
    /// The token's owner.
    ///
    /// # Errors
    /// Nobody knows the token; what those objected who know its kind is part of the text.
    pub async fn owner(&self, token: &str, audiences: Option<&[Str]>) -> Result<TokenOwner, String> {
        let mut objections = vec![INVALID.to_owned()];
        for authenticator in &self.0 {
            match authenticator.authenticate(token, audiences).await {
                Ok(Some(owner)) => return Ok(owner),
                Ok(None) => {}
                Err(why) if objections.contains(&why) => {}
                Err(why) => objections.push(why),
            }
        }
        if objections.len() == 1 {
            return Err(INVALID.to_owned());
        }
        Err(format!("[{}]", objections.join(", ")))
    }
}
