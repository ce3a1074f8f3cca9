//! What evaluation follows: the tree with its names resolved.

use std::sync::Arc;

use machinery::Str;
use machinery::schema::pattern::Regex;

use crate::check::{Checked, Reference};
use crate::library::Overload;
use crate::syntax::ast::{Call, Expr, ExprKind, Fold, Literal, operator};
use crate::value::Value;

/// A step of an evaluation.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    Constant(Value),
    Variable(usize),
    Local(usize),
    Select(Box<Plan>, Str),
    Has(Box<Plan>, Str),
    OptSelect(Box<Plan>, Str),
    /// `&&` (`decides`: false) and `||` (true).
    Logical {
        decides: bool,
        sides: Box<[Plan; 2]>,
    },
    Conditional(Box<[Plan; 3]>),
    NotStrictlyFalse(Box<Plan>),
    /// `optional.or(other)`, and `optional.orValue(other)` (`unwraps`): the other one only counts if the first is none.
    Otherwise {
        unwraps: bool,
        sides: Box<[Plan; 2]>,
    },
    Call(Box<Calling>),
    Matching(Box<Matching>),
    List(Vec<(Plan, bool)>),
    Map(Vec<(Plan, Plan, bool)>),
    Struct(Str, Vec<(Str, Plan, bool)>),
    /// `accu + [item]`
    Append {
        accu: usize,
        item: Box<Plan>,
    },
    /// `cel.@mapInsert(accu, entry)`
    Insert {
        accu: usize,
        entry: Vec<Plan>,
    },
    Fold(Box<Folding>),
    /// A value with a name, and what is done with it.
    Bind(Box<[Plan; 2]>),
}

#[derive(Clone, Debug)]
pub(crate) struct Calling {
    pub(super) function: Str,
    pub(super) overloads: Vec<&'static Overload>,
    pub(super) args: Vec<Plan>,
}

/// `matches`, `find` and `findAll` with a pattern that is known.
#[derive(Clone, Debug)]
pub(crate) struct Matching {
    pub(super) function: Str,
    pub(super) regex: Regex,
    pub(super) args: Vec<Plan>,
}

#[derive(Clone, Debug)]
pub(crate) struct Folding {
    pub(super) range: Plan,
    /// Index or key, and value, have a name each.
    pub(super) two: bool,
    pub(super) init: Plan,
    pub(super) condition: Plan,
    pub(super) step: Plan,
    pub(super) result: Plan,
}

impl Plan {
    /// The plan of a checked expression. `Err`: a pattern in it does not compile.
    pub(crate) fn of(checked: &Checked) -> Result<Plan, String> {
        Planner { checked, locals: Vec::new() }.plan(&checked.expr)
    }
}

struct Planner<'a> {
    checked: &'a Checked,
    /// The names of the macros' variables that can be seen, the innermost last.
    locals: Vec<Str>,
}

