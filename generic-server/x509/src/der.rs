//! The little of DER that issued certificates are written in.

/// Tags.
pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const NULL: u8 = 0x05;
pub(crate) const UTF8_STRING: u8 = 0x0c;
pub(crate) const PRINTABLE_STRING: u8 = 0x13;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// A value with its tag and length.
pub(crate) fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match u8::try_from(content.len()) {
        Ok(short @ ..0x80) => out.push(short),
        _ => {
            let length = content.len().to_be_bytes();
            let length = &length[length.iter().take_while(|byte| **byte == 0).count()..];
            out.push(0x80 | u8::try_from(length.len()).expect("a length has no more than eight bytes"));
            out.extend_from_slice(length);
        }
    }
    out.extend_from_slice(content);
    out
}

/// A sequence of values.
pub(crate) fn sequence(values: &[Vec<u8>]) -> Vec<u8> {
    value(SEQUENCE, &values.concat())
}

/// A set of values, in the order that DER wants.
pub(crate) fn set(mut values: Vec<Vec<u8>>) -> Vec<u8> {
    values.sort();
    value(SET, &values.concat())
}

/// A number that is not negative.
pub(crate) fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count().min(bytes.len().saturating_sub(1));
    let mut content = bytes[zeros..].to_vec();
    if content.first().is_none_or(|first| *first >= 0x80) {
        content.insert(0, 0);
    }
    value(INTEGER, &content)
}

/// An object identifier.
pub(crate) fn oid(arcs: &[u64]) -> Vec<u8> {
    let mut content = Vec::new();
    let first = arcs[0] * 40 + arcs[1];
    for arc in std::iter::once(first).chain(arcs[2..].iter().copied()) {
        let groups = (64 - arc.leading_zeros()).div_ceil(7).max(1);
        for group in (0..groups).rev() {
            let more = if group > 0 { 0x80 } else { 0 };
            content.push(more | u8::try_from((arc >> (7 * group)) & 0x7f).expect("seven bits"));
        }
    }
    value(OBJECT_IDENTIFIER, &content)
}

/// Flags, the first one first, without trailing zeros.
pub(crate) fn flags(bits: u16) -> Vec<u8> {
    let reversed = [(bits & 0xff) as u8, (bits >> 8) as u8].map(u8::reverse_bits);
    let used = if reversed[1] != 0 { &reversed[..] } else { &reversed[..1] };
    let unused = used.last().map_or(0, |last| last.trailing_zeros().min(8));
    let mut content = vec![u8::try_from(unused).expect("no more than eight")];
    content.extend_from_slice(used);
    value(BIT_STRING, &content)
}

/// Bits that are whole bytes.
pub(crate) fn bits(bytes: &[u8]) -> Vec<u8> {
    value(BIT_STRING, &[&[0], bytes].concat())
}

/// A text, in the plainest type that holds it.
pub(crate) fn text(text: &str) -> Vec<u8> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&byte);
    let tag = if text.bytes().all(is_plain) { PRINTABLE_STRING } else { UTF8_STRING };
    value(tag, text.as_bytes())
}

/// A time, in seconds since 1970.
pub(crate) fn time(seconds: i64) -> Vec<u8> {
    let text = machinery::meta::Timestamp::new(seconds, 0).text(machinery::meta::TimeForm::Seconds);
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    match text.get(..4).and_then(|year| year.parse::<u32>().ok()) {
        Some(1950..=2049) => value(UTC_TIME, format!("{}Z", &digits[2..]).as_bytes()),
        _ => value(GENERALIZED_TIME, format!("{digits}Z").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_der_wants_them() {
        let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(value(OCTET_STRING, &[7])), "040107");
        assert!(hex(value(OCTET_STRING, &[0; 200])).starts_with("0481c8"));
        assert!(hex(value(OCTET_STRING, &[0; 300])).starts_with("0482012c"));
        assert_eq!(hex(unsigned(&[0, 0, 1])), "020101");
        assert_eq!(hex(unsigned(&[0x80])), "02020080");
        assert_eq!(hex(unsigned(&[0])), "020100");
        assert_eq!(hex(oid(&[1, 2, 840, 113_549, 1, 1, 11])), "06092a864886f70d01010b");
        assert_eq!(hex(flags(0b101)), "030205a0");
        assert_eq!(hex(flags(1 << 8)), "0303070080");
        assert_eq!(hex(text("a b")), "1303612062");
        assert_eq!(hex(text("a*b")), "0c03612a62");
        assert_eq!(hex(time(0)), hex(value(UTC_TIME, b"700101000000Z")));
        assert_eq!(hex(time(2_524_608_000)), hex(value(GENERALIZED_TIME, b"20500101000000Z")));
        assert_eq!(hex(set(vec![vec![2, 1, 5], vec![2, 1, 3]])), "3106020103020105");
    }
}
