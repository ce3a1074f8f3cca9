//! Kubeconfig files: where a server is, whom to believe that it is the one, and as whom to call it (client-go's clientcmd).

mod error;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use machinery::{
    Value,
    codec::{json, yaml},
    meta::{go_text::no_type_in, go_url::GoUrl},
};

pub use error::{KubeconfigError, KubeconfigFault};

/// What the current context of a kubeconfig file says.
#[derive(Clone, PartialEq, Eq)]
pub struct Kubeconfig {
    /// The server's URL, with its path.
    pub server: String,
    /// The name that its certificate must have, if that is not the URL's host.
    pub server_name: Option<String>,
    /// Whether any certificate will do.
    pub insecure: bool,
    /// The authorities that its certificate is judged by; none: those of the machine.
    pub authorities: Option<ContentSource>,
    /// The certificate to show, and its key.
    pub identity: Option<(ContentSource, ContentSource)>,
    /// What to say in the Authorization header.
    pub credentials: Credentials,
    /// Headers to act as somebody else.
    pub impersonation: Vec<(String, String)>,
}

/// The content of a file: where it is, or itself.
#[derive(Clone, PartialEq, Eq)]
pub enum ContentSource {
    /// A file, which may change.
    File(PathBuf),
    /// PEM text.
    Inline(Vec<u8>),
}

/// What a client says of itself.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// Nothing.
    #[default]
    None,
    /// A bearer token.
    Token(String),
    /// A bearer token in a file, which may change.
    TokenFile(PathBuf),
    /// A name and a password.
    Basic(String, String),
}

impl fmt::Debug for Kubeconfig {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfig").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Kubeconfig {
    /// Reads a file. Paths in it are relative to its directory.
    ///
    /// # Errors
    /// What is wrong with it, with its name.
    pub fn load(path: &Path) -> Result<Self, KubeconfigError> {
        load(path, Self::of)
    }

    /// The users of a file, whoever they are for, and the name of the current context's. Paths in it are relative to its
    /// directory.
    pub(crate) fn users(path: &Path) -> Result<(Vec<(String, Self)>, String), KubeconfigError> {
        load(path, Self::users_of)
    }

    fn users_of(document: &Value, directory: &Path) -> Result<(Vec<(String, Self)>, String), KubeconfigFault> {
        let root = Part { value: document, name: "config", of: "", directory };
        let mut users = Vec::new();
        for entry in root.list("users")? {
            let name = entry.str_at(&["name"]).unwrap_or_default();
            let mut config = Self::of_nobody();
            if let Some(user) = root.named("users", "user", name)? {
                user.user(name, &mut config)?;
            }
            users.push((name.to_owned(), config));
        }
        let context_name = root.text("current-context")?;
        let context = root.named("contexts", "context", &context_name)?;
        let current = context.map_or(Ok(String::new()), |context| context.text("user"))?;
        Ok((users, current))
    }

    /// One that names no server and no user.
    fn of_nobody() -> Self {
        Kubeconfig {
            server: String::new(),
            server_name: None,
            insecure: false,
            authorities: None,
            identity: None,
            credentials: Credentials::None,
            impersonation: Vec::new(),
        }
    }

    /// Whether something is said in other files, which may change.
    pub(crate) fn names_files(&self) -> bool {
        let is_file = |source: &ContentSource| matches!(source, ContentSource::File(_));
        self.authorities.as_ref().is_some_and(is_file)
            || self.identity.as_ref().is_some_and(|(certificate, key)| is_file(certificate) || is_file(key))
            || matches!(self.credentials, Credentials::TokenFile(_))
    }

    /// The current context of a decoded file.
    fn of(document: &Value, directory: &Path) -> Result<Self, KubeconfigFault> {
        let root = Part { value: document, name: "config", of: "", directory };
        let context_name = root.text("current-context")?;
        let context = root.named("contexts", "context", &context_name)?;
        if context.is_none() && !context_name.is_empty() {
            return Err(KubeconfigFault::NoContext(context_name).invalid());
        }
        let of_context = |key: &str| context.as_ref().map_or(Ok(String::new()), |context| context.text(key));
        let (cluster_name, user_name) = (of_context("cluster")?, of_context("user")?);
        let Some(cluster) = root.named("clusters", "cluster", &cluster_name)? else {
            return Err(KubeconfigFault::NoCluster.invalid());
        };
        let user = root.named("users", "user", &user_name)?;
        let mut config = cluster.cluster(&cluster_name).map_err(KubeconfigFault::invalid)?;
        // What a user says of itself is said over TLS only.
        if let Some(user) = user.filter(|_| config.server.starts_with("https://")) {
            user.user(&user_name, &mut config).map_err(KubeconfigFault::invalid)?;
        }
        Ok(config)
    }
}

