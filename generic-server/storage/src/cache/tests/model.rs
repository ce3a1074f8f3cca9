//! Random writes, watches and reads against a naive model.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::cache::Term;

#[derive(Clone, Debug)]
enum Step {
    /// Writes a value to a key (both small numbers).
    Put(u8, u8),
    Delete(u8),
    /// Opens a watch so many changes back, with a scope and perhaps a label to select.
    Watch {
        back: u8,
        scope: u8,
        label: Option<u8>,
        initial: bool,
    },
    /// Reads exactly so many changes back.
    Exact(u8),
    /// Lets one of the watchers catch up.
    Drain(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let watch = (0..12u8, 0..6u8, proptest::option::of(0..2u8), any::<bool>());
    prop_oneof![
        6 => (0..6u8, 0..8u8).prop_map(|(k, v)| Step::Put(k, v)),
        2 => (0..6u8).prop_map(Step::Delete),
        2 => watch.prop_map(|(back, scope, label, initial)| Step::Watch { back, scope, label, initial }),
        1 => (0..20u8).prop_map(Step::Exact),
        2 => any::<u8>().prop_map(Step::Drain),
    ]
}

fn name(key: u8) -> String {
    format!("n{}/{}", key % 2, key / 2)
}

/// `label field text`, from the bits of a small number.
fn value(v: u8, n: usize) -> String {
    format!("l{} f{} {n}", v & 1, (v >> 1) & 1)
}

/// Every change ever: revision, name, the value there since.
type History = Vec<(Revision, String, Option<String>)>;

fn state_at(history: &History, revision: Revision) -> BTreeMap<String, (Revision, String)> {
    let mut state = BTreeMap::new();
    for (at, name, value) in history.iter().take_while(|(at, ..)| *at <= revision) {
        match value {
            Some(value) => drop(state.insert(name.clone(), (*at, value.clone()))),
            None => drop(state.remove(name)),
        }
    }
    state
}

/// Whether a name and its value are selected.
type Selects = Box<dyn Fn(&str, &str) -> bool>;

struct Watching {
    watcher: Watcher,
    selects: Selects,
    after: Revision,
    initial: bool,
    told: Vec<String>,
}

/// Selects what has a label, and says so to an index.
struct Labelled(Term);

impl Filter for Labelled {
    fn matches(&self, object: &Object) -> bool {
        self.0.holds(object)
    }

