//! The rules of custom resources (`x-kubernetes-validations`): compiled from their schema, and run on objects.

mod definition;
mod metrics;
mod run;

use std::{sync::Arc, time::Instant};

use cel::{Decl, Env, Program, Type};
use generic_server::offload;
use machinery::{
    Str, Value,
    schema::{ListType, Schema, Shape, structural},
    value::Segment,
};

pub(crate) use definition::errors as definition_errors;
pub(crate) use metrics::{compared, register as register_metrics};
pub(crate) use run::run;

/// What one evaluation may cost (upstream's PerCallLimit).
const CALL_LIMIT: u64 = 1_000_000;
/// What all rules together may cost for one object (upstream's RuntimeCELCostBudget).
const OBJECT_LIMIT: u64 = 10_000_000;
/// Rules that may cost more than this are run outside of the reactor. A million takes some forty milliseconds.
const LONG: u64 = 100_000;
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
    /// What all rules may cost together for an object that is handled in the reactor.
    cost: u64,
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

    /// What it may cost.
    fn cost(&self) -> u64 {
        let programs = [Some(&self.rule), self.message.as_ref()].into_iter().flatten().flatten();
        programs.map(|program| program.cost().max).fold(0, u64::saturating_add)
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
        RuleTree::counted(schema, root, 1)
    }

    /// Whether running them may take long even on a small object.
    pub(crate) fn takes_long(&self) -> bool {
        self.cost > LONG
    }

    /// `count`: how many values of the schema a small object has at most.
    fn counted(schema: &Schema, root: bool, count: u64) -> Option<RuleTree> {
        const MOST: u64 = offload::INLINE as u64; // of a byte each
        let limits = schema.validation.as_deref();
        let same = |schema: &Schema| RuleTree::counted(schema, schema.embedded_resource, count);
        let each = |schema: &Schema, most: Option<i64>| {
            let most = most.and_then(|most| u64::try_from(most).ok()).unwrap_or(MOST);
            RuleTree::counted(schema, schema.embedded_resource, count.saturating_mul(most).min(MOST))
        };
        let mut fields = Vec::new();
        let (mut values, mut items) = (None, None);
        let most_values = limits.and_then(|v| v.max_properties);
        match &schema.shape {
            Shape::Object(object) => {
                fields.extend(object.fields.iter().filter_map(|f| Some((f.name.clone(), same(&f.schema)?))));
                values = object.additional.as_deref().and_then(|values| each(values, most_values)).map(Box::new);
            }
            Shape::Map(of) => values = each(of, most_values).map(Box::new),
            Shape::List(of) => items = each(of, limits.and_then(|v| v.max_items)).map(Box::new),
            _ => {}
        }
        let written = limits.map_or(&[][..], |v| &v.rules);
        let decl = if written.is_empty() { None } else { Decl::of_schema(schema, root, "self").map(Arc::new) };
        let rules: Vec<Rule> = match &decl {
            Some(decl) => compiled(written, schema, decl),
            None => Vec::new(),
        };
        if rules.is_empty() && fields.is_empty() && values.is_none() && items.is_none() {
            return None;
        }
        let own = rules.iter().map(|rule| rule.compiled.cost()).fold(0, u64::saturating_add).saturating_mul(count);
        let below = fields.iter().map(|(_, tree)| tree).chain(values.as_deref()).chain(items.as_deref());
        let cost = below.map(|tree| tree.cost).fold(own, u64::saturating_add);
        let type_name = limits.map(|v| v.type_name.clone()).unwrap_or_default();
        Some(RuleTree { rules, decl, type_name, fields, values, items, list_type: schema.list_type.clone(), cost })
    }
}

/// The rules of a schema, compiled.
fn compiled(written: &[Value], schema: &Schema, decl: &Arc<Decl>) -> Vec<Rule> {
    let begun = Instant::now();
    let rules = written.iter().filter_map(|rule| Rule::of(rule, schema, decl)).collect();
    metrics::compiled(begun.elapsed());
    rules
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn what_rules_may_cost_says_where_they_are_run() {
        let rule = |text: &str| array![object! { "rule" => text }];
        let list = |most: Option<i64>, rule: Value, of_items: Value| {
            let items = object! { "type" => "integer", "x-kubernetes-validations" => of_items };
            let mut list = object! { "type" => "array", "items" => items, "x-kubernetes-validations" => rule };
            list.set(&["maxItems"], most.map_or(Value::Null, Value::from));
            object! { "type" => "object", "properties" => object! { "list" => list } }
        };
        let check = |schema: Value, expect: Option<bool>| {
            let tree = RuleTree::of(&structural::parse(&schema), true);
            assert_eq!(tree.map(|tree| tree.takes_long()), expect, "{schema:?}");
        };
        let none = || Value::from(Vec::<Value>::new());
        check(list(None, none(), none()), None);
        check(list(None, rule("self.size() > 1"), none()), Some(false));
        let pairs = "self.all(a, self.exists_one(b, a == b))";
        check(list(Some(10), rule(pairs), none()), Some(false));
        check(list(Some(500), rule(pairs), none()), Some(true));
        check(list(None, none(), rule("self > 1")), Some(true));
        check(list(Some(100), none(), rule("self > 1")), Some(false));
    }
}
