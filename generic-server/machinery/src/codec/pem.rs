//! PEM as Go's `encoding/pem` (of 1.26) reads it. Who signs what a cluster stores reads it so: another reader, that found another
//! block or other bytes in the same text, would check one thing while another one is signed.

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

/// Padding is asked for, and what stands in the last character's unused bits is not looked at.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// What it says to be, as in `CERTIFICATE`.
    pub label: &'a [u8],
    /// Whether there are headers before its content.
    pub headers: bool,
    /// The content.
    pub der: Vec<u8>,
}

/// The blocks of a text, in order. What is no block is passed over.
pub fn blocks(text: &[u8]) -> impl Iterator<Item = Block<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (block, behind) = first(rest)?;
        rest = behind;
        Some(block)
    })
}

/// The first block, and what stands behind it. Takes time in proportion to the text.
pub fn first(text: &[u8]) -> Option<(Block<'_>, &[u8])> {
    let mut rest = text;
    loop {
        // The first END, and the last BEGIN before it: one that is not ended does not hide the next.
        let end = find(rest, END)?;
        let behind_end = end + END.len();
        let begin = rest[..end].windows(BEGIN.len()).rposition(|at| at == BEGIN);
        let inside = begin.filter(|at| *at == 0 || rest[at - 1] == b'\n').map(|at| at + BEGIN.len());
        match inside.map(|inside| block(rest, inside, end)) {
            Some(Ok(found)) => return Some(found),
            Some(Err(Fault::Nothing)) => return None,
            Some(Err(Fault::Next)) | None => {}
        }
        rest = &rest[behind_end..];
    }
}

/// Why something is no block.
enum Fault {
    /// There may be one behind it.
    Next,
    /// There is none in the text.
    Nothing,
}

/// The block whose label begins at `inside` and whose END begins at `end`.
fn block(text: &[u8], inside: usize, end: usize) -> Result<(Block<'_>, &[u8]), Fault> {
    let (line, consumed) = line(&text[inside..]);
    let label = line.strip_suffix(DASHES).ok_or(Fault::Next)?;
    let mut at = inside + consumed;
    let mut headers = false;
    loop {
        if at >= text.len() {
            return Err(Fault::Nothing);
        }
        let (line, consumed) = self::line(&text[at..]);
        if !line.contains(&b':') {
            break;
        }
        headers = true;
        at += consumed;
    }
    // An empty block may end where its first line ends; behind headers there is a line's end of its own.
    if headers && end < at {
        // What is read as headers may reach over the END, and over everything behind it.
        return Err(if end + END.len() < at { Fault::Nothing } else { Fault::Next });
    }
    let trailer = text[end + END.len()..].strip_prefix(label).and_then(|rest| rest.strip_prefix(DASHES));
    let trailer = trailer.filter(|rest| self::line(rest).0.is_empty()).ok_or(Fault::Next)?;
    let mut der = Vec::new();
    if end > at {
        let content: Vec<u8> =
            text[at..end].iter().copied().filter(|b| !matches!(b, b' ' | b'\t' | b'\r' | b'\n')).collect();
        der = BASE64.decode(content).map_err(|_| Fault::Next)?;
    }
    let (_, consumed) = self::line(trailer);
    Ok((Block { label, headers, der }, &trailer[consumed..]))
}

/// The first line, without spaces and tabs at its end, and how long it is with all that ends it.
fn line(text: &[u8]) -> (&[u8], usize) {
    let (line, consumed) = match text.iter().position(|b| *b == b'\n') {
        Some(at) => (text[..at].strip_suffix(b"\r").unwrap_or(&text[..at]), at + 1),
        None => (text, text.len()),
    };
    let kept = line.iter().rposition(|b| !matches!(b, b' ' | b'\t')).map_or(0, |at| at + 1);
    (&line[..kept], consumed)
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|at| at == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks as `label[+]=content`, a plus for headers.
    fn check(text: &str, expect: &str) {
        let shown = blocks(text.as_bytes()).map(|block| {
            let headers = if block.headers { "+" } else { "" };
            let (label, content) = (String::from_utf8_lossy(block.label), String::from_utf8_lossy(&block.der));
            format!("{label}{headers}={content}")
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expect, "{text:?}");
    }

    #[test]
    fn blocks_are_found_as_go_finds_them() {
        check("-----BEGIN A-----\nYQ==\n-----END A-----\n", "A=a");
        check("before\n-----BEGIN A-----\nYQ==\n-----END A-----", "A=a");
        check("-----BEGIN A-----\r\nYW\r\nJj\r\n-----END A-----\r\n", "A=abc");
        check("-----BEGIN A----- \t\nY W\tJj\n-----END A----- \nbehind", "A=abc");
        check("-----BEGIN A-----\nYQ==\n-----END A-----\n-----BEGIN B-----\nYg==\n-----END B-----\n", "A=a B=b");
        check("-----BEGIN A-----\nKey: value\n\nYQ==\n-----END A-----\n", "A+=a");
        check("-----BEGIN A-----\n-----END A-----\n", "A=");
        check("-----BEGIN -----\nYQ==\n-----END -----\n", "=a");
    }

    #[test]
    fn what_is_no_block_is_passed_over() {
        let good = "-----BEGIN B-----\nYg==\n-----END B-----\n";
        let passed = [
            " -----BEGIN A-----\nYQ==\n-----END A-----\n",
            "x-----BEGIN A-----\nYQ==\n-----END A-----\n",
            "-----BEGIN A-----\nYQ==\n-----END C-----\n",
            "-----BEGIN A-----\nYQ==\n-----END A----- x\n",
            "-----BEGIN A----\nYQ==\n-----END A-----\n",
            "-----BEGIN A-----\nYQ\n-----END A-----\n",
            "-----BEGIN A-----\nY\u{b}Q==\n-----END A-----\n",
            "-----BEGIN A-----\nYQ==\n -----END A-----\n",
            "-----BEGIN A-----\nYQ==\n",
            "-----END A-----\n",
            "\n-----END A-----\n",
        ];
        for text in passed {
            check(text, "");
            check(&format!("{text}{good}"), "B=b");
        }
        // One that is not ended hides nothing; one line's end does not end two lines.
        check(&format!("-----BEGIN A-----\n{good}"), "B=b");
        check(&format!("-----BEGIN A-----{good}"), "");
        // Unused bits are not looked at.
        check("-----BEGIN A-----\nYR==\n-----END A-----\n", "A=a");
    }

    #[test]
    fn headers_reach_no_further_than_the_block() {
        check("-----BEGIN A-----\na: b\n-----END A-----\n", "");
        check("-----BEGIN A-----\na: b\n\n-----END A-----\n", "A+=");
        check("-----BEGIN A-----\na: b", "");
        check("-----BEGIN A-----\na: b\n-----END A: -----\nc: d\n-----BEGIN B-----\nYg==\n-----END B-----\n", "");
    }

    #[test]
    fn a_text_of_many_begins_and_ends_is_read_once() {
        let text = format!("{}{}", "-----BEGIN A-----\n".repeat(20_000), "\n-----END B-----".repeat(20_000));
        check(&text, "");
    }
}
