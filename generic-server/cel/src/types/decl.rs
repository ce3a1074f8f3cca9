//! What expressions know of data: the shape that a schema promises, and how large a value of it can be.

use std::borrow::Cow;
use std::sync::Arc;

use machinery::schema::{ListType, Schema, Shape};
use machinery::{Str, Value};

use super::Type;
use crate::syntax::is_reserved;

/// What requests may have at most, in bytes: what bounds all that a schema does not.
const MAX_REQUEST: u64 = 3 * 1024 * 1024;
/// The smallest serialised forms, in bytes.
const MIN_STRING: u64 = 2;
const MIN_CONTAINER: u64 = 2;
const MIN_BOOL: u64 = 4;
const MIN_NUMBER: u64 = 1;
const MIN_DURATION: u64 = 3;
const DATE: u64 = 12;
const MIN_DATE_TIME: u64 = 21;
/// The largest serialised forms of formats, in bytes.
const MAX_DURATION: u64 = 32;
const MAX_DATE_TIME: u64 = 32;

/// The shape of a value.
#[derive(Clone, Debug)]
pub struct Decl {
    name: Str,
    /// What it is.
    pub kind: DeclKind,
    /// The most elements, characters or bytes that it can have.
    pub max_elements: u64,
    min_size: u64,
    /// `null` is a value of it.
    pub nullable: bool,
    /// Of a list: how its items are told apart.
    pub list_type: ListType,
    /// Of a map: its keys can also be written as names of fields are, escaped.
    pub(crate) escaped_keys: bool,
    /// Of an object: more fields, but for those that have the name of an own one.
    base: Option<Arc<Decl>>,
}

/// What a value is.
#[derive(Clone, Debug)]
pub enum DeclKind {
    /// Anything: what the JSON says.
    Dyn,
    /// An integer or a string.
    IntOrString,
    /// A boolean.
    Bool,
    /// An integer.
    Int,
    /// A number.
    Double,
    /// Text.
    String,
    /// Base64.
    Bytes,
    /// A span of time.
    Duration,
    /// A day.
    Date,
    /// A point in time.
    DateTime,
    /// A list.
    List(Arc<Decl>),
    /// An object whose keys are data.
    Map(Arc<Decl>),
    /// An object whose fields are known, sorted by name.
    Object(Vec<FieldDecl>),
    /// Of no document: what an expression of this type gives.
    Made(Type),
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct FieldDecl {
    /// Its name in expressions.
    pub name: Str,
    /// Its name in JSON.
    pub json: Str,
    /// Its shape.
    pub decl: Arc<Decl>,
}

impl Decl {
    fn new(kind: DeclKind, min_size: u64, max_elements: u64) -> Decl {
        Decl {
            name: Str::default(),
            kind,
            max_elements,
            min_size,
            nullable: false,
            list_type: ListType::Atomic,
            escaped_keys: false,
            base: None,
        }
    }

    /// Anything, of any size.
    pub fn dynamic() -> Decl {
        Decl { max_elements: u64::MAX, nullable: true, ..Decl::new(DeclKind::Dyn, MIN_NUMBER, 0) }
    }

    /// Text.
    pub fn string() -> Decl {
        Decl::new(DeclKind::String, MIN_STRING, MAX_REQUEST - 2)
    }

    /// What is known of the values of an expression of this type, where others use them.
    pub fn of_type(of: &Type) -> Decl {
        match of {
            Type::Bool => Decl::new(DeclKind::Bool, MIN_BOOL, 0),
            Type::Int => Decl::new(DeclKind::Int, MIN_NUMBER, 0),
            Type::Double => Decl::new(DeclKind::Double, MIN_NUMBER, 0),
            Type::String => Decl::string(),
            Type::Bytes => Decl::new(DeclKind::Bytes, MIN_STRING, MAX_REQUEST - 2),
            Type::Duration => Decl::new(DeclKind::Duration, MIN_DURATION, MAX_DURATION),
            Type::Timestamp => Decl::timestamp(),
            Type::Null | Type::Uint => Decl::new(DeclKind::Made(of.clone()), MIN_NUMBER, 0),
            Type::List(item) => Decl::list_of(Decl::of_type(item)),
            Type::Map(entry) => {
                let made =
                    Type::map(Arc::new(Decl::of_type(&entry.0)).to_type(), Arc::new(Decl::of_type(&entry.1)).to_type());
                Decl::new(DeclKind::Made(made), MIN_CONTAINER, MAX_REQUEST)
            }
            _ => Decl::dynamic(),
        }
    }

    /// A point in time.
    pub fn timestamp() -> Decl {
        Decl::new(DeclKind::DateTime, MIN_DATE_TIME, MAX_DATE_TIME)
    }

