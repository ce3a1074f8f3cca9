//! Validates the CEL rules of definitions: whether they compile, and whether their estimated cost is within the limits.

use std::sync::Arc;

use cel::Decl;
use machinery::{
    Value,
    meta::field_error::{BadValue, FieldError},
    schema::{
        ListType, Schema, Shape,
        structural::{self, Faulty},
    },
    value::Path,
};

use super::Compiled;

/// What one expression may cost at most, times the number of values that it can be evaluated on.
const RULE_LIMIT: u64 = 10_000_000;
/// What all of a schema may cost together.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// How many of the dearest expressions are named where all together cost too much, and what they cost at least: a hundredth.
const NAMED: usize = 4;
const DEAR: u64 = SCHEMA_LIMIT / 100;
/// What a request has at most, in bytes.
const MAX_REQUEST: u64 = 3 * 1024 * 1024;

/// What is wrong with the rules' expressions in a sound schema that stands at `at`. `kept`: the schema is not new; what its
/// rules cost is not looked at then. `faulty`: nodes whose schema is wrong, so that no rule is looked at there and above.
pub(crate) fn errors(schema: &Schema, kept: bool, faulty: &Faulty, at: &Path<'_>) -> Vec<FieldError> {
    let mut check = Check { kept, faulty, errors: Vec::new(), total: 0, dearest: Vec::new() };
    check.node(schema, true, Scope { count: Some(1), uncorrelatable: None }, at);
    check.sum(at);
    check.errors
}

struct Check<'a> {
    kept: bool,
    faulty: &'a Faulty,
    errors: Vec<FieldError>,
    total: u64,
    /// What costs most: the cost, and the place.
    dearest: Vec<(u64, String)>,
}

/// What the surroundings of a node say.
#[derive(Clone, Copy)]
struct Scope<'a> {
    /// How many values of the node an object can have; `None` if only its size bounds that.
    count: Option<u64>,
    /// The list above whose items cannot be found again in an older object.
    uncorrelatable: Option<&'a Path<'a>>,
}

impl Scope<'_> {
    fn times(self, most: Option<i64>) -> Self {
        let count = self.count.zip(most).map(|(count, most)| count.saturating_mul(u64::try_from(most).unwrap_or(0)));
        Scope { count, ..self }
    }
}

impl Check<'_> {
    fn node(&mut self, schema: &Schema, root: bool, scope: Scope<'_>, at: &Path<'_>) {
        let limits = schema.validation.as_deref();
        let values_scope = scope.times(limits.and_then(|v| v.max_properties));
        match &schema.shape {
            Shape::Object(object) => {
                if let Some(values) = &object.additional {
                    self.node(values, values.embedded_resource, values_scope, &at.field("additionalProperties"));
                }
                let mut scope = scope;
                if self.faulty.is_unknown_map(at) {
                    scope.uncorrelatable = Some(scope.uncorrelatable.unwrap_or(at));
                }
                for field in &object.fields {
                    self.node(
                        &field.schema,
                        field.schema.embedded_resource,
                        scope,
                        &at.field("properties").key(&field.name),
                    );
                }
            }
            Shape::Map(values) => {
                self.node(values, values.embedded_resource, values_scope, &at.field("additionalProperties"))
            }
            Shape::List(items) => {
                let mut scope = scope.times(limits.and_then(|v| v.max_items));
                if !matches!(schema.list_type, ListType::Map(_)) {
                    scope.uncorrelatable = Some(scope.uncorrelatable.unwrap_or(at));
                }
                self.node(items, items.embedded_resource, scope, &at.field("items"));
            }
            _ => {}
        }
        let rules = limits.map_or(&[][..], |v| &v.rules);
        if rules.is_empty() || self.faulty.within(at) {
            return;
        }
        let at = at.field("x-kubernetes-validations");
        let Some(decl) = Decl::of_schema(schema, root, "self").map(Arc::new) else {
            let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert \
                       structural schema to CEL declarations";
            self.errors.push(FieldError::internal(at, why));
            return;
        };
        for (i, rule) in rules.iter().enumerate() {
            self.rule(rule, &decl, scope, &at.index(i));
        }
    }

    fn rule(&mut self, rule: &Value, decl: &Arc<Decl>, scope: Scope<'_>, at: &Path<'_>) {
        if rule.str_at(&["rule"]).unwrap_or_default().trim().is_empty() {
            return;
        }
        let compiled = Compiled::of(rule, decl);
        let shown = || BadValue::verbatim(structural::rule_text(rule));
        let here = at.field("rule");
        match &compiled.rule {
            Ok(program) => {
                let count = scope.count.unwrap_or_else(|| MAX_REQUEST / (decl.min_size() + 1));
                self.observe("estimated rule cost", program.cost().max.saturating_mul(count), &here);
            }
            Err(why) => self.errors.push(FieldError::invalid(here, shown(), why)),
        }
        let here = at.field("messageExpression");
        match &compiled.message {
            Some(Ok(program)) => self.observe("estimated messageExpression cost", program.cost().max, &here),
            Some(Err(why)) => self.errors.push(FieldError::invalid(here, shown(), why)),
            None => {}
        }
        if compiled.uses_old() {
            if let Some(list) = scope.uncorrelatable {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
                self.errors.push(FieldError::invalid(
                    at.field("rule"),
                    rule.str_at(&["rule"]).unwrap_or_default(),
                    why,
                ));
            }
        } else if let Some(optional) = rule.get("optionalOldSelf").and_then(Value::as_bool) {
            let why = "may not be set if oldSelf is not used in rule";
            self.errors.push(FieldError::invalid(at.field("optionalOldSelf"), optional, why));
        }
    }

    /// Notes what an expression costs, and tells if that is too much.
    fn observe(&mut self, what: &str, cost: u64, at: &Path<'_>) {
        if cost > RULE_LIMIT && !self.kept {
            self.errors.push(FieldError::forbidden(at, too_much(what, cost, RULE_LIMIT)));
        }
        self.total = self.total.saturating_add(cost);
        if cost < DEAR {
            return;
        }
        let place = self.dearest.partition_point(|(other, _)| *other >= cost);
        if place < NAMED {
            self.dearest.insert(place, (cost, at.to_string()));
            self.dearest.truncate(NAMED);
        }
    }

    fn sum(&mut self, at: &Path<'_>) {
        if self.total <= SCHEMA_LIMIT || self.kept {
            return;
        }
        for (_, place) in &self.dearest {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.errors.push(FieldError::forbidden(place, why));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.errors.push(FieldError::forbidden(at, too_much(what, self.total, SCHEMA_LIMIT)));
    }
}

fn too_much(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength \
         where arrays, maps, and strings are declared)"
    )
}
