//! The text of an expression, and what is wrong with it, shown with the line where it stands.

use std::fmt::{self, Write};

/// Where something stands: a number of code points from the beginning.
pub type Offset = u32;

/// At most this many issues are told.
const SHOWN: usize = 100;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Where.
    pub at: Offset,
    /// What, in upstream's words.
    pub message: String,
}

impl Issue {
    pub(crate) fn new(at: Offset, message: impl Into<String>) -> Self {
        Issue { at, message: message.into() }
    }
}

/// All that is wrong with one expression. `Display` writes what clients see: each issue with its place, the line, and a mark below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issues {
    text: String,
    issues: Vec<Issue>,
}

impl std::error::Error for Issues {}

impl Issues {
    pub(crate) fn new(text: &str, mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|i| i.at);
        Issues { text: text.to_owned(), issues }
    }

    /// The issues in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = &Issue> {
        self.issues.iter()
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, issue) in self.issues.iter().take(SHOWN).enumerate() {
            if i > 0 {
                f.write_char('\n')?;
            }
            if self.text.is_empty() {
                write!(f, "ERROR: <input>:1:0: {}", issue.message)?; // there is no line that could be shown
                continue;
            }
            let (line, column, text) = place(&self.text, issue.at);
            write!(f, "ERROR: <input>:{line}:{}: {}\n | {}\n | ", column + 1, issue.message, text.replace('\t', " "))?;
            let mut before = text.chars();
            for c in before.by_ref().take(column) {
                f.write_str(if c.is_ascii() { "." } else { "．" })?;
            }
            f.write_str(if before.next().is_none_or(|c| c.is_ascii()) { "^" } else { "＾" })?;
        }
        match self.issues.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n{more} more errors were truncated"),
        }
    }
}

/// The line (from 1), the column (from 0) and the line's text.
fn place(text: &str, at: Offset) -> (usize, usize, &str) {
    let mut left = at as usize;
    let mut number = 0;
    let mut last = "";
    for line in text.split('\n') {
        number += 1;
        last = line;
        let length = line.chars().count();
        if left <= length {
            return (number, left, line);
        }
        left -= length + 1;
    }
    (number, last.chars().count(), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issues_are_shown_in_order_with_their_lines() {
        let text = "a &&\n\tself.b";
        let shown = Issues::new(text, vec![Issue::new(10, "second"), Issue::new(0, "first")]).to_string();
        assert_eq!(
            shown,
            "ERROR: <input>:1:1: first\n | a &&\n | ^\nERROR: <input>:2:6: second\n |  self.b\n | .....^"
        );
    }

    #[test]
    fn a_place_behind_the_end_is_the_end() {
        assert_eq!(Issues::new("ab", vec![Issue::new(2, "x")]).to_string(), "ERROR: <input>:1:3: x\n | ab\n | ..^");
    }

    #[test]
    fn nothing_has_no_line() {
        assert_eq!(Issues::new("", vec![Issue::new(0, "x")]).to_string(), "ERROR: <input>:1:0: x");
    }

    #[test]
    fn wide_characters_are_marked_with_wide_ones() {
        assert_eq!(
            Issues::new("'é' é", vec![Issue::new(4, "x")]).to_string(),
            "ERROR: <input>:1:5: x\n | 'é' é\n | .．..＾"
        );
    }
}
