//! Labels and selectable fields: short strings, kept in one allocation an object.

use std::fmt;

/// Strings, one after the other, each behind its length.
#[derive(Clone, Default, PartialEq, Eq)]
struct Texts(Box<[u8]>);

impl Texts {
    fn collect<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut bytes = Vec::new();
        for text in texts {
            // Seven bits a byte, the lowest first; the top bit says that more follow.
            let mut rest = text.len();
            while rest >= 0x80 {
                bytes.push(0x80 | rest as u8);
                rest >>= 7;
            }
            bytes.push(rest as u8);
            bytes.extend_from_slice(text.as_bytes());
        }
        Texts(bytes.into_boxed_slice())
    }

    fn iter(&self) -> Iter<'_> {
        Iter(&self.0)
    }
}

struct Iter<'a>(&'a [u8]);

impl<'a> Iter<'a> {
    fn next_bytes(&mut self) -> Option<&'a [u8]> {
        let (mut len, mut shift) = (0, 0);
        loop {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            len |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let (text, rest) = self.0.split_at(len);
        self.0 = rest;
        Some(text)
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.next_bytes().map(text)
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it was a string when it was put in")
}

/// Labels: few, sorted, compact.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels(Texts);

impl Labels {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut texts = self.0.iter();
        while let (Some(k), Some(value)) = (texts.next_bytes(), texts.next_bytes()) {
            if k == key.as_bytes() {
                return Some(text(value));
            }
        }
        None
    }

    /// All labels, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut texts = self.0.iter();
        std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.0.is_empty()
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    /// Of a key that comes twice the last value stays, as JSON readers have it.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(iter: I) -> Self {
        let mut all: Vec<_> = iter.into_iter().collect();
        all.reverse();
        all.sort_by(|(a, _), (b, _)| a.as_ref().cmp(b.as_ref()));
        all.dedup_by(|(later, _), (first, _)| later.as_ref() == first.as_ref());
        Labels(Texts::collect(all.iter().flat_map(|(k, v)| [k.as_ref(), v.as_ref()])))
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The values of the resource's selectable fields, in the order of the resource's table.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields(Texts);

impl Fields {
    /// The value of field number `index`, if the table has such a row.
    pub fn get(&self, index: usize) -> Option<&str> {
        let mut texts = self.0.iter();
        for _ in 0..index {
            texts.next_bytes()?;
        }
        texts.next()
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter()
    }
}

impl<V: AsRef<str>> FromIterator<V> for Fields {
    fn from_iter<I: IntoIterator<Item = V>>(iter: I) -> Self {
        let all: Vec<_> = iter.into_iter().collect();
        Fields(Texts::collect(all.iter().map(AsRef::as_ref)))
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_and_the_last_of_two_wins() {
        let labels: Labels = [("b", "1"), ("a", "2"), ("b", "3")].into_iter().collect();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
        assert_eq!((labels.get("b"), labels.get("c"), labels.len(), labels.is_empty()), (Some("3"), None, 2, false));
        assert!(Labels::default().is_empty());
    }

    #[test]
    fn texts_of_any_length_come_back() {
        let texts: Vec<String> =
            [0, 1, 127, 128, 129, 16_383, 16_384, 70_000].map(|n| "ä".repeat(n / 2) + &"x".repeat(n % 2)).into();
        let fields: Fields = texts.iter().collect();
        assert!(fields.iter().eq(texts.iter().map(String::as_str)));
        for (i, text) in texts.iter().enumerate() {
            assert_eq!(fields.get(i), Some(&**text));
        }
        assert_eq!(fields.get(texts.len()), None);
    }
}
