//! Shards of collections: `shardSelector=shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')` selects
//! the objects whose uid has a hash in a range, so that several clients share a collection. With the feature
//! ShardedListAndWatch.

use cel::syntax::{
    ast::{Call, Expr, ExprKind, Literal, operator},
    parse,
};
use machinery::{Str, Value, codec::json::scan};
use storage::cache::Object;

/// One more than the greatest hash.
const END: &str = "0x10000000000000000";
/// The digits of a hash.
const DIGITS: usize = 16;

/// What a hash is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Uid,
    Namespace,
}

/// A range of hashes, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    start: Str,
    end: Str,
    /// The same as numbers.
    numbers: std::ops::Range<u128>,
}

/// A selection by hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    key: Key,
    ranges: Vec<Range>,
}

impl Shard {
    /// Reads a selector.
    ///
    /// # Errors
    /// Why it is none, in upstream's words.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("empty shard selector is not allowed; omit the parameter for unfiltered lists".to_owned());
        }
        let parsed = parse(text).map_err(|issues| {
            let first = issues.iter().next().map(|issue| issue.message.clone()).unwrap_or_default();
            format!("CEL parse error: {first}")
        })?;
        let mut found = Vec::new();
        collect(&parsed.expr, &mut found)?;
        let [(key, _), others @ ..] = found.as_slice() else { return Err("no shard range".to_owned()) };
        if let Some((other, _)) = others.iter().find(|(other, _)| other != key) {
            return Err(format!(
                "all shard ranges must use the same field, got {:?} and {:?}",
                key.path(),
                other.path()
            ));
        }
        Ok(Shard { key: *key, ranges: found.into_iter().map(|(_, range)| range).collect() })
    }

    /// Whether an object is in it.
    pub(super) fn matches(&self, object: &Object) -> bool {
        match self.key {
            Key::Namespace => self.has(object.namespace().unwrap_or("")),
            Key::Uid => self.has(&scan::text(object.bytes(), &["metadata", "uid"]).unwrap_or_default()),
        }
    }

    /// The same of an object that is in no cache.
    pub(super) fn matches_value(&self, object: &Value) -> bool {
        let member = if self.key == Key::Uid { "uid" } else { "namespace" };
        self.has(object.str_at(&["metadata", member]).unwrap_or_default())
    }

    fn has(&self, value: &str) -> bool {
        let hash = u128::from(fnv1a(value.as_bytes()));
        self.ranges.iter().any(|range| range.numbers.contains(&hash))
    }

    /// As lists say it of themselves.
    pub(super) fn text(&self) -> String {
        let one = |range: &Range| format!("shardRange({}, '{}', '{}')", self.key.path(), range.start, range.end);
        self.ranges.iter().map(one).collect::<Vec<_>>().join(" || ")
    }
}

impl Key {
    fn path(self) -> &'static str {
        match self {
            Key::Uid => "object.metadata.uid",
            Key::Namespace => "object.metadata.namespace",
        }
    }
}

/// The hash FNV-1a of 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The ranges of calls of `shardRange`, one or several with `||` between them.
fn collect(expr: &Expr, found: &mut Vec<(Key, Range)>) -> Result<(), String> {
    let ExprKind::Call(call) = &expr.kind else {
        return Err(format!("unexpected expression kind {}; expected shardRange() call or || operator", kind(expr)));
    };
    match (call.function.as_str(), call.args.as_slice()) {
        (operator::OR, [left, right]) => {
            collect(left, found)?;
            collect(right, found)
        }
        ("shardRange", _) => {
            found.push(range(call)?);
            Ok(())
        }
        (other, _) => Err(format!("unsupported function {other:?}; only shardRange() and || are allowed")),
    }
}

fn range(call: &Call) -> Result<(Key, Range), String> {
    let [path, start, end] = call.args.as_slice() else {
        return Err(format!("shardRange() requires exactly 3 arguments, got {}", call.args.len()));
    };
    let path = field_path(path).map_err(|why| format!("shardRange() first argument: {why}"))?;
    let key = [Key::Uid, Key::Namespace].into_iter().find(|key| key.path() == path).ok_or_else(|| {
        format!("unsupported field path {path:?}; supported: object.metadata.uid, object.metadata.namespace")
    })?;
    let (start, first) = hexadecimal(start, "hexStart")?;
    let (end, last) = hexadecimal(end, "hexEnd")?;
    if first >= last {
        return Err(format!("shard range start {start} must be less than end {end}"));
    }
    Ok((key, Range { start, end, numbers: first..last }))
}

fn field_path(expr: &Expr) -> Result<String, String> {
    match &expr.kind {
        ExprKind::Ident(name) => Ok(name.to_string()),
        ExprKind::Select(select) if !select.test => Ok(format!("{}.{}", field_path(&select.operand)?, select.field)),
        _ => Err(format!("expected field path (e.g. object.metadata.uid), got expression kind {}", kind(expr))),
    }
}

