//! Kubeconfig files: where a webhook is that a flag names, whom to believe there, and how to say who this server is.

use std::path::{Path, PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use machinery::{
    Value,
    codec::{json, yaml},
    meta::{go_text, go_url::GoUrl},
};

/// What the current context of a kubeconfig says. Files that it names have been read.
#[derive(Clone, Default)]
pub struct Kubeconfig {
    /// The server's URL.
    pub server: String,
    /// Authorities, as PEM; empty: those that the machine believes.
    pub authority: Vec<u8>,
    /// Any certificate will do.
    pub insecure: bool,
    /// The name that the certificate must have, if not the URL's.
    pub server_name: Option<String>,
    /// A client certificate and its key, as PEM.
    pub identity: super::Identity,
    /// What is said of who asks.
    pub credentials: Credentials,
}

/// How a client says who it is, besides its certificate.
#[derive(Clone, Default)]
pub enum Credentials {
    /// Not at all.
    #[default]
    None,
    /// A bearer token.
    Token(String),
    /// A bearer token in a file, which is read again when it is needed.
    TokenFile(PathBuf),
    /// A name and a password.
    Basic(String, String),
}

impl Kubeconfig {
    /// Reads a file, and those that it names.
    ///
    /// # Errors
    /// What is wrong with them; says which file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let content = std::fs::read(path).map_err(|e| format!("open {}: {}", path.display(), plain(&e)))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&content, folder).map_err(|why| format!("error loading config file \"{}\": {why}", path.display()))
    }

    fn parse(content: &[u8], folder: &Path) -> Result<Self, String> {
        let is_json = content.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
        let document = match is_json {
            true => json::decode(content).map_err(|e| format!("couldn't get version/kind; json parse error: {e}"))?,
            false => yaml::decode(content).map_err(|e| e.to_string())?,
        };
        if document.as_object().is_none() && !document.is_null() {
            return Err(go_text::no_type_in(&document));
        }
        let text = |name: &str| document.str_at(&[name]).unwrap_or_default();
        for (name, expect) in [("apiVersion", "v1"), ("kind", "Config")] {
            if !text(name).is_empty() && text(name) != expect {
                let (kind, version) = (text("kind"), text("apiVersion"));
                return Err(format!(
                    "no kind {kind:?} is registered for version {version:?} in scheme \
                     \"pkg/client-go/tools/clientcmd/api/latest/latest.go:50\""
                ));
            }
        }
        let current = text("current-context");
        let invalid = |why: String| format!("invalid configuration: {why}");
        let context = match current {
            // As Go's client, which takes what there is when nothing is chosen and there is no choice.
            "" => Value::Null,
            name => named(&document, "contexts", "context", name)
                .ok_or_else(|| invalid(format!("context was not found for specified context: {name}")))?,
        };
        let cluster_name = context.str_at(&["cluster"]).unwrap_or_default();
        let cluster = named(&document, "clusters", "cluster", cluster_name);
        let cluster = cluster.ok_or_else(|| {
            invalid("no configuration has been provided, try setting KUBERNETES_MASTER environment variable".to_owned())
        })?;
        let user_name = context.str_at(&["user"]).unwrap_or_default();
        let user = named(&document, "users", "user", user_name).unwrap_or(Value::Null);
        let mut config = Kubeconfig::default();
        config.cluster(&cluster, cluster_name, folder).map_err(invalid)?;
        config.user(&user, user_name, folder).map_err(invalid)?;
        Ok(config)
    }

    fn cluster(&mut self, cluster: &Value, name: &str, folder: &Path) -> Result<(), String> {
        let text = |key: &str| cluster.str_at(&[key]).unwrap_or_default();
        self.server = text("server").to_owned();
        if self.server.is_empty() {
            return Err(format!("no server found for cluster {name:?}"));
        }
        let url = GoUrl::parse(&self.server).map_err(|why| format!("host must be a URL or a host:port pair: {why}"))?;
        if url.host.is_empty() || !matches!(url.scheme.as_str(), "http" | "https") {
            return Err(format!("host must be a URL or a host:port pair: {:?}", self.server));
        }
        if !text("proxy-url").is_empty() {
            return Err(format!("cluster {name:?} is to be reached by a proxy, which this server does not do"));
        }
        self.insecure = cluster.get("insecure-skip-tls-verify").and_then(Value::as_bool).unwrap_or(false);
        self.server_name = Some(text("tls-server-name").to_owned()).filter(|name| !name.is_empty());
        self.authority = pem(cluster, "certificate-authority", name, folder)?;
        if self.insecure && !self.authority.is_empty() {
            return Err("specifying a root certificates file with the insecure flag is not allowed".to_owned());
        }
        Ok(())
    }

    fn user(&mut self, user: &Value, name: &str, folder: &Path) -> Result<(), String> {
        let text = |key: &str| user.str_at(&[key]).unwrap_or_default();
        for unsupported in ["exec", "auth-provider", "as"] {
            if user.get(unsupported).is_some_and(|value| !value.is_null()) {
                return Err(format!("user {name:?} has {unsupported:?}, which this server does not do"));
            }
        }
        self.identity = super::Identity {
            certificate: pem(user, "client-certificate", name, folder)?,
            key: pem(user, "client-key", name, folder)?,
        };
        self.credentials = match (text("tokenFile"), text("token"), text("username")) {
            ("", "", "") => Credentials::None,
            ("", "", username) => Credentials::Basic(username.to_owned(), text("password").to_owned()),
            ("", token, _) => Credentials::Token(token.to_owned()),
            (file, _, _) => Credentials::TokenFile(folder.join(file)),
        };
        if let Credentials::TokenFile(path) = &self.credentials {
            std::fs::read(path)
                .map_err(|e| format!("failed to read token file {:?}: {}", path.display(), plain(&e)))?;
        }
        Ok(())
    }
}

