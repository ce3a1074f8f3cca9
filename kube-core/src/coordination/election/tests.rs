//! Who is to hold a lease.

use super::*;

/// An hour after 1970, in microseconds.
const NOW: i64 = 3_600_000_000;
const SECOND: i64 = 1_000_000;

/// A candidate that renewed itself and was asked so many seconds ago.
fn candidate(name: &str, versions: (&str, &str), renewed: i64, asked: Option<i64>) -> Candidate {
    let mut object = object! {
        "metadata" => object! { "name" => name, "creationTimestamp" => "1970-01-01T00:00:00Z" },
        "spec" => object! {
            "leaseName" => "l", "binaryVersion" => versions.0, "emulationVersion" => versions.1, "strategy" => OLDEST,
            "renewTime" => time(NOW - renewed * SECOND),
        },
    };
    if let Some(asked) = asked {
        object.set(&["spec", "pingTime"], time(NOW - asked * SECOND));
    }
    Candidate::of(&object)
}

/// A lease that was renewed so many seconds ago, for 15 seconds.
fn lease(holder: &str, renewed: i64) -> Value {
    object! {
        "spec" => object! {
            "holderIdentity" => holder, "leaseDurationSeconds" => 15, "renewTime" => time(NOW - renewed * SECOND),
        },
    }
}

const OLD: (&str, &str) = ("1.35.0", "1.35.0");
const NEW: (&str, &str) = ("1.36.0", "1.36.0");

fn elects(name: &str) -> Step {
    Step::Settle { strategy: OLDEST.into(), holder: Some(name.into()) }
}

#[test]
fn candidates_are_asked_before_one_is_elected() {
    let check = |lease: Option<Value>, candidates: &[Candidate], expect: Step| {
        assert_eq!(step(NOW, lease.as_ref(), candidates), Ok(expect), "{lease:?} {candidates:?}");
    };
    check(None, &[], Step::Wait);
    check(None, &[candidate("a", OLD, 60, None), candidate("b", NEW, 1, None)], Step::Ask(vec!["a".into()]));
    check(None, &[candidate("a", OLD, 60, Some(2)), candidate("b", NEW, 1, None)], Step::Wait);
    check(None, &[candidate("a", OLD, 1, Some(2)), candidate("b", NEW, 1, None)], elects("a"));
    // Whoever does not answer in time is not there.
    check(None, &[candidate("a", OLD, 60, Some(6)), candidate("b", NEW, 1, None)], elects("b"));
    // Whoever answered once, long ago, is asked again.
    check(None, &[candidate("a", OLD, 60, Some(61))], Step::Ask(vec!["a".into()]));
    let silent = step(NOW, None, &[candidate("a", OLD, 60, Some(6))]);
    assert_eq!(silent, Err("no available candidates".to_owned()));
}

#[test]
fn a_good_holder_stays() {
    let both = |renewed| [candidate("a", OLD, renewed, None), candidate("b", NEW, renewed, None)];
    assert_eq!(step(NOW, Some(&lease("a", 1)), &both(1)), Ok(Step::Wait));
    assert_eq!(step(NOW, Some(&lease("b", 1)), &both(1)), Ok(elects("a")), "a better one is there");
    assert_eq!(step(NOW, Some(&lease("a", 16)), &both(1)), Ok(elects("a")), "the lease has run out");
    assert_eq!(step(NOW, Some(&lease("", 1)), &both(1)), Ok(elects("a")), "nobody holds it");
    let asked = Step::Ask(vec!["a".into(), "b".into()]);
    assert_eq!(step(NOW, Some(&lease("a", 1)), &both(901)), Ok(asked), "nobody was asked for a quarter of an hour");
}

#[test]
fn the_newest_binary_says_how_to_elect_and_equal_ones_agree() {
    let with =
        |name, versions, strategy: &str| Candidate { strategy: strategy.into(), ..candidate(name, versions, 1, None) };
    let third = "example.com/own";
    let found = step(NOW, None, &[with("a", OLD, OLDEST), with("b", NEW, third)]);
    assert_eq!(found, Ok(Step::Settle { strategy: third.into(), holder: None }));
    let found = step(NOW, None, &[with("a", NEW, OLDEST), with("b", NEW, third)]);
    let why = "candidates \"a\", \"b\" at same binary version but received differing strategies OldestEmulationVersion, \
               example.com/own";
    assert_eq!(found, Err(why.to_owned()));
}

#[test]
fn the_oldest_emulated_version_wins_then_the_oldest_binary_then_the_first() {
    let check = |candidates: &[Candidate], expect: &str| {
        assert_eq!(step(NOW, None, candidates), Ok(elects(expect)), "{candidates:?}");
    };
    let one = |name, versions| candidate(name, versions, 1, None);
    check(&[one("a", NEW), one("b", ("1.36.0", "1.35.0"))], "b");
    check(&[one("a", ("1.36.0", "1.35.0")), one("b", OLD)], "b");
    let later = Candidate { created: 9, ..one("a", NEW) };
    check(&[later, one("b", NEW)], "b");
}

#[test]
fn a_candidate_is_one_for_half_an_hour() {
    assert!(!candidate("a", NEW, 1800, None).has_expired(NOW));
    assert!(candidate("a", NEW, 1801, None).has_expired(NOW));
}

#[test]
fn a_holder_is_told_of_the_better_one_and_a_lease_that_ran_out_changes_hands() {
    let holder = |lease: &Value| lease.str_at(&["spec", "holderIdentity"]).map(str::to_owned);
    let preferred = |lease: &Value| lease.str_at(&["spec", "preferredHolder"]).map(str::to_owned);
    let new = settled(NOW, &lease("b", 1), OLDEST, Some("a")).expect("it changes");
    assert_eq!((holder(&new), preferred(&new)), (Some("b".into()), Some("a".into())));
    let mut gone = lease("b", 16);
    gone.set(&["spec", "preferredHolder"], "c");
    let new = settled(NOW, &gone, OLDEST, Some("a")).expect("it changes");
    assert_eq!((holder(&new), preferred(&new)), (Some("a".into()), None));
    assert_eq!(new.str_at(&["spec", "renewTime"]), Some(time(NOW).as_str()));
    assert_eq!(settled(NOW, &new, OLDEST, Some("a")), None, "nothing changes any more");
    let third = settled(NOW, &lease("b", 1), "example.com/own", None).expect("the strategy is new");
    assert_eq!((holder(&third), preferred(&third)), (Some("b".into()), None));
}
