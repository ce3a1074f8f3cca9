//! The identity behind a request.

use machinery::{Str, meta::names};

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
    /// The name of those whom nobody knows.
    pub const ANONYMOUS: &'static str = "system:anonymous";

    /// Nobody in particular.
    pub fn anonymous() -> Self {
        User { name: Self::ANONYMOUS.into(), groups: vec!["system:unauthenticated".into()], ..User::default() }
    }

    /// The server itself, for what its own controllers write.
    pub fn loopback() -> Self {
        User {
            name: "system:apiserver".into(),
            groups: vec![Self::MASTERS.into(), "system:authenticated".into()],
            ..User::default()
        }
    }

    /// Whether nobody knows who it is.
    pub fn is_anonymous(&self) -> bool {
        self.name == "system:anonymous" || self.in_group("system:unauthenticated")
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

/// Namespace and name of the service account that a user name stands for. Names that only look so (`…:default:a:b`, capitals,
/// nothing behind the colon) are other users'.
pub fn service_account_of_name(user_name: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user_name.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let valid = names::dns1123_label(namespace).is_empty() && names::dns1123_subdomain(name).is_empty();
    valid.then_some((namespace, name))
}

/// The node that a user name stands for.
pub fn node_of_name(user_name: &str) -> Option<&str> {
    user_name.strip_prefix("system:node:").filter(|name| names::dns1123_subdomain(name).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_names_are_those_of_service_accounts_and_nodes() {
        let check = |name: &str, expect| assert_eq!(service_account_of_name(name), expect, "{name}");
        check("system:serviceaccount:default:a.b-1", Some(("default", "a.b-1")));
        for name in ["default:A", "default:a:b", "default:", ":a", "default", "", "a.b:c", "Default:a", "default:a b"] {
            check(&format!("system:serviceaccount:{name}"), None);
        }
        assert_eq!(node_of_name("system:node:n1.example"), Some("n1.example"));
        for name in ["system:node:", "system:node:N1", "system:node:a:b", "node:a"] {
            assert_eq!(node_of_name(name), None, "{name}");
        }
    }
}
