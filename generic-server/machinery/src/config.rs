//! Files that configure a server (`kind: AuthenticationConfiguration` and the like): read as strictly as upstream reads
//! them. The first thing that is wrong is the error; what is read has the shape that its version promises.

mod document;

use std::sync::Arc;

use crate::{
    Str, Value,
    codec::{json, yaml},
    schema::{self, DecodeError, Field, IntFormat, Object, Schema, Shape},
};

pub use document::{DocumentError, Unregistered, read_document, type_text};

/// A kind of configuration file.
#[derive(Clone, Copy, Debug)]
pub struct ConfigKind {
    /// The API group.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The versions that can be read.
    pub versions: &'static [&'static str],
    /// The other kinds of the group, with the versions that each has: files of those are told as such.
    pub siblings: &'static [(&'static str, &'static [&'static str])],
    /// Where upstream has its registry of kinds, as its errors say.
    pub registry: &'static str,
    /// The shape of a version.
    pub schema: fn(version: &str) -> Schema,
}

/// The kinds of `apiserver.config.k8s.io` that upstream registers together.
pub const APISERVER_CONFIG_SIBLINGS: &[(&str, &[&str])] = &[
    ("AdmissionConfiguration", &["v1", "v1alpha1"]),
    ("AuthenticationConfiguration", &["v1", "v1beta1", "v1alpha1"]),
    ("AuthorizationConfiguration", &["v1", "v1beta1", "v1alpha1"]),
    ("EncryptionConfiguration", &["v1"]),
    ("EgressSelectorConfiguration", &["v1beta1", "v1alpha1"]),
    ("TracingConfiguration", &["v1", "v1beta1", "v1alpha1"]),
];

/// A file that was read: its version and its content.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The version in which it is written.
    pub version: &'static str,
    /// The document.
    pub document: Value,
}