    /// An integer.
    pub fn int() -> Decl {
        Decl::of_type(&Type::Int)
    }

    /// A boolean.
    pub fn bool() -> Decl {
        Decl::of_type(&Type::Bool)
    }

    /// A list of any length.
    pub fn list_of(items: Decl) -> Decl {
        let most = (MAX_REQUEST - 2) / (items.min_size + 1);
        Decl::new(DeclKind::List(Arc::new(items)), MIN_CONTAINER, most)
    }

    /// An object of any size whose keys are data.
    pub fn map_of(values: Decl) -> Decl {
        let most = (MAX_REQUEST - 2) / (values.min_size + 6);
        Decl::new(DeclKind::Map(Arc::new(values)), MIN_CONTAINER, most)
    }

    /// The same, whose keys, and those of what it holds, can also be written as names of fields are: `claims.a__dot__b`.
    #[must_use]
    pub fn with_escaped_keys(mut self) -> Decl {
        self.escaped_keys = true;
        if let DeclKind::Map(values) = &mut self.kind {
            *values = Arc::new(Arc::unwrap_or_clone(values.clone()).with_escaped_keys());
        }
        self
    }

    /// An object with these fields.
    pub fn object(name: &str, fields: Vec<(&str, Arc<Decl>)>) -> Decl {
        let mut fields: Vec<_> = fields
            .into_iter()
            .map(|(name, decl)| FieldDecl {
                name: escape(name).expect("a field's name").into_owned().into(),
                json: name.into(),
                decl,
            })
            .collect();
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        Decl { name: name.into(), ..Decl::new(DeclKind::Object(fields), MIN_CONTAINER, 0) }
    }

    /// The object with one more field, which hides one of the same name. Many fields come one by one at little cost each: as
    /// many as there are already are joined with the new ones, larger numbers stay in a base of their own.
    ///
    /// A name that expressions cannot spell changes nothing.
    pub fn with_field(self: &Arc<Decl>, name: &str, decl: Arc<Decl>) -> Arc<Decl> {
        let Some(escaped) = escape(name) else { return self.clone() };
        let mut own = vec![FieldDecl { name: escaped.into_owned().into(), json: name.into(), decl }];
        let mut base = Some(self.clone());
        while let Some(below) = base.as_ref()
            && let DeclKind::Object(fields) = &below.kind
            && fields.len() <= own.len()
        {
            own = joined(fields, own);
            base = below.base.clone();
        }
        Arc::new(Decl { name: self.name.clone(), base, ..Decl::new(DeclKind::Object(own), MIN_CONTAINER, 0) })
    }

    /// What a schema promises; `None` for what expressions cannot see. `root`: a whole object, which has a kind and a name.
    pub fn of_schema(schema: &Schema, root: bool, name: &str) -> Option<Decl> {
        let schema = schema.resolve();
        let limits = schema.validation.as_deref();
        let mut decl = match &schema.shape {
            Shape::IntOrString => Decl::new(DeclKind::IntOrString, MIN_NUMBER, max_text(schema, MAX_REQUEST - 2)),
            Shape::List(items) => list(schema, items, name)?,
            Shape::Map(values) if !matches!(values.shape, Shape::Any) || values.preserve_unknown_fields => {
                let values = Decl::of_schema(values, values.embedded_resource, &format!("{name}.@values"))?;
                let most = limits
                    .and_then(|v| v.max_properties)
                    .map_or((MAX_REQUEST - 2) / (values.min_size + 6), not_negative);
                Decl::new(DeclKind::Map(Arc::new(values)), MIN_CONTAINER, most)
            }
            Shape::Map(_) => object(schema, root, name),
            Shape::Object(o) if o.fields.is_empty() && o.additional.is_some() && !root => {
                let values = o.additional.as_ref().expect("it has").clone();
                return Decl::of_schema(&Schema { shape: Shape::Map(values), ..schema.clone() }, root, name);
            }
            Shape::Object(_) => object(schema, root, name),
            Shape::String(_) | Shape::Quantity => text(schema),
            Shape::Boolean => Decl::new(DeclKind::Bool, MIN_BOOL, 0),
            Shape::Number => Decl::new(DeclKind::Double, MIN_NUMBER, 0),
            Shape::Integer(_) => Decl::new(DeclKind::Int, MIN_NUMBER, 0),
            Shape::Any if root => object(schema, root, name),
            Shape::Any | Shape::SchemaOr(_) | Shape::Ref(_) => return None,
        };
        decl.nullable = schema.nullable;
        decl.list_type = schema.list_type.clone();
        decl.name = name.into();
        Some(decl)
    }

    /// The name of an object's type.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The smallest serialised form, in bytes.
    pub fn min_size(&self) -> u64 {
        self.min_size
    }

