//! The functions that expressions can call. Each has overloads; an overload is its types and what it does.

pub(crate) mod authorizer;
pub(crate) mod conversions;
pub(crate) mod format_string;
mod formats;
pub(crate) mod json_patch;
mod lists;
mod network;
pub(crate) mod optional;
mod quantity;
pub(crate) mod regex;
mod semver;
mod sets;
pub(crate) mod standard;
mod strings;
pub(crate) mod time;
mod urls;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::Type;
use crate::value::{Result, Value};

/// A function by its name.
#[derive(Debug, Default)]
pub(crate) struct Function {
    pub(crate) overloads: Vec<Overload>,
}

/// One way to call a function.
#[derive(Debug)]
pub(crate) struct Overload {
    /// Its name, which what it costs depends on.
    pub(crate) id: &'static str,
    /// The first argument stands before the dot.
    pub(crate) member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) call: Call,
}

/// What an overload does. It is given as many arguments as it has, of types that it declares or of types that are not known.
pub(crate) type Call = fn(&[Value]) -> Result;

/// All functions.
pub(crate) fn functions() -> &'static HashMap<&'static str, Function> {
    static FUNCTIONS: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(|| {
        let mut library = Library(HashMap::new());
        standard::add(&mut library);
        conversions::add(&mut library);
        time::add(&mut library);
        strings::add(&mut library);
        lists::add(&mut library);
        sets::add(&mut library);
        optional::add(&mut library);
        regex::add(&mut library);
        urls::add(&mut library);
        quantity::add(&mut library);
        network::add(&mut library);
        formats::add(&mut library);
        semver::add(&mut library);
        authorizer::add(&mut library);
        library.0
    });
    &FUNCTIONS
}

/// A function by name.
pub(crate) fn function(name: &str) -> Option<&'static Function> {
    functions().get(name)
}

/// Collects functions.
struct Library(HashMap<&'static str, Function>);

impl Library {
    fn add(&mut self, name: &'static str, overload: Overload) {
        self.0.entry(name).or_default().overloads.push(overload);
    }

    /// `name(args)`
    fn global(&mut self, name: &'static str, id: &'static str, args: &[Type], result: Type, call: Call) {
        self.add(name, Overload { id, member: false, args: args.to_vec(), result, call });
    }

    /// `first.name(rest)`
    fn member(&mut self, name: &'static str, id: &'static str, args: &[Type], result: Type, call: Call) {
        self.add(name, Overload { id, member: true, args: args.to_vec(), result, call });
    }
}

/// Any type, the same wherever the name is the same.
const A: Type = Type::Param("A");

/// The arguments as they were declared. What does not fit is told as a missing overload.
macro_rules! args {
    ($args:expr, $($pattern:pat),+ => $result:expr) => {
        match $args {
            [$($pattern),+] => $result,
            _ => Err($crate::value::Error::no_overload()),
        }
    };
}
use args;
