//! What many kinds' cells are made of.

use machinery::{
    Map, Value,
    meta::{TimeForm, Timestamp},
};

/// The cell of a member that is not set.
pub const NONE: &str = "<none>";
/// The cell of an optional member that is not set, where upstream says it this way.
pub const UNSET: &str = "<unset>";

/// The object's name.
pub fn name(object: &Value) -> Value {
    text_at(object, &["metadata", "name"])
}

/// The text at a path, or the empty one.
pub fn text_at(object: &Value, path: &[&str]) -> Value {
    Value::from(object.str_at(path).unwrap_or_default())
}

/// The text at a path, or another where it is absent or empty.
pub fn text_or(object: &Value, path: &[&str], other: &str) -> Value {
    Value::from(object.str_at(path).filter(|t| !t.is_empty()).unwrap_or(other))
}

/// The integer at a path, or zero.
pub fn int(object: &Value, path: &[&str]) -> i64 {
    object.at(path).and_then(Value::as_i64).unwrap_or(0)
}

/// The boolean at a path, or false.
pub fn flag(object: &Value, path: &[&str]) -> bool {
    object.at(path).and_then(Value::as_bool).unwrap_or(false)
}

/// The items of the list at a path.
pub fn items<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    object.at(path).and_then(Value::as_array).unwrap_or_default()
}

/// The number of members of the object at a path.
pub fn count(object: &Value, path: &[&str]) -> i64 {
    object.at(path).and_then(Value::as_object).map_or(0, |m| m.len() as i64)
}

/// A quantity's or a number's text at a path; that of zero where there is none.
pub fn amount(object: &Value, path: &[&str]) -> String {
    scalar(object.at(path)).unwrap_or_else(|| "0".to_owned())
}

/// The text of a string or number.
pub fn scalar(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.to_string()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The condition of a type.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, &["status", "conditions"]).iter().find(|c| c.str_at(&["type"]) == Some(kind))
}

/// Whether a condition holds.
pub fn holds(object: &Value, kind: &str) -> bool {
    condition(object, kind).and_then(|c| c.str_at(&["status"])) == Some("True")
}

/// Whether there is a condition, whatever its status.
pub fn holds_any(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some()
}

/// Whether the object is being deleted.
pub fn is_deleting(object: &Value) -> bool {
    object.str_at(&["metadata", "deletionTimestamp"]).is_some()
}

/// The seconds since the epoch of a time's text.
pub fn seconds(time: &str) -> Option<i64> {
    Timestamp::parse(time, TimeForm::Seconds).ok().map(Timestamp::seconds)
}

/// How long ago the object was made.
pub fn age(object: &Value, now: i64) -> Value {
    since(object.str_at(&["metadata", "creationTimestamp"]), now).into()
}

/// How long ago a time was.
pub fn since(time: Option<&str>, now: i64) -> String {
    time.and_then(seconds).map_or_else(|| "<unknown>".to_owned(), |then| human(now - then))
}

/// A duration in the one or two units that matter.
pub fn human(seconds: i64) -> String {
    let pair = |big: i64, unit: &str, small: i64, sub: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{sub}") }
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 2 * 60 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        () if minutes < 3 * 60 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => pair(hours / 24, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        () if hours < 24 * 365 * 8 => pair(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        () => format!("{}y", hours / 24 / 365),
    }
}

/// `a=b,c=d`
pub fn labels(labels: Option<&Value>) -> Value {
    let map = labels.and_then(Value::as_object).filter(|m| !m.is_empty());
    map.map_or_else(|| NONE.to_owned(), equalities).into()
}

fn equalities(map: &Map) -> String {
    let pairs = map.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(",")
}

/// A label selector in the words of requests: `a=b,c in (x,y),!d`.
pub fn selector(selector: Option<&Value>) -> Value {
    let Some(selector) = selector.filter(|s| !s.is_null()) else { return NONE.into() };
    let mut parts: Vec<(String, String)> = Vec::new();
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        parts.push((key.to_string(), format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for expression in items(selector, &["matchExpressions"]) {
        let key = expression.str_at(&["key"]).unwrap_or_default();
        let mut values: Vec<&str> = items(expression, &["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let text = match expression.str_at(&["operator"]) {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("Exists") => key.to_owned(),
            Some("DoesNotExist") => format!("!{key}"),
            _ => return "<error>".into(),
        };
        parts.push((key.to_owned(), text));
    }
    if parts.is_empty() {
        return NONE.into();
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",").into()
}

/// The names and the images of containers.
pub fn containers(pod_spec: Option<&Value>) -> [Value; 2] {
    let list = pod_spec.map(|spec| items(spec, &["containers"])).unwrap_or_default();
    ["name", "image"].map(|part| {
        let texts = list.iter().map(|c| c.str_at(&[part]).unwrap_or_default());
        texts.collect::<Vec<_>>().join(",").into()
    })
}

/// The first few of a list, and how many more there are.
pub fn some_of(list: &[String], most: usize, separator: &str) -> String {
    let shown = list[..list.len().min(most)].join(separator);
    if list.len() > most { format!("{shown} + {} more...", list.len() - most) } else { shown }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    #[test]
    fn a_duration_has_the_units_that_matter() {
        let check = |seconds: i64, expect: &str| assert_eq!(human(seconds), expect, "{seconds}");
        check(-2, "<invalid>");
        check(-1, "0s");
        check(119, "119s");
        check(120, "2m");
        check(190, "3m10s");
        check(10 * 60 + 5, "10m");
        check(3 * 3600, "3h");
        check(3 * 3600 + 60, "3h1m");
        check(8 * 3600 + 60, "8h");
        check(48 * 3600, "2d");
        check(50 * 3600, "2d2h");
        check(8 * 86400, "8d");
        check(730 * 86400, "2y");
        check(731 * 86400, "2y1d");
        check(8 * 365 * 86400, "8y");
    }

    #[test]
    fn selectors_are_sorted_by_key() {
        let v = json::decode(
            br#"{"matchLabels":{"b":"c"},"matchExpressions":[{"key":"a","operator":"In","values":["y","x"]},{"key":"d","operator":"DoesNotExist"}]}"#,
        )
        .expect("valid JSON");
        assert_eq!(selector(Some(&v)), Value::from("a in (x,y),b=c,!d"));
        assert_eq!(selector(Some(&Value::object())), Value::from(NONE));
    }
}