    /// The type of expressions that have such a value.
    pub fn to_type(self: &Arc<Decl>) -> Type {
        match &self.kind {
            DeclKind::Dyn | DeclKind::IntOrString => Type::Dyn,
            DeclKind::Bool => Type::Bool,
            DeclKind::Int => Type::Int,
            DeclKind::Double => Type::Double,
            DeclKind::String => Type::String,
            DeclKind::Bytes => Type::Bytes,
            DeclKind::Duration => Type::Duration,
            DeclKind::Date | DeclKind::DateTime => Type::Timestamp,
            DeclKind::List(items) => Type::list(items.to_type()),
            DeclKind::Map(values) => Type::map(Type::String, values.to_type()),
            DeclKind::Object(_) => Type::Object(self.clone()),
            DeclKind::Made(of) => of.clone(),
        }
    }

    /// An object's field, by its name in expressions. Reserved names that can be read as a field's are known as they are, too.
    pub fn field(&self, name: &str) -> Option<&FieldDecl> {
        self.find(name).or_else(|| if is_reserved(name) { self.find(&format!("__{name}__")) } else { None })
    }

    fn find(&self, name: &str) -> Option<&FieldDecl> {
        let mut at = self;
        loop {
            let DeclKind::Object(fields) = &at.kind else { return None };
            match fields.binary_search_by(|f| f.name.as_str().cmp(name)) {
                Ok(i) => return Some(&fields[i]),
                Err(_) => at = at.base.as_ref()?,
            }
        }
    }

    /// An object's field, by its name in JSON.
    pub(crate) fn field_of(&self, json: &str) -> Option<&FieldDecl> {
        self.find(&escape(json)?)
    }

    /// What stands at the end of a path below: fields, `@items`, `@keys`, `@values`.
    pub fn at(&self, path: &[Str]) -> Option<&Decl> {
        let mut here = self;
        for step in path {
            here = match (step.as_str(), &here.kind) {
                ("@items", DeclKind::List(items)) => items,
                ("@values", DeclKind::Map(values)) => values,
                ("@keys", DeclKind::Map(_)) => key_decl(),
                (name, _) => &here.field(name)?.decl,
            };
        }
        Some(here)
    }
}

/// Fields of two lists that are sorted by name; of those with one name the new one.
fn joined(old: &[FieldDecl], new: Vec<FieldDecl>) -> Vec<FieldDecl> {
    let mut all = Vec::with_capacity(old.len() + new.len());
    let mut old = old.iter().peekable();
    for field in new {
        while let Some(before) = old.next_if(|before| before.name < field.name) {
            all.push(before.clone());
        }
        old.next_if(|before| before.name == field.name);
        all.push(field);
    }
    all.extend(old.cloned());
    all
}

/// Keys of maps are text of any length.
fn key_decl() -> &'static Decl {
    static KEY: std::sync::LazyLock<Decl> = std::sync::LazyLock::new(|| Decl::new(DeclKind::String, MIN_STRING, 0));
    &KEY
}

