//! From an expression's text to its program.

use std::sync::Arc;

use cel::{Decl, Program, Type};

use crate::declarations::{JSON_PATCH, Names, OBJECT, environment};

/// What an expression is for: what its value must be, and what it can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedType {
    /// A condition or validation: a bool.
    Condition,
    /// The text of a refusal. It cannot ask the authorizer.
    Message,
    /// The value of an audit annotation: a text, or null for none.
    Annotation,
    /// A variable: anything.
    Anything,
    /// What a mutation applies: an `Object`.
    Apply,
    /// What a mutation patches: a list of `JSONPatch`.
    JsonPatch,
}

impl ExpectedType {
    /// The types that the value may be of; none: any.
    fn types(self) -> Vec<Type> {
        match self {
            ExpectedType::Condition => vec![Type::Bool],
            ExpectedType::Message => vec![Type::String],
            ExpectedType::Annotation => vec![Type::String, Type::Null],
            ExpectedType::Anything => Vec::new(),
            ExpectedType::Apply => vec![Type::opaque(OBJECT)],
            ExpectedType::JsonPatch => vec![Type::list(Type::opaque(JSON_PATCH))],
        }
    }

    fn names(self, params: bool) -> Names {
        Names {
            params,
            authorizer: self != ExpectedType::Message,
            patches: matches!(self, ExpectedType::Apply | ExpectedType::JsonPatch),
        }
    }
}

/// What is wrong with an expression, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It is wrong as it is written.
    #[error("{0}")]
    Invalid(String),
    /// It cannot be made ready to run.
    #[error("{0}")]
    Internal(String),
}

/// Compiles the expressions of one policy or webhook, in their order: a variable can be named by what comes after it.
#[derive(Clone, Debug)]
pub struct Compiler {
    params: bool,
    /// The variables so far; `None` where there is no such thing.
    variables: Option<Arc<Decl>>,
}

impl Compiler {
    /// For a policy. `params`: it has parameters; `composes`: it has variables.
    pub fn new(params: bool, composes: bool) -> Self {
        Compiler { params, variables: composes.then(no_variables) }
    }

    /// Compiles a variable. Wrong or not, it can be named from now on.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn variable(&mut self, name: &str, text: &str) -> Result<Program, CompileError> {
        let program = self.compile(text, ExpectedType::Anything);
        let decl = Arc::new(program.as_ref().map_or_else(|_| Decl::dynamic(), |p| Decl::of_type(p.result())));
        // Names that expressions cannot spell are as good as not there.
        self.variables = Some(self.variables.take().unwrap_or_else(no_variables).with_field(name, decl));
        program
    }

    /// Compiles an expression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn compile(&mut self, text: &str, wanted: ExpectedType) -> Result<Program, CompileError> {
        let env = environment(wanted.names(self.params), self.variables.as_ref());
        let program =
            env.compile(text).map_err(|issues| CompileError::Invalid(format!("compilation failed: {issues}")))?;
        let types = wanted.types();
        if !types.is_empty() && !types.contains(program.result()) {
            return Err(CompileError::Invalid(other_type(&types, program.result())));
        }
        match program.fault() {
            Some(why) => Err(CompileError::Internal(format!("program instantiation failed: {why}"))),
            None => Ok(program),
        }
    }
}

fn no_variables() -> Arc<Decl> {
    Arc::new(Decl::object("kubernetes.variables", Vec::new()))
}

fn other_type(wanted: &[Type], is: &Type) -> String {
    match wanted {
        [one] => format!("must evaluate to {} but got {}", one.full_name(), is.full_name()),
        several => {
            let names: Vec<String> = several.iter().map(Type::full_name).collect();
            format!("must evaluate to one of [{}] but got {}", names.join(" "), is.full_name())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(compiler: &mut Compiler, text: &str, wanted: ExpectedType, expect: Result<(), &str>) {
        let is = compiler.compile(text, wanted).map(|_| ()).map_err(|fault| fault.to_string());
        let first = is.as_ref().copied().map_err(|text| text.lines().next().unwrap_or_default());
        assert_eq!(first, expect, "{text}");
    }

    #[test]
    fn expressions_give_what_they_are_for() {
        let plain = &mut Compiler::new(false, false);
        check(plain, "object.x == 1", ExpectedType::Condition, Ok(()));
        check(plain, "1 + 1", ExpectedType::Condition, Err("must evaluate to bool but got int"));
        check(plain, "object.x", ExpectedType::Condition, Err("must evaluate to bool but got dyn"));
        check(plain, "null", ExpectedType::Message, Err("must evaluate to string but got null_type"));
        check(
            plain,
            "duration('1s')",
            ExpectedType::Annotation,
            Err("must evaluate to one of [string null_type] but got google.protobuf.Duration"),
        );
        check(plain, "null", ExpectedType::Annotation, Ok(()));
        check(plain, "Object{metadata: Object.metadata{}}", ExpectedType::Apply, Ok(()));
        check(plain, "{'a': 1}", ExpectedType::Apply, Err("must evaluate to Object but got map(string, int)"));
        check(plain, "[JSONPatch{op: 'add', path: '/a', value: 1}]", ExpectedType::JsonPatch, Ok(()));
        check(plain, "[]", ExpectedType::JsonPatch, Err("must evaluate to list(JSONPatch) but got list(dyn)"));
    }

    #[test]
    fn expressions_name_what_there_is() {
        let undeclared = |name: &str| {
            format!("compilation failed: ERROR: <input>:1:1: undeclared reference to '{name}' (in container '')")
        };
        let plain = &mut Compiler::new(false, false);
        check(plain, "params.x == 1", ExpectedType::Condition, Err(&undeclared("params")));
        check(plain, "variables.x == 1", ExpectedType::Condition, Err(&undeclared("variables")));
        check(plain, "authorizer.group('').resource('pods').check('get').allowed()", ExpectedType::Condition, Ok(()));
        check(plain, "authorizer.requestResource.check('get').allowed()", ExpectedType::Condition, Ok(()));
        check(
            plain,
            "authorizer.path('/').check('get').reason()",
            ExpectedType::Message,
            Err(&undeclared("authorizer")),
        );
        check(plain, "request.userInfo.groups.exists(g, g == 'a')", ExpectedType::Condition, Ok(()));
        check(plain, "namespaceObject.metadata.labels['a'] == ''", ExpectedType::Condition, Ok(()));
        check(
            plain,
            "request.object == null",
            ExpectedType::Condition,
            Err("compilation failed: ERROR: <input>:1:8: undefined field 'object'"),
        );
        check(&mut Compiler::new(true, false), "params.x == 1", ExpectedType::Condition, Ok(()));
    }

    #[test]
    fn variables_are_known_to_what_comes_after_them() {
        let compiler = &mut Compiler::new(false, true);
        assert!(compiler.variable("a", "variables.b").is_err());
        assert!(compiler.variable("b", "[1]").is_ok());
        check(compiler, "variables.a == 'x'", ExpectedType::Condition, Ok(())); // it may be anything
        check(compiler, "variables.b[0] == 1", ExpectedType::Condition, Ok(()));
        let wrong =
            "compilation failed: ERROR: <input>:1:16: found no matching overload for '_==_' applied to '(int, string)'";
        check(compiler, "variables.b[0] == ''", ExpectedType::Condition, Err(wrong));
        assert!(compiler.variable("b", "true").is_ok());
        check(compiler, "variables.b", ExpectedType::Condition, Ok(()));
    }
}
