//! The formats of strings that upstream checks (go-openapi's strfmt); others say nothing.

mod address;
mod code;
mod time;
mod uri;

use crate::meta::names;

/// Whether a text has a format; `None` if the format is not one that is checked. Dashes in a format's name do not count.
pub fn has_format(format: &str, text: &str) -> Option<bool> {
    let plain: String = format.chars().filter(|c| *c != '-').collect();
    Some(match plain.as_str() {
        "uri" => uri::is_request_uri(text),
        "email" => address::is_email(text),
        "hostname" => address::is_hostname(text),
        "ipv4" => address::is_ip(text) && text.contains('.'),
        "ipv6" => address::is_ip(text) && text.contains(':'),
        "cidr" => address::is_cidr(text),
        "mac" => address::is_mac(text),
        "uuid" => code::is_uuid(text, None),
        "uuid3" => code::is_uuid(text, Some('3')),
        "uuid4" => code::is_uuid(text, Some('4')),
        "uuid5" => code::is_uuid(text, Some('5')),
        "isbn" => code::is_isbn10(text) || code::is_isbn13(text),
        "isbn10" => code::is_isbn10(text),
        "isbn13" => code::is_isbn13(text),
        "creditcard" => code::is_credit_card(text),
        "ssn" => code::is_ssn(text),
        "hexcolor" => code::is_hex_color(text),
        "rgbcolor" => code::is_rgb_color(text),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "byte" => code::is_base64(text),
        "date" => time::is_date(text),
        "datetime" => time::is_date_time(text),
        "duration" => time::is_duration(text),
        "password" => true,
        "k8sshortname" => names::dns1123_label(text).is_empty(),
        "k8slongname" => names::dns1123_subdomain(text).is_empty(),
        _ => return None,
    })
}

/// Whether a format means anything; upstream drops others before it validates or publishes a schema.
pub fn is_known_format(format: &str) -> bool {
    matches!(format, "int32" | "int64" | "float" | "double") || has_format(format, "").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_their_format_or_not() {
        let check = |format: &str, good: &[&str], bad: &[&str]| {
            good.iter().for_each(|t| assert_eq!(has_format(format, t), Some(true), "{format}: {t}"));
            bad.iter().for_each(|t| assert_eq!(has_format(format, t), Some(false), "{format}: {t}"));
        };
        check(
            "uri",
            &["http://a.b/c?d=e", "/path", "mailto:a@b", "http://[::1]:80/", "urn:x:y"],
            &["", "a/b", "http://a b", "%zz", ":x"],
        );
        check("email", &["a@b", "A B <a.b@c.d>", "\"x y\"@z.w"], &["", "a", "a@", "@b", "a..b@c", "a@b c"]);
        check("hostname", &["a", "a-b.example.com", "1.2.3.44"], &["", "-a", "a_b.com", "a..b", "1.2.3.4"]);
        check("ipv4", &["1.2.3.4", "010.1.1.1", "::ffff:1.2.3.4"], &["1.2.3", "256.1.1.1", "::1", "a"]);
        check("ipv6", &["::1", "fe80::1:2", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4"], &["1.2.3.4", ":::", "1:2", "g::"]);
        check(
            "cidr",
            &["10.0.0.0/8", "::/0", "10.1.2.3/32"],
            &["10.0.0.0", "10.0.0.0/33", "a/8", "::/129", "10.0.0.0/+8"],
        );
        check(
            "mac",
            &["00:1b:2c:3d:4e:5f", "00-1B-2C-3D-4E-5F", "001b.2c3d.4e5f"],
            &["", "00:1b", "00:1b-2c:3d:4e:5f", "0g:1b:2c:3d:4e:5f"],
        );
        check(
            "uuid",
            &["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
            &["123e4567", "g23e4567-e89b-12d3-a456-426614174000"],
        );
        check(
            "uuid4",
            &["123e4567-e89b-42d3-a456-426614174000"],
            &["123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-42d3-c456-426614174000"],
        );
        check("isbn", &["0-306-40615-2", "978-3-16-148410-0", "080442957X"], &["1234567890", "978-3-16-148410-1"]);
        check("creditcard", &["4111 1111 1111 1111", "371449635398431"], &["4111111111111112", "1234"]);
        check("ssn", &["123-45-6789"], &["123456789", "12-345-6789"]);
        check("hexcolor", &["#fff", "00FF00"], &["#ffff", "#ggg"]);
        check("rgbcolor", &["rgb(1, 2,255)", "rgb(0,0,0)"], &["rgb(256,0,0)", "rgb(1,2)", "rgb(01,0,0)"]);
        check("byte", &["aGk=", "aGkh"], &["", "aGk", "a*=="]);
        check("date", &["2024-02-29"], &["2023-02-29", "2024-1-01", "2024-01-01T00:00:00Z"]);
        check(
            "date-time",
            &["2024-02-29T10:00:00Z", "2024-01-01t00:00:00.5+01:00"],
            &["2024-02-30T10:00:00Z", "2024-01-01", "2024-01-01T24:00:00Z", "2024-01-01T00:00:00"],
        );
        check("duration", &["1h30m", "3 days", "1w", "-1.5s"], &["", "1", "x", "1 parsec"]);
        check("k8s-short-name", &["a-b"], &["a.b", "A"]);
        assert_eq!(has_format("temperature", "x"), None);
    }
}
