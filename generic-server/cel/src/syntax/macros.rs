//! Macros: calls that are rewritten while they are read. Their nodes stand where the call stands.

use machinery::Str;

use super::ast::{Expr, ExprKind, Fold, Item, Literal, MapEntry, Select, operator};
use super::parse::Parser;
use super::source::Offset;

/// The accumulator's name; no expression can write it.
const ACCU: &str = "@result";
/// Stands for the range of a fold that only binds a name.
const UNUSED: &str = "#unused";
const OPTIONAL: &str = "@__optMap_input__";
const SORTED: &str = "@__sortBy_input__";

/// What makes the accumulator's next value, given the place and the accumulator.
type Step<'a> = &'a dyn Fn(&mut Parser, Expr) -> Expr;

impl Parser {
    /// `function(args)`
    pub(super) fn expand_function(&mut self, at: Offset, function: Str, args: Vec<Expr>) -> Expr {
        if function != "has" || args.len() != 1 {
            return self.call(at, function, args);
        }
        let arg = args.into_iter().next().expect("it has one");
        match arg.kind {
            ExprKind::Select(select) => {
                let Select { operand, field, .. } = *select;
                self.node(at, ExprKind::Select(Box::new(Select { operand, field, test: true })))
            }
            _ => {
                self.complain(arg.at, "invalid argument to has() macro");
                arg
            }
        }
    }

    /// `target.function(args)`
    pub(super) fn expand_method(&mut self, at: Offset, function: Str, target: Expr, args: Vec<Expr>) -> Expr {
        let vars = match (function.as_str(), args.len()) {
            (
                "all" | "exists" | "exists_one" | "existsOne" | "filter" | "map" | "optMap" | "optFlatMap" | "sortBy",
                2,
            ) => 1,
            ("map", 3) => 1,
            (
                "all" | "exists" | "exists_one" | "existsOne" | "transformList" | "transformMap" | "transformMapEntry",
                3,
            ) => 2,
            ("transformList" | "transformMap" | "transformMapEntry", 4) => 2,
            _ => return self.method(at, function, target, args),
        };
        let mut names = Vec::new();
        for arg in &args[..vars] {
            match &arg.kind {
                ExprKind::Ident(name) if !name.starts_with('.') => names.push(name.clone()),
                _ => {
                    self.complain(arg.at, "argument must be a simple name");
                    return target;
                }
            }
        }
        if vars == 2 && names[0] == names[1] {
            self.complain(args[1].at, format!("duplicate variable name: {}", names[0]));
            return target;
        }
        let mut names = names.into_iter();
        let var = names.next().expect("there is one");
        let rest: Vec<Expr> = args.into_iter().skip(vars).collect();
        self.expand(at, &function, Loop { range: target, var, var2: names.next() }, rest)
    }

    fn expand(&mut self, at: Offset, function: &str, over: Loop, mut args: Vec<Expr>) -> Expr {
        let last = args.pop().expect("a macro has arguments");
        let filter = args.pop();
        match function {
            "all" => self.all(at, over, last),
            "exists" => self.exists(at, over, last),
            "exists_one" | "existsOne" => self.exists_one(at, over, last),
            "filter" => {
                let item = self.ident(at, &over.var);
                self.collect(at, over, Some(last), item)
            }
            "map" | "transformList" => self.collect(at, over, filter, last),
            "transformMap" => {
                let key = self.ident(at, &over.var);
                self.gather(at, over, filter, vec![key, last])
            }
            "transformMapEntry" => self.gather(at, over, filter, vec![last]),
            "optMap" => self.opt_map(at, over, last, true),
            "optFlatMap" => self.opt_map(at, over, last, false),
            _ => self.sort_by(at, over, last),
        }
    }

    fn fold(&mut self, at: Offset, over: Loop, init: Expr, condition: Expr, step: Expr, result: Expr) -> Expr {
        let Loop { range, var, var2 } = over;
        let fold = Fold { range, var, var2, accu: Str::new_static(ACCU), init, condition, step, result };
        self.node(at, ExprKind::Fold(Box::new(fold)))
    }

    fn accu(&mut self, at: Offset) -> Expr {
        self.ident(at, ACCU)
    }

    fn all(&mut self, at: Offset, over: Loop, predicate: Expr) -> Expr {
        let init = self.literal(at, Literal::Bool(true));
        let accu = self.accu(at);
        let condition = self.call(at, operator::NOT_STRICTLY_FALSE, vec![accu]);
        let accu = self.accu(at);
        let step = self.call(at, operator::AND, vec![accu, predicate]);
        let result = self.accu(at);
        self.fold(at, over, init, condition, step, result)
    }

