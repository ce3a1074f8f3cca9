//! What differs between two texts, as unified hunks: what upstream shows of a change that it refuses.
//!
//! The lines that two texts have in common are found as Python's difflib finds them, which upstream's library follows: the
//! longest common run of lines first, then the same before and after it.

use std::{collections::HashMap, fmt::Write};

/// How many equal lines a hunk has around what differs.
const CONTEXT: usize = 3;
/// Texts of more lines than this are not compared: it would take long, and nobody would read it.
const MAX_LINES: usize = 4000;
/// So many times as many lines as there are may be looked at, and so many at least: halves of halves are found long before.
/// Where runs are found one by one, the rest is told as one difference.
const LOOKS: usize = 16;
const LEAST_LOOKS: usize = 20_000;
/// From so many lines on, lines that are there more often than once in a hundred say nothing.
const POPULAR: usize = 200;

/// The hunks; nothing if the texts are too long.
pub(crate) fn between(old: &str, new: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    if a.len().max(b.len()) > MAX_LINES {
        return String::new();
    }
    let mut out = String::new();
    for hunk in hunks(&changes(&a, &b)) {
        write_hunk(&hunk, &a, &b, &mut out);
    }
    out
}

/// A part of both texts: where it begins and ends in each.
#[derive(Clone, Copy)]
struct Part {
    a: (usize, usize),
    b: (usize, usize),
    equal: bool,
}

/// A run of lines in both texts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    a: usize,
    b: usize,
    len: usize,
}

/// Where each line is in the new text, but for those that are everywhere.
fn places<'a>(b: &[&'a str]) -> HashMap<&'a str, Vec<usize>> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, line) in b.iter().enumerate() {
        places.entry(line).or_default().push(i);
    }
    if b.len() >= POPULAR {
        places.retain(|_, at| at.len() <= b.len() / 100 + 1);
    }
    places
}

/// The longest run within bounds; of several the first. `left`: how many more lines may be looked at.
fn longest(
    (a, b): (&[&str], &[&str]),
    places: &HashMap<&str, Vec<usize>>,
    low: Run,
    high: (usize, usize),
    left: &mut usize,
) -> Run {
    let mut best = Run { len: 0, ..low };
    let mut ending: HashMap<usize, usize> = HashMap::new();
    for (i, line) in a.iter().enumerate().take(high.0).skip(low.a) {
        let mut next = HashMap::new();
        let found = places.get(line).map_or(&[][..], Vec::as_slice);
        *left = left.saturating_sub(1 + found.len());
        if *left == 0 {
            break;
        }
        for &j in found.iter().filter(|j| (low.b..high.1).contains(*j)) {
            let len = 1 + j.checked_sub(1).and_then(|j| ending.get(&j)).copied().unwrap_or_default();
            next.insert(j, len);
            if len > best.len {
                best = Run { a: i + 1 - len, b: j + 1 - len, len };
            }
        }
        ending = next;
    }
    // Lines that are everywhere still extend a run.
    while best.a > low.a && best.b > low.b && a[best.a - 1] == b[best.b - 1] {
        best = Run { a: best.a - 1, b: best.b - 1, len: best.len + 1 };
    }
    while best.a + best.len < high.0 && best.b + best.len < high.1 && a[best.a + best.len] == b[best.b + best.len] {
        best.len += 1;
    }
    best
}

/// Both texts in parts that are equal and parts that differ.
fn changes(a: &[&str], b: &[&str]) -> Vec<Part> {
    let places = places(b);
    let mut open = vec![(0, a.len(), 0, b.len())];
    let (mut runs, mut left) = (Vec::new(), (LOOKS * (a.len() + b.len())).max(LEAST_LOOKS));
    while let Some((a_low, a_high, b_low, b_high)) = open.pop() {
        let run = longest((a, b), &places, Run { a: a_low, b: b_low, len: 0 }, (a_high, b_high), &mut left);
        if left == 0 {
            break;
        }
        if run.len > 0 {
            runs.push(run);
            open.push((a_low, run.a, b_low, run.b));
            open.push((run.a + run.len, a_high, run.b + run.len, b_high));
        }
    }
    runs.sort_unstable();
    runs.push(Run { a: a.len(), b: b.len(), len: 0 });
    let (mut parts, mut at): (Vec<Part>, _) = (Vec::new(), (0, 0));
    for run in runs {
        if at != (run.a, run.b) {
            parts.push(Part { a: (at.0, run.a), b: (at.1, run.b), equal: false });
        }
        at = (run.a + run.len, run.b + run.len);
        match parts.last_mut() {
            Some(last) if last.equal && run.len > 0 => (last.a.1, last.b.1) = at,
            _ if run.len > 0 => parts.push(Part { a: (run.a, at.0), b: (run.b, at.1), equal: true }),
            _ => {}
        }
    }
    parts
}

