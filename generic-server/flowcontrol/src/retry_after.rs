//! How long refused clients are asked to stay away: longer while a level goes on refusing, and less with every quiet second.

/// The longest, in seconds.
const MAX: u64 = 32;
const SLOTS: usize = MAX as usize + 1;

/// What one level has refused, second by second.
#[derive(Debug)]
pub(crate) struct RetryAfter {
    /// What clients are told, in seconds.
    seconds: u64,
    raised: u64,
    /// The second that is counted now, and the counts of it and of those before, each in its slot.
    current: u64,
    refused: [u64; SLOTS],
}

impl RetryAfter {
    pub(crate) fn new() -> Self {
        RetryAfter { seconds: 1, raised: 0, current: 0, refused: [0; SLOTS] }
    }

    /// One more is refused in this second; what it is told, in seconds.
    pub(crate) fn refuse(&mut self, second: u64) -> u64 {
        if second > self.current {
            for passed in self.current + 1..=second.min(self.current + SLOTS as u64) {
                self.refused[slot(passed)] = 0;
            }
            self.current = second;
            self.adjust();
        }
        self.refused[slot(self.current)] += 1;
        self.seconds
    }

    /// Looks at as many seconds as clients were told: those that were refused before them are back.
    fn adjust(&mut self) {
        let since = self.current.saturating_sub(self.seconds);
        let refused: u64 = (since..self.current).map(|second| self.refused[slot(second)]).sum();
        if refused >= 3 * self.seconds && self.current - self.raised >= self.seconds {
            self.seconds = (2 * self.seconds).min(MAX);
            self.raised = self.current;
        } else if refused < self.seconds && self.seconds > 1 {
            self.seconds -= 1;
        }
    }
}

fn slot(second: u64) -> usize {
    usize::try_from(second % SLOTS as u64).expect("less than the number of slots")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_doubles_under_load_and_shrinks_second_by_second() {
        let mut retry = RetryAfter::new();
        let mut told = |second, times: usize| (0..times).map(|_| retry.refuse(second)).last().unwrap_or(0);
        assert_eq!(told(100, 10), 1);
        assert_eq!(told(101, 10), 2);
        assert_eq!(told(102, 10), 2); // two seconds have not passed since
        assert_eq!(told(103, 10), 4);
        assert_eq!(told(200, 1), 3);
        assert_eq!(told(201, 1), 2);
        assert_eq!(told(300, 1), 1);
    }

    #[test]
    fn the_time_has_a_limit() {
        let mut retry = RetryAfter::new();
        let told = (0..10_000_u64).map(|n| retry.refuse(1_000 + n / 100)).max();
        assert_eq!(told, Some(32));
    }
}
