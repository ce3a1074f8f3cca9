//! The Common Expression Language as Kubernetes uses it: parser, type checker, cost estimation, evaluation, and the functions of
//! the language, of cel-go's extensions and of Kubernetes (KEP-2876, and the CEL language definition).
//!
//! An [`Env`] says what an expression can name. [`Env::compile`] gives a [`Program`], or all that is wrong in upstream's words. A
//! program tells its result's type and what it may cost, and is evaluated with values for the variables and a limit.
//!
//! ```
//! use cel::{Env, Type, Value};
//!
//! let env = Env::new().variable_of("self", Type::String);
//! let program = env.compile("self.startsWith('a')").unwrap();
//! let (result, _cost) = program.evaluate(&[Value::string("abc")][..], 1_000);
//! assert!(matches!(result, Ok(Value::Bool(true))));
//!
//! let wrong = env.compile("self > 5").unwrap_err();
//! assert!(wrong.to_string().starts_with("ERROR: <input>:1:6: found no matching overload for '_>_' applied to '(string, int)'"));
//! ```

mod check;
mod cost;
mod env;
mod eval;
mod json;
mod library;
mod program;
pub mod syntax;
mod types;
mod value;

pub use cost::Cost;
pub use env::{Env, Structs};
pub use eval::Variables;
pub use json::{NotJson, json_of};
pub use library::authorizer::{
    Authorize, AuthorizerError, AuthorizerVerdict, Question, authorizer, authorizer_type, resource_check,
    resource_check_type,
};
pub use program::Program;
pub use syntax::{Issue, Issues};
pub use types::Type;
pub use types::decl::{Decl, DeclKind, FieldDecl, escape};
pub use value::data::{Data, from_json};
pub use value::{Error, Key, Opaque, Result, Value};