fn hexadecimal(expr: &Expr, name: &str) -> Result<(Str, u128), String> {
    let text = match &expr.kind {
        ExprKind::Literal(Literal::String(text)) => text.clone(),
        ExprKind::Literal(other) => return Err(format!("{name} must be a string literal, got {}", go_type(other))),
        _ => return Err(format!("{name} must be a string literal (e.g. '0xff'), got expression kind {}", kind(expr))),
    };
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(format!("{name} must have '0x' prefix, got {:?}", text.as_str()));
    };
    if digits.is_empty() {
        return Err(format!("{name}: hex value is required after '0x'"));
    }
    if digits.len() > DIGITS + 1 {
        return Err(format!("{name}: hex value too long ({} chars, max {}): {digits:?}", digits.len(), DIGITS + 1));
    }
    if let Some(odd) = digits.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f')) {
        return Err(format!("{name}: invalid hex character {:?} in {:?}", odd.to_string(), text.as_str()));
    }
    if digits.len() > DIGITS && text != *END {
        return Err(format!("{name}: 17-digit hex value must be '{END}' (2^64), got {:?}", text.as_str()));
    }
    if digits.len() < DIGITS {
        let meant = format!("0x{digits:0>DIGITS$}");
        let found = text.as_str();
        return Err(format!(
            "{name} must be a 0x-prefixed 16-digit hex value, got {found:?} (did you mean {meant:?}?)"
        ));
    }
    let number = u128::from_str_radix(digits, 16).map_err(|error| error.to_string())?;
    Ok((text, number))
}

/// The number that upstream has for what an expression is.
fn kind(expr: &Expr) -> u8 {
    match &expr.kind {
        ExprKind::Call(_) => 1,
        ExprKind::Fold(_) => 2,
        ExprKind::Ident(_) => 3,
        ExprKind::List(_) => 4,
        ExprKind::Literal(_) => 5,
        ExprKind::Map(_) => 6,
        ExprKind::Select(_) => 7,
        ExprKind::Struct(_) => 8,
    }
}

/// What Go calls the type of a constant.
fn go_type(literal: &Literal) -> &'static str {
    match literal {
        Literal::Null => "structpb.NullValue",
        Literal::Bool(_) => "bool",
        Literal::Int(_) => "int64",
        Literal::Uint(_) => "uint64",
        Literal::Double(_) => "float64",
        Literal::String(_) => "string",
        Literal::Bytes(_) => "[]uint8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_halves_hold_every_object_once() {
        let half = |range: &str| Shard::parse(&format!("shardRange(object.metadata.uid, {range})")).expect("a range");
        let first = half("'0x0000000000000000', '0x8000000000000000'");
        let second = half("'0x8000000000000000', '0x10000000000000000'");
        for uid in ["", "a", "f8f61e6b-74b1-4e2c-b1f5-5a8b0a0f6d2b", "00000000-0000-0000-0000-000000000000"] {
            assert!(first.has(uid) != second.has(uid), "{uid}");
        }
        // The hash of nothing, and of "a", as FNV-1a has them.
        assert_eq!((fnv1a(b""), fnv1a(b"a")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
    }

    #[test]
    fn ranges_are_joined_and_told_as_they_were_asked_for() {
        let text = "shardRange(object.metadata.namespace, '0x0000000000000000', '0x4000000000000000') || \
                    shardRange(object.metadata.namespace, '0xc000000000000000', '0x10000000000000000')";
        let shard = Shard::parse(text).expect("two ranges");
        assert_eq!(shard.text(), text);
        assert_eq!(shard.ranges.len(), 2);
    }

    #[test]
    fn what_is_no_selector_is_refused_in_upstreams_words() {
        let check = |text: &str, expect: &str| assert_eq!(Shard::parse(text), Err(expect.to_owned()), "{text}");
        check(" ", "empty shard selector is not allowed; omit the parameter for unfiltered lists");
        check("true", "unexpected expression kind 5; expected shardRange() call or || operator");
        check("size('a')", "unsupported function \"size\"; only shardRange() and || are allowed");
        check("shardRange()", "shardRange() requires exactly 3 arguments, got 0");
        let with = |range: &str| format!("shardRange(object.metadata.uid, {range})");
        check(
            "shardRange(object.metadata.name, '0x0', '0x1')",
            "unsupported field path \"object.metadata.name\"; supported: object.metadata.uid, object.metadata.namespace",
        );
        check(
            &with("'0x0', '0x1'"),
            "hexStart must be a 0x-prefixed 16-digit hex value, got \"0x0\" (did you mean \"0x0000000000000000\"?)",
        );
        check(&with("1, 2"), "hexStart must be a string literal, got int64");
        check(&with("'1', '2'"), "hexStart must have '0x' prefix, got \"1\"");
        check(
            &with("'0x0000000000000000', '0x20000000000000000'"),
            "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x20000000000000000\"",
        );
        check(
            &with("'0x8000000000000000', '0x8000000000000000'"),
            "shard range start 0x8000000000000000 must be less than end 0x8000000000000000",
        );
        let (uid, namespace) = (
            with("'0x0000000000000000', '0x8000000000000000'"),
            "shardRange(object.metadata.namespace, '0x0000000000000000', '0x8000000000000000')",
        );
        check(
            &format!("{uid} || {namespace}"),
            "all shard ranges must use the same field, got \"object.metadata.uid\" and \"object.metadata.namespace\"",
        );
    }
}
