//! The extended functions of strings (cel-go's strings library, version 2). Positions count code points.

use super::format_string::format;
use super::{Library, args};
use crate::types::Type;
use crate::value::{Error, Result, Value};

pub(super) fn add(library: &mut Library) {
    use Type::{Int, String};
    let list = || Type::list(String);
    library.member("charAt", "string_char_at_int", &[String, Int], String, char_at);
    library.member("indexOf", "string_index_of_string", &[String, String], Int, index_of);
    library.member("indexOf", "string_index_of_string_int", &[String, String, Int], Int, index_of);
    library.member("lastIndexOf", "string_last_index_of_string", &[String, String], Int, last_index_of);
    library.member("lastIndexOf", "string_last_index_of_string_int", &[String, String, Int], Int, last_index_of);
    library.member(
        "lowerAscii",
        "string_lower_ascii",
        &[String],
        String,
        |a| args!(a, Value::String(s) => Ok(Value::string(s.to_ascii_lowercase()))),
    );
    library.member(
        "upperAscii",
        "string_upper_ascii",
        &[String],
        String,
        |a| args!(a, Value::String(s) => Ok(Value::string(s.to_ascii_uppercase()))),
    );
    library.member("replace", "string_replace_string_string", &[String, String, String], String, replace);
    library.member("replace", "string_replace_string_string_int", &[String, String, String, Int], String, replace);
    library.member("split", "string_split_string", &[String, String], list(), split);
    library.member("split", "string_split_string_int", &[String, String, Int], list(), split);
    library.member("substring", "string_substring_int", &[String, Int], String, substring);
    library.member("substring", "string_substring_int_int", &[String, Int, Int], String, substring);
    library.member(
        "trim",
        "string_trim",
        &[String],
        String,
        |a| args!(a, Value::String(s) => Ok(Value::string(s.trim_matches(is_space)))),
    );
    library.member("join", "list_join", &[list()], String, join);
    library.member("join", "list_join_string", &[list(), String], String, join);
    library.member("format", "string_format", &[String, Type::list(Type::Dyn)], String, |a| {
        args!(a, Value::String(form), list => {
            let items = list.items().ok_or_else(Error::no_overload)?.collect::<Result<Vec<_>>>()?;
            format(form, &items).map(Value::string)
        })
    });
    library.global(
        "strings.quote",
        "strings_quote",
        &[String],
        String,
        |a| args!(a, Value::String(s) => Ok(Value::string(quote(s)))),
    );
}

/// Unicode's white space, as Go's unicode.IsSpace has it.
fn is_space(c: char) -> bool {
    c.is_whitespace()
}

fn out_of_range(i: i64) -> Error {
    Error::Failed(format!("index out of range: {i}"))
}

fn char_at(args: &[Value]) -> Result {
    args!(args, Value::String(s), Value::Int(i) => {
        let length = s.chars().count();
        let at = usize::try_from(*i).ok().filter(|at| *at <= length).ok_or_else(|| out_of_range(*i))?;
        Ok(Value::string(s.chars().nth(at).map(String::from).unwrap_or_default()))
    })
}

/// The byte where the code point of this number begins; the end for the number behind the last.
fn byte_at(text: &str, code_point: i64) -> Option<usize> {
    let wanted = usize::try_from(code_point).ok()?;
    let starts = text.char_indices().map(|(i, _)| i).chain([text.len()]);
    starts.into_iter().nth(wanted)
}

fn code_points(text: &str) -> i64 {
    text.chars().count() as i64
}

fn index_of(args: &[Value]) -> Result {
    let (s, part, from) = match args {
        [Value::String(s), Value::String(part)] => (s, part, 0),
        [Value::String(s), Value::String(part), Value::Int(from)] => (s, part, *from),
        _ => return Err(Error::no_overload()),
    };
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    if from < 0 {
        return Err(out_of_range(from));
    }
    let Some(start) = byte_at(s, from) else { return Ok(Value::Int(-1)) };
    Ok(Value::Int(s[start..].find(part.as_str()).map_or(-1, |at| code_points(&s[..start + at]))))
}

