//! The rules of custom resources (`x-kubernetes-validations`): compiled from their schema, and run on objects.

mod definition;
mod run;

use std::sync::Arc;

use cel::{Decl, Env, Program, Type};
use machinery::{
    Str, Value,
    schema::{ListType, Schema, Shape, structural},
    value::Segment,
};

pub(crate) use definition::errors as definition_errors;
pub(crate) use run::run;

/// What one evaluation may cost (upstream's PerCallLimit).
const CALL_LIMIT: u64 = 1_000_000;
/// What all rules together may cost for one object (upstream's RuntimeCELCostBudget).
const OBJECT_LIMIT: u64 = 10_000_000;
/// The place of `oldSelf` among the variables; `self` is the first.
const OLD_SELF: usize = 1;

/// The rules of a schema and of what is below it; nodes without any are left out.
#[derive(Debug)]
pub(crate) struct RuleTree {
    rules: Vec<Rule>,
    decl: Option<Arc<Decl>>,
    /// The schema's type as it is written, which errors show in place of values; empty if it has none.
    type_name: Str,
    fields: Vec<(Str, RuleTree)>,
    values: Option<Box<RuleTree>>,
    items: Option<Box<RuleTree>>,
    /// How items are found again in the old list.
    list_type: ListType,
}

/// A rule.
#[derive(Debug)]
struct Rule {
    text: Str,
    /// What is told where it does not hold; empty if it says none.
    message: Str,
    reason: Option<Str>,
    /// What is at fault, below where the rule stands.
    field_path: Vec<Segment>,
    optional_old: bool,
    compiled: Compiled,
}

/// The expressions of a rule. `Err`: why one cannot be evaluated.
#[derive(Debug)]
struct Compiled {
    rule: Result<Program, String>,
    message: Option<Result<Program, String>>,
}

impl Compiled {
    fn of(rule: &Value, decl: &Arc<Decl>) -> Compiled {
        let old = if is_old_optional(rule) { Type::optional(decl.to_type()) } else { decl.to_type() };
        let env = Env::new().variable_with("self", decl);
        let env =
            if is_old_optional(rule) { env.variable_of("oldSelf", old) } else { env.variable_with("oldSelf", decl) };
        let text = |key: &str| rule.str_at(&[key]).unwrap_or_default();
        let compiled = compile(&env, text("rule"), &Type::Bool, "", "cel expression must evaluate to a bool");
        let message = text("messageExpression");
        let wanted = compiled.is_ok() && !message.trim().is_empty();
        let message = wanted.then(|| {
            compile(&env, message, &Type::String, "messageExpression ", "messageExpression must evaluate to a string")
        });
        Compiled { rule: compiled, message }
    }

    /// Whether the rule looks at what was there before.
    fn uses_old(&self) -> bool {
        self.rule.as_ref().is_ok_and(|program| program.uses(OLD_SELF))
    }
}

fn compile(env: &Env, text: &str, wanted: &Type, prefix: &str, otherwise: &str) -> Result<Program, String> {
    let program = env.compile(text).map_err(|issues| format!("{prefix}compilation failed: {issues}"))?;
    if program.result() != wanted {
        return Err(otherwise.to_owned());
    }
    match program.fault() {
        Some(fault) => {
            Err(format!("{prefix}{}instantiation failed: {fault}", if prefix.is_empty() { "program " } else { "" }))
        }
        None => Ok(program),
    }
}

fn is_old_optional(rule: &Value) -> bool {
    rule.get("optionalOldSelf").and_then(Value::as_bool) == Some(true)
}

impl Rule {
    fn of(rule: &Value, schema: &Schema, decl: &Arc<Decl>) -> Option<Rule> {
        let text = |key: &str| Str::from(rule.str_at(&[key]).unwrap_or_default().trim());
        if text("rule").is_empty() {
            return None;
        }
        let path = text("fieldPath");
        let field_path = structural::resolve_path(schema, &path, true).map(|(steps, _)| steps);
        Some(Rule {
            text: text("rule"),
            message: text("message"),
            reason: rule.get("reason").and_then(Value::as_shared_str).cloned(),
            field_path: if path.is_empty() { Vec::new() } else { field_path.unwrap_or_default() },
            optional_old: is_old_optional(rule),
            compiled: Compiled::of(rule, decl),
        })
    }

    /// The rule as errors name it.
    fn shown(&self) -> &str {
        if self.message.is_empty() { &self.text } else { &self.message }
    }
}

impl RuleTree {
    /// The rules of a schema. `root`: it is of a whole object. `None` if there are none.
    pub(crate) fn of(schema: &Schema, root: bool) -> Option<RuleTree> {
        let below = |schema: &Schema| RuleTree::of(schema, schema.embedded_resource);
        let mut fields = Vec::new();
        let (mut values, mut items) = (None, None);
        match &schema.shape {
            Shape::Object(object) => {
                fields.extend(object.fields.iter().filter_map(|f| Some((f.name.clone(), below(&f.schema)?))));
                values = object.additional.as_deref().and_then(below).map(Box::new);
            }
            Shape::Map(of) => values = below(of).map(Box::new),
            Shape::List(of) => items = below(of).map(Box::new),
            _ => {}
        }
        let written = schema.validation.as_deref().map_or(&[][..], |v| &v.rules);
        let decl = if written.is_empty() { None } else { Decl::of_schema(schema, root, "self").map(Arc::new) };
        let rules: Vec<Rule> = match &decl {
            Some(decl) => written.iter().filter_map(|rule| Rule::of(rule, schema, decl)).collect(),
            None => Vec::new(),
        };
        if rules.is_empty() && fields.is_empty() && values.is_none() && items.is_none() {
            return None;
        }
        let type_name = schema.validation.as_deref().map(|v| v.type_name.clone()).unwrap_or_default();
        Some(RuleTree { rules, decl, type_name, fields, values, items, list_type: schema.list_type.clone() })
    }
}