/// What `read` makes of the document in a file and of the directory that paths in it are relative to.
fn load<T>(path: &Path, read: impl FnOnce(&Value, &Path) -> Result<T, KubeconfigFault>) -> Result<T, KubeconfigError> {
    let text = std::fs::read(path);
    let text = text.map_err(|error| KubeconfigError::Open { path: path.to_owned(), why: plain(&error) })?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let found = decode(&text).and_then(|document| read(&document, directory));
    found.map_err(|fault| KubeconfigError::Load { path: path.to_owned(), fault })
}

/// An object of the file.
struct Part<'a> {
    value: &'a Value,
    /// What kind of object.
    name: &'a str,
    /// What the list calls it.
    of: &'a str,
    directory: &'a Path,
}

impl<'a> Part<'a> {
    fn member(&self, key: &str) -> Option<&'a Value> {
        self.value.get(key).filter(|value| !value.is_null())
    }

    fn wrong_type(&self, field: &str, wanted: &'static str) -> KubeconfigFault {
        KubeconfigFault::Type { object: self.name.to_owned(), field: field.to_owned(), wanted }
    }

    fn text(&self, key: &str) -> Result<String, KubeconfigFault> {
        match self.member(key) {
            None => Ok(String::new()),
            Some(value) => match value.as_str() {
                Some(text) => Ok(text.to_owned()),
                None => Err(self.wrong_type(key, "string")),
            },
        }
    }

    fn flag(&self, key: &str) -> Result<bool, KubeconfigFault> {
        match self.member(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.wrong_type(key, "boolean")),
        }
    }

    fn list(&self, key: &str) -> Result<&'a [Value], KubeconfigFault> {
        match self.member(key) {
            None => Ok(&[]),
            Some(value) => value.as_array().ok_or_else(|| self.wrong_type(key, "list")),
        }
    }

    /// The entry of this name of a list of named objects.
    fn named(&self, list: &str, key: &'a str, name: &'a str) -> Result<Option<Part<'a>>, KubeconfigFault> {
        let mut entries = self.list(list)?.iter().filter(|entry| entry.str_at(&["name"]).unwrap_or_default() == name);
        let Some(entry) = entries.next() else { return Ok(None) };
        if entries.next().is_some() {
            return Err(KubeconfigFault::Duplicate { name: name.to_owned(), list: list.to_owned() });
        }
        Ok(entry.get(key).filter(|v| !v.is_null()).map(|value| Part {
            value,
            name: key,
            of: name,
            directory: self.directory,
        }))
    }

    /// What a file or what base64 says, not both.
    fn source(&self, file: &str, data: &str) -> Result<Option<ContentSource>, KubeconfigFault> {
        let (path, text) = (self.text(file)?, self.text(data)?);
        if !path.is_empty() && !text.is_empty() {
            let (data, file, object) = (data.to_owned(), file.to_owned(), self.name.to_owned());
            return Err(KubeconfigFault::FileAndData { data, file, object });
        }
        if !text.is_empty() {
            let bytes = STANDARD.decode(text.trim()).map_err(|_| self.wrong_type(data, "base64"))?;
            return Ok(Some(ContentSource::Inline(bytes)));
        }
        if path.is_empty() {
            return Ok(None);
        }
        let path = self.directory.join(path);
        if let Err(error) = std::fs::File::open(&path) {
            let (field, name, why) = (file.to_owned(), self.of.to_owned(), plain(&error));
            return Err(KubeconfigFault::File { field, path, name, why });
        }
        Ok(Some(ContentSource::File(path)))
    }

    fn cluster(&self, name: &str) -> Result<Kubeconfig, KubeconfigFault> {
        let server = self.text("server")?;
        if server.is_empty() {
            return Err(KubeconfigFault::NoServer(name.to_owned()));
        }
        if !self.text("proxy-url")?.is_empty() {
            return Err(KubeconfigFault::Proxy(name.to_owned()));
        }
        let (insecure, authorities) = (
            self.flag("insecure-skip-tls-verify")?,
            self.source("certificate-authority", "certificate-authority-data")?,
        );
        if insecure && authorities.is_some() {
            return Err(KubeconfigFault::InsecureAuthorities);
        }
        Ok(Kubeconfig {
            server: url(&server, insecure || authorities.is_some())?,
            server_name: Some(self.text("tls-server-name")?).filter(|name| !name.is_empty()),
            insecure,
            authorities,
            ..Kubeconfig::of_nobody()
        })
    }

    fn user(&self, name: &str, config: &mut Kubeconfig) -> Result<(), KubeconfigFault> {
        for plugin in ["exec", "auth-provider"] {
            if self.member(plugin).is_some() {
                return Err(KubeconfigFault::Plugin { plugin, user: name.to_owned() });
            }
        }
        let (token, file) = (self.text("token")?, self.text("tokenFile")?);
        let (user, password) = (self.text("username")?, self.text("password")?);
        let has_password = !user.is_empty() || !password.is_empty();
        if !token.is_empty() && has_password {
            return Err(KubeconfigFault::SeveralMethods(name.to_owned()));
        }
        config.credentials = match (file.is_empty(), token.is_empty()) {
            (false, _) => Credentials::TokenFile(self.directory.join(file)),
            (true, false) => Credentials::Token(token),
            (true, true) if has_password => Credentials::Basic(user, password),
            (true, true) => Credentials::None,
        };
        let certificate = self.source("client-certificate", "client-certificate-data")?;
        let key = self.source("client-key", "client-key-data")?;
        config.identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (Some(_), None) => return Err(KubeconfigFault::NoKey(name.to_owned())),
            (None, _) => None,
        };
        config.impersonation = self.impersonation(name)?;
        Ok(())
    }

    fn impersonation(&self, name: &str) -> Result<Vec<(String, String)>, KubeconfigFault> {
        let (user, uid) = (self.text("act-as")?, self.text("act-as-uid")?);
        let groups = self.list("act-as-groups")?;
        let extra = self.member("act-as-user-extra").and_then(Value::as_object);
        let mut headers = Vec::new();
        if user.is_empty() {
            let alone =
                !uid.is_empty() || !groups.is_empty() || extra.is_some_and(|extra| extra.keys().next().is_some());
            return if alone { Err(KubeconfigFault::ImpersonatesNobody(name.to_owned())) } else { Ok(headers) };
        }
        headers.push(("Impersonate-User".to_owned(), user));
        if !uid.is_empty() {
            headers.push(("Impersonate-Uid".to_owned(), uid));
        }
        headers.extend(groups.iter().filter_map(Value::as_str).map(|g| ("Impersonate-Group".to_owned(), g.to_owned())));
        for (key, values) in extra.into_iter().flatten() {
            let key: String = key.bytes().map(header_byte).collect();
            let values = values.as_array().unwrap_or_default().iter().filter_map(Value::as_str);
            headers.extend(values.map(|value| (format!("Impersonate-Extra-{key}"), value.to_owned())));
        }
        Ok(headers)
    }
}

