//! Lists as sets (cel-go's sets library).

use super::lists::items;
use super::{Library, args};
use crate::types::Type;
use crate::value::{Result, Value};

const T: Type = Type::Param("T");

pub(super) fn add(library: &mut Library) {
    let lists = [Type::list(T), Type::list(T)];
    library.global(
        "sets.contains",
        "list_sets_contains_list",
        &lists,
        Type::Bool,
        |a| args!(a, x, y => Ok(Value::Bool(covers(x, y)?))),
    );
    library.global(
        "sets.equivalent",
        "list_sets_equivalent_list",
        &lists,
        Type::Bool,
        |a| args!(a, x, y => Ok(Value::Bool(covers(x, y)? && covers(y, x)?))),
    );
    library.global("sets.intersects", "list_sets_intersects_list", &lists, Type::Bool, |a| {
        args!(a, x, y => {
            let (x, y) = (items(x)?, items(y)?);
            Ok(Value::Bool(x.iter().any(|x| y.iter().any(|y| x.equals(y)))))
        })
    });
}

fn covers(all: &Value, some: &Value) -> Result<bool> {
    let (all, some) = (items(all)?, items(some)?);
    Ok(some.iter().all(|s| all.iter().any(|a| a.equals(s))))
}