fn last_index_of(args: &[Value]) -> Result {
    let (s, part, last) = match args {
        [Value::String(s), Value::String(part)] => (s, part, None),
        [Value::String(s), Value::String(part), Value::Int(last)] => (s, part, Some(*last)),
        _ => return Err(Error::no_overload()),
    };
    if part.is_empty() {
        return Ok(Value::Int(last.unwrap_or_else(|| code_points(s))));
    }
    let length = code_points(s);
    if last.is_some_and(|l| l < 0) || (last.is_some_and(|l| l >= length) && length > 0) {
        return last.filter(|l| *l < 0).map_or(Ok(Value::Int(-1)), |l| Err(out_of_range(l)));
    }
    let latest = last.and_then(|l| byte_at(s, l)).unwrap_or(s.len());
    let end = (latest + part.len()).min(s.len());
    let end = (end..=s.len()).find(|e| s.is_char_boundary(*e)).unwrap_or(s.len());
    let found = s[..end].rmatch_indices(part.as_str()).map(|(at, _)| at).find(|at| *at <= latest);
    Ok(Value::Int(found.map_or(-1, |at| code_points(&s[..at]))))
}

fn replace(args: &[Value]) -> Result {
    let (s, old, new, times) = match args {
        [Value::String(s), Value::String(old), Value::String(new)] => (s, old, new, -1),
        [Value::String(s), Value::String(old), Value::String(new), Value::Int(n)] => (s, old, new, *n),
        _ => return Err(Error::no_overload()),
    };
    Ok(Value::string(match usize::try_from(times) {
        Ok(times) => s.replacen(old.as_str(), new, times),
        Err(_) => s.replace(old.as_str(), new),
    }))
}

fn split(args: &[Value]) -> Result {
    let (s, by, most) = match args {
        [Value::String(s), Value::String(by)] => (s, by, -1),
        [Value::String(s), Value::String(by), Value::Int(most)] => (s, by, *most),
        _ => return Err(Error::no_overload()),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let parts: Vec<Value> = if by.is_empty() {
        let mut parts: Vec<String> = s.chars().take(most.saturating_sub(1)).map(String::from).collect();
        let taken: usize = parts.iter().map(String::len).sum();
        if taken < s.len() && most > 0 {
            parts.push(s[taken..].to_owned());
        }
        parts.into_iter().map(Value::string).collect()
    } else {
        s.splitn(most, by.as_str()).map(Value::string).collect()
    };
    Ok(Value::list(parts))
}

fn substring(args: &[Value]) -> Result {
    let (s, from, to) = match args {
        [Value::String(s), Value::Int(from)] => (s, *from, None),
        [Value::String(s), Value::Int(from), Value::Int(to)] => (s, *from, Some(*to)),
        _ => return Err(Error::no_overload()),
    };
    if let Some(to) = to
        && from > to
    {
        return Err(Error::Failed(format!("invalid substring range. start: {from}, end: {to}")));
    }
    let start = byte_at(s, from).ok_or_else(|| out_of_range(from))?;
    let end = to.map_or(Some(s.len()), |to| byte_at(s, to)).ok_or_else(|| out_of_range(to.unwrap_or_default()))?;
    Ok(Value::string(&s[start..end]))
}

fn join(args: &[Value]) -> Result {
    let (list, separator) = match args {
        [list] => (list, ""),
        [list, Value::String(separator)] => (list, separator.as_str()),
        _ => return Err(Error::no_overload()),
    };
    let mut joined = String::new();
    for (i, item) in list.items().ok_or_else(Error::no_overload)?.enumerate() {
        let Value::String(item) = item? else { return Err(Error::no_overload()) };
        if i > 0 {
            joined.push_str(separator);
        }
        joined.push_str(&item);
    }
    Ok(Value::string(joined))
}

/// The text as a literal.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
