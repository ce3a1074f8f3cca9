//! What makes the plugins run once more: one of them has changed the object after others had seen it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use machinery::Value;

/// What is remembered of one write from the first round of its admission to the second.
#[derive(Debug, Default)]
pub struct Reinvocation(Mutex<Rounds>);

#[derive(Debug, Default)]
struct Rounds {
    is_second: bool,
    wanted: bool,
    plugins: HashMap<&'static str, Memory>,
}

/// What a plugin that has several callees (policies, webhooks) remembers of them, by keys of its own.
#[derive(Debug, Default)]
struct Memory {
    /// The object when the plugin was done with it.
    output: Option<Value>,
    /// Those that ask to be called again if the object changes after them.
    called: HashSet<String>,
    /// Those of them after which it has changed.
    again: HashSet<String>,
}

impl Memory {
    fn changed(&mut self) {
        self.again.extend(self.called.drain());
    }
}

impl Reinvocation {
    fn rounds(&self) -> MutexGuard<'_, Rounds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the second round.
    pub fn is_second(&self) -> bool {
        self.rounds().is_second
    }

    /// Begins the second round, if one is wanted.
    pub(super) fn begin_second(&self) -> bool {
        let mut rounds = self.rounds();
        rounds.is_second = rounds.wanted;
        rounds.wanted
    }

    /// A plugin begins with an object. In the second round it finds out whether others have changed it since.
    pub fn begin(&self, plugin: &'static str, object: &Value) {
        let mut rounds = self.rounds();
        let is_second = rounds.is_second;
        let memory = rounds.plugins.entry(plugin).or_default();
        if is_second && memory.output.as_ref() != Some(object) {
            memory.changed();
        }
    }

    /// Whether a plugin is to call one of its callees: always in the first round, and in the second if that is called for.
    pub fn may_call(&self, plugin: &'static str, key: &str) -> bool {
        let rounds = self.rounds();
        !rounds.is_second || rounds.plugins.get(plugin).is_some_and(|memory| memory.again.contains(key))
    }

    /// A callee has changed the object: those before it are called again, and all plugins run once more.
    pub fn changed(&self, plugin: &'static str) {
        let mut rounds = self.rounds();
        rounds.wanted = true;
        rounds.plugins.entry(plugin).or_default().changed();
    }

    /// A callee was called that asks to be called again if the object changes.
    pub fn called(&self, plugin: &'static str, key: String) {
        self.rounds().plugins.entry(plugin).or_default().called.insert(key);
    }

    /// A plugin is done with the object.
    pub fn end(&self, plugin: &'static str, object: &Value) {
        self.rounds().plugins.entry(plugin).or_default().output = Some(object.clone());
    }
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    #[test]
    fn those_are_called_again_after_whom_the_object_has_changed() {
        let rounds = Reinvocation::default();
        let object = object! { "a" => 1 };
        rounds.begin("p", &Value::object());
        for key in ["first", "second"] {
            assert!(rounds.may_call("p", key));
            if key == "second" {
                rounds.changed("p");
            }
            rounds.called("p", key.to_owned());
        }
        rounds.end("p", &object);
        assert!(rounds.begin_second());
        rounds.begin("p", &object);
        assert!(rounds.may_call("p", "first"));
        assert!(!rounds.may_call("p", "second"));
        // Another plugin changes it in between.
        rounds.begin("p", &object! { "a" => 2 });
        assert!(rounds.may_call("p", "second"));
    }

    #[test]
    fn there_is_no_second_round_where_nothing_has_changed() {
        let rounds = Reinvocation::default();
        rounds.begin("p", &Value::object());
        rounds.called("p", "one".to_owned());
        rounds.end("p", &Value::object());
        assert!(!rounds.begin_second());
    }
}
