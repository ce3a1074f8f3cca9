//! Deletes jobs that have been finished for as long as they ask for (`ttlSecondsAfterFinished`).

use std::{sync::Arc, time::Duration};

use machinery::{
    Value,
    json::scan,
    meta::{GrRef, Meta, TimeForm, Timestamp, status::Status},
};
use storage::cache::Object;

use crate::{
    client::Deletion,
    objects::{self, Each, Key},
    ready::Ready,
    shared::Shared,
    workqueue::Outcome,
};

const JOBS: GrRef<'static> = GrRef::new("batch", "jobs");

/// Deletes them in time.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let of = Each { queue: "ttl_jobs_to_delete", resource: JOBS, workers: 5, concerns: may_expire };
    objects::each(&shared, ready, of, |shared, key| async move { sync(&shared, &key).await }).await;
}

fn may_expire(job: &Object) -> bool {
    scan::field(job.bytes(), &["spec", "ttlSecondsAfterFinished"]).is_some()
}

async fn sync(shared: &Shared, key: &Key) -> Result<Outcome, Status> {
    let Some(job) = objects::read(shared, JOBS, key).await? else { return Ok(Outcome::Done) };
    let Some(left) = seconds_left(&job, Timestamp::now().seconds()) else { return Ok(Outcome::Done) };
    if left > 0 {
        return Ok(Outcome::After(Duration::from_secs(left.unsigned_abs())));
    }
    let uid = Meta::of(&job).uid();
    let deletion = Deletion { propagation: "Foreground", uid, version: "" };
    match shared.client().delete(&key.path(JOBS.in_version("v1")), deletion).await {
        Ok(()) => Ok(Outcome::Done),
        Err(status) if status.is_not_found() => Ok(Outcome::Done),
        Err(status) => Err(status),
    }
}

/// Seconds until a job is to go; none if it stays.
fn seconds_left(job: &Value, now: i64) -> Option<i64> {
    if Meta::of(job).is_terminating() {
        return None;
    }
    let ttl = job.at(&["spec", "ttlSecondsAfterFinished"])?.as_i64()?;
    let conditions = job.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    let is_end = |condition: &&Value| {
        matches!(condition.str_at(&["type"]), Some("Complete" | "Failed"))
            && condition.str_at(&["status"]) == Some("True")
    };
    let finished = conditions.iter().find(is_end)?.str_at(&["lastTransitionTime"])?;
    let finished = Timestamp::parse(finished, TimeForm::Seconds).ok()?.seconds();
    Some(finished.saturating_add(ttl).saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn only_finished_jobs_with_a_ttl_go() {
        let job = |kind: &str, status: &str| {
            let condition = object! {
                "type" => kind, "status" => status, "lastTransitionTime" => "1970-01-01T00:01:40Z",
            };
            object! {
                "spec" => object! { "ttlSecondsAfterFinished" => 10 },
                "status" => object! { "conditions" => array![condition] },
            }
        };
        assert_eq!(seconds_left(&job("Complete", "True"), 103), Some(7));
        assert_eq!(seconds_left(&job("Failed", "True"), 111), Some(-1));
        assert_eq!(seconds_left(&job("Complete", "False"), 111), None);
        assert_eq!(seconds_left(&job("Suspended", "True"), 111), None);
        let mut without = job("Complete", "True");
        without.remove_at(&["spec", "ttlSecondsAfterFinished"]);
        assert_eq!(seconds_left(&without, 111), None);
        let mut going = job("Complete", "True");
        going.set(&["metadata", "deletionTimestamp"], "1970-01-01T00:01:40Z");
        assert_eq!(seconds_left(&going, 111), None);
    }
}