/// What a list of a kubeconfig says under a name.
fn named(document: &Value, list: &str, member: &str, name: &str) -> Option<Value> {
    let items = document.get(list).and_then(Value::as_array)?;
    let found = items.iter().rev().find(|item| item.str_at(&["name"]) == Some(name))?;
    found.get(member).cloned()
}

/// PEM that stands in the file itself, or in one that it names.
fn pem(of: &Value, key: &str, name: &str, folder: &Path) -> Result<Vec<u8>, String> {
    let text = |key: &str| of.str_at(&[key]).unwrap_or_default();
    match (text(&format!("{key}-data")), text(key)) {
        ("", "") => Ok(Vec::new()),
        ("", file) => {
            let path = folder.join(file);
            let path = path.display();
            std::fs::read(path.to_string())
                .map_err(|e| format!("unable to read {key} {path} for {name} due to open {path}: {}", plain(&e)))
        }
        (data, _) => BASE64.decode(data).map_err(|e| format!("{key}-data of {name}: {e}")),
    }
}

/// What the system said, as Go says it.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_context_says_where_a_server_is() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("ca.pem"), "authority").expect("written");
        let text = "apiVersion: v1
kind: Config
clusters:
- {name: other, cluster: {server: 'https://other'}}
- {name: c, cluster: {server: 'https://h:1/p', certificate-authority: ca.pem, tls-server-name: own.test}}
users:
- {name: u, user: {token: secret, client-certificate-data: Y2VydA==, client-key-data: a2V5}}
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
";
        let config = Kubeconfig::parse(text.as_bytes(), dir.path()).expect("a kubeconfig");
        assert_eq!((config.server.as_str(), config.authority.as_slice()), ("https://h:1/p", &b"authority"[..]));
        assert_eq!(config.server_name.as_deref(), Some("own.test"));
        assert_eq!((config.identity.certificate, config.identity.key), (b"cert".to_vec(), b"key".to_vec()));
        assert!(matches!(config.credentials, Credentials::Token(token) if token == "secret"));
    }

    #[test]
    fn what_is_wrong_with_it_is_told_as_upstream_does() {
        let check = |text: &str, expect: &str| {
            let why = Kubeconfig::parse(text.as_bytes(), Path::new("/nosuch")).err();
            assert_eq!(why.as_deref(), Some(expect), "{text}");
        };
        let nothing = "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment \
                       variable";
        check("", nothing);
        check("kind: Config\n", nothing);
        check("current-context: x\n", "invalid configuration: context was not found for specified context: x");
        let cluster = |cluster: &str| {
            format!(
                "clusters: [{{name: c, cluster: {cluster}}}]\ncontexts: [{{name: x, context: {{cluster: c}}}}]\n\
                 current-context: x\n"
            )
        };
        check(&cluster("{}"), "invalid configuration: no server found for cluster \"c\"");
        check(
            &cluster("{server: 'https://h', certificate-authority: ca.pem}"),
            "invalid configuration: unable to read certificate-authority /nosuch/ca.pem for c due to open /nosuch/ca.pem: no \
             such file or directory",
        );
        check(
            "kind: Pod\napiVersion: v1\n",
            "no kind \"Pod\" is registered for version \"v1\" in scheme \
             \"pkg/client-go/tools/clientcmd/api/latest/latest.go:50\"",
        );
    }
}
