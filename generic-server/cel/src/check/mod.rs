//! Finds out the type of every node, and which overloads calls may mean.

mod literals;
mod unify;

use machinery::Str;

use crate::env::Env;
use crate::library::Overload;
use crate::syntax::ast::{Call, Expr, ExprKind, Fold, Item, Literal, MapEntry, Select, Struct, operator};
use crate::syntax::{Issue, Issues, Offset, Parsed};
use crate::types::Type;
use unify::{Known, general};

/// A tree whose names and types are known.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) expr: Expr,
    /// By the node's number.
    pub(crate) types: Vec<Type>,
    /// What a name or a call means, by the node's number.
    pub(crate) refs: Vec<Reference>,
}

/// What a name or a call means.
#[derive(Clone, Debug, Default)]
pub(crate) enum Reference {
    /// Neither a name nor a call.
    #[default]
    None,
    /// A variable of the environment, by its place.
    Variable(usize),
    /// A variable of a macro.
    Local,
    /// A type.
    Type(Type),
    /// A function; which of these is decided by the values.
    Overloads(Vec<&'static Overload>),
}

impl Checked {
    pub(crate) fn type_of(&self, expr: &Expr) -> &Type {
        &self.types[expr.id as usize]
    }

    pub(crate) fn overloads(&self, expr: &Expr) -> &[&'static Overload] {
        match &self.refs[expr.id as usize] {
            Reference::Overloads(overloads) => overloads,
            _ => &[],
        }
    }
}

/// Checks an expression. `text` is what issues are shown with.
pub(crate) fn check(env: &Env, parsed: Parsed, text: &str) -> Result<Checked, Issues> {
    let Parsed { mut expr, nodes } = parsed;
    let count = nodes as usize;
    let mut checker = Checker {
        env,
        types: vec![Type::Dyn; count],
        refs: vec![Reference::None; count],
        known: Known::default(),
        locals: Vec::new(),
        issues: Vec::new(),
    };
    checker.check(&mut expr);
    let Checker { mut types, refs, known, mut issues, .. } = checker;
    if issues.is_empty() {
        for of in &mut types {
            *of = known.substitute(of, true);
        }
        let checked = Checked { expr, types, refs };
        literals::check(&checked, &mut issues);
        if issues.is_empty() {
            return Ok(checked);
        }
    }
    Err(Issues::new(text, issues))
}

struct Checker<'e> {
    env: &'e Env,
    types: Vec<Type>,
    refs: Vec<Reference>,
    known: Known,
    locals: Vec<(Str, Type)>,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn complain(&mut self, at: Offset, message: impl Into<String>) {
        self.issues.push(Issue::new(at, message));
    }

