//! The order in which go-yaml writes a mapping's keys: as people sort, `a2` before `a10`.

use std::cmp::Ordering;

/// Sorts by key. go-yaml's order is not one for all sets of keys (of three, each may come before the next), which the
/// standard library's sort answers with a panic: so this is a merge sort of our own, which does not mind.
pub(super) fn sort<T>(mut items: Vec<&T>, key: impl Fn(&T) -> &str) -> Vec<&T> {
    let mut width = 1;
    while width < items.len() {
        let mut merged = Vec::with_capacity(items.len());
        for run in items.chunks(2 * width) {
            let (mut a, mut b) = run.split_at(width.min(run.len()));
            while let (Some(x), Some(y)) = (a.first(), b.first()) {
                let from = if compare(key(x), key(y)).is_gt() { &mut b } else { &mut a };
                merged.push(from[0]);
                *from = &from[1..];
            }
            merged.extend_from_slice(a);
            merged.extend_from_slice(b);
        }
        items = merged;
        width *= 2;
    }
    items
}

/// Compares two keys.
fn compare(a: &str, b: &str) -> Ordering {
    if a.is_ascii() && b.is_ascii() && !a.bytes().chain(b.bytes()).any(|c| c.is_ascii_digit()) {
        return compare_from(a.as_bytes(), b.as_bytes(), |c| char::from(*c));
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    compare_from(&a, &b, |c| *c)
}

fn compare_from<T: PartialEq>(a: &[T], b: &[T], char_of: impl Fn(&T) -> char) -> Ordering {
    let Some(i) = a.iter().zip(b).position(|(x, y)| x != y) else { return a.len().cmp(&b.len()) };
    let (x, y) = (char_of(&a[i]), char_of(&b[i]));
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => x.cmp(&y),
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            // A number that has begun before the difference makes a zero count.
            let begun = (x == '0' || y == '0')
                && a[..i].iter().rev().map(&char_of).take_while(|c| c.is_numeric()).any(|c| c != '0');
            let (a_number, a_end) = number_at(a, i, begun, &char_of);
            let (b_number, b_end) = number_at(b, i, begun, &char_of);
            a_number.cmp(&b_number).then(a_end.cmp(&b_end)).then(x.cmp(&y))
        }
    }
}

/// The number that the digits from `i` on make, and where they end.
fn number_at<T>(text: &[T], i: usize, begun: bool, char_of: impl Fn(&T) -> char) -> (i64, usize) {
    let mut number = i64::from(begun);
    let mut end = i;
    while let Some(digit) = text.get(end).map(&char_of).filter(|c| c.is_numeric()) {
        number = number.wrapping_mul(10).wrapping_add(i64::from(digit as u32) - i64::from(b'0'));
        end += 1;
    }
    (number, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_as_people_sort() {
        let mut keys = vec!["b", "a10", "a2", "a", "A", "a-b", "a.b", "a/b", "1", "10", "9", "_x", "é", "a02", "ab"];
        keys.reverse();
        let keys: Vec<&str> = sort(keys.iter().collect(), |k| *k).into_iter().copied().collect();
        assert_eq!(keys, ["_x", "1", "9", "10", "A", "a", "a-b", "a.b", "a/b", "a2", "a02", "a10", "ab", "b", "é"]);
    }

    #[test]
    fn keys_without_an_order_are_sorted_somehow() {
        let keys: Vec<String> = (0..3000u32)
            .map(|i| {
                let bits = i.wrapping_mul(2_654_435_761);
                (0..6).map(|j| ["0", "00", "1", "a", "-", "9"][(bits >> (3 * j)) as usize % 6]).collect()
            })
            .collect();
        assert_eq!(sort(keys.iter().collect(), |k: &String| k.as_str()).len(), keys.len());
    }
}
