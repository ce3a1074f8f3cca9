//! `--token-auth-file`: bearer tokens from a CSV file.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use machinery::Str;

use super::{TokenAuthenticator, TokenOwner, User};

/// Static bearer tokens. Read once; the file's columns are token, user name, uid, and optionally a quoted list of groups.
#[derive(Debug, Default)]
pub struct StaticTokens {
    tokens: HashMap<Str, Arc<User>>,
    audiences: Arc<[Str]>,
}

impl StaticTokens {
    /// Reads the file's text; the error names the line. `audiences` are the server's: such tokens are for them all.
    pub fn parse(text: &str, audiences: Arc<[Str]>) -> Result<Self, String> {
        let mut tokens = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let fields = csv_fields(line).ok_or_else(|| format!("line {}: unbalanced quotes", number + 1))?;
            let [token, name, uid, ..] = fields.as_slice() else {
                return Err(format!(
                    "line {}: token file must have at least 3 columns (token, user name, user uid), found {}",
                    number + 1,
                    fields.len()
                ));
            };
            if token.is_empty() {
                return Err(format!("line {}: an empty token", number + 1));
            }
            let groups = fields.get(3).map_or("", String::as_str);
            let user = User {
                name: name.as_str().into(),
                uid: uid.as_str().into(),
                groups: groups.split(',').map(str::trim).filter(|g| !g.is_empty()).map(Str::from).collect(),
                extra: Vec::new(),
            };
            tokens.insert(Str::from(token.as_str()), Arc::new(user.authenticated()));
        }
        Ok(StaticTokens { tokens, audiences })
    }

    /// The owner of a token.
    fn owner(&self, token: &str) -> Option<Arc<User>> {
        self.tokens.get(token).cloned()
    }
}

#[async_trait]
impl TokenAuthenticator for StaticTokens {
    async fn authenticate(&self, token: &str, audiences: Option<&[Str]>) -> Result<Option<TokenOwner>, String> {
        let Some(user) = self.owner(token) else { return Ok(None) };
        let audiences: Arc<[Str]> = match audiences {
            None => self.audiences.clone(),
            Some(asked) => asked.iter().filter(|a| self.audiences.contains(a)).cloned().collect(),
        };
        // A server without audiences of its own does not look at them.
        let good = !audiences.is_empty() || self.audiences.is_empty();
        Ok(good.then_some(TokenOwner { user, audiences }))
    }
}

/// The fields of one CSV line; `None` if a quote stays open.
fn csv_fields(line: &str) -> Option<Vec<String>> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field).trim().to_owned()),
            c => field.push(c),
        }
    }
    fields.push(field.trim().to_owned());
    (!quoted).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_carry_users_and_groups() {
        let tokens = StaticTokens::parse(
            "admintoken,admin,1,\"system:masters\"\nalicetoken,alice,1001,\"dev,qa\"\n",
            Arc::default(),
        )
        .expect("valid");
        let alice = tokens.owner("alicetoken").expect("known");
        assert_eq!((alice.name.as_str(), alice.uid.as_str()), ("alice", "1001"));
        assert_eq!(alice.groups, ["dev", "qa", "system:authenticated"]);
        assert!(tokens.owner("nosuch").is_none());
        assert!(StaticTokens::parse("a,b", Arc::default()).is_err());
        assert!(StaticTokens::parse("a,b,c,\"d", Arc::default()).is_err());
    }
}
