//! Strict decoding's errors in the order of the document.

use std::collections::HashMap;

use crate::json;

/// Sorts the errors of strict decoding (`duplicate field "a.b"`, `unknown field "c"`) by where the members stand in the JSON
/// text, as upstream's decoder meets them: a duplicate where it is the second time, an unknown member where it is first.
/// Others stay in front.
pub fn in_document_order(text: &[u8], mut errors: Vec<String>) -> Vec<String> {
    if errors.len() > 1 {
        let mut scan = Scan { text, at: 0, path: String::new(), met: HashMap::new() };
        scan.value(0);
        let place = |error: &String| {
            let (kind, path) = error.split_once(" field \"")?;
            let places = scan.met.get(path.strip_suffix('"')?)?;
            places.get(usize::from(kind == "duplicate")).or(places.first()).copied()
        };
        errors.sort_by_cached_key(place);
    }
    errors
}

/// A walk over JSON that was read before, and so is well formed; anything else ends it.
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    path: String,
    /// Where each path was met first and second.
    met: HashMap<String, Vec<usize>>,
}

impl Scan<'_> {
    fn skip_space(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        if depth > json::MAX_DEPTH {
            return None;
        }
        match self.skip_space()? {
            b'{' => self.members(depth),
            b'[' => self.items(depth),
            b'"' => self.string().map(|_| ()),
            _ => {
                while self
                    .text
                    .get(self.at)
                    .is_some_and(|b| !matches!(b, b',' | b'}' | b']') && !b.is_ascii_whitespace())
                {
                    self.at += 1;
                }
                Some(())
            }
        }
    }

    /// The text of a string, quotes included.
    fn string(&mut self) -> Option<std::ops::Range<usize>> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.text.get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(start..self.at)
    }

    /// After an opening bracket or a comma: whether another entry follows.
    fn more(&mut self, close: u8) -> Option<bool> {
        match self.skip_space()? {
            b if b == close => {
                self.at += 1;
                Some(false)
            }
            b',' => {
                self.at += 1;
                self.skip_space().map(|_| true)
            }
            _ => Some(true),
        }
    }

    fn members(&mut self, depth: usize) -> Option<()> {
        self.at += 1;
        while self.more(b'}')? {
            let start = self.at;
            let range = self.string()?;
            let name = json::decode(&self.text[range]).ok()?;
            let length = self.path.len();
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(name.as_str()?);
            let places = self.met.entry(self.path.clone()).or_default();
            if places.len() < 2 {
                places.push(start);
            }
            self.skip_space()?; // the colon
            self.at += 1;
            self.value(depth + 1)?;
            self.path.truncate(length);
        }
        Some(())
    }

    fn items(&mut self, depth: usize) -> Option<()> {
        self.at += 1;
        let mut index = 0;
        while self.more(b']')? {
            let length = self.path.len();
            self.path.push_str(&format!("[{index}]"));
            self.value(depth + 1)?;
            self.path.truncate(length);
            index += 1;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_follow_the_document() {
        let text = br#"{"z": 1, "spec": {"list": [ {}, {"b": "x\"}", "a": [1,2], "b": 2} ], "c\u0064": null}, "a": true, "z": 2}"#;
        let errors = [
            "duplicate field \"spec.list[1].b\"",
            "duplicate field \"z\"",
            "unknown field \"a\"",
            "unknown field \"spec.cd\"",
            "unknown field \"spec.list[1].a\"",
        ];
        let sorted = in_document_order(text, errors.map(String::from).to_vec());
        assert_eq!(
            sorted,
            [
                "unknown field \"spec.list[1].a\"",
                "duplicate field \"spec.list[1].b\"",
                "unknown field \"spec.cd\"",
                "unknown field \"a\"",
                "duplicate field \"z\"",
            ]
        );
    }
}
