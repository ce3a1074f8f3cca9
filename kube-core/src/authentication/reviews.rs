//! Who am I, as the server sees it.

use async_trait::async_trait;
use generic_server::{
    auth::User,
    handlers::{
        options::{WriteKind, WriteOptions},
        read_object,
    },
    negotiate::Offer,
    pipeline::respond::{self, Response},
    request::Request,
    resource::Resource,
    server::Endpoint,
};
use http::StatusCode;
use machinery::{
    Value,
    meta::{TimeForm, Timestamp, status::Status},
    object,
};

/// `selfsubjectreviews`
pub(crate) struct SelfReview {
    pub(crate) row: Resource,
}

#[async_trait]
impl Endpoint for SelfReview {
    async fn serve(&self, mut request: Request) -> Result<Response, Status> {
        let row = &self.row;
        let accepted = respond::accepted(&request, &Offer { routed: false, ..Offer::PLAIN })?;
        let options = WriteOptions::read(&request, WriteKind::Create)?;
        let mut warnings = Vec::new();
        let kind = (row.group.as_str(), row.version.as_str(), row.kind.as_str());
        let mut review = read_object(&mut request, row, kind, options.field_validation, &mut warnings).await?;
        let now = Timestamp::now().text(TimeForm::Seconds);
        review.set(&["metadata"], object! { "creationTimestamp" => now });
        review.set(&["status"], object! { "userInfo" => user_info(&request.user) });
        Ok(respond::add_warnings(respond::document(StatusCode::CREATED, &review, accepted), &warnings))
    }
}

/// A user as documents carry it.
pub(crate) fn user_info(user: &User) -> Value {
    let mut info = object! { "username" => &user.name };
    let members = info.make_object();
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