/// Why a document is no configuration of the kind that is read. Shown, it is what upstream says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is nothing.
    #[error("empty config data")]
    Empty,
    /// It is no document.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// It does not say what it is.
    #[error("Object '{field}' is missing in '{content}'")]
    TypeMissing {
        /// `apiVersion` or `Kind`.
        field: &'static str,
        /// The whole content.
        content: String,
    },
    /// Its type is one that nobody knows.
    #[error(transparent)]
    Unregistered(#[from] Unregistered),
    /// It is of another kind.
    #[error("expected {expected}, got *apiserver.{found}")]
    OtherKind {
        /// The kind that is read.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// A value is not of the type that its place has.
    #[error(transparent)]
    Shape(DecodeError),
    /// Fields that are unknown or stand twice.
    #[error("strict decoding error: {}", .0.join(", "))]
    Strict(Vec<String>),
}

/// A document of a file, JSON or YAML, before anybody has looked for its type.
#[derive(Clone, Debug)]
pub struct Untyped {
    /// The document.
    pub document: Value,
    /// What it says that it is.
    pub api_version: String,
    /// What it says that it is.
    pub kind: String,
    /// As JSON, in which members may be repeated.
    text: Vec<u8>,
    /// What stands twice in YAML.
    repeated: Option<String>,
}

impl Untyped {
    /// Reads a document that says what it is.
    ///
    /// # Errors
    /// It is none, or does not say what it is.
    pub fn read(content: &[u8]) -> Result<Self, ConfigError> {
        let is_json = document::is_json(content);
        let (document, repeated) = if is_json {
            (json::decode(content).map_err(DocumentError::Json)?, None)
        } else {
            yaml::decode_strict(content).map_err(DocumentError::Yaml)?
        };
        if document.as_object().is_none() && !document.is_null() {
            return Err(document::not_an_object(&document).into());
        }
        let (api_version, kind) =
            (type_text(&document, "apiVersion")?.to_owned(), type_text(&document, "kind")?.to_owned());
        let missing =
            |field| Err(ConfigError::TypeMissing { field, content: String::from_utf8_lossy(content).into_owned() });
        if kind.is_empty() {
            return missing("Kind");
        }
        if api_version.is_empty() {
            return missing("apiVersion");
        }
        let text = if is_json { content.to_vec() } else { json::encode(&document) };
        Ok(Untyped { document, api_version, kind, text, repeated })
    }

    /// The document in a shape, as a strict reader takes it.
    ///
    /// # Errors
    /// What does not fit.
    pub fn shaped(self, shape: &Schema) -> Result<Value, ConfigError> {
        let (document, _) = schema::decode_text(shape, self.document, Some(&self.text)).map_err(ConfigError::Shape)?;
        let findings = json::strict_findings(&self.text, shape).map_err(DocumentError::Json)?;
        let problems: Vec<String> = self.repeated.into_iter().chain(findings.iter().map(ToString::to_string)).collect();
        match problems.is_empty() {
            true => Ok(document),
            false => Err(ConfigError::Strict(problems)),
        }
    }

    /// What is wrong with a document of a type that nobody knows; `registry`: where upstream has its registry of kinds.
    pub fn unregistered(self, registry: &'static str) -> Unregistered {
        Unregistered { api_version: self.api_version, kind: self.kind, registry }
    }
}

impl ConfigKind {
    /// Reads a file's content, JSON or YAML.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(&self, content: &[u8]) -> Result<Config, ConfigError> {
        if content.is_empty() {
            return Err(ConfigError::Empty);
        }
        let untyped = Untyped::read(content)?;
        match self.version(&untyped)? {
            Some(version) => Ok(Config { version, document: untyped.shaped(&(self.schema)(version))? }),
            None => Err(untyped.unregistered(self.registry).into()),
        }
    }

    /// The version that a document is in; `None` if its type is unknown.
    fn version(&self, untyped: &Untyped) -> Result<Option<&'static str>, ConfigError> {
        let Untyped { api_version, kind, .. } = untyped;
        let version = api_version.strip_prefix(self.group).and_then(|rest| rest.strip_prefix('/')).unwrap_or_default();
        let of_group = |versions: &'static [&'static str]| versions.iter().copied().find(|known| *known == version);
        if kind == self.kind
            && let Some(version) = of_group(self.versions)
        {
            return Ok(Some(version));
        }
        if self.siblings.iter().any(|(sibling, versions)| sibling == kind && of_group(versions).is_some()) {
            return Err(ConfigError::OtherKind { expected: self.kind, found: kind.clone() });
        }
        Ok(None)
    }
}

/// A struct of a configuration: its Go name (`v1.Issuer`), for errors, and its fields.
pub fn object(go_type: impl Into<Str>, fields: impl IntoIterator<Item = Field>) -> Schema {
    let mut fields: Vec<Field> = fields.into_iter().collect();
    fields.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
    Schema::of(Shape::Object(Arc::new(Object { fields, go_type: Some(go_type.into()), ..Object::default() })))
}

/// A file's outermost struct, which says of what kind it is.
pub fn root(go_type: impl Into<Str>, fields: impl IntoIterator<Item = Field>) -> Schema {
    object(go_type, fields.into_iter().chain([text("apiVersion"), text("kind")]))
}

/// A field.
pub fn field(name: &'static str, schema: Schema) -> Field {
    Field { name: Str::new_static(name), schema, ..Field::default() }
}

/// A field that tells absent and empty apart (Go holds a pointer).
pub fn pointer(name: &'static str, schema: Schema) -> Field {
    Field { pointer: true, ..field(name, schema) }
}

/// A text field.
pub fn text(name: &'static str) -> Field {
    field(name, Schema::of(Shape::String(Default::default())))
}

/// A boolean field.
pub fn flag(name: &'static str) -> Field {
    field(name, Schema::of(Shape::Boolean))
}

/// An integer field of 32 bits.
pub fn int32(name: &'static str) -> Field {
    field(name, Schema::of(Shape::Integer(IntFormat::Int32)))
}

/// A field that is a list.
pub fn list(name: &'static str, items: Schema) -> Field {
    field(name, Schema::of(Shape::List(Arc::new(items))))
}