    fn terms(&self) -> Vec<Term> {
        vec![self.0.clone()]
    }
}

fn selection(scope: u8, label: Option<u8>) -> (WatchOptions, Selects) {
    let (scope, in_scope): (Scope, Selects) = match scope {
        0 => (Scope::Namespace("n0".into()), Box::new(|name, _| name.starts_with("n0/"))),
        1 => (Scope::Object { namespace: Some("n1".into()), name: "0".into() }, Box::new(|name, _| name == "n1/0")),
        2 => (Scope::Field { field: 0, value: "f1".into() }, Box::new(|_, value| value.contains(" f1 "))),
        _ => (Scope::All, Box::new(|_, _| true)),
    };
    let wanted = label.map(|l| format!("l{l}"));
    let filter: Arc<dyn Filter> = match wanted.clone() {
        Some(wanted) => Arc::new(Labelled(Term::Label("l".into(), wanted.as_str().into()))),
        None => Arc::new(Everything),
    };
    let selects = move |name: &str, value: &str| {
        in_scope(name, value) && wanted.as_ref().is_none_or(|w| value.starts_with(&format!("{w} ")))
    };
    (WatchOptions { scope, filter, ..all() }, Box::new(selects))
}

/// What a watcher should have been told by now.
fn expected(history: &History, watching: &Watching) -> Vec<String> {
    let text = |value: &str| value.split(' ').nth(2).unwrap().to_owned();
    let mut state = state_at(history, watching.after);
    let selects = &watching.selects;
    let mut told = Vec::new();
    if watching.initial {
        let selected = state.iter().filter(|(name, (_, value))| selects(name, value));
        told.extend(selected.map(|(name, (at, value))| format!("A {name}={}@{at}", text(value))));
    }
    for (at, name, value) in history.iter().filter(|(at, ..)| *at > watching.after) {
        let old = match value {
            Some(value) => state.insert(name.clone(), (*at, value.clone())),
            None => state.remove(name),
        };
        let old = old.map(|(_, value)| value).filter(|value| selects(name, value));
        match (old, value.as_ref().filter(|value| selects(name, value))) {
            (None, None) => {}
            (None, Some(new)) => told.push(format!("A {name}={}@{at}", text(new))),
            (Some(_), Some(new)) => told.push(format!("M {name}={}@{at}", text(new))),
            (Some(old), None) => told.push(format!("D {name}={}@{at}", text(&old))),
        }
    }
    told
}

async fn run(steps: Vec<Step>, window: usize) {
    let store = Memory::new();
    let mut options = options();
    (options.window.min_changes, options.window.max_changes) = (window, window);
    let cache = cache_with(store.clone(), options).await;
    let start = cache.revision();
    let mut history: History = Vec::new();
    let mut watchers: Vec<Watching> = Vec::new();
    let back = |history: &History, n: u8| match history.len().checked_sub(n.into()) {
        Some(i) if i > 0 => history[i - 1].0,
        _ => start,
    };
    let floor = |history: &History| match history.len().checked_sub(window) {
        Some(i) if i > 0 => history[i - 1].0,
        _ => start,
    };
    for (n, step) in steps.into_iter().enumerate() {
        match step {
            Step::Put(key, v) => {
                let (name, value) = (name(key), value(v, n));
                history.push((put(&*store, &name, &value).await, name, Some(value)));
            }
            Step::Delete(key) => {
                let name = name(key);
                if state_at(&history, Revision::MAX).contains_key(&name) {
                    history.push((delete(&*store, &name).await, name, None));
                }
            }
            Step::Watch { back: n, scope, label, initial } => {
                let (options, selects) = selection(scope, label);
                let after = if initial { cache.revision() } else { back(&history, n) };
                let from = if initial { Start::Initial(ReadAt::Latest) } else { Start::After(after) };
                match cache.watch(from, options).await {
                    Ok(watcher) => watchers.push(Watching { watcher, selects, after, initial, told: Vec::new() }),
                    Err(error) => {
                        let expect = format!("too old resource version: {after} ({})", floor(&history));
                        assert_eq!(error.to_string(), expect);
                        assert!(after < floor(&history));
                    }
                }
            }
            Step::Exact(n) => {
                let revision = back(&history, n);
                let snapshot = cache.read(ReadAt::Exact(revision)).await.unwrap();
                let entries = state_at(&history, revision);
                let lines =
                    entries.iter().map(|(name, (_, value))| format!("{name}={}", value.split(' ').nth(2).unwrap()));
                assert_eq!(show(&snapshot), lines.collect::<Vec<_>>().join(" "));
                let by_field = snapshot.by_terms(&[Term::Field(0, "f1".into())], "", None).unwrap().len();
                assert_eq!(by_field, entries.values().filter(|(_, value)| value.contains(" f1 ")).count());
            }
            Step::Drain(i) if !watchers.is_empty() => {
                let i = usize::from(i) % watchers.len();
                let told = drain(&mut watchers[i].watcher);
                watchers[i].told.extend(told);
            }
            Step::Drain(_) => {}
        }
    }
    for watching in &mut watchers {
        watching.told.extend(drain(&mut watching.watcher));
        let expected = expected(&history, watching);
        match watching.told.iter().position(|line| line == "Lagged") {
            None => assert_eq!(watching.told, expected),
            Some(i) => {
                assert_eq!(watching.told[..i], expected[..i], "right until it fell behind");
                let since = history.iter().filter(|(at, ..)| *at > watching.after).count();
                assert!(since > window, "nobody falls behind who had no more than a window to read");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn watchers_see_just_what_the_model_says(steps in proptest::collection::vec(step(), 1..60), window in 1..40usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(run(steps, window));
    }
}
