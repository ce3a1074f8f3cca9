//! Codes: UUIDs, book and card numbers, colours, base64.

pub(super) fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    for length in [8, 4, 4, 4, 12] {
        if length != 8 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        match rest.get(..length) {
            Some(part) if part.bytes().all(|b| b.is_ascii_hexdigit()) => rest = &rest[length..],
            _ => return false,
        }
    }
    let digits: Vec<char> = text.chars().filter(|c| *c != '-').collect();
    let variant = version.is_none_or(|v| v == '3') || matches!(digits[16], '8' | '9' | 'a' | 'b' | 'A' | 'B');
    rest.is_empty() && variant && version.is_none_or(|v| digits[12] == v)
}

fn without(text: &str, skipped: fn(char) -> bool) -> String {
    text.chars().filter(|c| !skipped(*c)).collect()
}

fn digits_of(text: &str) -> Option<Vec<u32>> {
    text.chars().map(|c| c.to_digit(10)).collect()
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let code = without(text, |c| c == '-' || c.is_ascii_whitespace());
    let (body, check) = match code.strip_suffix('X') {
        Some(body) => (body, 10),
        None => match code.char_indices().last().and_then(|(i, c)| Some((&code[..i], c.to_digit(10)?))) {
            Some(split) => split,
            None => return false,
        },
    };
    let Some(digits) = digits_of(body).filter(|d| d.len() == 9) else { return false };
    let sum: u32 = digits.iter().zip(1..).map(|(d, i)| d * i).sum();
    (sum + 10 * check).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let code = without(text, |c| c == '-' || c.is_ascii_whitespace());
    let Some(digits) = digits_of(&code).filter(|d| d.len() == 13) else { return false };
    let sum: u32 = digits.iter().zip([1, 3].iter().cycle()).map(|(d, f)| d * f).sum();
    sum.is_multiple_of(10)
}

/// A number of a known card issuer, with a right check digit (Luhn).
pub(super) fn is_credit_card(text: &str) -> bool {
    let code = without(text, |c| !c.is_ascii_digit());
    let Some(digits) = digits_of(&code) else { return false };
    let first = |n: usize| code.get(..n).and_then(|p| p.parse::<u32>().ok()).unwrap_or(0);
    let known = match digits.len() {
        13 => first(1) == 4,
        14 => (300..=305).contains(&first(3)) || matches!(first(2), 36 | 38),
        15 => matches!(first(2), 34 | 37) || matches!(first(4), 2131 | 1800),
        16 => {
            first(1) == 4
                || (51..=55).contains(&first(2))
                || (2221..=2720).contains(&first(4))
                || first(4) == 6011
                || first(2) == 65
                || first(2) == 35
                || matches!(first(2), 62 | 67)
        }
        _ => false,
    };
    let luhn = digits.iter().rev().enumerate().map(|(i, d)| if i % 2 == 0 { *d } else { d * 2 / 10 + d * 2 % 10 });
    known && luhn.sum::<u32>().is_multiple_of(10)
}

pub(super) fn is_ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 11
        && bytes
            .iter()
            .enumerate()
            .all(|(i, b)| if i == 3 || i == 6 { matches!(b, b'-' | b' ') } else { b.is_ascii_digit() })
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let code = text.strip_prefix('#').unwrap_or(text);
    matches!(code.len(), 3 | 6) && code.bytes().all(|b| b.is_ascii_hexdigit())
}

pub(super) fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|t| t.strip_suffix(')')) else { return false };
    let part = |p: &str| {
        let p = p.trim();
        let plain = p.bytes().all(|b| b.is_ascii_digit()) && (p == "0" || !p.starts_with('0'));
        plain && p.parse::<u8>().is_ok()
    };
    inner.split(',').count() == 3 && inner.split(',').all(part)
}

/// Padded base64 of the standard alphabet, not empty.
pub(super) fn is_base64(text: &str) -> bool {
    let body = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let padding = text.len() - body.len();
    let alphabet = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    !text.is_empty() && text.len().is_multiple_of(4) && body.len() % 4 != 1 && padding < 3 && body.bytes().all(alphabet)
}