/// A field that is a list of texts.
pub fn texts(name: &'static str) -> Field {
    list(name, Schema::of(Shape::String(Default::default())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(version: &str) -> Schema {
        let path = object(format!("{version}.Condition"), [text("path")]);
        let anonymous = object(format!("{version}.Anonymous"), [flag("enabled"), list("conditions", path)]);
        let prefix = Schema::of(Shape::String(Default::default()));
        root(
            format!("{version}.AuthenticationConfiguration"),
            [field("anonymous", anonymous), texts("names"), pointer("prefix", prefix)],
        )
    }

    const KIND: ConfigKind = ConfigKind {
        group: "apiserver.config.k8s.io",
        kind: "AuthenticationConfiguration",
        versions: &["v1", "v1beta1"],
        siblings: APISERVER_CONFIG_SIBLINGS,
        registry: "pkg/a.go:1",
        schema: shape,
    };

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";

    #[test]
    fn a_file_is_read_strictly() {
        let check = |content: &str, expect: &str| {
            assert_eq!(KIND.read(content.as_bytes()).expect_err(content).to_string(), expect, "{content}");
        };
        let go_struct = "Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                         \"json:\\\"kind,omitempty\\\"\" }";
        check("", "empty config data");
        check("foo: bar", "Object 'Kind' is missing in 'foo: bar'");
        check(
            "kind: AuthenticationConfiguration\n",
            "Object 'apiVersion' is missing in 'kind: AuthenticationConfiguration\n'",
        );
        check(
            "[1]",
            &format!("couldn't get version/kind; json parse error: json: cannot unmarshal array into {go_struct}"),
        );
        check(
            "text",
            &format!("couldn't get version/kind; json parse error: json: cannot unmarshal string into {go_struct}"),
        );
        check(r#"{"kind":"#, "couldn't get version/kind; json parse error: unexpected end of JSON input");
        check(
            "apiVersion: apiserver.config.k8s.io/v7\nkind: AuthenticationConfiguration",
            "no kind \"AuthenticationConfiguration\" is registered for version \"apiserver.config.k8s.io/v7\" in scheme \
             \"pkg/a.go:1\"",
        );
        check(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration",
            "expected AuthenticationConfiguration, got *apiserver.AuthorizationConfiguration",
        );
        check(
            &format!("{HEAD}b: 1\na: 2\nanonymous: {{conditions: [{{path: /a, foo: 1}}]}}\n"),
            "strict decoding error: unknown field \"a\", unknown field \"anonymous.conditions[0].foo\", unknown field \"b\"",
        );
        check(
            &format!("{HEAD}names: [a]\nnames: [b]\n"),
            "strict decoding error: yaml: unmarshal errors:\n  line 4: key \"names\" already set in map",
        );
        check(
            r#"{"kind":"AuthenticationConfiguration","apiVersion":"apiserver.config.k8s.io/v1","names":[],"names":[]}"#,
            "strict decoding error: duplicate field \"names\"",
        );
    }

    #[test]
    fn values_of_a_wrong_type_are_told_as_go_does() {
        let check = |content: &str, expect: &str| {
            let why = KIND.read(format!("{HEAD}{content}").as_bytes()).expect_err(content);
            assert_eq!(why.to_string(), format!("json: cannot unmarshal {expect}"), "{content}");
        };
        check("names: a", "string into Go struct field AuthenticationConfiguration.names of type []string");
        check("names: [3]", "number into Go struct field AuthenticationConfiguration.names of type string");
        check("anonymous: {enabled: 'yes'}", "string into Go struct field Anonymous.anonymous.enabled of type bool");
        check(
            "anonymous: {conditions: 3}",
            "number into Go struct field Anonymous.anonymous.conditions of type []v1.Condition",
        );
    }

    #[test]
    fn absent_and_empty_are_told_apart_where_go_does() {
        let read = |content: &str| KIND.read(format!("{HEAD}{content}").as_bytes()).expect("a file").document;
        assert_eq!(read("").get("prefix"), None);
        assert_eq!(read("prefix: ''").str_at(&["prefix"]), Some(""));
        let read = KIND.read(HEAD.replace("/v1", "/v1beta1").as_bytes()).expect("a file");
        assert_eq!(read.version, "v1beta1");
    }
}
