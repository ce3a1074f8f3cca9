//! Estimates the cost of an expression before it is evaluated. The numbers are part of the API: they decide which rules a
//! CustomResourceDefinition may have. Differs: a call of `optMap` costs what the name that it binds costs.

use std::collections::HashMap;

use machinery::Str;

use crate::check::Checked;
use crate::env::Env;
use crate::syntax::ast::{Call, Expr, ExprKind, Fold, Literal, operator};
use crate::types::Type;

/// What looking at a character costs.
pub(crate) const CHARACTER: f64 = 0.1;
/// What a character of a pattern costs.
pub(crate) const PATTERN_CHARACTER: f64 = 0.25;
/// What making a list, a map, a struct costs.
pub(crate) const LIST: u64 = 10;
pub(crate) const MAP: u64 = 30;
pub(crate) const STRUCT: u64 = 40;
/// What asking the authorizer costs: an expression can do so twice.
const CHECK: u64 = 350_000;
/// The longest pattern of a named format.
const FORMAT_PATTERN: f64 = 128.0;
/// The longest name of a format.
const FORMAT_NAME: u64 = 64;

/// From the least to the most that something costs, or the least to the most elements that it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// At least.
    pub min: u64,
    /// At most; `u64::MAX` if nothing bounds it.
    pub max: u64,
}

impl Cost {
    const UNKNOWN: Cost = Cost { min: 0, max: u64::MAX };

    fn fixed(n: u64) -> Cost {
        Cost { min: n, max: n }
    }

