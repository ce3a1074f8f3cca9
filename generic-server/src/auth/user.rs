//! The identity behind a request.

use machinery::Str;

/// A user, as authentication found it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct User {
    /// The name.
    pub name: Str,
    /// The unique id, if the authenticator knows one.
    pub uid: Str,
    /// The groups.
    pub groups: Vec<Str>,
    /// More facts, by key.
    pub extra: Vec<(Str, Vec<Str>)>,
}

impl User {
    /// The group of those who may do everything.
    pub const MASTERS: &'static str = "system:masters";

    /// Nobody in particular.
    pub fn anonymous() -> Self {
        User { name: "system:anonymous".into(), groups: vec!["system:unauthenticated".into()], ..User::default() }
    }

    /// The server itself, for what its own controllers write.
    pub fn loopback() -> Self {
        User {
            name: "system:apiserver".into(),
            groups: vec![Self::MASTERS.into(), "system:authenticated".into()],
            ..User::default()
        }
    }

    /// Whether the user is in `group`.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// The user with the group that every authenticated user is in.
    pub fn authenticated(mut self) -> Self {
        for implied in ["system:authenticated", "system:unauthenticated"] {
            if self.in_group(implied) {
                return self;
            }
        }
        self.groups.push("system:authenticated".into());
        self
    }
}
