//! `--token-auth-file`: bearer tokens from a CSV file.

use std::{collections::HashMap, sync::Arc};

use machinery::Str;

use super::User;

/// Static bearer tokens. Read once; the file's columns are token, user name, uid, and optionally a quoted list of groups.
#[derive(Debug, Default)]
pub struct StaticTokens(HashMap<Str, Arc<User>>);

impl StaticTokens {
    /// Reads the file's text. The error names the line.
    pub fn parse(text: &str) -> Result<Self, String> {
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
        Ok(StaticTokens(tokens))
    }

    /// The owner of a token.
    pub fn authenticate(&self, token: &str) -> Option<Arc<User>> {
        self.0.get(token).cloned()
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
        let tokens = StaticTokens::parse("admintoken,admin,1,\"system:masters\"\nalicetoken,alice,1001,\"dev,qa\"\n")
            .expect("valid");
        let alice = tokens.authenticate("alicetoken").expect("known");
        assert_eq!((alice.name.as_str(), alice.uid.as_str()), ("alice", "1001"));
        assert_eq!(alice.groups, ["dev", "qa", "system:authenticated"]);
        assert!(tokens.authenticate("nosuch").is_none());
        assert!(StaticTokens::parse("a,b").is_err());
        assert!(StaticTokens::parse("a,b,c,\"d").is_err());
    }
}
