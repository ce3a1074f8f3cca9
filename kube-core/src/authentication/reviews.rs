//! Answers SelfSubjectReviews and TokenReviews.

use async_trait::async_trait;
use auth::User;
use machinery::{
    Value,
    meta::{TimeForm, Timestamp, status::Status},
    object,
};

use crate::review::{Judge, Review, complete_status};

/// `selfsubjectreviews`
pub(crate) struct SelfReview;

#[async_trait]
impl Judge for SelfReview {
    fn complete(&self, review: &mut Value) {
        complete_status(review, "userInfo", Value::object());
    }

    async fn judge(&self, review: &mut Review<'_>) -> Result<(), Status> {
        review.admit().await?;
        let now = Timestamp::now().text(TimeForm::Seconds);
        review.object = object! {
            "kind" => &review.row.kind, "apiVersion" => review.row.api_version(),
            "metadata" => object! { "creationTimestamp" => now },
            "status" => object! { "userInfo" => user_info(review.user) },
        };
        Ok(())
    }
}

/// A user as documents carry it.
pub(crate) fn user_info(user: &User) -> Value {
    let mut info = object! {};
    let members = info.make_object();
    if !user.name.is_empty() {
        members.insert("username", &user.name);
    }
    if !user.uid.is_empty() {
        members.insert("uid", &user.uid);
    }
    if !user.groups.is_empty() {
        members.insert("groups", user.groups.clone());
    }
    if !user.extra.is_empty() {
        let extra: machinery::Map = user.extra.iter().map(|(k, v)| (k.clone(), Value::from(v.clone()))).collect();
        members.insert("extra", extra);
    }
    info
}
