//! Divides seats among levels by what they want, each within its bounds.

/// What one level may get, and what it wants.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// At least; not below zero.
    pub lower: f64,
    /// At most; not below `lower`.
    pub upper: f64,
    /// It would like; not below `lower`.
    pub target: f64,
}

/// Nobody is taken to want nothing: a share of nothing says nothing about proportions.
const LEAST_TARGET: f64 = 0.001;

const EPSILON: f64 = 1e-7;

/// Divides `total`: all get the same fraction of what they want, but for those whom a bound stops. Returns the parts and that
/// fraction; `None` if bounds leave no solution.
pub fn allocate(total: f64, levels: &[Bounds]) -> Option<(Vec<f64>, f64)> {
    let part = |level: &Bounds, fraction: f64| (fraction * target(level)).clamp(level.lower, level.upper);
    let sum = |fraction: f64| levels.iter().map(|level| part(level, fraction)).sum::<f64>();
    let valid = levels.iter().all(|l| l.lower >= 0.0 && l.upper >= l.lower && l.target >= l.lower);
    let (lowest, highest) = levels.iter().fold((0.0, 0.0), |(low, high), l| (low + l.lower, high + l.upper));
    if !valid || total < 0.0 || lowest - total > EPSILON || total - highest > EPSILON {
        return None;
    }
    // The sum grows with the fraction, in straight pieces that meet where a level reaches a bound: find the piece by a binary
    // search over those fractions, then the point in it.
    let mut corners: Vec<f64> =
        levels.iter().flat_map(|level| [level.lower / target(level), level.upper / target(level)]).collect();
    corners.sort_by(f64::total_cmp);
    let after = corners.partition_point(|corner| sum(*corner) < total);
    let fraction = match (after.checked_sub(1).map(|at| corners[at]), corners.get(after)) {
        (None, Some(first)) => *first,
        (Some(last), None) => last,
        (None, None) => 0.0,
        (Some(from), Some(to)) => {
            let (low, high) = (sum(from), sum(*to));
            if high > low { from + (to - from) * (total - low) / (high - low) } else { *to }
        }
    };
    Some((levels.iter().map(|level| part(level, fraction)).collect(), fraction))
}

fn target(level: &Bounds) -> f64 {
    level.target.max(LEAST_TARGET)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bounds() -> impl Strategy<Value = Bounds> {
        (0.0..50.0_f64, 0.0..100.0_f64, 0.0..100.0_f64).prop_map(|(lower, more, wanted)| Bounds {
            lower,
            upper: lower + more,
            target: lower + wanted,
        })
    }

    proptest! {
        #[test]
        fn parts_add_up_and_are_fair_within_bounds(levels in proptest::collection::vec(bounds(), 1..12), at in 0.0..1.0_f64) {
            let low: f64 = levels.iter().map(|l| l.lower).sum();
            let high: f64 = levels.iter().map(|l| l.upper).sum();
            let total = low + (high - low) * at;
            let (parts, fraction) = allocate(total, &levels).expect("a solution between the bounds");
            prop_assert!((parts.iter().sum::<f64>() - total).abs() < 1e-3);
            for (part, level) in parts.iter().zip(&levels) {
                prop_assert!(*part >= level.lower - 1e-9 && *part <= level.upper + 1e-9);
                let fair = fraction * target(level);
                let stopped = fair < level.lower && *part == level.lower || fair > level.upper && *part == level.upper;
                prop_assert!(stopped || (part - fair).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn what_cannot_be_is_none() {
        let level = Bounds { lower: 5.0, upper: 10.0, target: 7.0 };
        assert!(allocate(4.0, &[level]).is_none());
        assert!(allocate(11.0, &[level]).is_none());
        assert_eq!(allocate(8.0, &[level]).map(|(parts, _)| parts), Some(vec![8.0]));
        assert!(allocate(6.0, &[Bounds { target: 1.0, ..level }]).is_none());
    }
}
