//! Runs the rules on an object.

use std::{collections::HashMap, sync::Arc, time::Instant};

use cel::{Error, Program, Value as CelValue, from_json};
use machinery::{
    Value,
    codec::json,
    meta::field_error::{BadValue, FieldError, FieldErrorKind},
    schema::ListType,
    value::{Path, Segment},
};

use super::{CALL_LIMIT, OBJECT_LIMIT, Rule, RuleTree, metrics};

/// The longest message that an expression can make, in bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// The rules that do not hold for an object, or for a part of it. `old`: what it replaces; what it says of that too is tolerated.
pub(crate) fn run(tree: &RuleTree, new: &Value, old: Option<&Value>, at: &Path<'_>) -> Vec<FieldError> {
    let mut run = Run { left: OBJECT_LIMIT, findings: Vec::new() };
    // The budget is used up: what was found until then is all.
    let _ = run.node(tree, new, old, false, at);
    run.findings
}

struct Run {
    /// What may still be spent.
    left: u64,
    findings: Vec<FieldError>,
}

/// No further rules are run.
struct Stop;

impl Run {
    /// `same`: what is above is as it was before.
    fn node(
        &mut self,
        tree: &RuleTree,
        new: &Value,
        old: Option<&Value>,
        same: bool,
        at: &Path<'_>,
    ) -> Result<(), Stop> {
        let nothing = new.is_null() && tree.decl.as_ref().is_some_and(|d| d.nullable);
        if !nothing && !tree.rules.is_empty() {
            let begun = Instant::now();
            let ran = tree.rules.iter().try_for_each(|rule| self.rule(tree, rule, new, old, same, at));
            metrics::evaluated(begun.elapsed());
            ran?;
        }
        match new {
            Value::Array(items) => match &tree.items {
                Some(below) => self.items(tree, below, items, old, same || old == Some(new), at),
                None => Ok(()),
            },
            Value::Object(members) => {
                for (name, value) in members.iter() {
                    let of_field = tree.fields.binary_search_by(|(n, _)| n.cmp(name)).ok();
                    let before = old.and_then(|o| o.get(name));
                    match (of_field, &tree.values) {
                        (Some(i), _) => self.node(&tree.fields[i].1, value, before, same, &at.field(name))?,
                        (None, Some(values)) => self.node(values, value, before, same, &at.key(name))?,
                        (None, None) => {}
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn items(
        &mut self,
        tree: &RuleTree,
        below: &RuleTree,
        items: &[Value],
        old: Option<&Value>,
        same: bool,
        at: &Path<'_>,
    ) -> Result<(), Stop> {
        let keys: &[_] = match &tree.list_type {
            ListType::Map(keys) => keys,
            _ => &[],
        };
        let identity = |item: &Value| {
            let mut text = Vec::new();
            for key in keys {
                json::encode_into(&mut text, item.get(key).unwrap_or(&Value::Null));
                text.push(b',');
            }
            text
        };
        let before: HashMap<Vec<u8>, &Value> = match old.and_then(Value::as_array) {
            Some(old) if !keys.is_empty() => old.iter().map(|item| (identity(item), item)).collect(),
            _ => HashMap::new(),
        };
        for (i, item) in items.iter().enumerate() {
            let old = if before.is_empty() { None } else { before.get(&identity(item)).copied() };
            self.node(below, item, old, same, &at.index(i))?;
        }
        Ok(())
    }

    fn rule(
        &mut self,
        tree: &RuleTree,
        rule: &Rule,
        new: &Value,
        old: Option<&Value>,
        same: bool,
        at: &Path<'_>,
    ) -> Result<(), Stop> {
        let decl = tree.decl.as_ref().expect("where there are rules, the shape is known");
        let uses_old = rule.compiled.uses_old();
        if uses_old && old.is_none() && !rule.optional_old {
            return Ok(());
        }
        // What was there before, and is let be, is told as a warning.
        let found = |error| FieldError { tolerated: !uses_old && (same || old == Some(new)), ..error };
        let kind = tree.type_name.as_str();
        let program = match &rule.compiled.rule {
            Ok(program) => program,
            Err(why) => {
                self.findings.push(found(FieldError::invalid(at, kind, format!("rule compile error: {why}"))));
                return Ok(());
            }
        };
        let variables = from_json(new, decl).and_then(|new| {
            let old = match old {
                Some(old) if uses_old || rule.compiled.message.is_some() => Some(from_json(old, decl)?),
                _ => None,
            };
            Ok((new, old))
        });
        let holds = match &variables {
            Ok((new, old)) => {
                let old = match rule.optional_old {
                    true => CelValue::Optional(old.clone().map(Arc::new)),
                    false => old.clone().unwrap_or(CelValue::Null),
                };
                self.evaluate(program, &[new.clone(), old], kind, rule, at)?
            }
            Err(error) => Err(error.clone()),
        };
        match holds {
            Ok(CelValue::Bool(true)) => {}
            Ok(_) => {
                // Upstream gives messages the old value as it is, even where the rule has it as an optional one.
                let variables = variables.ok().map(|(new, old)| [new, old.unwrap_or(CelValue::Null)]);
                let message = variables.and_then(|variables| self.message(rule, &variables));
                self.findings.push(found(failed(rule, new, message, at)));
            }
            Err(error) => {
                let text = error.to_string();
                let detail = if text.starts_with("no such overload") {
                    let why = "call arguments did not match a supported operator, function or macro signature for rule";
                    format!("'{text}': {why}: {}", rule.shown())
                } else {
                    format!("{text} evaluating rule: {}", rule.shown())
                };
                self.findings.push(found(FieldError::invalid(at, kind, detail)));
            }
        }
        Ok(())
    }

    fn evaluate(
        &mut self,
        program: &Program,
        variables: &[CelValue],
        kind: &str,
        rule: &Rule,
        at: &Path<'_>,
    ) -> Result<cel::Result, Stop> {
        let (result, cost) = program.evaluate(variables, CALL_LIMIT);
        let mut stop = |detail: String| {
            self.findings.push(FieldError::invalid(at, kind, detail));
            Err(Stop)
        };
        if matches!(result, Err(Error::CostLimit)) {
            let why = "no further validation rules will be run due to call cost exceeds limit for rule";
            return stop(format!("'{}': {why}: {}", Error::CostLimit, rule.shown()));
        }
        if cost > self.left {
            return stop(
                "validation failed due to running out of cost budget, no further validation rules will be run".into(),
            );
        }
        self.left -= cost;
        Ok(result)
    }

    /// What a rule's message expression says, if it says something that can be told.
    fn message(&mut self, rule: &Rule, variables: &[CelValue]) -> Option<String> {
        let program = rule.compiled.message.as_ref()?.as_ref().ok()?;
        let (result, cost) = program.evaluate(variables, CALL_LIMIT.min(self.left));
        self.left = self.left.saturating_sub(cost);
        let Ok(CelValue::String(text)) = result else { return None };
        let text = text.trim();
        let fits = !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
        fits.then(|| text.to_owned())
    }
}

/// A rule that does not hold, as the error that it asks for.
fn failed(rule: &Rule, value: &Value, message: Option<String>, at: &Path<'_>) -> FieldError {
    let detail = message.unwrap_or_else(|| match rule.message.is_empty() {
        true => format!("failed rule: {}", rule.text),
        false => rule.message.to_string(),
    });
    let kind = match rule.reason.as_deref() {
        Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
        Some("FieldValueRequired") => FieldErrorKind::Required,
        Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
        _ => FieldErrorKind::Invalid,
    };
    let detail = if kind == FieldErrorKind::Duplicate { String::new() } else { detail };
    let shown = match value {
        Value::Array(_) | Value::Object(_) => BadValue::Omitted,
        _ if !rule.field_path.is_empty() => BadValue::Omitted,
        scalar => BadValue::from(scalar),
    };
    FieldError::new(kind, below(at, &rule.field_path), shown, detail)
}

fn below(at: &Path<'_>, steps: &[Segment]) -> String {
    match steps.split_first() {
        None => at.to_string(),
        Some((Segment::Field(name), rest)) => below(&at.field(name), rest),
        Some((Segment::Key(key), rest)) => below(&at.key(key), rest),
        Some((Segment::Index(i), rest)) => below(&at.index(*i), rest),
    }
}
