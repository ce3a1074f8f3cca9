//! `quantity()`: the quantities of resources.

use std::cmp::Ordering;
use std::sync::Arc;

use machinery::meta::Quantity;
use machinery::meta::quantity::Format;

use super::{Library, args};
use crate::types::Type;
use crate::value::{Error, Opaque, Result, Value};

const TYPE: &str = "kubernetes.Quantity";

impl Opaque for Quantity {
    fn type_name(&self) -> &'static str {
        TYPE
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        (other as &dyn std::any::Any).downcast_ref::<Quantity>().is_some_and(|o| o == self)
    }
}

fn value(quantity: Quantity) -> Value {
    Value::Opaque(Arc::new(quantity))
}

fn of(value: &Value) -> Result<&Quantity> {
    value.opaque().ok_or_else(Error::no_overload)
}

pub(super) fn add(library: &mut Library) {
    use Type::{Bool, Double, Int, String};
    let quantity = || Type::opaque(TYPE);
    library.global(
        "quantity",
        "string_to_quantity",
        &[String],
        quantity(),
        |a| args!(a, Value::String(s) => Quantity::parse(s).map(value).map_err(|e| Error::new(e.to_string()))),
    );
    library.global(
        "isQuantity",
        "is_quantity_string",
        &[String],
        Bool,
        |a| args!(a, Value::String(s) => Ok(Value::Bool(Quantity::parse(s).is_ok()))),
    );
    library.global(
        "sign",
        "quantity_sign",
        &[quantity()],
        Int,
        |a| args!(a, q => Ok(Value::Int(of(q)?.sign().into()))),
    );
    let pair = [quantity(), quantity()];
    library
        .member("isGreaterThan", "quantity_is_greater_than", &pair, Bool, |a| compared(a, |o| Value::Bool(o.is_gt())));
    library.member("isLessThan", "quantity_is_less_than", &pair, Bool, |a| compared(a, |o| Value::Bool(o.is_lt())));
    library.member("compareTo", "quantity_compare_to", &pair, Int, |a| compared(a, |o| Value::Int(o as i64)));
    library.member(
        "asApproximateFloat",
        "quantity_get_float",
        &[quantity()],
        Double,
        |a| args!(a, q => Ok(Value::Double(of(q)?.as_f64()))),
    );
    library.member(
        "asInteger",
        "quantity_get_int",
        &[quantity()],
        Int,
        |a| args!(a, q => of(q)?.as_i64().map(Value::Int).ok_or_else(|| Error::new("cannot convert value to integer"))),
    );
    library.member(
        "isInteger",
        "quantity_is_integer",
        &[quantity()],
        Bool,
        |a| args!(a, q => Ok(Value::Bool(of(q)?.as_i64().is_some()))),
    );
    library.member("add", "quantity_add", &pair, quantity(), |a| args!(a, x, y => combined(x, y, Quantity::add)));
    library.member(
        "add",
        "quantity_add_int",
        &[quantity(), Int],
        quantity(),
        |a| args!(a, x, y => combined(x, y, Quantity::add)),
    );
    library.member("sub", "quantity_sub", &pair, quantity(), |a| args!(a, x, y => combined(x, y, Quantity::sub)));
    library.member(
        "sub",
        "quantity_sub_int",
        &[quantity(), Int],
        quantity(),
        |a| args!(a, x, y => combined(x, y, Quantity::sub)),
    );
}

fn compared(args: &[Value], answer: fn(Ordering) -> Value) -> Result {
    args!(args, x, y => Ok(answer(of(x)?.cmp(of(y)?))))
}

fn combined(x: &Value, y: &Value, how: fn(&mut Quantity, &Quantity)) -> Result {
    let mut sum = of(x)?.clone();
    match y {
        Value::Int(i) => how(&mut sum, &Quantity::new(*i, Format::DecimalSI)),
        other => how(&mut sum, of(other)?),
    }
    Ok(value(sum))
}
