//! Evaluates compiled expressions, and counts what that costs.

mod charge;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use machinery::Str;

use crate::cost::{LIST, MAP, STRUCT};
use crate::library::{optional, regex, standard};
use crate::value::{Error, Key, Result, Value};
pub(crate) use plan::Plan;
use plan::{Calling, Folding, Matching};

/// The values of an environment's variables.
pub trait Variables {
    /// The value of the variable of this place.
    fn value(&self, place: usize) -> Result;

    /// A member of the variable of this place, where that is to be had without the rest of it. `None`: look at the value.
    fn member(&self, _place: usize, _name: &str) -> Option<Result> {
        None
    }

    /// Whether the variable of this place has a member. `None`: look at the value.
    fn has_member(&self, _place: usize, _name: &str) -> Option<bool> {
        None
    }
}

impl Variables for [Value] {
    fn value(&self, place: usize) -> Result {
        self.get(place).cloned().ok_or_else(|| Error::new("no such attribute"))
    }
}

/// Evaluates, and says what it cost. It ends with an error as soon as it has cost more than `limit`.
pub(crate) fn run(plan: &Plan, variables: &(impl Variables + ?Sized), limit: u64) -> (Result, u64) {
    let mut machine = Machine { variables: &Given(variables), locals: Vec::new(), spent: 0, limit };
    let result = machine.run(plan);
    (result, machine.spent)
}

/// Variables of any kind as one that has a size.
struct Given<'a, V: ?Sized>(&'a V);

impl<V: Variables + ?Sized> Variables for Given<'_, V> {
    fn value(&self, place: usize) -> Result {
        self.0.value(place)
    }

    fn member(&self, place: usize, name: &str) -> Option<Result> {
        self.0.member(place, name)
    }

    fn has_member(&self, place: usize, name: &str) -> Option<bool> {
        self.0.has_member(place, name)
    }
}

struct Machine<'a> {
    variables: &'a dyn Variables,
    /// The variables of the macros that are under way, the innermost last. An accumulator can be an error that a later step
    /// makes good.
    locals: Vec<Result>,
    spent: u64,
    limit: u64,
}