    fn undeclared(&mut self, at: Offset, name: &str) -> Type {
        self.complain(at, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn check(&mut self, expr: &mut Expr) -> Type {
        let found = match &mut expr.kind {
            ExprKind::Literal(literal) => literal_type(literal),
            ExprKind::Ident(name) => {
                let name = name.clone();
                match self.lookup(&name) {
                    Some((of, reference)) => {
                        self.refs[expr.id as usize] = reference;
                        of
                    }
                    None => self.undeclared(expr.at, &name),
                }
            }
            ExprKind::Select(_) => self.select(expr),
            ExprKind::Call(_) => self.call(expr),
            ExprKind::List(items) => self.list(items),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Struct(made) => self.structure(expr.at, made),
            ExprKind::Fold(fold) => self.fold(fold),
        };
        self.types[expr.id as usize] = found.clone();
        found
    }

    fn lookup(&self, name: &str) -> Option<(Type, Reference)> {
        if let Some((_, of)) = self.locals.iter().rev().find(|(n, _)| n == name) {
            return Some((of.clone(), Reference::Local));
        }
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((place, of)) = self.env.variable(name) {
            return Some((of.clone(), Reference::Variable(place)));
        }
        let of = named_type(name)?;
        Some((Type::Type(std::sync::Arc::new(of.clone())), Reference::Type(of)))
    }

    /// The name that a chain of fields would be if it were one.
    fn qualified(expr: &Expr) -> Option<String> {
        match &expr.kind {
            ExprKind::Ident(name) => Some(name.to_string()),
            ExprKind::Select(select) if !select.test => {
                Some(format!("{}.{}", Self::qualified(&select.operand)?, select.field))
            }
            _ => None,
        }
    }

    /// Whether the first name of a chain is a variable of a macro.
    fn begins_locally(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Ident(name) => self.locals.iter().any(|(n, _)| n == name),
            ExprKind::Select(select) => self.begins_locally(&select.operand),
            _ => false,
        }
    }

    fn select(&mut self, expr: &mut Expr) -> Type {
        if let Some(name) = Self::qualified(expr)
            && !self.begins_locally(expr)
            && let Some((of, reference)) = self.lookup(&name)
        {
            self.refs[expr.id as usize] = reference;
            expr.kind = ExprKind::Ident(name.into());
            return of;
        }
        let at = expr.at;
        let ExprKind::Select(select) = &mut expr.kind else { unreachable!("the caller has looked") };
        let Select { operand, field, test } = &mut **select;
        let of = self.check(operand);
        let of = self.known.substitute(&of, false);
        let (inner, optional) = match of.optional_of() {
            Some(inner) => (inner.clone(), true),
            None => (of, false),
        };
        let found = self.field(at, &inner, field);
        match (*test, optional) {
            (true, _) => Type::Bool,
            (_, true) => Type::optional(found),
            _ => found,
        }
    }

    fn field(&mut self, at: Offset, of: &Type, field: &str) -> Type {
        match of {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(decl) => match decl.field(field) {
                Some(field) => field.decl.to_type(),
                None => {
                    self.complain(at, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Opaque(name, _) if self.env.structs().is_some_and(|s| s.exists(name)) => {
                self.struct_field(at, name, field)
            }
            Type::Var(_) => {
                self.known.assignable(&Type::Dyn, of);
                Type::Dyn
            }
            Type::Dyn => Type::Dyn,
            Type::Error => Type::Error,
            other => {
                self.complain(at, format!("type '{other}' does not support field selection"));
                Type::Error
            }
        }
    }

    fn struct_field(&mut self, at: Offset, name: &str, field: &str) -> Type {
        match self.env.structs().and_then(|s| s.field(name, field)) {
            Some(of) => of,
            None => {
                self.complain(at, format!("undefined field '{field}'"));
                Type::Error
            }
        }
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let (id, at) = (expr.id, expr.at);
        let ExprKind::Call(call) = &mut expr.kind else { unreachable!("the caller has looked") };
        if let Some(target) = &call.target
            && !self.begins_locally(target)
            && let Some(qualifier) = Self::qualified(target)
        {
            let name = format!("{}.{}", qualifier.trim_start_matches('.'), call.function);
            if self.env.function(&name).is_some() {
                call.function = name.into();
                call.target = None;
            }
        }
        match call.function.as_str() {
            operator::AND | operator::OR => return self.logical(call),
            operator::OPT_SELECT => return self.opt_select(at, call),
            operator::NOT_STRICTLY_FALSE => {
                let of = self.check(&mut call.args[0]);
                return self.wants(&call.args[0], &of, Type::Bool);
            }
            _ => {}
        }
        let target = call.target.as_mut().map(|t| self.check(t));
        let member = target.is_some();
        let mut args: Vec<Type> = target.into_iter().collect();
        args.extend(call.args.iter_mut().map(|a| self.check(a)));
        if call.function == operator::CONDITIONAL {
            return self.conditional(at, &args);
        }
        let name = call.function.strip_prefix('.').unwrap_or(&call.function);
        let Some(function) = self.env.function(name) else {
            let name = name.to_owned();
            return self.undeclared(at, &name);
        };
        let name = name.to_owned();
        self.overload(id, at, &name, &function.overloads, member, &args)
    }

    /// Whether a node has the type that is wanted of it.
    fn wants(&mut self, expr: &Expr, of: &Type, wanted: Type) -> Type {
        if !self.known.assignable(&wanted, of) {
            let of = self.known.substitute(of, false);
            self.complain(expr.at, format!("expected type '{wanted}' but found '{of}'"));
        }
        wanted
    }

    fn logical(&mut self, call: &mut Call) -> Type {
        for arg in &mut call.args {
            let of = self.check(arg);
            self.wants(arg, &of, Type::Bool);
        }
        Type::Bool
    }

    fn conditional(&mut self, at: Offset, args: &[Type]) -> Type {
        let either = self.known.fresh();
        let wanted = [&Type::Bool, &either, &either];
        if self.known.all_assignable(wanted.into_iter().zip(args)) {
            return self.known.substitute(&either, false);
        }
        self.no_overload(at, operator::CONDITIONAL, false, args)
    }

    fn opt_select(&mut self, at: Offset, call: &mut Call) -> Type {
        let [operand, name] = &mut call.args[..] else { unreachable!("the parser makes two arguments") };
        let of = self.check(operand);
        self.check(name);
        let ExprKind::Literal(Literal::String(field)) = &name.kind else { unreachable!("the parser makes a literal") };
        let of = self.known.substitute(&of, false);
        let inner = of.optional_of().cloned().unwrap_or(of);
        let found = self.field(at, &inner, field);
        match found.optional_of() {
            Some(_) => found,
            None => Type::optional(found),
        }
    }

    fn overload(
        &mut self,
        id: u32,
        at: Offset,
        name: &str,
        all: &'static [Overload],
        member: bool,
        args: &[Type],
    ) -> Type {
        let mut fitting = Vec::new();
        let mut result: Option<Type> = None;
        for overload in all.iter().filter(|o| o.member == member && o.args.len() == args.len()) {
            let mut params: Vec<(&'static str, Type)> = Vec::new();
            let wanted: Vec<Type> = overload.args.iter().map(|a| self.instance(a, &mut params)).collect();
            if !self.known.all_assignable(wanted.iter().zip(args)) {
                continue;
            }
            fitting.push(overload);
            let of = self.instance(&overload.result, &mut params);
            let of = self.known.substitute(&of, false);
            result = Some(match result {
                None => of,
                Some(before) if before == of || before.is_dyn() => before,
                Some(_) => Type::Dyn,
            });
        }
        match result {
            Some(result) => {
                self.refs[id as usize] = Reference::Overloads(fitting);
                result
            }
            None => self.no_overload(at, name, member, args),
        }
    }

    /// A declared type with types that are not known yet in place of its parameters.
    fn instance(&mut self, of: &Type, params: &mut Vec<(&'static str, Type)>) -> Type {
        match of {
            Type::Param(name) => match params.iter().find(|(n, _)| n == name) {
                Some((_, known)) => known.clone(),
                None => {
                    let fresh = self.known.fresh();
                    params.push((name, fresh.clone()));
                    fresh
                }
            },
            other => other.with(&mut |t| self.instance(t, params)),
        }
    }

    fn no_overload(&mut self, at: Offset, name: &str, member: bool, args: &[Type]) -> Type {
        if args.iter().any(|a| matches!(a, Type::Error)) {
            return Type::Error;
        }
        let texts: Vec<String> = args.iter().map(|a| self.known.substitute(a, false).to_string()).collect();
        let applied = match (member, texts.split_first()) {
            (true, Some((target, rest))) => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", texts.join(", ")),
        };
        self.complain(at, format!("found no matching overload for '{name}' applied to '{applied}'"));
        Type::Error
    }

    /// The type of two items that stand in one list or map; `dyn` if they have none in common.
    fn join(&mut self, before: Option<Type>, of: Type) -> Option<Type> {
        let Some(before) = before else { return Some(of) };
        if self.known.assignable(&before, &of) {
            return Some(if general(&before, &of) { before } else { of });
        }
        Some(Type::Dyn)
    }

    fn item(&mut self, value: &mut Expr, optional: bool) -> Type {
        let of = self.check(value);
        if !optional {
            return of;
        }
        let of = self.known.substitute(&of, false);
        match of.optional_of() {
            Some(inner) => inner.clone(),
            None if of.is_dyn() => of,
            None => {
                self.complain(value.at, format!("expected type 'optional_type({of})' but found '{of}'"));
                Type::Error
            }
        }
    }

    fn list(&mut self, items: &mut [Item]) -> Type {
        let mut of = None;
        for Item { value, optional } in items {
            let item = self.item(value, *optional);
            of = self.join(of, item);
        }
        Type::list(of.unwrap_or_else(|| self.known.fresh()))
    }

    fn map(&mut self, entries: &mut [MapEntry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for MapEntry { key, value, optional } in entries {
            let of = self.check(key);
            keys = self.join(keys, of);
            let of = self.item(value, *optional);
            values = self.join(values, of);
        }
        let keys = keys.unwrap_or_else(|| self.known.fresh());
        Type::map(keys, values.unwrap_or_else(|| self.known.fresh()))
    }

    fn structure(&mut self, at: Offset, made: &mut Struct) -> Type {
        let name = made.name.strip_prefix('.').unwrap_or(&made.name).to_owned();
        let known = self.env.structs().is_some_and(|s| s.exists(&name));
        for member in &mut made.fields {
            let of = self.item(&mut member.value, member.optional);
            if !known {
                continue;
            }
            let wanted = self.struct_field(member.at, &name, &member.name);
            if !self.known.assignable(&wanted, &of) {
                let of = self.known.substitute(&of, false);
                let message =
                    format!("expected type of field '{}' is '{wanted}' but provided type is '{of}'", member.name);
                self.complain(member.at, message);
            }
        }
        if !known {
            return self.undeclared(at, &name);
        }
        Type::Opaque(name.into(), std::sync::Arc::from([]))
    }

    fn fold(&mut self, fold: &mut Fold) -> Type {
        let over = self.check(&mut fold.range);
        let accu = self.check(&mut fold.init);
        let (key, value) = self.parts(&fold.range, &over);
        let depth = self.locals.len();
        self.locals.push((fold.accu.clone(), accu.clone()));
        match &fold.var2 {
            Some(second) => {
                self.locals.push((fold.var.clone(), key));
                self.locals.push((second.clone(), value));
            }
            None => {
                let lists = matches!(self.known.substitute(&over, false), Type::List(_));
                self.locals.push((fold.var.clone(), if lists { value } else { key }));
            }
        }
        let of = self.check(&mut fold.condition);
        self.wants(&fold.condition, &of, Type::Bool);
        let of = self.check(&mut fold.step);
        self.wants(&fold.step, &of, accu);
        self.locals.truncate(depth + 1);
        let result = self.check(&mut fold.result);
        self.locals.truncate(depth);
        self.known.substitute(&result, false)
    }

    /// The types of what is found going over a range: of the place (index or key), and of the value.
    fn parts(&mut self, range: &Expr, of: &Type) -> (Type, Type) {
        let of = self.known.substitute(of, false);
        match &of {
            Type::List(item) => (Type::Int, item.as_ref().clone()),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Error => (Type::Dyn, Type::Dyn),
            Type::Var(_) => {
                self.known.assignable(&Type::Dyn, &of);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.complain(range.at, message);
                (Type::Error, Type::Error)
            }
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// The types that have names.
fn named_type(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "dyn" => Type::Dyn,
        "int" => Type::Int,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "optional_type" => Type::optional(Type::Dyn),
        "string" => Type::String,
        "type" => Type::Type(std::sync::Arc::new(Type::Dyn)),
        "uint" => Type::Uint,
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        _ => return None,
    })
}