    fn exists(&mut self, at: Offset, over: Loop, predicate: Expr) -> Expr {
        let init = self.literal(at, Literal::Bool(false));
        let accu = self.accu(at);
        let not = self.call(at, operator::NOT, vec![accu]);
        let condition = self.call(at, operator::NOT_STRICTLY_FALSE, vec![not]);
        let accu = self.accu(at);
        let step = self.call(at, operator::OR, vec![accu, predicate]);
        let result = self.accu(at);
        self.fold(at, over, init, condition, step, result)
    }

    fn exists_one(&mut self, at: Offset, over: Loop, predicate: Expr) -> Expr {
        let init = self.literal(at, Literal::Int(0));
        let condition = self.literal(at, Literal::Bool(true));
        let step = self.step(at, Some(predicate), &|p, accu| {
            let one = p.literal(at, Literal::Int(1));
            p.call(at, operator::ADD, vec![accu, one])
        });
        let accu = self.accu(at);
        let one = self.literal(at, Literal::Int(1));
        let result = self.call(at, operator::EQUALS, vec![accu, one]);
        self.fold(at, over, init, condition, step, result)
    }

    /// The next accumulator, or the same one where the filter says no.
    fn step(&mut self, at: Offset, filter: Option<Expr>, next: Step<'_>) -> Expr {
        let accu = self.accu(at);
        let step = next(self, accu);
        match filter {
            None => step,
            Some(filter) => {
                let same = self.accu(at);
                self.call(at, operator::CONDITIONAL, vec![filter, step, same])
            }
        }
    }

    /// A list of what the items become.
    fn collect(&mut self, at: Offset, over: Loop, filter: Option<Expr>, item: Expr) -> Expr {
        let init = self.node(at, ExprKind::List(Vec::new()));
        let condition = self.literal(at, Literal::Bool(true));
        let list = self.node(at, ExprKind::List(vec![Item { value: item, optional: false }]));
        let step = self.step(at, filter, &|p, accu| p.call(at, operator::ADD, vec![accu, list.clone()]));
        let result = self.accu(at);
        self.fold(at, over, init, condition, step, result)
    }

    /// A map of what the items become: a key and a value, or a map of one entry.
    fn gather(&mut self, at: Offset, over: Loop, filter: Option<Expr>, entry: Vec<Expr>) -> Expr {
        let init = self.node(at, ExprKind::Map(Vec::<MapEntry>::new()));
        let condition = self.literal(at, Literal::Bool(true));
        let step = self.step(at, filter, &|p, accu| {
            let args = std::iter::once(accu).chain(entry.iter().cloned()).collect();
            p.call(at, "cel.@mapInsert", args)
        });
        let result = self.accu(at);
        self.fold(at, over, init, condition, step, result)
    }

    /// Gives a name to a value within an expression.
    fn bind(&mut self, at: Offset, name: Str, value: Expr, within: Expr) -> Expr {
        let range = self.node(at, ExprKind::List(Vec::new()));
        let condition = self.literal(at, Literal::Bool(false));
        let step = self.ident(at, &name);
        let fold = Fold {
            range,
            var: Str::new_static(UNUSED),
            var2: None,
            accu: name,
            init: value,
            condition,
            step,
            result: within,
        };
        self.node(at, ExprKind::Fold(Box::new(fold)))
    }

    /// Differs: upstream writes the optional twice, which doubles the work with each level of nesting; here it gets a name.
    fn opt_map(&mut self, at: Offset, over: Loop, mapped: Expr, wrap: bool) -> Expr {
        let optional = self.ident(at, OPTIONAL);
        let has = self.method(at, "hasValue", optional, Vec::new());
        let optional = self.ident(at, OPTIONAL);
        let value = self.method(at, "value", optional, Vec::new());
        let bound = self.bind(at, over.var, value, mapped);
        let some = if wrap { self.call(at, "optional.of", vec![bound]) } else { bound };
        let none = self.call(at, "optional.none", Vec::new());
        let mapped = self.call(at, operator::CONDITIONAL, vec![has, some, none]);
        self.bind(at, Str::new_static(OPTIONAL), over.range, mapped)
    }

    fn sort_by(&mut self, at: Offset, over: Loop, key: Expr) -> Expr {
        if !matches!(
            over.range.kind,
            ExprKind::Select(_) | ExprKind::Ident(_) | ExprKind::List(_) | ExprKind::Fold(_) | ExprKind::Call(_)
        ) {
            self.complain(
                over.range.at,
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            );
            return over.range;
        }
        let input = self.ident(at, SORTED);
        let keys = self.collect(at, Loop { range: input, var: over.var, var2: None }, None, key);
        let input = self.ident(at, SORTED);
        let sorted = self.method(at, "@sortByAssociatedKeys", input, vec![keys]);
        self.bind(at, Str::new_static(SORTED), over.range, sorted)
    }
}

/// What is gone over, and the names of what is found there.
struct Loop {
    range: Expr,
    var: Str,
    var2: Option<Str>,
}
