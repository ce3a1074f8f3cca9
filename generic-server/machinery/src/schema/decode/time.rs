//! Times as metav1.Time and metav1.MicroTime read and write them.

use crate::meta::{TimeForm, Timestamp};

/// The text in UTC, `None` for the zero time, or Go's error.
pub(super) fn normalise(text: &str, form: TimeForm) -> Result<Option<String>, String> {
    let time = Timestamp::parse(text, form).map_err(|e| e.to_string())?;
    Ok((time != Timestamp::ZERO).then(|| time.text(form)))
}

/// Whether the text is already what [`normalise`] gives, by its form alone; most times are.
pub(super) fn is_normal(text: &str, form: TimeForm) -> bool {
    let pattern: &[u8] = match form {
        TimeForm::Seconds => b"dddd-dd-ddTdd:dd:ddZ",
        TimeForm::Micros => b"dddd-dd-ddTdd:dd:dd.ddddddZ",
    };
    let bytes = text.as_bytes();
    let formed = bytes.len() == pattern.len()
        && bytes.iter().zip(pattern).all(|(b, p)| if *p == b'd' { b.is_ascii_digit() } else { b == p });
    if !formed {
        return false;
    }
    let two = |i: usize| (bytes[i] - b'0') * 10 + (bytes[i + 1] - b'0');
    // Days up to the 28th are in every month; the rest, and the zero time's year, take the long way.
    &bytes[..4] > b"0001".as_slice()
        && (1..=12).contains(&two(5))
        && (1..=28).contains(&two(8))
        && two(11) < 24
        && two(14) < 60
        && two(17) < 60
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_way_agrees_with_the_long_one() {
        let check = |text: &str, form, want: &str| {
            let got = normalise(text, form).map_or_else(|e| e, |t| t.unwrap_or_else(|| "zero".into()));
            assert_eq!(got, want);
            assert!(!is_normal(text, form) || got == text);
        };
        check("2024-03-01T10:00:00Z", TimeForm::Seconds, "2024-03-01T10:00:00Z");
        check("2024-03-01T00:30:00.999+01:00", TimeForm::Seconds, "2024-02-29T23:30:00Z");
        check("0001-01-01T00:00:00Z", TimeForm::Seconds, "zero");
        check("2023-02-29T00:00:00Z", TimeForm::Seconds, r#"parsing time "2023-02-29T00:00:00Z": day out of range"#);
        check("2024-03-01T12:00:00.500000+02:00", TimeForm::Micros, "2024-03-01T10:00:00.500000Z");
        assert!(is_normal("2024-03-01T12:00:00.000000Z", TimeForm::Micros));
    }
}
