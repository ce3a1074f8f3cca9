//! Numbers as Go's encoding/json writes them.

/// Appends a float as Go's encoder does: the shortest digits that read back, in decimal notation between 1e-6 and
/// 1e21, else with an exponent of at least two digits; no fraction if there is none (`1`, not `1.0`).
pub fn write_float(out: &mut Vec<u8>, f: f64) {
    if !f.is_finite() {
        out.extend_from_slice(b"null");
        return;
    }
    let size = f.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{f:e}"); // 1e21, 1.5e-7
        let (digits, exponent) = text.split_once('e').expect("the e format has an e");
        out.extend_from_slice(digits.as_bytes());
        out.push(b'e');
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(rest) => (b'-', rest),
            None => (b'+', exponent),
        };
        out.push(sign);
        out.extend_from_slice(exponent.as_bytes());
    } else {
        out.extend_from_slice(format!("{f}").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn floats_read_like_gos() {
        for (f, want) in [
            (0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-7"),
            (0.000001, "0.000001"),
            (18446744073709551615.0, "18446744073709552000"),
        ] {
            let mut out = Vec::new();
            super::write_float(&mut out, f);
            assert_eq!(String::from_utf8(out).expect("ascii"), want);
        }
    }
}
