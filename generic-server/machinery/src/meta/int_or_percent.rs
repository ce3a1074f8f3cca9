//! Fields that hold a number or a percentage: `maxUnavailable: 1`, `maxSurge: 25%`.

use std::fmt::Display;

use super::field_error::FieldError;
use super::names;
use crate::Value;

/// What an IntOrString field holds when it counts something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOrPercent {
    /// A number.
    Int(i64),
    /// A percentage of something.
    Percent(i64),
}

/// A text that is no percentage; the messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value for IntOrString: {0}")]
pub struct NotAPercentage(String);

impl IntOrPercent {
    /// From a number or a text like `25%`.
    pub fn from_value(value: &Value) -> Result<Self, NotAPercentage> {
        if let Some(number) = value.as_i64() {
            return Ok(Self::Int(number));
        }
        let text = value.as_str().unwrap_or("");
        let digits = text.strip_suffix('%');
        let digits = digits.ok_or_else(|| NotAPercentage("invalid type: string is not a percentage".to_owned()))?;
        digits.parse().map(Self::Percent).map_err(|_| {
            let shown = super::go_text::quote(text);
            let digits = super::go_text::quote(digits);
            NotAPercentage(format!("invalid value {shown}: strconv.Atoi: parsing {digits}: invalid syntax"))
        })
    }

    /// The number, or the share of `total`, with its fraction rounded up.
    pub fn rounded_up(self, total: i64) -> i64 {
        self.scaled(total, f64::ceil)
    }

    /// The number, or the share of `total`, with its fraction cut off downwards.
    pub fn rounded_down(self, total: i64) -> i64 {
        self.scaled(total, f64::floor)
    }

    fn scaled(self, total: i64, round: fn(f64) -> f64) -> i64 {
        match self {
            Self::Int(number) => number,
            Self::Percent(percent) => round(percent as f64 * total as f64 / 100.0) as i64,
        }
    }
}

/// A field that holds a number of at least 0, or a percentage.
pub fn validate_int_or_percent(value: &Value, path: impl Display) -> Option<FieldError> {
    match value {
        Value::String(text) => {
            let message = names::percent(text).pop()?;
            Some(FieldError::invalid(path, value, message))
        }
        _ => {
            let negative = value.as_i64().is_some_and(|n| n < 0);
            negative.then(|| FieldError::invalid(path, value, "must be greater than or equal to 0"))
        }
    }
}

/// A percentage must not be over 100; of other values this says nothing.
pub fn validate_at_most_100_percent(value: &Value, path: impl Display) -> Option<FieldError> {
    let text = value.as_str()?;
    if !names::percent(text).is_empty() {
        return None;
    }
    let digits = text.trim_end_matches('%').trim_start_matches('0');
    let over = digits.len() > 3 || digits.parse::<u16>().is_ok_and(|n| n > 100);
    over.then(|| FieldError::invalid(path, value, "must not be greater than 100%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_either_way() {
        let read = |v: Value| IntOrPercent::from_value(&v).expect("a number or a percentage");
        assert_eq!((read(3.into()).rounded_up(10), read(3.into()).rounded_down(10)), (3, 3));
        assert_eq!((read("25%".into()).rounded_up(10), read("25%".into()).rounded_down(10)), (3, 2));
        assert_eq!(read("100%".into()).rounded_up(7), 7);
        let error = |v: &str| IntOrPercent::from_value(&v.into()).expect_err(v).to_string();
        assert_eq!(error("5"), "invalid value for IntOrString: invalid type: string is not a percentage");
        assert_eq!(
            error("x%"),
            r#"invalid value for IntOrString: invalid value "x%": strconv.Atoi: parsing "x": invalid syntax"#
        );
    }

    #[test]
    fn a_field_is_checked() {
        let check = |v: Value, want: Option<&str>| {
            let got = validate_int_or_percent(&v, "f").or_else(|| validate_at_most_100_percent(&v, "f"));
            assert_eq!(got.map(|e| e.to_string()).as_deref(), want);
        };
        check(5.into(), None);
        check("100%".into(), None);
        check("0100%".into(), None);
        check((-1).into(), Some("f: Invalid value: -1: must be greater than or equal to 0"));
        check("101%".into(), Some(r#"f: Invalid value: "101%": must not be greater than 100%"#));
        check(
            "99999999999999999999%".into(),
            Some(r#"f: Invalid value: "99999999999999999999%": must not be greater than 100%"#),
        );
        let percent = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
        check("many".into(), Some(&format!(r#"f: Invalid value: "many": {percent}"#)));
    }
}