fn not_negative(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// `maxLength` counts code points, of four bytes at most.
fn max_text(schema: &Schema, otherwise: u64) -> u64 {
    let max = schema.validation.as_deref().and_then(|v| v.max_length);
    max.map_or(otherwise, |n| not_negative(n).saturating_mul(4))
}

fn list(schema: &Schema, items: &Schema, name: &str) -> Option<Decl> {
    let items = Decl::of_schema(items, items.embedded_resource, &format!("{name}.@items"))?;
    let max = schema.validation.as_deref().and_then(|v| v.max_items);
    let most = max.map_or((MAX_REQUEST - 2) / (items.min_size + 1), not_negative);
    Some(Decl::new(DeclKind::List(Arc::new(items)), MIN_CONTAINER, most))
}

fn text(schema: &Schema) -> Decl {
    let validation = schema.validation.as_deref();
    let format = validation.and_then(|v| v.format.as_deref()).unwrap_or_default();
    match format {
        "byte" => {
            let most = validation.and_then(|v| v.max_length).map_or(MAX_REQUEST - 2, not_negative);
            Decl::new(DeclKind::Bytes, MIN_STRING, most)
        }
        "duration" => Decl::new(DeclKind::Duration, MIN_DURATION, MAX_DURATION),
        "date" => Decl::new(DeclKind::Date, DATE, DATE),
        "date-time" => Decl::new(DeclKind::DateTime, MIN_DATE_TIME, MAX_DATE_TIME),
        _ => {
            let longest = schema.enumeration.iter().filter_map(Value::as_str).map(str::len).max();
            let otherwise = if schema.enumeration.is_empty() { MAX_REQUEST - 2 } else { longest.unwrap_or(0) as u64 };
            Decl::new(DeclKind::String, MIN_STRING, max_text(schema, otherwise))
        }
    }
}

fn object(schema: &Schema, root: bool, name: &str) -> Decl {
    let mut fields = Vec::new();
    let mut size = MIN_CONTAINER;
    for field in schema.as_object().map_or(&[][..], |o| &o.fields) {
        if root && matches!(field.name.as_str(), "kind" | "apiVersion" | "metadata") {
            continue;
        }
        let decl = Decl::of_schema(&field.schema, field.schema.embedded_resource, &format!("{name}.{}", field.name));
        let Some(decl) = decl else { continue };
        if field.required && field.schema.default.is_none() {
            size += field.name.len() as u64 + decl.min_size + 4;
        }
        if let Some(escaped) = escape(&field.name) {
            fields.push(FieldDecl {
                name: escaped.into_owned().into(),
                json: field.name.clone(),
                decl: Arc::new(decl),
            });
        }
    }
    if root {
        let text = Arc::new(Decl::string());
        let metadata =
            Decl::object(&format!("{name}.metadata"), vec![("name", text.clone()), ("generateName", text.clone())]);
        for (name, decl) in [("kind", text.clone()), ("apiVersion", text), ("metadata", Arc::new(metadata))] {
            fields.push(FieldDecl { name: name.into(), json: name.into(), decl });
        }
    }
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    Decl::new(DeclKind::Object(fields), size, 0)
}

/// The name that a field has in expressions; `None` if it cannot be named.
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    let special = |c: char| matches!(c, '_' | '.' | '-' | '/');
    let first = name.chars().next()?;
    if !(first.is_ascii_alphabetic() || special(first))
        || !name.chars().all(|c| c.is_ascii_alphanumeric() || special(c))
    {
        return None;
    }
    if is_reserved(name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return Some(Cow::Borrowed(name));
    }
    let escaped = name.replace("__", "__underscores__");
    Some(Cow::Owned(escaped.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")))
}

/// The key that an escaped name stands for; `None` if it is none.
pub(crate) fn unescape(name: &str) -> Option<String> {
    let (mut out, mut rest) = (String::new(), name);
    while let Some(start) = rest.find("__") {
        let inner = &rest[start + 2..];
        let length = inner.find('_').unwrap_or(inner.len());
        if length == 0 || !inner[length..].starts_with("__") {
            out.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            continue;
        }
        let word = &inner[..length];
        out.push_str(&rest[..start]);
        out.push_str(match word {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            // A reserved word is escaped as a whole.
            word if is_reserved(word) && name.len() == length + 4 => word,
            _ => return None,
        });
        rest = &inner[length + 2..];
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_names_are_read_back() {
        let check = |name: &str, expect: Option<&str>| assert_eq!(unescape(name).as_deref(), expect, "{name}");
        for name in ["a.b", "a-b/c", "a__b", "namespace", "plain", "_a"] {
            check(&escape(name).expect("a name"), Some(name));
        }
        check("a__dot__b__dot__c", Some("a.b.c"));
        check("__namespace__", Some("namespace"));
        check("a__namespace__", None);
        check("a__other__b", None);
        check("a___b", Some("a___b"));
        check("a__b", Some("a__b"));
    }

    #[test]
    fn fields_that_come_one_by_one_are_found_and_hide_earlier_ones() {
        let mut object = Arc::new(Decl::object("o", Vec::new()));
        let decl = |i: usize| Arc::new(Decl { max_elements: i as u64, ..Decl::string() });
        for i in 0..1000 {
            object = object.with_field(&format!("v{}", i * 7919 % 1000), decl(i));
            object = object.with_field("same", decl(i)).with_field("no name", decl(i));
        }
        let found = |name: &str| object.field(name).map(|f| f.decl.max_elements);
        for i in 0..1000 {
            assert_eq!(found(&format!("v{}", i * 7919 % 1000)), Some(i as u64));
        }
        assert_eq!((found("same"), found("no name"), found("v1000")), (Some(999), None, None));
        let layers = std::iter::successors(Some(&object), |decl| decl.base.as_ref()).count();
        assert!(layers < 16, "{layers}");
    }

    #[test]
    fn names_are_escaped() {
        let check = |name: &str, expect: Option<&str>| assert_eq!(escape(name).as_deref(), expect, "{name}");
        check("plain", Some("plain"));
        check("with-dash", Some("with__dash__dash"));
        check("a.b/c", Some("a__dot__b__slash__c"));
        check("a__b", Some("a__underscores__b"));
        check("in", Some("__in__"));
        check("a_b", Some("a_b"));
        check("1a", None);
        check("a b", None);
        check("", None);
    }
}