    fn plus(self, other: Cost) -> Cost {
        Cost { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Cost) -> Cost {
        Cost { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn scaled(self, factor: f64) -> Cost {
        let scale = |n: u64| (n as f64 * factor).ceil() as u64;
        Cost { min: scale(self.min), max: scale(self.max) }
    }

    fn or(self, other: Cost) -> Cost {
        Cost { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// The sizes of what a list or a map holds.
#[derive(Clone, Copy, Debug)]
struct Entries {
    map: bool,
    key: Cost,
    value: Cost,
}

impl Entries {
    fn or(self, other: Entries) -> Entries {
        Entries { map: self.map, key: self.key.or(other.key), value: self.value.or(other.value) }
    }
}

/// What is known of a variable of a macro.
#[derive(Clone, Debug, Default)]
struct Local {
    name: Str,
    path: Vec<Str>,
    size: Option<Cost>,
    entries: Option<Entries>,
}

/// What a checked expression may cost.
pub(crate) fn estimate(env: &Env, checked: &Checked) -> Cost {
    let mut estimator = Estimator {
        env,
        checked,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    estimator.cost(&checked.expr)
}

struct Estimator<'a> {
    env: &'a Env,
    checked: &'a Checked,
    /// Where in the variables' declarations a node's value stands.
    paths: HashMap<u32, Vec<Str>>,
    sizes: HashMap<u32, Cost>,
    entries: HashMap<u32, Entries>,
    locals: Vec<Local>,
}

impl Estimator<'_> {
    fn cost(&mut self, expr: &Expr) -> Cost {
        match &expr.kind {
            ExprKind::Literal(_) => Cost::fixed(0),
            ExprKind::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |l| l.path.clone());
                self.paths.insert(expr.id, path);
                Cost::fixed(1)
            }
            ExprKind::Select(select) => {
                let mut sum = self.cost(&select.operand);
                if select.test {
                    return sum;
                }
                if matches!(self.checked.type_of(&select.operand), Type::Map(_) | Type::Object(_) | Type::Var(_)) {
                    sum = sum.plus(Cost::fixed(1));
                }
                let path = self.below(&select.operand, &select.field);
                self.paths.insert(expr.id, path);
                sum
            }
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List(items) => {
                let mut sum = Cost::fixed(LIST);
                let mut value = if items.is_empty() { Cost::fixed(0) } else { Cost { min: u64::MAX, max: 0 } };
                for item in items {
                    sum = sum.plus(self.cost(&item.value));
                    value = value.or(self.size_or_unknown(&item.value));
                }
                self.entries.insert(expr.id, Entries { map: false, key: Cost::fixed(1), value });
                sum
            }
            ExprKind::Map(entries) => {
                let mut sum = Cost::fixed(MAP);
                let empty = if entries.is_empty() { Cost::fixed(0) } else { Cost { min: u64::MAX, max: 0 } };
                let (mut key, mut value) = (empty, empty);
                for entry in entries {
                    sum = sum.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    key = key.or(self.size_or_unknown(&entry.key));
                    value = value.or(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(expr.id, Entries { map: true, key, value });
                sum
            }
            ExprKind::Struct(made) => {
                made.fields.iter().fold(Cost::fixed(STRUCT), |sum, f| sum.plus(self.cost(&f.value)))
            }
            ExprKind::Fold(fold) if fold.is_bind() => self.bind(expr, fold),
            ExprKind::Fold(fold) => self.fold(expr, fold),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|l| l.name == name)
    }

    fn path(&self, expr: &Expr) -> Vec<Str> {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn below(&self, expr: &Expr, step: &str) -> Vec<Str> {
        let mut path = self.path(expr);
        path.push(step.into());
        path
    }

    /// What the declaration at a path says of the size.
    fn declared(&self, path: &[Str]) -> Option<Cost> {
        let (variable, below) = path.split_first()?;
        let decl = self.env.decl(variable)?.at(below)?;
        Some(Cost { min: 0, max: decl.max_elements })
    }

    fn size(&mut self, expr: &Expr) -> Option<Cost> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(expr) {
            return Some(Cost::fixed(size));
        }
        if let Some(size) = self.declared(&self.path(expr)) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.type_of(expr)) {
            return Some(Cost::fixed(1));
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Cost {
        self.size(expr).unwrap_or(Cost::UNKNOWN)
    }

    fn entries(&self, expr: &Expr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(entries) = self.entries(from) {
            self.entries.insert(to.id, entries);
        }
    }

    fn bind(&mut self, expr: &Expr, fold: &Fold) -> Cost {
        let mut sum = self.cost(&fold.range).plus(self.cost(&fold.init));
        self.push_accumulator(fold);
        sum = sum.plus(self.cost(&fold.result));
        self.locals.pop();
        self.copy_sizes(expr, &fold.result);
        sum
    }

    fn push_accumulator(&mut self, fold: &Fold) {
        let local = Local {
            name: fold.accu.clone(),
            path: self.path(&fold.init),
            size: self.size(&fold.init),
            entries: self.entries(&fold.init),
        };
        self.locals.push(local);
    }

    fn fold(&mut self, expr: &Expr, fold: &Fold) -> Cost {
        let mut sum = self.cost(&fold.range).plus(self.cost(&fold.init));
        self.push_accumulator(fold);
        let over = self.entries(&fold.range);
        let list = over.map_or(matches!(self.checked.type_of(&fold.range), Type::List(_)), |e| !e.map);
        let (key, value) = (over.map(|e| e.key), over.map(|e| e.value));
        let vars = match (&fold.var2, list) {
            (Some(second), true) => vec![(&fold.var, "@indices", key), (second, "@items", value)],
            (Some(second), false) => vec![(&fold.var, "@keys", key), (second, "@values", value)],
            (None, true) => vec![(&fold.var, "@items", value)],
            (None, false) => vec![(&fold.var, "@keys", key)],
        };
        let depth = self.locals.len();
        for (name, step, size) in vars {
            let path = self.below(&fold.range, step);
            self.locals.push(Local { name: name.clone(), path, size, entries: None });
        }
        let each = self.cost(&fold.condition).plus(self.cost(&fold.step));
        self.locals.truncate(depth);
        sum = sum.plus(self.cost(&fold.result));
        self.locals.pop();
        let count = self.size_or_unknown(&fold.range);
        match &fold.init.kind {
            ExprKind::Literal(_) => {
                if let Some(size) = self.size(&fold.init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            ExprKind::List(_) | ExprKind::Map(_) => {
                self.sizes.insert(expr.id, count);
                if let Some(entries) = self.entries(&fold.step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        sum.plus(count.times(each))
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> Cost {
        if call.function == "dyn" && call.args.len() == 1 {
            let cost = self.cost(&call.args[0]).plus(Cost::fixed(1));
            self.copy_sizes(expr, &call.args[0]);
            return cost;
        }
        let args: Vec<Cost> = call.args.iter().map(|a| self.cost(a)).collect();
        let target = call.target.as_ref().map(|t| self.cost(t)).unwrap_or_default();
        let ids: Vec<&str> = match call.function.as_str() {
            operator::AND => vec!["logical_and"],
            operator::OR => vec!["logical_or"],
            operator::CONDITIONAL => vec!["conditional"],
            operator::NOT_STRICTLY_FALSE => vec!["not_strictly_false"],
            operator::OPT_SELECT => vec!["select_optional_field"],
            _ => self.checked.overloads(expr).iter().map(|o| o.id).collect(),
        };
        let mut most = Cost { min: u64::MAX, max: 0 };
        let mut size: Option<Cost> = None;
        for id in &ids {
            let (cost, result) = self.overload(expr, call, id, &args);
            most = most.or(cost);
            if let Some(result) = result {
                size = Some(size.map_or(result, |s| s.or(result)));
            }
            if let ("index_list" | "index_map", Some(of)) = (*id, call.args.first()) {
                size = self.entries(of).map(|e| e.value);
                let path = self.below(of, if *id == "index_list" { "@items" } else { "@values" });
                self.paths.insert(expr.id, path);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if ids.is_empty() {
            return Cost::fixed(0);
        }
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        target.plus(most)
    }

    /// What one way to call a function costs with its arguments, and the size of its result where that is known.
    fn overload(&mut self, expr: &Expr, call: &Call, id: &str, args: &[Cost]) -> (Cost, Option<Cost>) {
        let sum = args.iter().fold(Cost::default(), |sum, a| sum.plus(*a));
        if let Some((cost, size)) = self.of_kubernetes(call, id) {
            return (cost.plus(sum), size);
        }
        let sizes: Vec<Cost> = call.args.iter().map(|a| self.size_or_unknown(a)).collect();
        let target = call.target.as_ref().map(|t| self.size_or_unknown(t));
        let (cost, size) = match (id, target, &sizes[..]) {
            ("string_format", Some(form), _) => (form.scaled(CHARACTER), None),
            ("string_to_bytes", _, [s]) => {
                (s.scaled(CHARACTER), Some(Cost { min: s.min, max: s.max.saturating_mul(4) }))
            }
            ("bytes_to_string", _, [s]) => (s.scaled(CHARACTER), Some(Cost { min: s.min / 4, max: s.max })),
            ("strings_quote", _, [s]) => {
                let size = Cost { min: s.min.saturating_add(2), max: s.max.saturating_mul(2).saturating_add(2) };
                (s.scaled(CHARACTER), Some(size))
            }
            ("starts_with_string" | "ends_with_string", _, [s]) => (s.scaled(CHARACTER), None),
            ("in_list", _, [_, list]) => (*list, None),
            ("matches_string", Some(text), [pattern]) => (matching(text, *pattern), None),
            ("contains_string", Some(text), [part]) => (text.scaled(CHARACTER).times(part.scaled(CHARACTER)), None),
            ("logical_and" | "logical_or", ..) => return (Cost { min: args[0].min, max: sum.max }, None),
            ("conditional", _, [_, yes, no]) => {
                if let (Some(a), Some(b)) = (self.entries(&call.args[1]), self.entries(&call.args[2])) {
                    self.entries.insert(expr.id, a.or(b));
                }
                return (args[0].plus(args[1].or(args[2])), Some(yes.or(*no)));
            }
            ("add_string" | "add_bytes" | "add_list", _, [left, right]) => {
                if let (Some(a), Some(b)) = (self.entries(&call.args[0]), self.entries(&call.args[1])) {
                    self.entries.insert(expr.id, a.or(b));
                }
                let size = left.plus(*right);
                (if id == "add_list" { Cost::fixed(1) } else { size.scaled(CHARACTER) }, Some(size))
            }
            (_, _, [left, right]) if compares_sizes(id) => {
                let max = left.max.min(right.max);
                (Cost { min: u64::from(max > 0), max }.scaled(CHARACTER), None)
            }
            _ => (Cost::fixed(1), None),
        };
        (cost.plus(sum), size)
    }

    /// The same for the functions that Kubernetes says the cost of.
    fn of_kubernetes(&mut self, call: &Call, id: &str) -> Option<(Cost, Option<Cost>)> {
        let sizes: Vec<Cost> = call.args.iter().map(|a| self.size_or_unknown(a)).collect();
        let target = call.target.as_ref().map(|t| self.size_or_unknown(t));
        let addresses = Cost { min: 4, max: 16 };
        Some(match (call.function.as_str(), target, &sizes[..]) {
            ("check", ..) => (Cost::fixed(CHECK), None),
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(size), _) => {
                let target = call.target.as_ref().expect("its size is known");
                (self.traversal(target, size), None)
            }
            ("url", _, [s]) => (s.scaled(CHARACTER), None),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(s), _) => (s.scaled(CHARACTER), Some(s)),
            ("replace", Some(s), [old, new, ..]) => (s.scaled(2.0 * CHARACTER), Some(replaced(s, *old, *new))),
            ("split", Some(s), _) => {
                let most = match call.args.get(1).map(|a| &a.kind) {
                    Some(ExprKind::Literal(Literal::Int(n))) => u64::try_from(*n).unwrap_or(s.max),
                    _ => s.max,
                };
                (s.scaled(2.0 * CHARACTER), Some(Cost { min: 0, max: most }))
            }
            ("join", Some(list), _) => {
                let size = self.joined(call, list, sizes.first().copied());
                (size.scaled(CHARACTER), Some(size))
            }
            ("find" | "findAll", Some(s), [pattern, ..]) => (matching(s, *pattern), Some(Cost { min: 0, max: s.max })),
            ("containsIP" | "containsCIDR", Some(_), [other, ..]) => {
                let mut cost = addresses.plus(addresses).scaled(CHARACTER);
                if call.function == "containsCIDR" {
                    cost = cost.plus(addresses.scaled(CHARACTER)).plus(Cost::fixed(1));
                }
                (if id.ends_with("_string") { cost.plus(other.scaled(CHARACTER)) } else { cost }, None)
            }
            ("validate", Some(_), [text]) => (text.scaled(CHARACTER).scaled(FORMAT_PATTERN * PATTERN_CHARACTER), None),
            (operator::EQUALS, _, [left, right]) => match self.checked.type_of(&call.args[0]) {
                Type::Opaque(name, _) if name == "kubernetes.NamedFormat" => {
                    (Cost { min: 1, max: FORMAT_NAME }.scaled(CHARACTER), None)
                }
                Type::Opaque(name, _) if name == "kubernetes.URL" => {
                    (Cost { min: 1, max: left.or(*right).max }.scaled(CHARACTER), None)
                }
                Type::Opaque(name, _) if name != crate::types::OPTIONAL => (Cost::fixed(1), None),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Going over a list once, and over the texts in it; or over a text.
    fn traversal(&mut self, target: &Expr, size: Cost) -> Cost {
        let Type::List(item) = self.checked.type_of(target) else { return size.scaled(CHARACTER) };
        let mut each = Cost::fixed(1);
        if matches!(**item, Type::String | Type::Bytes) {
            let path = self.below(target, "@items");
            let text = self.declared(&path).unwrap_or(Cost::UNKNOWN);
            each = each.plus(text.scaled(CHARACTER));
        }
        size.times(each)
    }

    fn joined(&mut self, call: &Call, list: Cost, separator: Option<Cost>) -> Cost {
        let target = call.target.as_ref().expect("its size is known");
        let mut size = Cost::default();
        if matches!(self.checked.type_of(target), Type::List(_)) {
            let path = self.below(target, "@items");
            size = list.times(self.declared(&path).unwrap_or(Cost::UNKNOWN));
        }
        match separator {
            Some(separator) => {
                let between = Cost { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
                size.plus(separator.times(between))
            }
            None => size,
        }
    }
}

fn matching(text: Cost, pattern: Cost) -> Cost {
    text.plus(Cost::fixed(1)).scaled(CHARACTER).times(pattern.scaled(PATTERN_CHARACTER))
}

/// The size of a text in which parts have been replaced.
fn replaced(size: Cost, old: Cost, new: Cost) -> Cost {
    let count = |whole: u64, part: u64| (whole as f64 / part as f64).ceil() as u64;
    let (times, kept) = if old.min == 0 {
        (size.max.saturating_add(1), size.max)
    } else if new.max <= old.min {
        (0, size.max)
    } else {
        (count(size.max, old.min), 0)
    };
    let max = times.saturating_mul(new.max).saturating_add(kept);
    let (times, kept) = if old.max == 0 {
        (size.min.saturating_add(1), size.min)
    } else if old.max <= new.min {
        (0, size.min)
    } else {
        (count(size.min, old.max), 0)
    };
    Cost { min: times.saturating_mul(new.min).saturating_add(kept), max }
}

/// Whether what a comparison costs depends on the sizes.
pub(crate) fn compares_sizes(id: &str) -> bool {
    matches!(id, "equals" | "not_equals")
        || ["less_", "greater_"].iter().any(|p| id.starts_with(p))
            && ["string", "bytes"].iter().any(|s| id.ends_with(s))
}

fn literal_size(expr: &Expr) -> Option<u64> {
    Some(match &expr.kind {
        ExprKind::Literal(Literal::String(s)) => s.chars().count() as u64,
        ExprKind::Literal(Literal::Bytes(b)) => b.len() as u64,
        ExprKind::Literal(_) => 1,
        ExprKind::List(items) => items.len() as u64,
        ExprKind::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}

fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        other => other.optional_of().is_some_and(is_scalar),
    }
}
