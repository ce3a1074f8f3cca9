//! Who am I, as the server sees it.

use async_trait::async_trait;
use auth::User;
use generic_server::{endpoint::Endpoint, request::Request, resource::Resource, response::Response};
use machinery::{
    Value,
    meta::{TimeForm, Timestamp, status::Status},
    object,
};

use crate::review::Review;

/// `selfsubjectreviews`
pub(crate) struct SelfReview {
    pub(crate) row: Resource,
}

#[async_trait]
impl Endpoint for SelfReview {
    async fn serve(&self, mut request: Request) -> Result<Response, Status> {
        let row = &self.row;
        let mut asked = Review::read(&mut request, row).await?;
        let review = &mut asked.document;
        let now = Timestamp::now().text(TimeForm::Seconds);
        review.set(&["metadata"], object! { "creationTimestamp" => now });
        review.set(&["status"], object! { "userInfo" => user_info(&request.user) });
        Ok(asked.answer())
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
