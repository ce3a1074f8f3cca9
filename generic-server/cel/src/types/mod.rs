//! Types of expressions.

pub(crate) mod decl;

use std::fmt;
use std::sync::Arc;

use machinery::Str;

use decl::Decl;

/// A type.
#[derive(Clone, Debug)]
pub enum Type {
    /// Anything; what is done with it is checked when it is evaluated.
    Dyn,
    /// What stands where an error has been told.
    Error,
    /// `null`
    Null,
    /// `bool`
    Bool,
    /// `int`, 64 bits
    Int,
    /// `uint`, 64 bits
    Uint,
    /// `double`
    Double,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `google.protobuf.Duration`
    Duration,
    /// `google.protobuf.Timestamp`
    Timestamp,
    /// `list(T)`
    List(Arc<Type>),
    /// `map(K, V)`
    Map(Arc<(Type, Type)>),
    /// An object with known fields.
    Object(Arc<Decl>),
    /// A type of a library, with its name and parameters: `kubernetes.Quantity`, `optional_type(T)`.
    Opaque(Str, Arc<[Type]>),
    /// The type of a type.
    Type(Arc<Type>),
    /// In declarations of functions: any type, the same wherever the name is the same.
    Param(&'static str),
    /// While checking: not known yet.
    Var(u32),
}

/// The name of the type of optional values.
pub(crate) const OPTIONAL: &str = "optional_type";

impl Type {
    /// `list(item)`
    pub fn list(item: Type) -> Type {
        Type::List(Arc::new(item))
    }

    /// `map(key, value)`
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new((key, value)))
    }

    /// `optional_type(of)`
    pub fn optional(of: Type) -> Type {
        Type::Opaque(Str::new_static(OPTIONAL), Arc::from([of]))
    }

    /// A library's type without parameters.
    pub fn opaque(name: &'static str) -> Type {
        Type::Opaque(Str::new_static(name), Arc::from([]))
    }

    /// What an optional holds; `None` for other types.
    pub fn optional_of(&self) -> Option<&Type> {
        match self {
            Type::Opaque(name, params) if name == OPTIONAL => params.first(),
            _ => None,
        }
    }

    /// Its full name, as errors say it that are not of the compiler: issues use short ones.
    pub fn full_name(&self) -> String {
        match self {
            Type::Null => "null_type".into(),
            Type::Duration => "google.protobuf.Duration".into(),
            Type::Timestamp => "google.protobuf.Timestamp".into(),
            Type::List(item) => format!("list({})", item.full_name()),
            Type::Map(entry) => format!("map({}, {})", entry.0.full_name(), entry.1.full_name()),
            Type::Type(of) => format!("type({})", of.full_name()),
            other => other.to_string(),
        }
    }

    /// Whether nothing is known of it, or an error has been told.
    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// The types that it is made of.
    pub(crate) fn params(&self) -> Vec<&Type> {
        match self {
            Type::List(item) => vec![item],
            Type::Map(entry) => vec![&entry.0, &entry.1],
            Type::Opaque(_, params) => params.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The same kind of type with each type that it is made of replaced.
    pub(crate) fn with(&self, change: &mut dyn FnMut(&Type) -> Type) -> Type {
        match self {
            Type::List(item) => Type::list(change(item)),
            Type::Map(entry) => Type::map(change(&entry.0), change(&entry.1)),
            Type::Opaque(name, params) if !params.is_empty() => {
                Type::Opaque(name.clone(), params.iter().map(change).collect())
            }
            Type::Type(of) => Type::Type(Arc::new(change(of))),
            other => other.clone(),
        }
    }

    /// Whether both are made in the same way, whatever they are made of.
    pub(crate) fn same_kind(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Opaque(a, x), Type::Opaque(b, y)) => a == b && x.len() == y.len(),
            (Type::Object(a), Type::Object(b)) => Arc::ptr_eq(a, b) || a.name() == b.name(),
            (Type::Var(a), Type::Var(b)) => a == b,
            (Type::Param(a), Type::Param(b)) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        self.same_kind(other)
            && match (self, other) {
                (Type::Type(a), Type::Type(b)) => a == b,
                _ => self.params() == other.params(),
            }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn => f.write_str("dyn"),
            Type::Error => f.write_str("!error!"),
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::List(item) => write!(f, "list({item})"),
            Type::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Type::Object(decl) => f.write_str(decl.name()),
            Type::Opaque(name, params) if params.is_empty() => f.write_str(name),
            Type::Opaque(name, params) => {
                write!(f, "{name}(")?;
                for (i, param) in params.iter().enumerate() {
                    write!(f, "{}{param}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            Type::Type(of) => write!(f, "type({of})"),
            Type::Param(name) => f.write_str(name),
            Type::Var(n) => write!(f, "_var{n}"),
        }
    }
}
