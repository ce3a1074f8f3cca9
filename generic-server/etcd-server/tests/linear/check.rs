//! Whether what concurrent clients have seen of registers can be explained by one order of their operations.
//!
//! Every answer carries a revision, and a watch from the beginning tells what each revision wrote. So the order is known, and
//! what is left to check is that it explains every answer, that it keeps to real time (what was answered before
//! something else was asked is not after it), and that nothing that was answered is missing.

use std::collections::BTreeMap;

/// What a client did to a register, and was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    /// Read it: its value, and the revision that wrote it.
    Read(Option<(String, i64)>),
    /// Wrote a value, whatever was there. Values are never the same.
    Put(String),
    /// Deleted it; whether it was there.
    Delete(bool),
    /// Wrote a value if it was last written at this revision (0: if it is not there); whether it was.
    Swap { expected: i64, value: String, done: bool },
}

/// One operation.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) register: String,
    pub(crate) did: Did,
    /// When it was asked and answered: numbers of one clock that all clients share.
    pub(crate) asked: u64,
    pub(crate) answered: u64,
    /// The revision in the answer.
    pub(crate) revision: i64,
}

/// What one revision did to a register: its new value, or that it was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) register: String,
    pub(crate) value: Option<String>,
}

/// What a watch from the beginning was told, by revision.
pub(crate) type History = BTreeMap<i64, Written>;

/// Checks operations that were answered against the history. `attempted` are all values that anybody ever sent, so that the
/// history holds nothing that nobody wrote.
pub(crate) fn check(history: &History, operations: &[Operation], attempted: &[String]) -> Result<(), String> {
    check_revisions(history, attempted)?;
    let registers = registers(history);
    for operation in operations {
        check_answer(history, &registers, operation)?;
    }
    check_real_time(operations)
}

/// Every revision is there once, and every value once and by somebody.
fn check_revisions(history: &History, attempted: &[String]) -> Result<(), String> {
    if let (Some((first, _)), Some((last, _))) = (history.first_key_value(), history.last_key_value())
        && last - first + 1 != history.len() as i64
    {
        return Err(format!("{} revisions from {first} to {last}", history.len()));
    }
    let mut sent: BTreeMap<&str, usize> = attempted.iter().map(|value| (value.as_str(), 1)).collect();
    for (revision, written) in history {
        let Some(value) = &written.value else { continue };
        match sent.get_mut(value.as_str()) {
            Some(left @ 1) => *left = 0,
            Some(_) => return Err(format!("{value} was written twice, the second time at {revision}")),
            None => return Err(format!("{value} at {revision} was written by nobody")),
        }
    }
    Ok(())
}

/// Every register's revisions and values, in order.
fn registers(history: &History) -> BTreeMap<&str, BTreeMap<i64, Option<&str>>> {
    let mut all: BTreeMap<&str, BTreeMap<i64, Option<&str>>> = BTreeMap::new();
    for (revision, written) in history {
        all.entry(&written.register).or_default().insert(*revision, written.value.as_deref());
    }
    all
}

fn check_answer(
    history: &History,
    registers: &BTreeMap<&str, BTreeMap<i64, Option<&str>>>,
    operation: &Operation,
) -> Result<(), String> {
    // As the register was at a revision: its value, and the revision that wrote it.
    let at = |revision: i64| -> Option<(String, i64)> {
        let (wrote, value) = registers.get(&*operation.register)?.range(..=revision).next_back()?;
        value.map(|value| (value.to_owned(), *wrote))
    };
    let wrote = |value: Option<&str>| {
        let expect = Written { register: operation.register.clone(), value: value.map(str::to_owned) };
        history.get(&operation.revision) == Some(&expect)
    };
    let before = at(operation.revision - 1);
    let holds = match &operation.did {
        Did::Read(found) => *found == at(operation.revision),
        Did::Put(value) => wrote(Some(value)),
        Did::Delete(true) => wrote(None) && before.is_some(),
        Did::Delete(false) => at(operation.revision).is_none(),
        Did::Swap { expected, value, done: true } => {
            wrote(Some(value)) && before.map_or(0, |(_, revision)| revision) == *expected
        }
        Did::Swap { expected, done: false, .. } => at(operation.revision).map_or(0, |(_, wrote)| wrote) != *expected,
    };
    if holds {
        Ok(())
    } else {
        Err(format!("nothing explains {operation:?}; before it there was {:?}", at(operation.revision)))
    }
}

