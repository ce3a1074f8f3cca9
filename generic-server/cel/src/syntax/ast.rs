//! The tree of an expression, macros already expanded.

use machinery::Str;

use super::source::Offset;

/// A node. Its number is its index in the tables that the checker makes.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Unique in its expression.
    pub id: u32,
    /// Where it stands: of an operator or a call the operator or the parenthesis, else the beginning.
    pub at: Offset,
    /// What it is.
    pub kind: ExprKind,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A constant.
    Literal(Literal),
    /// A name.
    Ident(Str),
    /// `operand.field`
    Select(Box<Select>),
    /// A function or operator.
    Call(Box<Call>),
    /// `[…]`
    List(Vec<Item>),
    /// `{…}`
    Map(Vec<MapEntry>),
    /// `Type{…}`
    Struct(Box<Struct>),
    /// What macros make.
    Fold(Box<Fold>),
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// `12`
    Int(i64),
    /// `12u`
    Uint(u64),
    /// `1.5`
    Double(f64),
    /// `'…'`
    String(Str),
    /// `b'…'`
    Bytes(Vec<u8>),
}

/// `operand.field`, `has(operand.field)`
#[derive(Clone, Debug)]
pub struct Select {
    /// What has the field.
    pub operand: Expr,
    /// Its name.
    pub field: Str,
    /// Only whether it is there (`has`).
    pub test: bool,
}

/// A call of a function by name; operators have the names of `operator`.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its name.
    pub function: Str,
    /// What stands before the dot.
    pub target: Option<Expr>,
    /// What stands in the parentheses.
    pub args: Vec<Expr>,
}

/// An item of a list.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its value.
    pub value: Expr,
    /// `?value`: left out where it is none.
    pub optional: bool,
}

/// An entry of a map.
#[derive(Clone, Debug)]
pub struct MapEntry {
    /// Its key.
    pub key: Expr,
    /// Its value.
    pub value: Expr,
    /// `?key: value`: left out where it is none.
    pub optional: bool,
}

/// `Type{field: value}`
#[derive(Clone, Debug)]
pub struct Struct {
    /// The type as written.
    pub name: Str,
    /// The fields.
    pub fields: Vec<Member>,
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub struct Member {
    /// Where it stands.
    pub at: Offset,
    /// Its name.
    pub name: Str,
    /// Its value.
    pub value: Expr,
    /// `?name: value`: left out where it is none.
    pub optional: bool,
}

/// Goes over a range with an accumulator.
#[derive(Clone, Debug)]
pub struct Fold {
    /// What is gone over.
    pub range: Expr,
    /// The name of the item, or of the key.
    pub var: Str,
    /// With two names: the second, of the value; the first is the index or key then.
    pub var2: Option<Str>,
    /// The accumulator's name.
    pub accu: Str,
    /// Its first value.
    pub init: Expr,
    /// Goes on while this holds.
    pub condition: Expr,
    /// The accumulator's next value.
    pub step: Expr,
    /// The value of the whole.
    pub result: Expr,
}

impl Fold {
    /// Whether it only gives a name to a value (nothing is gone over).
    pub(crate) fn is_bind(&self) -> bool {
        matches!(&self.range.kind, ExprKind::List(items) if items.is_empty())
            && matches!(self.condition.kind, ExprKind::Literal(Literal::Bool(false)))
    }
}

/// The functions that operators call.
pub mod operator {
    #![allow(missing_docs, reason = "the names say it")]
    pub const CONDITIONAL: &str = "_?_:_";
    pub const OR: &str = "_||_";
    pub const AND: &str = "_&&_";
    pub const NOT: &str = "!_";
    pub const EQUALS: &str = "_==_";
    pub const NOT_EQUALS: &str = "_!=_";
    pub const LESS: &str = "_<_";
    pub const LESS_EQUALS: &str = "_<=_";
    pub const GREATER: &str = "_>_";
    pub const GREATER_EQUALS: &str = "_>=_";
    pub const IN: &str = "@in";
    pub const ADD: &str = "_+_";
    pub const SUBTRACT: &str = "_-_";
    pub const MULTIPLY: &str = "_*_";
    pub const DIVIDE: &str = "_/_";
    pub const MODULO: &str = "_%_";
    pub const NEGATE: &str = "-_";
    pub const INDEX: &str = "_[_]";
    pub const OPT_INDEX: &str = "_[?_]";
    pub const OPT_SELECT: &str = "_?._";
    pub const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
}
