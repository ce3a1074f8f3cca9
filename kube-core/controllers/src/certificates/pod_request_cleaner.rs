//! Deletes PodCertificateRequests a quarter of an hour after they were made: whoever asked has its answer by then.

use std::{sync::Arc, time::Duration};

use machinery::{
    Value,
    meta::{GrRef, Meta, TimeForm, Timestamp, status::Status},
};

use crate::{
    client::Deletion,
    objects::{self, Each, Key},
    ready::Ready,
    shared::Shared,
    workqueue::Outcome,
};

const REQUESTS: GrRef<'static> = GrRef::new("certificates.k8s.io", "podcertificaterequests");
const LIFETIME: i64 = 15 * 60;

/// Deletes them in time, where there are such.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    if shared.listers.get(REQUESTS.group, REQUESTS.resource).is_none() {
        tracing::debug!("PodCertificateRequests are not served: there is nothing to delete");
        ready.synced();
        return std::future::pending().await;
    }
    let of = Each { queue: "pod_certificate_request_cleaner", resource: REQUESTS, workers: 1, concerns: |_| true };
    objects::each(&shared, ready, of, |shared, key| async move { sync(&shared, &key).await }).await;
}

async fn sync(shared: &Shared, key: &Key) -> Result<Outcome, Status> {
    let Some(request) = objects::read(shared, REQUESTS, key).await? else { return Ok(Outcome::Done) };
    let left = left(&request, Timestamp::now().seconds());
    if left > 0 {
        return Ok(Outcome::After(Duration::from_secs(left.unsigned_abs())));
    }
    let deletion = Deletion { uid: Meta::of(&request).uid(), ..Deletion::default() };
    match shared.client().delete(&key.path(REQUESTS.in_version("v1beta1")), deletion).await {
        Err(status) if !status.is_not_found() => Err(status),
        _ => Ok(Outcome::Done),
    }
}

/// Seconds until nobody needs a request.
fn left(request: &Value, now: i64) -> i64 {
    let made = Meta::of(request).creation_timestamp().and_then(|text| Timestamp::parse(text, TimeForm::Seconds).ok());
    made.map_or(0, |made| made.seconds() + LIFETIME - now)
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    #[test]
    fn a_request_has_its_time() {
        let request = object! { "metadata" => object! { "creationTimestamp" => "1970-01-01T00:10:00Z" } };
        assert_eq!(left(&request, 600), 900);
        assert_eq!(left(&request, 1500), 0);
    }
}
