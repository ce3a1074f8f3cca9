//! Literals that cannot work, found before anything is evaluated: durations, timestamps, patterns, forms, and lists and maps of
//! several types.

use machinery::meta::GoDuration;
use machinery::schema::pattern::Regex;

use super::Checked;
use crate::library::format_string;
use crate::syntax::Issue;
use crate::syntax::ast::{Call, Expr, ExprKind, Literal};
use crate::types::Type;
use crate::value::time;

pub(super) fn check(checked: &Checked, issues: &mut Vec<Issue>) {
    Walk { checked, issues }.walk(&checked.expr, false);
}

struct Walk<'a> {
    checked: &'a Checked,
    issues: &'a mut Vec<Issue>,
}

impl Walk<'_> {
    /// `mixed`: what `format` is given may be of several types.
    fn walk(&mut self, expr: &Expr, mixed: bool) {
        match &expr.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select(select) => self.walk(&select.operand, mixed),
            ExprKind::Call(call) => {
                let mixed = mixed || call.function == "format";
                call.target.iter().chain(&call.args).for_each(|e| self.walk(e, mixed));
                self.issues.extend(fault(self.checked, expr, call));
            }
            ExprKind::List(items) => {
                if !mixed {
                    self.same(items.iter().map(|i| (&i.value, i.optional)));
                }
                items.iter().for_each(|i| self.walk(&i.value, mixed));
            }
            ExprKind::Map(entries) => {
                if !mixed {
                    self.same(entries.iter().map(|e| (&e.key, false)));
                    self.same(entries.iter().map(|e| (&e.value, e.optional)));
                }
                for entry in entries {
                    self.walk(&entry.key, mixed);
                    self.walk(&entry.value, mixed);
                }
            }
            ExprKind::Struct(made) => made.fields.iter().for_each(|f| self.walk(&f.value, mixed)),
            ExprKind::Fold(fold) => {
                for part in [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result] {
                    self.walk(part, mixed);
                }
            }
        }
    }

    /// The first that is of another type than the first one is told.
    fn same<'e>(&mut self, mut items: impl Iterator<Item = (&'e Expr, bool)>) {
        let type_of = |(expr, optional): (&Expr, bool)| {
            let of = self.checked.type_of(expr);
            if optional { of.optional_of().unwrap_or(of).clone() } else { of.clone() }
        };
        let Some(first) = items.next() else { return };
        let wanted = type_of(first);
        if let Some(odd) = items.find(|i| type_of(*i) != wanted) {
            let message = format!("expected type '{wanted}' but found '{}'", type_of(odd));
            self.issues.push(Issue::new(odd.0.at, message));
        }
    }
}

fn text(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Literal(Literal::String(text)) => Some(text),
        _ => None,
    }
}

fn fault(checked: &Checked, expr: &Expr, call: &Call) -> Option<Issue> {
    let arg = |i: usize| call.args.get(i).and_then(|a| Some((a, text(a)?)));
    let invalid = |at: &Expr, what: &str| Some(Issue::new(at.at, format!("invalid {what} argument")));
    match call.function.as_str() {
        "duration" => arg(0).filter(|(_, s)| GoDuration::parse(s).is_err()).and_then(|(a, _)| invalid(a, "duration")),
        "timestamp" => arg(0).filter(|(_, s)| time::parse(s).is_none()).and_then(|(a, _)| invalid(a, "timestamp")),
        "matches" => {
            let pattern = arg(usize::from(call.target.is_none()));
            pattern.filter(|(_, s)| Regex::check(s).is_err()).and_then(|(a, _)| invalid(a, "matches"))
        }
        "format" => {
            let form = text(call.target.as_ref()?)?;
            let list = call.args.first()?;
            let ExprKind::List(items) = &list.kind else { return None };
            let types: Vec<Type> = items.iter().map(|i| checked.type_of(&i.value).clone()).collect();
            format_string::check(form, &types).err().map(|(item, e)| {
                let at = item.and_then(|i| items.get(i)).map_or(expr.at, |i| i.value.at);
                Issue::new(at, e.to_string())
            })
        }
        _ => None,
    }
}
