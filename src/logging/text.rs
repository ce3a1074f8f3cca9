//! Fields in a line of text. What clients send is part of many of them, so no value can begin a line or look like another
//! field: control characters are escaped, and whatever is not a plain word is quoted.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{FormatFields, format::Writer},
};

/// Writes the message as it is, but for control characters, and the other fields as `name=value` or `name="a value"`.
pub(super) struct TextFields;

impl<'writer> FormatFields<'writer> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut line = Line { writer, is_empty: true, result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

struct Line<'writer> {
    writer: Writer<'writer>,
    is_empty: bool,
    result: fmt::Result,
}

impl Line<'_> {
    fn write(&mut self, field: &Field, value: &str) -> fmt::Result {
        if !std::mem::take(&mut self.is_empty) {
            self.writer.write_char(' ')?;
        }
        if field.name() == "message" {
            return self.writer.write_str(&escaped(value));
        }
        let name = field.name();
        self.writer.write_str(name.strip_prefix("r#").unwrap_or(name))?;
        self.writer.write_char('=')?;
        if is_word(value) || is_quoted(value) {
            return self.writer.write_str(value);
        }
        let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
        write!(self.writer, "\"{}\"", escaped(&quoted))
    }
}

impl Visit for Line<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if self.result.is_ok() {
            self.result = self.write(field, value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// The text on one line of a log, whoever has written it: what a terminal or a reader of lines would obey is escaped.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if commands(c) && u32::from(c) < 0x80 => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if commands(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// Whether a character is no text: control characters, and those that end lines or turn the direction of writing.
fn commands(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Whether a value needs no quotes: it has no spaces, no quotes, and nothing that a name and a value are told apart by.
fn is_word(value: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=');
    let is_plain = |c: char| u8::try_from(c).is_ok_and(plain) || !(c.is_ascii() || c.is_whitespace() || commands(c));
    // Each request begins with such words, and they are ASCII.
    !value.is_empty() && (value.bytes().all(plain) || value.chars().all(is_plain))
}

/// Whether a value is one quoted text, as `Debug` writes it.
fn is_quoted(value: &str) -> bool {
    let Some(inner) = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) else { return false };
    let mut escape = false;
    for c in inner.chars() {
        match c {
            _ if commands(c) => return false,
            _ if escape => escape = false,
            '\\' => escape = true,
            '"' => return false,
            _ => {}
        }
    }
    !escape
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing_subscriber::fmt;

    use super::*;

    /// What a text logger writes of what `log` says.
    fn written(log: impl FnOnce()) -> String {
        #[derive(Clone, Default)]
        struct Sink(Arc<Mutex<Vec<u8>>>);
        impl io::Write for Sink {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().expect("nobody panics").extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = fmt()
            .fmt_fields(TextFields)
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = sink.0.lock().expect("nobody panics").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn what_a_client_sends_begins_no_line_and_looks_like_no_field() {
        let path = "/a\n2026-01-01 ERROR forged\u{1b}[31m\u{202e}\u{85}";
        let text = written(|| {
            let span = tracing::info_span!("request", path = %path, method = "GET");
            let _inside = span.enter();
            tracing::info!(user = %"bob level=ERROR", why = ?"x\"\n", code = 401, "refused {path}");
        });
        let expect = concat!(
            " INFO request{path=\"/a\\n2026-01-01 ERROR forged\\x1b[31m\\u202e\\u0085\" method=GET}: ",
            "refused /a\\n2026-01-01 ERROR forged\\x1b[31m\\u202e\\u0085 user=\"bob level=ERROR\" ",
            "why=\"x\\\"\\n\" code=401\n",
        );
        assert_eq!(text, expect);
    }

    #[test]
    fn words_stand_for_themselves_and_everything_else_is_quoted() {
        let check = |value: &str, expect: &str| {
            assert_eq!(written(|| tracing::info!(v = %value, "m")), format!(" INFO m v={expect}\n"), "{value:?}");
        };
        check("pods/p", "pods/p");
        check("", "\"\"");
        check("a b", "\"a b\"");
        check("a=b", "\"a=b\"");
        check("\"a\"", "\"a\"");
        check("\"a\" x=\"b\"", "\"\\\"a\\\" x=\\\"b\\\"\"");
        check("\"a\\\"", "\"\\\"a\\\\\\\"\"");
        check("\"\u{7}\"", "\"\\\"\\x07\\\"\"");
        check("j\u{fc}rgen", "j\u{fc}rgen");
    }
}