/// The document of a file, JSON or YAML.
fn decode(text: &[u8]) -> Result<Value, KubeconfigFault> {
    let is_json = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let document = match is_json {
        true => json::decode(text).map_err(KubeconfigFault::Json)?,
        false => yaml::decode(text).map_err(KubeconfigFault::Yaml)?,
    };
    if document.as_object().is_none() && !document.is_null() {
        return Err(KubeconfigFault::NoObject(no_type_in(&document)));
    }
    let stated = |key: &str| document.str_at(&[key]).unwrap_or_default();
    let (version, kind) = (stated("apiVersion"), stated("kind"));
    if matches!(version, "" | "v1") && matches!(kind, "" | "Config") {
        return Ok(document);
    }
    Err(KubeconfigFault::UnknownKind { kind: kind.to_owned(), version: version.to_owned() })
}

/// What the system said, as Go says it.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// A byte of a header's name: what has no place there is escaped.
fn header_byte(byte: u8) -> String {
    let plain = byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
}

/// A URL that has a scheme and a host.
fn whole(text: &str) -> Option<GoUrl<'_>> {
    GoUrl::parse(text).ok().filter(|url| !url.scheme.is_empty() && !url.host.is_empty())
}

/// The URL of a server, which may be a host and a port only.
fn url(server: &str, tls: bool) -> Result<String, KubeconfigFault> {
    if let Some(url) = whole(server) {
        if !matches!(url.scheme.as_str(), "http" | "https") {
            return Err(KubeconfigFault::Scheme(url.scheme.to_string()));
        }
        let path = url.path.trim_end_matches('/');
        return Ok(format!("{}://{}{path}", url.scheme, url.host));
    }
    let with_scheme = format!("{}://{server}", if tls { "https" } else { "http" });
    let url = whole(&with_scheme).filter(|url| matches!(url.path, "" | "/"));
    let url = url.ok_or_else(|| KubeconfigFault::Server(server.to_owned()))?;
    Ok(format!("{}://{}", url.scheme, url.host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cluster: &str, user: &str) -> Result<Kubeconfig, KubeconfigFault> {
        let text = format!(
            "clusters: [{{name: c, cluster: {{{cluster}}}}}, {{name: d, cluster: {{server: 'https://d'}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        Kubeconfig::of(&yaml::decode(text.as_bytes()).expect("YAML"), Path::new("/nowhere"))
    }

    #[test]
    fn a_server_is_a_url_or_a_host() {
        let check = |server: &str, expect: Result<&str, &str>| {
            let found =
                read(&format!("server: '{server}'"), "").map(|config| config.server).map_err(|why| why.to_string());
            let invalid = |why: &str| format!("invalid configuration: {why}");
            assert_eq!(found, expect.map(str::to_owned).map_err(invalid), "{server}");
        };
        check("https://h:1/authorize", Ok("https://h:1/authorize"));
        check("https://h:1/a/?x=1#y", Ok("https://h:1/a"));
        check("https://h/", Ok("https://h"));
        check("h:8080", Ok("http://h:8080"));
        check("10.0.0.1:8080", Ok("http://10.0.0.1:8080"));
        check("h:8080/a", Err("host must be a URL or a host:port pair: \"h:8080/a\""));
        check("ftp://h", Err("unsupported protocol scheme \"ftp\""));
        check("", Err("no server found for cluster \"c\""));
        let config = read("server: 'h:1', insecure-skip-tls-verify: true, tls-server-name: name", "").expect("valid");
        assert_eq!(
            (config.server.as_str(), config.server_name.as_deref(), config.insecure),
            ("https://h:1", Some("name"), true)
        );
    }

    #[test]
    fn a_user_is_told_over_tls_only() {
        let check = |server: &str, user: &str, expect: Credentials| {
            let config = read(&format!("server: '{server}'"), user).expect("valid");
            assert!(config.credentials == expect, "{server} {user}");
        };
        check("https://h", "token: t", Credentials::Token("t".to_owned()));
        check("https://h", "token: t, tokenFile: f", Credentials::TokenFile("/nowhere/f".into()));
        check("https://h", "username: a, password: b", Credentials::Basic("a".to_owned(), "b".to_owned()));
        check("http://h", "token: t", Credentials::None);
        let headers = |user: &str| read("server: 'https://h'", user).map(|config| config.impersonation);
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            headers("act-as: a, act-as-groups: [g], act-as-user-extra: {'x/y': [z]}"),
            Ok(vec![
                header("Impersonate-User", "a"),
                header("Impersonate-Group", "g"),
                header("Impersonate-Extra-x%2Fy", "z")
            ])
        );
    }

    #[test]
    fn what_is_wrong_is_told() {
        let check = |cluster: &str, user: &str, expect: &str| {
            let found = read(cluster, user).expect_err("wrong");
            assert_eq!(found.to_string(), format!("invalid configuration: {expect}"));
        };
        let https = "server: 'https://h'";
        check(
            https,
            "token: t, username: a",
            "more than one authentication method found for u; found [token basicAuth], only one is allowed",
        );
        check(https, "act-as-uid: a", "requesting uid, groups or user-extra for u without impersonating a user");
        check(
            https,
            "client-certificate-data: YQ==",
            "client-key-data or client-key must be specified for u to use the clientCert authentication method.",
        );
        check(https, "exec: {command: x}", "exec of user \"u\" is not run by this server");
        check("server: 1", "", "cluster.server is no string");
        check(
            "server: 'https://h', certificate-authority-data: '%'",
            "",
            "cluster.certificate-authority-data is no base64",
        );
        check(
            "server: 'https://h', insecure-skip-tls-verify: true, certificate-authority-data: YQ==",
            "",
            "specifying a root certificates file with the insecure flag is not allowed",
        );
        let missing = read("server: 'https://h', certificate-authority: ca.crt", "").expect_err("wrong");
        assert!(
            missing.to_string()
                == "invalid configuration: unable to read certificate-authority /nowhere/ca.crt for c due to open /nowhere/ca.crt: no \
                    such file or directory",
            "{missing}"
        );
        let empty = Kubeconfig::of(&Value::object(), Path::new("")).expect_err("wrong");
        assert_eq!(empty, KubeconfigFault::NoCluster.invalid());
        assert!(empty.to_string().starts_with("invalid configuration: no configuration has been provided"), "{empty}");
        let lost = yaml::decode(b"current-context: z").expect("YAML");
        let lost = Kubeconfig::of(&lost, Path::new("")).expect_err("wrong");
        assert_eq!(lost.to_string(), "invalid configuration: context was not found for specified context: z");
    }
}
