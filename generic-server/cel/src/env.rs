//! The environment of an expression: what it can name.

use std::sync::Arc;

use machinery::Str;

use crate::library::{self, Function};
use crate::types::Type;
use crate::types::decl::Decl;

/// The variables and types that expressions of one kind can use.
#[derive(Clone, Debug, Default)]
pub struct Env {
    variables: Vec<Variable>,
    structs: Option<Arc<dyn Structs>>,
    functions: Vec<(&'static str, &'static Function)>,
}

#[derive(Clone, Debug)]
struct Variable {
    name: Str,
    of: Type,
    /// What bounds its size.
    decl: Option<Arc<Decl>>,
}

/// The structs that expressions can make.
pub trait Structs: Send + Sync + std::fmt::Debug {
    /// Whether there is a struct of that name.
    fn exists(&self, name: &str) -> bool;

    /// The type of a struct's field; `None` if it has no such field.
    fn field(&self, name: &str, field: &str) -> Option<Type>;
}

impl Env {
    /// Nothing but the functions that all expressions have.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a variable. Its place, among all in the order of their addition, is where its value is given.
    #[must_use]
    pub fn variable_of(mut self, name: &str, of: Type) -> Self {
        self.variables.push(Variable { name: name.into(), of, decl: None });
        self
    }

    /// With a variable of a declared shape.
    #[must_use]
    pub fn variable_with(mut self, name: &str, decl: &Arc<Decl>) -> Self {
        self.variables.push(Variable { name: name.into(), of: decl.to_type(), decl: Some(decl.clone()) });
        self
    }

    /// With structs that expressions can make.
    #[must_use]
    pub fn with_structs(mut self, structs: Arc<dyn Structs>) -> Self {
        self.structs = Some(structs);
        self
    }

    /// With the functions that help to write JSON patches.
    #[must_use]
    pub fn with_patch_functions(mut self) -> Self {
        self.functions.extend(library::json_patch::functions());
        self
    }

    pub(crate) fn variable(&self, name: &str) -> Option<(usize, &Type)> {
        let place = self.variables.iter().rposition(|v| v.name == name)?;
        Some((place, &self.variables[place].of))
    }

    /// What is promised of a variable's value; of names that are no variables (of types, of macros) upstream takes what it
    /// knows of the first one.
    pub(crate) fn decl(&self, name: &str) -> Option<&Decl> {
        match self.variables.iter().rev().find(|v| v.name == name) {
            Some(variable) => variable.decl.as_deref(),
            None => self.variables.first()?.decl.as_deref(),
        }
    }

    /// How many variables there are.
    pub(crate) fn len(&self) -> usize {
        self.variables.len()
    }

    pub(crate) fn structs(&self) -> Option<&dyn Structs> {
        self.structs.as_deref()
    }

    /// A function that all expressions have, or these.
    pub(crate) fn function(&self, name: &str) -> Option<&'static Function> {
        library::function(name).or_else(|| self.functions.iter().find(|(n, _)| *n == name).map(|(_, f)| *f))
    }
}
