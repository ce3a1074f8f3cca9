//! As whom admission webhooks are called: the users of a kubeconfig file, each for the host that it is named after.

use std::{collections::HashMap, fmt, path::Path};

use http::HeaderMap;

use crate::{
    Identity, Kubeconfig, KubeconfigError,
    kubeconfig_webhook::{Files, headers_of},
};

/// The users.
pub struct WebhookUsers {
    by_name: HashMap<String, WebhookUser>,
    /// The user of the file's current context.
    current: String,
}

/// What a webhook is told of who calls.
#[derive(Clone, Default)]
pub(crate) struct WebhookUser {
    pub(crate) identity: Option<Identity>,
    pub(crate) headers: HeaderMap,
}

impl fmt::Debug for WebhookUsers {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl WebhookUsers {
    /// Reads a kubeconfig file and those that it names.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn load(path: &Path) -> Result<Self, KubeconfigError> {
        let (users, current) = Kubeconfig::users(path)?;
        let mut by_name = HashMap::with_capacity(users.len());
        for (name, config) in users {
            let files = Files::read(&config)?;
            let headers = headers_of(&config, &files)?;
            by_name.insert(name, WebhookUser { identity: files.identity, headers });
        }
        Ok(WebhookUsers { by_name, current })
    }

    /// The user for a host: the one of its name, then of the closest `*.` name that it is below, each with the port and then, if
    /// that is 443, without; then `*`, then the current one.
    pub(crate) fn of(&self, host: &str, port: u16) -> Option<&WebhookUser> {
        let with_port = format!("{host}:{port}");
        let targets = std::iter::once(with_port.as_str()).chain((port == 443).then_some(host));
        targets
            .flat_map(|target| names_of(target).collect::<Vec<_>>())
            .chain(["*".to_owned(), self.current.clone()])
            .find_map(|name| self.by_name.get(&name))
    }
}

/// The names by which the user of a target may be called.
fn names_of(target: &str) -> impl Iterator<Item = String> {
    let below = target.match_indices('.').map(move |(at, _)| format!("*{}", &target[at..]));
    std::iter::once(target.to_owned()).chain(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_counts() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("kubeconfig");
        let user = |name: &str| format!("- {{name: '{name}', user: {{token: 't-{name}'}}}}\n");
        let names = ["a.b.c:8443", "a.b.c", "*.b.c", "*.c:8443", "*", "own"];
        let load = |names: &[&str]| {
            let users: String = names.iter().map(|name| user(name)).collect();
            let text = format!("users:\n{users}contexts: [{{name: x, context: {{user: own}}}}]\ncurrent-context: x\n");
            std::fs::write(&path, text).expect("written");
            WebhookUsers::load(&path).expect("valid")
        };
        let check = |names: &[&str], (host, port): (&str, u16), expect: Option<&str>| {
            let users = load(names);
            let found =
                users.of(host, port).map(|user| user.headers["authorization"].to_str().expect("text").to_owned());
            assert_eq!(found, expect.map(|name| format!("Bearer t-{name}")), "{host}:{port}");
        };
        check(&names, ("a.b.c", 8443), Some("a.b.c:8443"));
        check(&names, ("x.c", 8443), Some("*.c:8443"));
        check(&names, ("a.b.c", 443), Some("a.b.c"));
        check(&names, ("x.b.c", 443), Some("*.b.c"));
        check(&names, ("x.b.c", 444), Some("*"));
        check(&["own"], ("x", 443), Some("own"));
        check(&["other"], ("x", 443), None);
        std::fs::write(&path, "users: [{name: a, user: {exec: {command: x}}}]").expect("written");
        let why = WebhookUsers::load(&path).expect_err("it is not run");
        assert!(why.to_string().contains("exec of user \"a\" is not run by this server"), "{why}");
    }
}
