//! Bearer tokens, whatever their kind: who knows one says whose it is.

use std::{error::Error, fmt, sync::Arc};

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

impl TokenNotes {
    /// The notes, if there are any.
    pub fn if_any(self) -> Option<Arc<Self>> {
        (self != TokenNotes::default()).then(|| Arc::new(self))
    }
}

impl TokenOwner {
    /// A token of which nothing else is to be told.
    pub fn new(user: Arc<User>, audiences: Arc<[Str]>) -> Self {
        TokenOwner { user, audiences, notes: None }
    }
}

/// Why a token of a kind that somebody knows is nobody's. Shown, it is what upstream's server says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is not good, for this reason.
    #[error("{0}")]
    Invalid(String),
    /// It is for others.
    #[error("token audiences [{}] is invalid for the target audiences [{}]", quoted(.own), quoted(.asked))]
    Audiences {
        /// Those that it is for.
        own: Vec<Str>,
        /// Those that it should be for, one of them at least.
        asked: Vec<Str>,
    },
    /// Whether it is good could not be found out: who knows cannot be asked, or did not answer in time.
    #[error("{0}")]
    Unavailable(String),
    /// Several know its kind, and all of them object.
    #[error("{}", joined(.0))]
    Several(Vec<TokenError>),
    /// It is not good for this reason, and there is more to tell of it.
    #[error("{0}")]
    Noted(Box<TokenError>, Arc<TokenNotes>),
}

impl TokenError {
    /// The same, with what else is to be told of the token.
    #[must_use]
    pub fn noted(self, notes: TokenNotes) -> Self {
        match notes.if_any() {
            Some(notes) => TokenError::Noted(Box::new(self), notes),
            None => self,
        }
    }

    fn note_into<'a>(&'a self, found: &mut Vec<&'a TokenNotes>) {
        match self {
            TokenError::Noted(why, notes) => {
                found.push(notes);
                why.note_into(found);
            }
            TokenError::Several(several) => several.iter().for_each(|one| one.note_into(found)),
            TokenError::Invalid(_) | TokenError::Audiences { .. } | TokenError::Unavailable(_) => {}
        }
    }
}

fn quoted(audiences: &[Str]) -> String {
    audiences.iter().map(|audience| format!("{:?}", audience.as_str())).collect::<Vec<_>>().join(" ")
}

fn joined(errors: &[TokenError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Knows bearer tokens of one kind.
#[async_trait]
pub trait TokenAuthenticator: Send + Sync {
    /// The token's owner; `None` if this is no token of the kind. The token must be for one of `audiences`; `None` asks for
    /// a token for this server.
    ///
    /// # Errors
    /// Why a token of the kind is not good.
    async fn authenticate(&self, token: &str, audiences: Option<&[Str]>) -> Result<Option<TokenOwner>, TokenError>;
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

/// A token that nobody knows as somebody's. Shown, it is what upstream's server says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownToken {
    /// What those object who know its kind, in the order in which they were asked.
    pub objections: Vec<TokenError>,
}

impl UnknownToken {
    /// What else those tell who object.
    pub fn notes(&self) -> Vec<&TokenNotes> {
        let mut found = Vec::new();
        self.objections.iter().for_each(|objection| objection.note_into(&mut found));
        found
    }
}

impl fmt::Display for UnknownToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = vec!["invalid bearer token".to_owned()];
        for objection in self.objections.iter().map(ToString::to_string) {
            if !told.contains(&objection) {
                told.push(objection);
            }
        }
        match told.as_slice() {
            [nothing_else] => f.write_str(nothing_else),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}

impl Error for UnknownToken {}

impl TokenAuthenticators {
    /// The token's owner.
    ///
    /// # Errors
    /// Nobody knows the token.
    pub async fn owner(&self, token: &str, audiences: Option<&[Str]>) -> Result<TokenOwner, UnknownToken> {
        let mut unknown = UnknownToken::default();
        for authenticator in &self.0 {
            match authenticator.authenticate(token, audiences).await {
                Ok(Some(owner)) => return Ok(owner),
                Ok(None) => {}
                Err(why) => unknown.objections.push(why),
            }
        }
        Err(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad_noted(notes: TokenNotes) -> TokenError {
        TokenError::Invalid("bad".to_owned()).noted(notes)
    }

    #[test]
    fn what_several_object_is_told_once() {
        let check = |objections: &[TokenError], expect: &str| {
            assert_eq!(UnknownToken { objections: objections.to_vec() }.to_string(), expect);
        };
        let (bad, gone) = (TokenError::Invalid("bad".to_owned()), TokenError::Unavailable("gone".to_owned()));
        check(&[], "invalid bearer token");
        check(&[TokenError::Invalid("invalid bearer token".to_owned())], "invalid bearer token");
        check(std::slice::from_ref(&bad), "[invalid bearer token, bad]");
        check(&[bad.clone(), bad.clone(), gone.clone()], "[invalid bearer token, bad, gone]");
        check(&[TokenError::Several(vec![bad, gone])], "[invalid bearer token, bad, gone]");
        let notes = TokenNotes { annotations: vec![("k", "v".into())], ..TokenNotes::default() };
        let noted = bad_noted(notes.clone());
        check(std::slice::from_ref(&noted), "[invalid bearer token, bad]");
        let several = UnknownToken { objections: vec![TokenError::Several(vec![noted])] };
        assert_eq!(several.notes(), [&notes]);
        assert_eq!(bad_noted(TokenNotes::default()), TokenError::Invalid("bad".to_owned()));
        let audiences = TokenError::Audiences { own: vec!["a".into(), "b".into()], asked: vec!["c".into()] };
        check(
            &[audiences],
            "[invalid bearer token, token audiences [\"a\" \"b\"] is invalid for the target audiences [\"c\"]]",
        );
    }
}
