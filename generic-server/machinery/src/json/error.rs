//! JSON syntax errors, in the words of Go's encoding/json.

use std::fmt;

/// A syntax error. Its text is what clients of the Go server see: `invalid character 'x' looking for beginning of value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonError {
    /// The text ended inside a value, or is empty.
    UnexpectedEnd,
    /// A byte that the grammar does not allow where it stands.
    Invalid {
        /// The byte; Go shows it as if it were a code point.
        byte: u8,
        /// Where it stands: `in string literal`, `after array element`, …
        context: Context,
        /// Its offset in bytes.
        offset: usize,
    },
    /// A number beyond the range of a float, as it is written.
    NumberRange(String),
}

/// The place in the grammar where a byte was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A fixed phrase.
    Plain(&'static str),
    /// Inside `true`, `false` or `null`.
    Literal {
        /// The literal.
        word: &'static str,
        /// The byte that should have been there.
        expected: u8,
    },
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonError::UnexpectedEnd => f.write_str("unexpected end of JSON input"),
            JsonError::Invalid { byte, context, .. } => {
                write!(f, "invalid character {} ", Quoted(*byte))?;
                match context {
                    Context::Plain(phrase) => f.write_str(phrase),
                    Context::Literal { word, expected } => {
                        write!(f, "in literal {word} (expecting {})", Quoted(*expected))
                    }
                }
            }
            JsonError::NumberRange(text) => {
                write!(f, "json: cannot unmarshal number {text} into Go value of type float64")
            }
        }
    }
}

impl std::error::Error for JsonError {}

/// A byte in single quotes, escaped as Go's strconv does.
struct Quoted(u8);

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b'\'' => f.write_str(r"'\''"),
            b'\\' => f.write_str(r"'\\'"),
            0x07 => f.write_str(r"'\a'"),
            0x08 => f.write_str(r"'\b'"),
            0x0c => f.write_str(r"'\f'"),
            b'\n' => f.write_str(r"'\n'"),
            b'\r' => f.write_str(r"'\r'"),
            b'\t' => f.write_str(r"'\t'"),
            0x0b => f.write_str(r"'\v'"),
            c @ (0..0x20 | 0x7f) => write!(f, r"'\x{c:02x}'"),
            c @ (0x80..=0xa0 | 0xad) => write!(f, r"'\u{c:04x}'"),
            c => write!(f, "'{}'", char::from(c)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_quoted_like_gos() {
        for (byte, want) in [
            (b'x', "'x'"),
            (b'"', "'\"'"),
            (b'\'', r"'\''"),
            (0, r"'\x00'"),
            (b'\n', r"'\n'"),
            (0x9e, r"'\u009e'"),
            (0xae, "'®'"),
        ] {
            assert_eq!(Quoted(byte).to_string(), want);
        }
    }
}