impl Machine<'_> {
    fn charge(&mut self, cost: u64) -> Result<()> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit { Err(Error::CostLimit) } else { Ok(()) }
    }

    fn run(&mut self, plan: &Plan) -> Result {
        match plan {
            Plan::Constant(value) => Ok(value.clone()),
            Plan::Variable(place) => {
                self.charge(1)?;
                self.variables.value(*place)
            }
            Plan::Local(place) => {
                self.charge(1)?;
                self.locals[*place].clone()
            }
            Plan::Select(of, field) => self.select(of, field),
            Plan::Has(of, field) => self.has(of, field),
            Plan::OptSelect(of, field) => {
                let of = self.run(of)?;
                self.charge(1)?;
                optional::lenient(&[of, Value::String(field.clone())])
            }
            Plan::Logical { decides, sides } => self.logical(*decides, sides),
            Plan::Conditional(parts) => match self.run(&parts[0])? {
                Value::Bool(yes) => self.run(&parts[if yes { 1 } else { 2 }]),
                _ => Err(Error::no_overload()),
            },
            Plan::NotStrictlyFalse(of) => match self.run(of) {
                Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
                Err(Error::CostLimit) => Err(Error::CostLimit),
                _ => Ok(Value::Bool(true)),
            },
            Plan::Otherwise { unwraps, sides } => self.otherwise(*unwraps, sides),
            Plan::Call(calling) => self.call(calling),
            Plan::Matching(matching) => self.matching(matching),
            Plan::List(items) => self.list(items),
            Plan::Map(entries) => self.map(entries),
            Plan::Struct(name, fields) => self.structure(name, fields),
            Plan::Append { accu, item } => self.append(*accu, item),
            Plan::Insert { accu, entry } => self.insert(*accu, entry),
            Plan::Fold(folding) => self.fold(folding),
            Plan::Bind(bound) => {
                self.charge(LIST)?;
                let value = self.run(&bound[0])?;
                self.locals.push(Ok(value));
                let result = self.run(&bound[1]);
                self.locals.pop();
                result
            }
        }
    }

    fn select(&mut self, of: &Plan, field: &Str) -> Result {
        if let Plan::Variable(place) = of
            && let Some(member) = self.variables.member(*place, field)
        {
            self.charge(2)?;
            return member;
        }
        let of = self.run(of)?;
        self.charge(1)?;
        select(&of, field)
    }

    fn has(&mut self, of: &Plan, field: &Str) -> Result {
        if let Plan::Variable(place) = of
            && let Some(has) = self.variables.has_member(*place, field)
        {
            self.charge(1)?;
            return Ok(Value::Bool(has));
        }
        has(&self.run(of)?, field)
    }

    /// `&&` and `||`: a side that decides makes the other side's error none.
    fn logical(&mut self, decides: bool, sides: &[Plan; 2]) -> Result {
        let left = self.run(&sides[0]);
        match left {
            Ok(Value::Bool(b)) if b == decides => return left,
            Err(Error::CostLimit) => return left,
            _ => {}
        }
        let right = self.run(&sides[1]);
        match (&left, &right) {
            (_, Ok(Value::Bool(b))) if *b == decides => right,
            (_, Err(Error::CostLimit)) => right,
            (Err(_), _) => left,
            (_, Err(_)) => right,
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!decides)),
            _ => Err(Error::no_overload()),
        }
    }

    fn otherwise(&mut self, unwraps: bool, sides: &[Plan; 2]) -> Result {
        let first = self.run(&sides[0])?;
        self.charge(1)?;
        match first {
            Value::Optional(None) => self.run(&sides[1]),
            Value::Optional(Some(value)) if unwraps => Ok(value.as_ref().clone()),
            Value::Optional(Some(_)) => Ok(first),
            _ => Err(Error::no_overload()),
        }
    }

    fn call(&mut self, calling: &Calling) -> Result {
        let mut args = Vec::with_capacity(calling.args.len());
        for arg in &calling.args {
            args.push(self.run(arg)?);
        }
        let fits = |o: &&&crate::library::Overload| o.args.iter().zip(&args).all(|(wanted, arg)| arg.is_a(wanted));
        let overload = match &calling.overloads[..] {
            [only] if !only.member && args.len() == 1 && !fits(&only) => {
                let text = format!("no such overload: {}({})", calling.function, args[0].type_of());
                return Err(Error::new(text));
            }
            [only] => only,
            several => several.iter().find(fits).ok_or_else(|| match calling.function.as_str() {
                "size" => Error::new("no such overload: size"),
                _ => Error::no_overload(),
            })?,
        };
        self.charge(charge::before(overload.id, &args))?;
        let result = (overload.call)(&args)?;
        self.charge(charge::of_call(&calling.function, overload.id, &args, &result))?;
        Ok(result)
    }

    fn matching(&mut self, matching: &Matching) -> Result {
        let mut args = Vec::with_capacity(matching.args.len());
        for arg in &matching.args {
            args.push(self.run(arg)?);
        }
        let result = regex::with(&matching.regex, &matching.function, &args)?;
        self.charge(charge::of_call(&matching.function, "matches_string", &args, &result))?;
        Ok(result)
    }

    fn list(&mut self, items: &[(Plan, bool)]) -> Result {
        let mut list = Vec::with_capacity(items.len());
        for (item, optional) in items {
            list.extend(given(self.run(item)?, *optional)?);
        }
        self.charge(LIST)?;
        Ok(Value::list(list))
    }

    fn map(&mut self, entries: &[(Plan, Plan, bool)]) -> Result {
        let mut map = BTreeMap::new();
        for (key, value, optional) in entries {
            let key = Key::of(&self.run(key)?)?;
            if map.contains_key(&key) {
                return Err(Error::Failed(format!("Failed with repeated key: {key}")));
            }
            if let Some(value) = given(self.run(value)?, *optional)? {
                map.insert(key, value);
            }
        }
        self.charge(MAP)?;
        Ok(Value::Map(Arc::new(map)))
    }

    fn structure(&mut self, name: &Str, fields: &[(Str, Plan, bool)]) -> Result {
        let mut made = BTreeMap::new();
        for (field, value, optional) in fields {
            if let Some(value) = given(self.run(value)?, *optional)? {
                made.insert(field.clone(), value);
            }
        }
        self.charge(STRUCT)?;
        Ok(Value::Struct(Arc::new((name.clone(), made))))
    }

    /// The accumulator with one more item: it is taken, so that it need not be copied.
    fn append(&mut self, accu: usize, item: &Plan) -> Result {
        let item = self.run(item)?;
        self.charge(LIST + 2)?;
        match self.taken(accu)? {
            Value::List(mut list) => {
                Arc::make_mut(&mut list).push(item);
                Ok(Value::List(list))
            }
            _ => Err(Error::no_overload()),
        }
    }

    /// The accumulator, which is about to be replaced.
    fn taken(&mut self, accu: usize) -> Result {
        std::mem::replace(&mut self.locals[accu], Ok(Value::Null))
    }

    fn insert(&mut self, accu: usize, entry: &[Plan]) -> Result {
        let mut args = Vec::with_capacity(2);
        for part in entry {
            args.push(self.run(part)?);
        }
        self.charge(2)?;
        standard::map_insert(self.taken(accu)?, &args)
    }

    fn fold(&mut self, folding: &Folding) -> Result {
        let range = self.run(&folding.range)?;
        let accu = self.run(&folding.init)?;
        let depth = self.locals.len();
        self.locals.push(Ok(accu));
        let result = self.steps(folding, &range, depth);
        self.locals.truncate(depth + 1);
        let result = result.and_then(|()| self.run(&folding.result));
        self.locals.truncate(depth);
        result
    }

    fn steps(&mut self, folding: &Folding, range: &Value, accu: usize) -> Result<()> {
        if let Some(items) = range.items() {
            for (i, item) in items.enumerate() {
                let item = item?;
                let vars = if folding.two { [Some(Value::Int(i as i64)), Some(item)] } else { [Some(item), None] };
                if !self.step(folding, vars, accu)? {
                    break;
                }
            }
            return Ok(());
        }
        for key in range.keys().ok_or_else(Error::no_overload)? {
            let value = folding.two.then(|| range.entry(&key)).flatten().transpose()?;
            if !self.step(folding, [Some(key.value()), value], accu)? {
                break;
            }
        }
        Ok(())
    }

    /// One step; whether to go on.
    fn step(&mut self, folding: &Folding, vars: [Option<Value>; 2], accu: usize) -> Result<bool> {
        self.locals.extend(vars.into_iter().flatten().map(Ok));
        let next = match self.run(&folding.condition) {
            Ok(Value::Bool(false)) => None,
            Ok(_) => Some(self.run(&folding.step)),
            Err(e) => Some(Err(e)),
        };
        self.locals.truncate(accu + 1);
        match next {
            None => Ok(false),
            Some(Err(Error::CostLimit)) => Err(Error::CostLimit),
            Some(next) => {
                // Only a condition that looks at the accumulator can make an error good.
                let goes_on = next.is_ok() || !matches!(folding.condition, Plan::Constant(_));
                self.locals[accu] = next;
                Ok(goes_on)
            }
        }
    }
}

/// A value that may be left out: what an optional holds.
fn given(value: Value, optional: bool) -> Result<Option<Value>> {
    match (optional, value) {
        (false, value) => Ok(Some(value)),
        (true, Value::Optional(inner)) => Ok(inner.map(|v| v.as_ref().clone())),
        (true, _) => Err(Error::no_overload()),
    }
}

fn select(of: &Value, field: &Str) -> Result {
    let key = Key::String(field.clone());
    match of {
        Value::Optional(_) => optional::lenient(&[of.clone(), Value::String(field.clone())]),
        Value::Opaque(opaque) => opaque.member(field).unwrap_or_else(|| Err(Error::no_key(field))),
        _ if of.keys().is_none() => Err(Error::no_overload()),
        _ => of.entry(&key).unwrap_or_else(|| Err(Error::no_key(field))),
    }
}

fn has(of: &Value, field: &Str) -> Result {
    Ok(Value::Bool(match of {
        Value::Optional(None) => false,
        Value::Optional(Some(inner)) => return has(inner, field),
        Value::Opaque(opaque) => opaque.member(field).is_some(),
        _ if of.keys().is_none() => return Err(Error::no_overload()),
        _ => of.entry(&Key::String(field.clone())).is_some(),
    }))
}
