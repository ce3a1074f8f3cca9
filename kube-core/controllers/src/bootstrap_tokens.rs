//! Deletes bootstrap tokens whose time is over.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
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

const SECRETS: GrRef<'static> = GrRef::new("", "secrets");
const NAMESPACE: &str = "kube-system";
const TYPE: &str = "bootstrap.kubernetes.io/token";

/// Deletes them in time.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let of = Each { queue: "token_cleaner", resource: SECRETS, workers: 1, concerns: is_token };
    objects::each(&shared, ready, of, |shared, key| async move { sync(&shared, &key).await }).await;
}

fn is_token(secret: &Object) -> bool {
    secret.namespace() == Some(NAMESPACE) && scan::text(secret.bytes(), &["type"]).as_deref() == Some(TYPE)
}

async fn sync(shared: &Shared, key: &Key) -> Result<Outcome, Status> {
    let Some(secret) = objects::read(shared, SECRETS, key).await? else { return Ok(Outcome::Done) };
    match seconds_left(&secret, Timestamp::now().seconds()) {
        None => return Ok(Outcome::Done),
        Some(left) if left > 0 => return Ok(Outcome::After(Duration::from_secs(left.unsigned_abs()))),
        Some(_) => {}
    }
    let deletion = Deletion { uid: Meta::of(&secret).uid(), ..Deletion::default() };
    match shared.client().delete(&key.path(SECRETS.in_version("v1")), deletion).await {
        Ok(()) => Ok(Outcome::Done),
        Err(status) if status.is_not_found() || status.is_conflict() => Ok(Outcome::Done),
        Err(status) => Err(status),
    }
}

/// Seconds until a token expires; none if it never does. A time that nobody can read is over.
fn seconds_left(secret: &Value, now: i64) -> Option<i64> {
    let expiration = secret.str_at(&["data", "expiration"]).filter(|text| !text.is_empty())?;
    let text = STANDARD.decode(expiration).ok().and_then(|text| String::from_utf8(text).ok());
    let ends = text.and_then(|text| Timestamp::parse(&text, TimeForm::Seconds).ok());
    Some(ends.map_or(0, |ends| ends.seconds().saturating_sub(now)))
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    #[test]
    fn tokens_end_at_the_time_that_they_say() {
        let left = |text: &str| {
            let data = object! { "expiration" => STANDARD.encode(text) };
            seconds_left(&object! { "data" => data }, 100)
        };
        assert_eq!(left("1970-01-01T00:02:00Z"), Some(20));
        assert_eq!(left("1970-01-01T00:01:00Z"), Some(-40));
        assert_eq!(left("tomorrow"), Some(0));
        assert_eq!(left(""), None);
        assert_eq!(seconds_left(&object! {}, 100), None);
    }
}
