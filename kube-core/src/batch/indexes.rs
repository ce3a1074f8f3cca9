//! Sets of the indexes of a job's pods, as text: `1,3-5,7`.

use machinery::meta::go_text::quote;

/// How many indexes the text holds, all below `completions` and rising.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let mut total = 0;
    let mut last = None;
    for interval in text.split(',') {
        let (start, end) = read(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= start) {
            return Err(format!("non-increasing order, previous: {last}, current: {start}"));
        }
        total += end - start + 1;
        last = Some(end);
    }
    Ok(total)
}

/// The first index that is in both texts. Intervals that cannot be read are passed over.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<(i64, i64)> {
        if text.is_empty() { Vec::new() } else { text.split(',').filter_map(|i| read(i, completions).ok()).collect() }
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let (mut c, mut f) = (completed.iter(), failed.iter());
    let (mut one, mut other) = (c.next(), f.next());
    while let (Some((cx, cy)), Some((fx, fy))) = (one, other) {
        if cx <= fy && fx <= cy {
            return Some(*cx.max(fx));
        }
        if cx <= fx {
            one = c.next();
        } else {
            other = f.next();
        }
    }
    None
}

fn read(interval: &str, completions: i64) -> Result<(i64, i64), String> {
    let number = |text: &str| -> Result<i64, String> {
        let number =
            text.parse().map_err(|_| format!("cannot convert string to integer for index: {}", quote(text)))?;
        if number >= completions { Err(format!("too large index: {}", quote(text))) } else { Ok(number) }
    };
    let parts: Vec<&str> = interval.split('-').collect();
    match parts[..] {
        [only] => number(only).map(|n| (n, n)),
        [first, last] => {
            let (first, last) = (number(first)?, number(last)?);
            if first >= last {
                return Err(format!("non-increasing order, previous: {first}, current: {last}"));
            }
            Ok((first, last))
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            quote(interval)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_counted_or_refused() {
        assert_eq!(count("", 3), Ok(0));
        assert_eq!(count("0,2-4", 5), Ok(4));
        let wrong = |text: &str, why: &str| assert_eq!(count(text, 5), Err(why.to_owned()), "{text}");
        wrong("4-2", "non-increasing order, previous: 4, current: 2");
        wrong("2,1", "non-increasing order, previous: 2, current: 1");
        wrong("a", r#"cannot convert string to integer for index: "a""#);
        wrong("1,3-9", r#"too large index: "9""#);
        assert!(count("1-2-3", 5).is_err());
    }

    #[test]
    fn sets_overlap_where_both_hold_an_index() {
        assert_eq!(overlap("1-2", "2", 3), Some(2));
        assert_eq!(overlap("0,2-4", "1,5-6", 9), None);
        assert_eq!(overlap("0,x,7-9", "1,8", 10), Some(8));
        assert_eq!(overlap("", "1", 3), None);
    }
}
