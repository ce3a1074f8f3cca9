//! The state of a StorageVersionMigration, by its conditions.

use machinery::{
    Value,
    meta::{Meta, TimeForm, Timestamp},
    object,
};

pub(super) const RUNNING: &str = "Running";
pub(super) const SUCCEEDED: &str = "Succeeded";
pub(super) const FAILED: &str = "Failed";

fn conditions(migration: &Value) -> &[Value] {
    migration.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default()
}

fn is_true(migration: &Value, kind: &str) -> bool {
    let mut of_kind = conditions(migration).iter().filter(|condition| condition.str_at(&["type"]) == Some(kind));
    of_kind.next().is_some_and(|condition| condition.str_at(&["status"]) == Some("True"))
}

/// Whether it is its turn.
pub(super) fn is_running(migration: &Value) -> bool {
    is_true(migration, RUNNING)
}

/// Whether it has succeeded.
pub(super) fn has_succeeded(migration: &Value) -> bool {
    is_true(migration, SUCCEEDED)
}

/// Whether it is over.
pub(super) fn is_over(migration: &Value) -> bool {
    has_succeeded(migration) || is_true(migration, FAILED)
}

/// Says something, unless something is said of it already.
pub(super) fn add(migration: &mut Value, kind: &str, reason: &str, message: &str) {
    let mut all = conditions(migration).to_vec();
    if all.iter().any(|condition| condition.str_at(&["type"]) == Some(kind)) {
        return;
    }
    all.push(object! {
        "type" => kind, "status" => "True", "reason" => reason, "message" => message,
        "lastTransitionTime" => Timestamp::now().text(TimeForm::Seconds),
    });
    migration.set(&["status", "conditions"], Value::from(all));
}

/// Says that its turn is over.
pub(super) fn end_turn(migration: &mut Value) {
    let generation = Meta::of(migration).generation();
    let mut all = conditions(migration).to_vec();
    for condition in all.iter_mut().filter(|condition| condition.str_at(&["type"]) == Some(RUNNING)) {
        condition.set(&["status"], "False");
        condition.set(&["reason"], "MigrationCompleted");
        condition.set(&["message"], "Migration completed");
        condition.set(&["observedGeneration"], generation);
        condition.set(&["lastTransitionTime"], Timestamp::now().text(TimeForm::Seconds));
    }
    migration.set(&["status", "conditions"], Value::from(all));
}

/// Whose turn is next: the oldest one's.
pub(super) fn next(migrations: &[Value]) -> Option<&Value> {
    let waiting = migrations.iter().filter(|migration| !is_running(migration) && !is_over(migration));
    waiting.min_by_key(|migration| {
        let meta = Meta::of(migration);
        (meta.creation_timestamp().unwrap_or_default(), meta.name())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migration(name: &str, made: &str) -> Value {
        object! { "metadata" => object! { "name" => name, "creationTimestamp" => made, "generation" => 1 } }
    }

    #[test]
    fn the_oldest_one_that_waits_is_next() {
        let mut over = migration("over", "2026-01-01T00:00:00Z");
        add(&mut over, FAILED, "r", "m");
        let mut running = migration("running", "2026-01-01T00:00:01Z");
        add(&mut running, RUNNING, "r", "m");
        let all = [
            over.clone(),
            running.clone(),
            migration("c", "2026-01-01T00:00:02Z"),
            migration("b", "2026-01-01T00:00:02Z"),
            migration("a", "2026-01-01T00:00:03Z"),
        ];
        assert_eq!(next(&all).map(|migration| Meta::of(migration).name()), Some("b"));
        assert_eq!(next(&all[..2]), None);
        assert!(is_over(&over) && !is_running(&over) && is_running(&running) && !is_over(&running));
    }

    #[test]
    fn a_turn_ends_and_nothing_is_said_twice() {
        let mut migration = migration("m", "2026-01-01T00:00:00Z");
        add(&mut migration, RUNNING, "r", "m");
        add(&mut migration, SUCCEEDED, "done", "");
        add(&mut migration, SUCCEEDED, "again", "");
        end_turn(&mut migration);
        let texts: Vec<String> = conditions(&migration)
            .iter()
            .map(|c| ["type", "status", "reason"].map(|member| c.str_at(&[member]).unwrap_or_default()).join(" "))
            .collect();
        assert_eq!(texts, ["Running False MigrationCompleted", "Succeeded True done"]);
    }
}