impl Planner<'_> {
    fn plan(&mut self, expr: &Expr) -> Result<Plan, String> {
        Ok(match &expr.kind {
            ExprKind::Literal(literal) => Plan::Constant(constant(literal)),
            ExprKind::Ident(name) => match &self.checked.refs[expr.id as usize] {
                Reference::Variable(place) => Plan::Variable(*place),
                Reference::Type(of) => Plan::Constant(Value::Type(of.clone())),
                _ => Plan::Local(self.local(name)),
            },
            ExprKind::Select(select) => {
                let of = Box::new(self.plan(&select.operand)?);
                if select.test { Plan::Has(of, select.field.clone()) } else { Plan::Select(of, select.field.clone()) }
            }
            ExprKind::Call(call) => self.call(expr, call)?,
            ExprKind::List(items) => {
                Plan::List(items.iter().map(|i| Ok((self.plan(&i.value)?, i.optional))).collect::<Result<_, String>>()?)
            }
            ExprKind::Map(entries) => {
                let entry =
                    |e: &crate::syntax::ast::MapEntry| Ok((self.plan(&e.key)?, self.plan(&e.value)?, e.optional));
                Plan::Map(entries.iter().map(entry).collect::<Result<_, String>>()?)
            }
            ExprKind::Struct(made) => {
                let field = |f: &crate::syntax::ast::Member| Ok((f.name.clone(), self.plan(&f.value)?, f.optional));
                Plan::Struct(made.name.clone(), made.fields.iter().map(field).collect::<Result<_, String>>()?)
            }
            ExprKind::Fold(fold) => self.fold(fold)?,
        })
    }

    fn local(&self, name: &str) -> usize {
        self.locals.iter().rposition(|n| n == name).expect("the checker has found every name")
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> Result<Plan, String> {
        if let Some(plan) = self.accumulate(call)? {
            return Ok(plan);
        }
        let args = call.target.iter().chain(&call.args).map(|a| self.plan(a)).collect::<Result<Vec<_>, _>>()?;
        let regex = match (call.function.as_str(), call.target.is_some()) {
            ("matches" | "find" | "findAll", true) => call.args.first(),
            ("matches", false) => call.args.get(1),
            _ => None,
        };
        if let Some(Expr { kind: ExprKind::Literal(Literal::String(pattern)), .. }) = regex {
            let regex = Regex::new(pattern).map_err(|e| e.to_string())?;
            return Ok(Plan::Matching(Box::new(Matching { function: call.function.clone(), regex, args })));
        }
        let mut parts = args.into_iter();
        let mut next = || Box::new(parts.next().expect("operators have their operands"));
        Ok(match call.function.as_str() {
            operator::AND => Plan::Logical { decides: false, sides: Box::new([*next(), *next()]) },
            operator::OR => Plan::Logical { decides: true, sides: Box::new([*next(), *next()]) },
            operator::CONDITIONAL => Plan::Conditional(Box::new([*next(), *next(), *next()])),
            operator::NOT_STRICTLY_FALSE => Plan::NotStrictlyFalse(next()),
            name @ ("or" | "orValue") if call.target.is_some() && call.args.len() == 1 => {
                Plan::Otherwise { unwraps: name == "orValue", sides: Box::new([*next(), *next()]) }
            }
            operator::OPT_SELECT => match &call.args[1].kind {
                ExprKind::Literal(Literal::String(field)) => Plan::OptSelect(next(), field.clone()),
                _ => unreachable!("the parser makes a literal"),
            },
            _ => {
                let overloads = self.checked.overloads(expr).to_vec();
                Plan::Call(Box::new(Calling { function: call.function.clone(), overloads, args: parts.collect() }))
            }
        })
    }

    /// The steps of macros that make lists and maps.
    fn accumulate(&mut self, call: &Call) -> Result<Option<Plan>, String> {
        let accu = match call.args.first().map(|a| &a.kind) {
            Some(ExprKind::Ident(name)) if name.starts_with('@') => self.local(name),
            _ => return Ok(None),
        };
        Ok(match (call.function.as_str(), &call.args[1..]) {
            (operator::ADD, [Expr { kind: ExprKind::List(items), .. }]) if items.len() == 1 && !items[0].optional => {
                Some(Plan::Append { accu, item: Box::new(self.plan(&items[0].value)?) })
            }
            ("cel.@mapInsert", entry) => {
                Some(Plan::Insert { accu, entry: entry.iter().map(|e| self.plan(e)).collect::<Result<_, _>>()? })
            }
            _ => None,
        })
    }

    fn fold(&mut self, fold: &Fold) -> Result<Plan, String> {
        let depth = self.locals.len();
        if fold.is_bind() {
            let value = self.plan(&fold.init)?;
            self.locals.push(fold.accu.clone());
            let within = self.plan(&fold.result)?;
            self.locals.truncate(depth);
            return Ok(Plan::Bind(Box::new([value, within])));
        }
        let range = self.plan(&fold.range)?;
        let init = self.plan(&fold.init)?;
        self.locals.push(fold.accu.clone());
        self.locals.push(fold.var.clone());
        self.locals.extend(fold.var2.clone());
        let condition = self.plan(&fold.condition)?;
        let step = self.plan(&fold.step)?;
        self.locals.truncate(depth + 1);
        let result = self.plan(&fold.result)?;
        self.locals.truncate(depth);
        Ok(Plan::Fold(Box::new(Folding { range, two: fold.var2.is_some(), init, condition, step, result })))
    }
}

fn constant(literal: &Literal) -> Value {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(b) => Value::Bool(*b),
        Literal::Int(i) => Value::Int(*i),
        Literal::Uint(u) => Value::Uint(*u),
        Literal::Double(d) => Value::Double(*d),
        Literal::String(s) => Value::String(s.clone()),
        Literal::Bytes(b) => Value::Bytes(Arc::from(b.as_slice())),
    }
}