/// Differences with a few equal lines around them; those that are near to each other together.
fn hunks(parts: &[Part]) -> Vec<Vec<Part>> {
    let mut hunks = vec![Vec::new()];
    for (i, part) in parts.iter().enumerate() {
        let (first, last) = (i == 0, i + 1 == parts.len());
        let hunk = hunks.last_mut().expect("there is always one");
        if !part.equal {
            hunk.push(*part);
            continue;
        }
        let len = part.a.1 - part.a.0;
        let head =
            Part { a: (part.a.0, part.a.0 + len.min(CONTEXT)), b: (part.b.0, part.b.0 + len.min(CONTEXT)), ..*part };
        let tail =
            Part { a: (part.a.1 - len.min(CONTEXT), part.a.1), b: (part.b.1 - len.min(CONTEXT), part.b.1), ..*part };
        match (first, last) {
            (true, true) => {}
            (true, false) => hunk.push(tail),
            (false, true) => hunk.push(head),
            (false, false) if len > 2 * CONTEXT => {
                hunk.push(head);
                hunks.push(vec![tail]);
            }
            (false, false) => hunk.push(*part),
        }
    }
    hunks.retain(|hunk| hunk.iter().any(|part| !part.equal));
    hunks
}

fn write_hunk(hunk: &[Part], a: &[&str], b: &[&str], out: &mut String) {
    let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return };
    let range = |start: usize, end: usize| match end - start {
        1 => (start + 1).to_string(),
        0 => format!("{start},0"),
        len => format!("{},{len}", start + 1),
    };
    let (left, right) = (range(first.a.0, last.a.1), range(first.b.0, last.b.1));
    writeln!(out, "@@ -{left} +{right} @@").expect("a String takes all");
    for part in hunk {
        let mut lines = |sign: char, lines: &[&str]| {
            for line in lines {
                writeln!(out, "{sign}{line}").expect("a String takes all");
            }
        };
        if part.equal {
            lines(' ', &a[part.a.0..part.a.1]);
        } else {
            lines('-', &a[part.a.0..part.a.1]);
            lines('+', &b[part.b.0..part.b.1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expect: &str) {
        assert_eq!(
            between(&old.replace(' ', "\n"), &new.replace(' ', "\n")),
            expect.replace(' ', "\n").replace('_', " ")
        );
    }

    #[test]
    fn differences_have_three_equal_lines_around_them() {
        check("a b c d e f g h", "a b c d X f g h", "@@_-2,7_+2,7_@@ _b _c _d -e +X _f _g _h ");
        check("a b", "a b", "");
        check("a", "a b", "@@_-1_+1,2_@@ _a +b ");
        check("", "a", "@@_-0,0_+1_@@ +a ");
    }

    #[test]
    fn far_differences_stand_apart_and_near_ones_together() {
        check(
            "1 a b c d e f g 2",
            "x a b c d e f g y",
            "@@_-1,4_+1,4_@@ -1 +x _a _b _c @@_-6,4_+6,4_@@ _e _f _g -2 +y ",
        );
        check("1 a b c d e f 2", "x a b c d e f y", "@@_-1,8_+1,8_@@ -1 +x _a _b _c _d _e _f -2 +y ");
    }

    #[test]
    fn where_runs_are_found_one_by_one_the_rest_is_one_difference() {
        let text =
            |odd: &str| (0..3000).map(|i| format!("{i}{}\n", if i % 2 == 0 { "" } else { odd })).collect::<String>();
        let (old, new) = (text("a"), text("b"));
        let (a, b): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
        let parts = changes(&a, &b);
        assert!(parts.len() < 3000 && parts.windows(2).all(|two| two[0].a.1 == two[1].a.0 && two[0].b.1 == two[1].b.0));
        let ends = |end: fn(&Part) -> (usize, usize)| (parts.first().map(end), parts.last().map(end));
        assert_eq!((ends(|p| (p.a.0, p.b.0)).0, ends(|p| (p.a.1, p.b.1)).1), (Some((0, 0)), Some((3000, 3000))));
        assert!(parts.iter().filter(|part| part.equal).all(|p| a[p.a.0..p.a.1] == b[p.b.0..p.b.1]));
    }

    #[test]
    fn long_texts_are_not_compared() {
        let long = "x\n".repeat(MAX_LINES + 1);
        assert_eq!(between(&long, "x"), "");
    }
}
