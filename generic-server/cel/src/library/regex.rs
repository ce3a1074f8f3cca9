//! `find` and `findAll`.

use machinery::schema::pattern::Regex;

use super::{Library, args};
use crate::types::Type;
use crate::value::{Error, Result, Value};

pub(super) fn add(library: &mut Library) {
    use Type::{Int, String};
    library.member(
        "find",
        "string_find_string",
        &[String, String],
        String,
        |a| args!(a, Value::String(_), Value::String(pattern) => with(&compiled(pattern)?, "find", a)),
    );
    for (id, args) in
        [("string_find_all_string", vec![String, String]), ("string_find_all_string_int", vec![String, String, Int])]
    {
        library.member("findAll", id, &args, Type::list(String), |a| match a {
            [Value::String(_), Value::String(pattern), ..] => with(&compiled(pattern)?, "findAll", a),
            _ => Err(Error::no_overload()),
        });
    }
}

/// Compiles a pattern.
pub(crate) fn compiled(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|e| Error::new(e.to_string()))
}

/// `matches`, `find` or `findAll`, with the pattern compiled.
pub(crate) fn with(regex: &Regex, function: &str, args: &[Value]) -> Result {
    let Some(Value::String(text)) = args.first() else { return Err(Error::no_overload()) };
    let found = regex.inner();
    Ok(match function {
        "matches" => Value::Bool(regex.is_match(text)),
        "find" => Value::string(found.find(text.as_str()).map(|m| &text[m.range()]).unwrap_or_default()),
        _ => {
            let most = match args.get(2) {
                Some(Value::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            Value::list(found.find_iter(text.as_str()).take(most).map(|m| Value::string(&text[m.range()])).collect())
        }
    })
}
