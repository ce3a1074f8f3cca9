//! Shuffle sharding: each flow is dealt a few of the queues, so that two flows seldom share all of theirs.

/// The most queues that a flow may choose among: more than any valid configuration has.
const MAX_HAND: usize = 16;

/// Deals hands of queues.
#[derive(Clone, Copy, Debug)]
pub struct Dealer {
    deck: usize,
    hand: usize,
}

impl Dealer {
    /// For `deck` queues of which a flow gets `hand`. Sizes out of range are brought into it.
    pub fn new(deck: usize, hand: usize) -> Self {
        let deck = deck.max(1);
        Dealer { deck, hand: hand.clamp(1, deck.min(MAX_HAND)) }
    }

    /// How many queues a hand has.
    pub fn hand_size(&self) -> usize {
        self.hand
    }

    /// The hand of a flow: distinct queues, the same for the same hash. Returns them in the order in which they are dealt.
    pub fn deal(&self, mut hash: u64) -> impl Iterator<Item = usize> + Clone + use<> {
        // A hash is a number of mixed base: each digit says which of the remaining cards is next.
        let mut cards = [0_usize; MAX_HAND];
        for dealt in 0..self.hand {
            let remaining = (self.deck - dealt) as u64;
            let mut card = usize::try_from(hash % remaining).expect("less than the deck");
            hash /= remaining;
            // Digits count the cards that are left. Cards that were dealt lie between; step over each.
            let mut before = cards;
            let before = &mut before[..dealt];
            before.sort_unstable();
            for taken in before.iter() {
                if card >= *taken {
                    card += 1;
                }
            }
            cards[dealt] = card;
        }
        cards.into_iter().take(self.hand)
    }
}

/// The hash of a flow: its flow schema and its distinguisher, a user's or a namespace's name.
pub fn flow_hash(schema: &str, distinguisher: &str) -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    // Keyed once a process: nobody can choose names that share somebody else's queues.
    static KEYS: std::sync::LazyLock<RandomState> = std::sync::LazyLock::new(RandomState::new);
    KEYS.hash_one((schema, distinguisher))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_hand_holds_distinct_queues_of_the_deck(deck in 1_usize..600, hand in 1_usize..12, hash: u64) {
            let dealer = Dealer::new(deck, hand);
            let cards: Vec<usize> = dealer.deal(hash).collect();
            prop_assert_eq!(cards.len(), hand.min(deck));
            prop_assert!(cards.iter().all(|card| *card < deck));
            prop_assert_eq!(cards.iter().collect::<HashSet<_>>().len(), cards.len());
        }
    }

    #[test]
    fn every_hand_is_dealt_equally_often() {
        // 5 * 4 = 20 ordered hands, each by one residue of the hash.
        let dealer = Dealer::new(5, 2);
        let hands: HashSet<Vec<usize>> = (0..20).map(|hash| dealer.deal(hash).collect()).collect();
        assert_eq!(hands.len(), 20);
    }

    #[test]
    fn flows_are_told_apart_by_schema_and_distinguisher() {
        assert_eq!(flow_hash("a", "b"), flow_hash("a", "b"));
        assert_ne!(flow_hash("a", "b"), flow_hash("a", "c"));
        assert_ne!(flow_hash("a", "b"), flow_hash("ab", ""));
    }
}