/// What was answered before something else was asked comes before it, and two writes never share a revision.
fn check_real_time(operations: &[Operation]) -> Result<(), String> {
    let writes =
        |operation: &Operation| matches!(operation.did, Did::Put(_) | Did::Delete(true) | Did::Swap { done: true, .. });
    // Going through the moments in order: the greatest revision that was answered so far.
    let mut moments: Vec<(u64, bool, &Operation)> = Vec::with_capacity(2 * operations.len());
    for operation in operations {
        moments.push((operation.asked, false, operation));
        moments.push((operation.answered, true, operation));
    }
    moments.sort_by_key(|(at, ..)| *at);
    let mut greatest = 0;
    let mut least: BTreeMap<u64, i64> = BTreeMap::new();
    for (at, is_answer, operation) in moments {
        if !is_answer {
            least.insert(at, greatest);
            continue;
        }
        let known = least[&operation.asked];
        let fits = if writes(operation) { operation.revision > known } else { operation.revision >= known };
        if !fits {
            return Err(format!("revision {known} had been answered before this was asked: {operation:?}"));
        }
        greatest = greatest.max(operation.revision);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        let written = |value: Option<&str>| Written { register: "a".into(), value: value.map(str::to_owned) };
        [(2, written(Some("1"))), (3, written(Some("2"))), (4, written(None)), (5, written(Some("3")))].into()
    }

    fn operation(did: Did, asked: u64, answered: u64, revision: i64) -> Operation {
        Operation { register: "a".into(), did, asked, answered, revision }
    }

    fn attempted() -> Vec<String> {
        ["1", "2", "3", "never"].map(str::to_owned).to_vec()
    }

    fn good() -> Vec<Operation> {
        let read = |value: &str, wrote| Did::Read(Some((value.into(), wrote)));
        let swap = |expected, value: &str, done| Did::Swap { expected, value: value.into(), done };
        vec![
            operation(Did::Delete(false), 0, 1, 1),
            operation(Did::Put("1".into()), 2, 5, 2),
            operation(read("1", 2), 3, 4, 2),
            operation(swap(2, "2", true), 6, 9, 3),
            operation(swap(0, "never", false), 7, 8, 3),
            operation(Did::Delete(true), 10, 13, 4),
            operation(Did::Read(None), 12, 14, 4),
            operation(swap(0, "3", true), 15, 16, 5),
        ]
    }

    #[test]
    fn a_history_that_explains_everything_is_good() {
        assert_eq!(check(&history(), &good(), &attempted()), Ok(()));
    }

    #[test]
    fn what_nothing_explains_is_found() {
        let check_bad = |change: &dyn Fn(&mut History, &mut Vec<Operation>), expect: &str| {
            let (mut history, mut operations) = (history(), good());
            change(&mut history, &mut operations);
            let found = check(&history, &operations, &attempted()).unwrap_err();
            assert!(found.contains(expect), "{found}");
        };
        // A write that was answered and is not there.
        check_bad(&|history, _| drop(history.remove(&5)), "nothing explains");
        check_bad(&|history, _| drop(history.remove(&3)), "3 revisions from 2 to 5");
        // A stale read, by its revision and by the clock.
        check_bad(&|_, all| all[6].did = Did::Read(Some(("2".into(), 3))), "nothing explains");
        check_bad(
            &|_, all| all.push(operation(Did::Read(Some(("2".into(), 3))), 20, 21, 3)),
            "had been answered before this was asked",
        );
        // A swap that should have failed, and one that should not.
        check_bad(&|_, all| all[3].did = Did::Swap { expected: 0, value: "2".into(), done: true }, "nothing explains");
        check_bad(
            &|_, all| all[4].did = Did::Swap { expected: 3, value: "never".into(), done: false },
            "nothing explains",
        );
        // The same write twice, and one by nobody.
        let again = Written { register: "b".into(), value: Some("1".into()) };
        check_bad(&|history, _| drop(history.insert(6, again.clone())), "written twice");
        let nobodys = Written { register: "b".into(), value: Some("x".into()) };
        check_bad(&|history, _| drop(history.insert(6, nobodys.clone())), "by nobody");
        // Two writes that say the same revision.
        check_bad(&|_, all| all.push(operation(Did::Put("3".into()), 17, 18, 5)), "had been answered before");
    }
}
