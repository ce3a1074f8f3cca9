//! `--token-auth-file`: bearer tokens from a CSV file.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use machinery::Str;

use super::{CsvError, TokenAuthenticator, TokenError, TokenOwner, User, csv, token::audiences_of};

/// Why a file of tokens cannot be used. Shown, it is what upstream's server says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// It is no CSV.
    #[error("token file '{file}': {error}")]
    Csv {
        /// The file's name.
        file: String,
        /// What is wrong, and where.
        error: CsvError,
    },
    /// A line has too few columns.
    #[error(
        "token file '{file}' must have at least 3 columns (token, user name, user uid), found {found} on line {line}"
    )]
    TooFewColumns {
        /// The file's name.
        file: String,
        /// How many it has.
        found: usize,
        /// The line, from 1.
        line: usize,
    },
}

/// Static bearer tokens. The file's columns are token, user name, uid, and optionally a quoted list of groups.
#[derive(Debug, Default)]
pub struct StaticTokens {
    tokens: ArcSwap<HashMap<Str, Arc<User>>>,
    audiences: Arc<[Str]>,
}

impl StaticTokens {
    /// Reads the text of the file of that name. `audiences` are the server's: such tokens are for them all.
    ///
    /// # Errors
    /// What is wrong, and in which line.
    pub fn parse(file: &str, text: &str, audiences: Arc<[Str]>) -> Result<Self, TokenFileError> {
        Ok(StaticTokens { tokens: ArcSwap::from_pointee(read(file, text)?), audiences })
    }

    /// Takes another file's text from now on.
    ///
    /// # Errors
    /// As [`Self::parse`]; then the old tokens stay.
    pub fn replace(&self, file: &str, text: &str) -> Result<(), TokenFileError> {
        self.tokens.store(Arc::new(read(file, text)?));
        Ok(())
    }

    /// The owner of a token.
    fn owner(&self, token: &str) -> Option<Arc<User>> {
        self.tokens.load().get(token).cloned()
    }
}

fn read(file: &str, text: &str) -> Result<HashMap<Str, Arc<User>>, TokenFileError> {
    let mut tokens = HashMap::new();
    let records = csv::records(text).map_err(|error| TokenFileError::Csv { file: file.to_owned(), error })?;
    for csv::Record { line, fields } in records {
        let [token, name, uid, ..] = fields.as_slice() else {
            return Err(TokenFileError::TooFewColumns { file: file.to_owned(), found: fields.len(), line });
        };
        if token.is_empty() {
            tracing::warn!(file, line, "an empty token has been found in the token file");
            continue;
        }
        let user = User {
            name: name.as_str().into(),
            uid: uid.as_str().into(),
            groups: fields.get(3).map_or_else(Vec::new, |groups| groups.split(',').map(Str::from).collect()),
            extra: Vec::new(),
        };
        if tokens.insert(Str::from(token.as_str()), Arc::new(user.authenticated())).is_some() {
            tracing::warn!(file, line, "a duplicate token has been found in the token file");
        }
    }
    Ok(tokens)
}

#[async_trait]
impl TokenAuthenticator for StaticTokens {
    async fn authenticate(&self, token: &str, audiences: Option<&[Str]>) -> Result<Option<TokenOwner>, TokenError> {
        let Some(user) = self.owner(token) else { return Ok(None) };
        Ok(audiences_of(&self.audiences, audiences).map(|audiences| TokenOwner::new(user, audiences)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<StaticTokens, String> {
        StaticTokens::parse("t.csv", text, Arc::default()).map_err(|why| why.to_string())
    }

    #[test]
    fn tokens_carry_users_and_groups() {
        let text =
            "admintoken,admin,1,\"system:masters\"\nalicetoken,alice,1001,\"dev,qa\"\n,nobody,1\nbobtoken,bob,2\n";
        let tokens = parse(text).expect("valid");
        let alice = tokens.owner("alicetoken").expect("known");
        assert_eq!((alice.name.as_str(), alice.uid.as_str()), ("alice", "1001"));
        assert_eq!(alice.groups, ["dev", "qa", "system:authenticated"]);
        assert_eq!(tokens.owner("bobtoken").expect("known").groups, ["system:authenticated"]);
        assert!(tokens.owner("nosuch").is_none() && tokens.owner("").is_none());
    }

    #[test]
    fn what_is_wrong_is_told_with_file_and_line() {
        let check = |text: &str, expect: &str| assert_eq!(parse(text).err().as_deref(), Some(expect), "{text:?}");
        let columns = "token file 't.csv' must have at least 3 columns (token, user name, user uid), found";
        check("a,b", &format!("{columns} 2 on line 1"));
        check("a,b,c\n\n# no comment\n", &format!("{columns} 1 on line 3"));
        check(
            "a,b,c,\"d",
            "token file 't.csv': parse error on line 1, column 9: extraneous or missing \" in quoted-field",
        );
    }

    #[test]
    fn tokens_are_replaced_by_a_file_that_can_be_read() {
        let tokens = parse("a,ann,1\n").expect("valid");
        assert!(tokens.replace("t.csv", "b,bob\n").is_err());
        assert!(tokens.owner("a").is_some());
        tokens.replace("t.csv", "b,bob,2\n").expect("valid");
        assert!(tokens.owner("a").is_none() && tokens.owner("b").is_some());
    }
}
