//! How many seats a request takes, from what is known before it runs.

use std::time::Duration;

use crate::Work;

/// Bytes of objects in memory at once that count as one seat.
const BYTES_PER_SEAT: u64 = 100_000;
/// A list from the cache is streamed: it never holds more than this.
const STREAMED_BYTES: u64 = 1_000_000;
const MAX_LIST_SEATS: u64 = 100;
const MAX_MUTATION_SEATS: u64 = 10;
const WATCHERS_PER_SEAT: u64 = 10;
/// How long the event of a mutation keeps one seat for each [`WATCHERS_PER_SEAT`].
const EVENT: Duration = Duration::from_millis(5);

/// What is stored of a resource.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stored {
    /// How many objects.
    pub objects: u64,
    /// Their size in all, in bytes.
    pub bytes: u64,
}

/// What matters of a list, or of a watch that begins with one.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListRequest {
    /// Whether it is about one object by name.
    pub single: bool,
    /// The page's size; 0: all.
    pub limit: u64,
}

/// The work of a list, or of the state that a watch begins with. Lists are read from the cache here, always. `stored`: `None` of
/// resources that this server does not keep; `max_seats`: the level's, 0: no own limit.
pub fn estimate_list(request: ListRequest, stored: Option<Stored>, max_seats: u64) -> Work {
    let Some(stored) = stored.filter(|stored| stored.objects > 0) else { return Work::seats(1) };
    let all = if request.single { 1 } else { stored.objects };
    let objects = if request.limit > 0 { all.min(request.limit) } else { all };
    let average = stored.bytes.div_ceil(stored.objects);
    let bytes = objects.saturating_mul(average).min(STREAMED_BYTES);
    Work::seats(bytes.div_ceil(BYTES_PER_SEAT).clamp(1, bounded(max_seats, MAX_LIST_SEATS)))
}

/// The work of a mutation whose event `watchers` wait for.
pub fn estimate_mutation(watchers: u64, max_seats: u64) -> Work {
    if watchers < WATCHERS_PER_SEAT {
        return Work::seats(1);
    }
    // The same area, if the level is not as wide: narrower, and longer.
    let wanted = watchers.div_ceil(WATCHERS_PER_SEAT);
    let final_seats = wanted.min(bounded(max_seats, MAX_MUTATION_SEATS));
    let nanos = EVENT.as_nanos().saturating_mul(u128::from(wanted)) / u128::from(final_seats);
    let additional_latency = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    Work { initial_seats: 1, final_seats, additional_latency }
}

fn bounded(level: u64, most: u64) -> u64 {
    if level == 0 { most } else { level.min(most) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_take_seats_by_the_bytes_that_they_hold() {
        let check = |request: ListRequest, objects: u64, bytes: u64, max: u64, seats: u64| {
            let work = estimate_list(request, Some(Stored { objects, bytes }), max);
            assert_eq!(work, Work::seats(seats), "{request:?} of {objects} objects, {bytes} bytes");
        };
        let all = ListRequest::default();
        check(all, 0, 0, 0, 1);
        check(all, 10, 1_000, 0, 1);
        check(all, 100, 300_000, 0, 3);
        check(all, 100, 300_000, 2, 2);
        check(all, 100_000, 300_000_000, 0, 10); // streamed
        check(ListRequest { limit: 50, ..all }, 100, 400_000, 0, 2);
        check(ListRequest { single: true, ..all }, 100, 400_000, 0, 1);
        assert_eq!(estimate_list(all, None, 0), Work::seats(1));
    }

    #[test]
    fn mutations_take_seats_by_their_watchers() {
        let check = |watchers, max, final_seats, millis| {
            let additional_latency = Duration::from_millis(millis);
            let want = Work { initial_seats: 1, final_seats, additional_latency };
            assert_eq!(estimate_mutation(watchers, max), want, "{watchers} watchers");
        };
        check(9, 0, 0, 0);
        check(10, 0, 1, 5);
        check(25, 0, 3, 5);
        check(1_000, 0, 10, 50);
        check(1_000, 2, 2, 250);
    }
}
