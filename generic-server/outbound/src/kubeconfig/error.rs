//! Why a kubeconfig file cannot be used, in client-go's words.

use std::path::PathBuf;

use machinery::{codec::yaml::YamlError, json::JsonError, meta::go_text::quote};

use crate::tls::ClientError;

/// Why a kubeconfig file, or one that it names, cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KubeconfigError {
    /// The file cannot be read.
    #[error("open {}: {why}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// What it says is wrong.
    #[error("error loading config file {}: {fault}", quote(&path.display().to_string()))]
    Load {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: KubeconfigFault,
    },
    /// A file that it names cannot be read.
    #[error("{}: {why}", path.display())]
    Content {
        /// That file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// A file holds no token.
    #[error("read empty token from file {:?}", .0.display().to_string())]
    EmptyToken(PathBuf),
    /// A token, or a name and a password, cannot be sent in a header. They are not shown.
    #[error("the token is no text for a header")]
    Credentials,
    /// Whom to act as cannot be said in headers.
    #[error("{name}: {why}")]
    Impersonation {
        /// The header.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// No connection can be made of it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// What is wrong with the content of a kubeconfig file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigFault {
    /// It is no JSON, although it begins like it.
    #[error("couldn't get version/kind; json parse error: {0}")]
    Json(JsonError),
    /// It is no YAML.
    #[error(transparent)]
    Yaml(YamlError),
    /// It is no object; what Go's decoder says of that.
    #[error("{0}")]
    NoObject(String),
    /// It is of another kind.
    #[error(
        "no kind {} is registered for version {} in scheme \"pkg/client-go/tools/clientcmd/api/latest/latest.go:50\"",
        quote(kind),
        quote(version)
    )]
    UnknownKind {
        /// The kind.
        kind: String,
        /// The apiVersion.
        version: String,
    },
    /// A field has another type.
    #[error("{object}.{field} is no {wanted}")]
    Type {
        /// What kind of object: `config`, `cluster`, `user`, `context`.
        object: String,
        /// The field.
        field: String,
        /// The type that it must have.
        wanted: &'static str,
    },
    /// Two entries of a list have this name.
    #[error("duplicate name {} in list {list}", quote(name))]
    Duplicate {
        /// The name.
        name: String,
        /// The list.
        list: String,
    },
    /// What is used of it is wrong.
    #[error("invalid configuration: {0}")]
    Invalid(Box<KubeconfigFault>),
    /// There is no context of the name that is the current one.
    #[error("context was not found for specified context: {0}")]
    NoContext(String),
    /// It names no cluster.
    #[error("no configuration has been provided, try setting KUBERNETES_MASTER environment variable")]
    NoCluster,
    /// A cluster names no server.
    #[error("no server found for cluster {}", quote(.0))]
    NoServer(String),
    /// A cluster's server is neither a URL nor a host and port.
    #[error("host must be a URL or a host:port pair: {}", quote(.0))]
    Server(String),
    /// A cluster's URL is of another scheme than HTTP or HTTPS.
    #[error("unsupported protocol scheme {}", quote(.0))]
    Scheme(String),
    /// A cluster is behind a proxy: a connection would not go where it must.
    #[error("proxy-url of cluster {} is not followed by this server", quote(.0))]
    Proxy(String),
    /// A cluster names authorities, and any certificate will do.
    #[error("specifying a root certificates file with the insecure flag is not allowed")]
    InsecureAuthorities,
    /// A file and its content are both there.
    #[error("{data} and {file} are both specified for {object}. {data} will override.")]
    FileAndData {
        /// The field with the content.
        data: String,
        /// The field with the path.
        file: String,
        /// `cluster` or `user`.
        object: String,
    },
    /// A file that is named cannot be opened.
    #[error("unable to read {field} {} for {name} due to open {}: {why}", path.display(), path.display())]
    File {
        /// The field.
        field: String,
        /// The file.
        path: PathBuf,
        /// The cluster or user.
        name: String,
        /// What the system says.
        why: String,
    },
    /// A user's credentials come from a program.
    #[error("{plugin} of user {} is not run by this server", quote(user))]
    Plugin {
        /// `exec` or `auth-provider`.
        plugin: &'static str,
        /// The user.
        user: String,
    },
    /// A user has a token and a password.
    #[error("more than one authentication method found for {0}; found [token basicAuth], only one is allowed")]
    SeveralMethods(String),
    /// A user has a certificate and no key.
    #[error("client-key-data or client-key must be specified for {0} to use the clientCert authentication method.")]
    NoKey(String),
    /// A user acts with a uid, groups or extra values as nobody.
    #[error("requesting uid, groups or user-extra for {0} without impersonating a user")]
    ImpersonatesNobody(String),
}

impl KubeconfigFault {
    pub(super) fn invalid(self) -> Self {
        KubeconfigFault::Invalid(Box::new(self))
    }
}
