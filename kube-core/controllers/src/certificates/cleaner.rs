//! Deletes certificate requests whose time is over: issued or refused ones after an hour, others after a day, and those whose
//! certificate has expired.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use machinery::{
    Value,
    codec::pem,
    meta::{Meta, TimeForm, Timestamp, status::Status},
};

use super::REQUESTS;
use crate::{
    client::Deletion,
    objects::{self, Each, Key},
    ready::Ready,
    shared::Shared,
    workqueue::Outcome,
};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// Deletes them in time.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let of = Each { queue: "certificate_request_cleaner", resource: REQUESTS, workers: 1, concerns: |_| true };
    objects::each(&shared, ready, of, |shared, key| async move { sync(&shared, &key).await }).await;
}

async fn sync(shared: &Shared, key: &Key) -> Result<Outcome, Status> {
    let Some(request) = objects::read(shared, REQUESTS, key).await? else { return Ok(Outcome::Done) };
    let Some(ends) = ends_at(&request) else { return Ok(Outcome::Done) };
    let left = ends.saturating_sub(Timestamp::now().seconds());
    if left >= 0 {
        return Ok(Outcome::After(Duration::from_secs(left.unsigned_abs() + 1)));
    }
    let path = key.path(REQUESTS.in_version("v1"));
    let deletion = Deletion { uid: Meta::of(&request).uid(), ..Deletion::default() };
    match shared.client().delete(&path, deletion).await {
        Ok(()) => Ok(Outcome::Done),
        Err(status) if status.is_not_found() => Ok(Outcome::Done),
        Err(status) => Err(status),
    }
}

/// The second from which on nobody needs a request; none if that is not known.
fn ends_at(request: &Value) -> Option<i64> {
    let seconds = |text: &str| Timestamp::parse(text, TimeForm::Seconds).ok().map(Timestamp::seconds);
    let conditions = request.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    if conditions.is_empty() {
        return Some(seconds(Meta::of(request).creation_timestamp()?)?.saturating_add(DAY));
    }
    let certificate = request.str_at(&["status", "certificate"]).filter(|text| !text.is_empty());
    let end = |condition: &Value| {
        let since = condition.str_at(&["lastUpdateTime"]).and_then(seconds);
        let after = |time: i64| since.map(|since| since.saturating_add(time));
        match (condition.str_at(&["type"])?, certificate) {
            ("Denied" | "Failed", _) => after(HOUR),
            ("Approved", None) => after(DAY),
            ("Approved", Some(certificate)) => after(HOUR).into_iter().chain(expiry(certificate)).min(),
            _ => None,
        }
    };
    conditions.iter().filter_map(end).min()
}

/// When a certificate expires: base64 of PEM.
fn expiry(certificate: &str) -> Option<i64> {
    let text = STANDARD.decode(certificate).ok()?;
    let (block, _) = pem::first(&text)?;
    Some(x509::Certificate::parse(&block.der).ok()?.not_after())
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn requests_end_by_what_has_become_of_them() {
        let request = |condition: &str, certificate: &str| {
            let condition = object! { "type" => condition, "lastUpdateTime" => "1970-01-02T00:00:00Z" };
            object! {
                "metadata" => object! { "creationTimestamp" => "1970-01-01T00:00:00Z" },
                "status" => object! { "conditions" => array![condition], "certificate" => certificate },
            }
        };
        assert_eq!(ends_at(&request("Denied", "")), Some(DAY + HOUR));
        assert_eq!(ends_at(&request("Failed", "")), Some(DAY + HOUR));
        assert_eq!(ends_at(&request("Approved", "")), Some(2 * DAY));
        assert_eq!(ends_at(&request("Approved", "bm9uZQ==")), Some(DAY + HOUR));
        assert_eq!(ends_at(&request("Other", "")), None);
        let mut pending = request("Denied", "");
        pending.remove_at(&["status"]);
        assert_eq!(ends_at(&pending), Some(DAY));
    }
}
