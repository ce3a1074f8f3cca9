//! Serves reviews: an object is created that is not stored. It is decoded, passes admission, is judged, and is
//! sent back with its status.

use std::sync::Arc;

use async_trait::async_trait;
use auth::User;
use generic_server::{
    admission::{Admission, Attributes, Operation, OperationOptions, Reinvocation},
    audit::Recorder,
    endpoint::Endpoint,
    handlers::{check_namespace, read_object, transform},
    negotiate::Offer,
    options::{WriteKind, WriteOptions},
    registry::{field_manager, wipe_system_fields},
    request::Request,
    resource::Resource,
    response::{self, Response},
};
use machinery::{
    Str, Value,
    meta::{Meta, status::Status},
};

/// How the reviews of one kind are judged.
#[async_trait]
pub(crate) trait Judge: Send + Sync {
    /// Adds what admission sees of a status that nobody has given yet: Go's types show such zeros.
    fn complete(&self, review: &mut Value);

    /// Validates the review, has admission validate it ([`Review::admit`]), and fills in its status.
    async fn judge(&self, review: &mut Review<'_>) -> Result<(), Status>;
}

/// Serves the reviews of one kind.
pub(crate) struct Reviews<J> {
    pub(crate) row: Resource,
    pub(crate) admission: Arc<dyn Admission>,
    pub(crate) judge: J,
}

/// A review that has been asked for.
pub(crate) struct Review<'a> {
    /// The row it was sent to.
    pub(crate) row: &'a Resource,
    /// The object, decoded and defaulted.
    pub(crate) object: Value,
    /// Who asks.
    pub(crate) user: &'a User,
    /// The namespace of the request; empty for reviews of the whole cluster.
    pub(crate) namespace: &'a Str,
    /// What the audit log gets to see.
    pub(crate) audit: &'a Recorder,
    /// What the client is told besides.
    pub(crate) warnings: Vec<String>,
    options: &'a WriteOptions,
    admission: &'a dyn Admission,
}

#[async_trait]
impl<J: Judge> Endpoint for Reviews<J> {
    async fn serve(&self, mut request: Request) -> Result<Response, Status> {
        let row = &self.row;
        let accepted = response::accepted(&request, &Offer::TABLELESS)?;
        let options = WriteOptions::read(&request, WriteKind::Create)?;
        let mut warnings = Vec::new();
        let kind = row.gvk();
        let object = read_object(&mut request, row, kind, options.field_validation, &mut warnings).await?;
        let (user, namespace, audit) = (request.user.clone(), request.info.namespace.clone(), request.audit.clone());
        check_namespace(&object, &namespace, row.namespaced)?;
        let mut review = Review {
            row,
            object,
            user: &user,
            namespace: &namespace,
            options: &options,
            audit: &audit,
            admission: &*self.admission,
            warnings,
        };
        let judged = self.answer(&mut review).await;
        let package = row.group.split('.').next().unwrap_or_default();
        let answer = judged.and_then(|()| transform::posted(&review.object, accepted, package));
        let answer = answer.unwrap_or_else(|status| response::error(&status, response::wanted(&request)));
        Ok(response::add_warnings(answer, &review.warnings))
    }
}

impl<J: Judge> Reviews<J> {
    async fn answer(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if self.row.namespaced {
            review.object.set(&["metadata", "namespace"], review.namespace);
        } else {
            review.object.remove_at(&["metadata", "namespace"]);
        }
        wipe_system_fields(&mut review.object);
        field_manager::track_virtual(&self.row, review.options, &mut review.object);
        self.judge.complete(&mut review.object);
        review.mutate().await?;
        self.judge.judge(review).await
    }
}

/// Adds a member to a review's status, unless it came with one.
pub(crate) fn complete_status(review: &mut Value, key: &str, zero: impl Into<Value>) {
    if review.at(&["status", key]).is_none() {
        review.set(&["status", key], zero);
    }
}

impl Review<'_> {
    /// Lets admission change the review, or refuse it.
    async fn mutate(&mut self) -> Result<(), Status> {
        let name = self.name();
        let mut object = std::mem::take(&mut self.object);
        let mut warnings = std::mem::take(&mut self.warnings);
        let admitted = self.admission.mutate(&self.attributes(&name), &mut object, &mut warnings).await;
        (self.object, self.warnings) = (object, warnings);
        admitted
    }

    /// Lets admission refuse the review, once it is known to be a valid one.
    pub(crate) async fn admit(&mut self) -> Result<(), Status> {
        let name = self.name();
        let mut warnings = std::mem::take(&mut self.warnings);
        let admitted = self.admission.validate(&self.attributes(&name), &self.object, &mut warnings).await;
        self.warnings = warnings;
        admitted
    }

    fn name(&self) -> String {
        Meta::of(&self.object).name().to_owned()
    }

    fn attributes<'a>(&'a self, name: &'a str) -> Attributes<'a> {
        Attributes {
            operation: Operation::Create,
            row: self.row,
            namespace: self.namespace,
            name,
            subresource: "",
            user: self.user,
            dry_run: self.options.dry_run,
            options: OperationOptions::Write(self.options),
            audit: self.audit,
            old: None,
            rounds: Reinvocation::default(),
        }
    }
}
