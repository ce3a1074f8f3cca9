//! Whether bytes are one well-formed item that upstream's reader accepts. No recursion: nesting costs heap, not stack.

use super::error::CborError;
use super::head::*;

/// How deep arrays, maps and tags in tags may nest.
const MAX_DEPTH: usize = 10_000;
/// How many members a map may have.
const MAX_PAIRS: u64 = 2_097_152;
/// How many items an array may have.
const MAX_ITEMS: u64 = 2_147_483_647;

/// What is open: how many items are to come in it, or that nobody knows.
struct Open {
    left: Left,
    depth: usize,
}

enum Left {
    Known(u64),
    /// An array, or a map with this many keys and values so far.
    Unknown {
        is_map: bool,
        come: u64,
    },
    /// A string in pieces.
    Pieces(u8),
}

/// Checks the bytes. What holds of them then: heads and lengths lie within them, and everything that is open is closed.
pub(super) fn check(bytes: &[u8]) -> Result<(), CborError> {
    let end = match bytes.is_empty() {
        true => return Err(CborError::Other("EOF".into())),
        false => item(bytes)?,
    };
    match bytes.len() - end {
        0 => Ok(()),
        extra => Err(CborError::Other(format!("cbor: {extra} bytes of extraneous data starting at index {end}"))),
    }
}

/// Where the first item ends.
fn item(bytes: &[u8]) -> Result<usize, CborError> {
    let mut open: Vec<Open> = Vec::new();
    let mut at = 0;
    loop {
        // Closes what is complete.
        while let Some(last) = open.last_mut() {
            match &mut last.left {
                Left::Known(0) => {}
                Left::Known(left) => {
                    *left -= 1;
                    break;
                }
                Left::Unknown { is_map, come } => {
                    if bytes.get(at) != Some(&BREAK) {
                        *come += 1;
                        check_count(*is_map, if *is_map { *come / 2 } else { *come })?;
                        break;
                    }
                    if *is_map && *come % 2 == 1 {
                        return Err(CborError::Other("cbor: unexpected \"break\" code".into()));
                    }
                    at += 1;
                }
                Left::Pieces(major) => {
                    let Some(&next) = bytes.get(at) else { return Err(unexpected_end()) };
                    if next != BREAK {
                        check_piece(*major, next)?;
                        break;
                    }
                    at += 1;
                }
            }
            open.pop();
        }
        if open.is_empty() && at > 0 {
            return Ok(at);
        }
        let depth = open.last().map_or(0, |open| open.depth);
        let (head, depth) = tagged(bytes, &mut at, depth)?;
        if let Some(opened) = opens(bytes, &mut at, head, depth)? {
            open.push(opened);
        } else if open.is_empty() {
            return Ok(at);
        }
    }
}

/// The head of the next item behind its tags, and the depth that it stands in. Each tag in a tag is a level.
fn tagged(bytes: &[u8], at: &mut usize, mut depth: usize) -> Result<(Head, usize), CborError> {
    let mut head = next(bytes, at)?;
    let mut is_first = true;
    while head.major == TAG {
        if !is_first {
            depth += 1;
            check_depth(depth)?;
        }
        is_first = false;
        if *at == bytes.len() {
            return Err(unexpected_end());
        }
        if matches!(head.argument, TAG_BIGNUM | TAG_NEGATIVE_BIGNUM) {
            return Err(CborError::unacceptable(name(TAG), "bignum"));
        }
        head = next(bytes, at)?;
    }
    Ok((head, depth))
}

/// What an item opens; what it holds itself is passed over.
fn opens(bytes: &[u8], at: &mut usize, head: Head, depth: usize) -> Result<Option<Open>, CborError> {
    match head.major {
        BYTES | TEXT if head.is_indefinite() => Ok(Some(Open { left: Left::Pieces(head.major), depth })),
        BYTES | TEXT => {
            let Ok(length) = i64::try_from(head.argument) else {
                let (what, length) = (name(head.major), head.argument);
                return Err(CborError::Other(format!(
                    "cbor: {what} length {length} is too large, causing integer overflow"
                )));
            };
            if ((bytes.len() - *at) as u64) < length as u64 {
                return Err(unexpected_end());
            }
            *at += length as usize;
            Ok(None)
        }
        ARRAY | MAP => {
            let (is_map, depth) = (head.major == MAP, depth + 1);
            check_depth(depth)?;
            if head.is_indefinite() {
                return Ok(Some(Open { left: Left::Unknown { is_map, come: 0 }, depth }));
            }
            if i64::try_from(head.argument).is_err() {
                let (what, length) = (name(head.major), head.argument);
                return Err(CborError::Other(format!(
                    "cbor: {what} length {length} is too large, it would cause integer overflow"
                )));
            }
            check_count(is_map, head.argument)?;
            let left = Left::Known(if is_map { 2 * head.argument } else { head.argument });
            Ok(Some(Open { left, depth }))
        }
        _ => Ok(None),
    }
}

fn check_depth(depth: usize) -> Result<(), CborError> {
    if depth > MAX_DEPTH { Err(too_deep()) } else { Ok(()) }
}

/// Upstream's limit, for what nests deeper.
pub(super) fn too_deep() -> CborError {
    CborError::Other(format!("cbor: exceeded max nested level {MAX_DEPTH}"))
}

fn check_count(is_map: bool, count: u64) -> Result<(), CborError> {
    match is_map {
        true if count > MAX_PAIRS => {
            Err(CborError::Other(format!("cbor: exceeded max number of key-value pairs {MAX_PAIRS} for CBOR map")))
        }
        false if count > MAX_ITEMS => {
            Err(CborError::Other(format!("cbor: exceeded max number of elements {MAX_ITEMS} for CBOR array")))
        }
        _ => Ok(()),
    }
}

/// A piece of a string must be a string of the same kind whose length is known.
fn check_piece(of: u8, first: u8) -> Result<(), CborError> {
    let (major, info) = (first >> 5, first & 0x1f);
    let why = match (major == of, info) {
        (false, _) => format!("wrong element type {} for indefinite-length {}", name(major), name(of)),
        (true, INDEFINITE) => format!("indefinite-length {} chunk is not definite-length", name(of)),
        (true, _) => return Ok(()),
    };
    Err(CborError::Other(format!("cbor: {why}")))
}

fn unexpected_end() -> CborError {
    CborError::Other("unexpected EOF".into())
}

/// The next head, if it is one that may be.
fn next(bytes: &[u8], at: &mut usize) -> Result<Head, CborError> {
    let rest = bytes.get(*at..).unwrap_or_default();
    let head = Head::read(rest).ok_or_else(unexpected_end)?;
    *at += head.size;
    let what = name(head.major);
    let why = match (head.major, head.info) {
        (PRIMITIVE, 24) if head.argument < 32 => format!("invalid simple value {} for type {what}", head.argument),
        (PRIMITIVE, INDEFINITE) => "unexpected \"break\" code".to_owned(),
        (POSITIVE | NEGATIVE | TAG, INDEFINITE) | (_, 28..=30) => {
            format!("invalid additional information {} for type {what}", head.info)
        }
        _ => {
            return match head.float() {
                Some(f) if f.is_nan() => Err(CborError::unacceptable(what, "floating-point NaN")),
                Some(f) if f.is_infinite() => Err(CborError::unacceptable(what, "floating-point infinity")),
                _ => Ok(head),
            };
        }
    };
    Err(CborError::Other(format!("cbor: {why}")))
}
