//! Comma-separated values (RFC 4180) as Go's reader takes them.

/// A record, and the line (from 1) on which it begins.
pub(super) struct Record {
    pub(super) line: usize,
    pub(super) fields: Vec<String>,
}

/// A quote that does not stand where it may. Shown, it is what Go says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parse error on line {line}, column {column}: {fault}")]
pub struct CsvError {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in bytes.
    pub column: usize,
    /// What is wrong there.
    pub fault: CsvFault,
}

/// What is wrong with a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CsvFault {
    /// It stands in a field that does not begin with one.
    #[error("bare \" in non-quoted-field")]
    Bare,
    /// It does not end its field, or there is none that does.
    #[error("extraneous or missing \" in quoted-field")]
    Unbalanced,
}

/// All records of a text. Empty lines are none.
///
/// # Errors
/// A quote does not stand where it may.
pub(super) fn records(text: &str) -> Result<Vec<Record>, CsvError> {
    let mut reader = Reader { lines: text.split_inclusive('\n').enumerate().map(|(n, line)| (n + 1, line)) };
    let mut records = Vec::new();
    while let Some((number, line)) = reader.lines.next() {
        if !without_end(line).is_empty() {
            records.push(Record { line: number, fields: reader.record(number, line)? });
        }
    }
    Ok(records)
}

struct Reader<I> {
    lines: I,
}

/// A line without what ends it.
fn without_end(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

impl<'a, I: Iterator<Item = (usize, &'a str)>> Reader<I> {
    fn record(&mut self, number: usize, line: &'a str) -> Result<Vec<String>, CsvError> {
        let (mut number, mut line, mut fields) = (number, line, Vec::new());
        let mut rest = without_end(line);
        loop {
            let Some(quoted) = rest.strip_prefix('"') else {
                let (field, more) = match rest.split_once(',') {
                    Some((field, more)) => (field, Some(more)),
                    None => (rest, None),
                };
                if let Some(at) = field.find('"') {
                    let column = line.len() - line_end(line) - rest.len() + at + 1;
                    return Err(CsvError { line: number, column, fault: CsvFault::Bare });
                }
                fields.push(field.to_owned());
                match more {
                    Some(more) => rest = more,
                    None => return Ok(fields),
                }
                continue;
            };
            let mut field = String::new();
            let mut inner = quoted;
            let more = loop {
                let Some((before, after)) = inner.split_once('"') else {
                    // The field goes on in the next line.
                    field.push_str(inner);
                    let column = without_end(line).len() + 1 + usize::from(line.ends_with('\n'));
                    let next = if line.ends_with('\n') { self.lines.next() } else { None };
                    let Some((next_number, next_line)) = next else {
                        return Err(CsvError { line: number, column, fault: CsvFault::Unbalanced });
                    };
                    field.push('\n');
                    (number, line) = (next_number, next_line);
                    inner = without_end(line);
                    continue;
                };
                field.push_str(before);
                if let Some(after) = after.strip_prefix('"') {
                    field.push('"');
                    inner = after;
                } else if after.is_empty() {
                    break None;
                } else if let Some(after) = after.strip_prefix(',') {
                    break Some(after);
                } else {
                    let column = without_end(line).len() - after.len();
                    return Err(CsvError { line: number, column, fault: CsvFault::Unbalanced });
                }
            };
            fields.push(field);
            match more {
                Some(more) => rest = more,
                None => return Ok(fields),
            }
        }
    }
}

/// How long the end of a line is.
fn line_end(line: &str) -> usize {
    line.len() - without_end(line).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_go_reads_them() {
        let check = |text: &str, expect: &[&[&str]]| {
            let found: Vec<_> = records(text).expect("records").into_iter().map(|record| record.fields).collect();
            assert_eq!(found, expect, "{text:?}");
        };
        check("a,b,c\n\n\r\nd, e,\"f,g\"\r\n", &[&["a", "b", "c"], &["d", " e", "f,g"]]);
        check("\"a\"\"b\",\"\"\n", &[&["a\"b", ""]]);
        check("\"two\nlines\",x", &[&["two\nlines", "x"]]);
        check("a,\n", &[&["a", ""]]);
        check("", &[]);
        assert_eq!(records("a\n\nb\n").expect("records")[1].line, 3);
    }

    #[test]
    fn quotes_stand_where_they_may() {
        let check = |text: &str, expect: &str| {
            let found = records(text).err().map(|why| why.to_string());
            assert_eq!(found, Some(format!("parse error on line {expect}")), "{text:?}");
        };
        check("a,b\"c,d\n", "1, column 4: bare \" in non-quoted-field");
        check("a,\"b,c\n", "1, column 8: extraneous or missing \" in quoted-field");
        check("x\na,\"b\"c,d\n", "2, column 5: extraneous or missing \" in quoted-field");
    }
}
