//! PATCH of an object, or of its status: JSON Patch, JSON Merge Patch, Strategic Merge Patch.

use async_trait::async_trait;
use bytes::Bytes;
use machinery::{
    Value,
    codec::json,
    meta::{
        field_error::FieldError,
        gvk::{GroupKind, GroupResource},
        status::{Details, Status},
    },
    patch::{PatchError, go_format, json_patch, merge, strategic},
};

use super::{
    Target, body,
    create::{check_name, check_namespace},
    options::{FieldValidation, WriteKind, WriteOptions},
    permission::Permitted,
    transform::View,
};
use crate::{
    pipeline::respond::Response,
    registry::{Change, Write},
    resource::Resource,
};

/// The kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    const CUSTOM: [&str; 3] =
        ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

    fn read(content_type: Option<&str>, row: &Resource) -> Result<Self, Status> {
        let essence = content_type.unwrap_or("").split(';').next().unwrap_or("").trim();
        match essence {
            "application/json-patch+json" => Ok(PatchType::Json),
            "application/merge-patch+json" => Ok(PatchType::Merge),
            "application/strategic-merge-patch+json" if row.built_in => Ok(PatchType::Strategic),
            "application/apply-patch+yaml" => Ok(PatchType::Apply),
            _ if row.built_in => {
                let text = "415: Unsupported Media Type";
                Err(Status::new(415, "UnsupportedMediaType", text).with_details(Details::default()))
            }
            _ => Err(Status::unsupported_media_type(&Self::CUSTOM)),
        }
    }
}

/// Answers the request.
pub(super) async fn serve(target: &mut Target, warnings: &mut Vec<String>) -> Result<Response, Status> {
    let row = &target.entry.row;
    let kind = PatchType::read(target.request.header("content-type"), row)?;
    let view = View::of_request(&target.request, &target.entry)?;
    let write_kind = if kind == PatchType::Apply { WriteKind::Apply } else { WriteKind::Patch };
    let bytes = body::read_body(&mut target.request).await?;
    let options = WriteOptions::read(&target.request, write_kind)?;
    let info = &target.request.info;
    let mut write = Write {
        row,
        namespace: &info.namespace,
        subresource: &info.subresource,
        user: &target.request.user,
        options: &options,
        warnings,
    };
    let written = if kind == PatchType::Apply {
        let change = {
            let place = (info.namespace.as_str(), info.name.as_str(), info.subresource.as_str());
            crate::fields::Apply::read(row, &target.registry, place, &bytes, &options)?
        };
        target.registry.update(&mut write, &info.name, &Permitted::new(&change, &target.request)).await?
    } else {
        let change = Patch::read(kind, &bytes, row, &info.namespace, &info.name, options.field_validation)?;
        target.registry.update(&mut write, &info.name, &change).await?
    };
    target.settle_written(options.dry_run, &written).await;
    view.written(&target.registry, &written).await
}

/// A patch that is applied to whatever the object's current state is.
struct Patch<'a> {
    kind: PatchType,
    row: &'a Resource,
    namespace: &'a str,
    name: &'a str,
    validation: FieldValidation,
    patch: Value,
    /// What is odd about the patch itself: repeated members, unknown ones in operations.
    oddities: Vec<String>,
}

impl<'a> Patch<'a> {
    fn read(
        kind: PatchType,
        bytes: &Bytes,
        row: &'a Resource,
        namespace: &'a str,
        name: &'a str,
        validation: FieldValidation,
    ) -> Result<Self, Status> {
        // A strategic merge patch fails with the decoder's words alone.
        let prefix = if kind == PatchType::Strategic { "" } else { "error decoding patch: " };
        let (patch, mut oddities) =
            json::decode_strict(bytes).map_err(|e| Status::bad_request(format!("{prefix}{e}")))?;
        match kind {
            PatchType::Json => {
                oddities.clear();
                if validation != FieldValidation::Ignore {
                    oddities = json_patch::strict_errors(&patch).map_err(|e| refuse(&e))?;
                }
            }
            PatchType::Merge => merge::check_type(&patch).map_err(|e| refuse(&e))?,
            PatchType::Strategic | PatchType::Apply => {}
        }
        Ok(Patch { kind, row, namespace, name, validation, patch, oddities })
    }

    fn patched(&self, current: &Value) -> Result<Value, Status> {
        match self.kind {
            PatchType::Json => json_patch::apply(current, &self.patch),
            PatchType::Merge => merge::apply(current, &self.patch),
            PatchType::Strategic | PatchType::Apply => strategic::apply(current, &self.patch, &self.row.schema),
        }
        .map_err(|e| refuse(&e))
    }

    /// A patch cannot turn an object into one of another kind. A built-in that has lost its kind is of the one that it was.
    fn of_its_kind(&self, mut patched: Value) -> Result<Value, Status> {
        let row = self.row;
        let mut errors = Vec::new();
        let found_kind = patched.str_at(&["kind"]).unwrap_or("").to_owned();
        for (key, want) in [("kind", row.kind.clone()), ("apiVersion", row.api_version())] {
            match patched.str_at(&[key]) {
                Some(found) if *found == *want => {}
                None | Some("") if row.built_in => patched.set(&[key], want),
                found => errors.push(FieldError::invalid(key, found.unwrap_or(""), format!("must be {want}"))),
            }
        }
        match errors.first() {
            None => Ok(patched),
            Some(first) if row.built_in => Err(self.invalid(&patched, first.to_string())),
            Some(_) => {
                let version = patched.str_at(&["apiVersion"]).unwrap_or("");
                let group = version.split_once('/').map_or("", |(group, _)| group);
                Err(Status::invalid(&GroupKind::new(group, found_kind.as_str()), self.name, errors))
            }
        }
    }

    /// The refusal of what the patch would make of the object.
    fn invalid(&self, patched: &Value, why: String) -> Status {
        let shown = match self.kind {
            PatchType::Strategic => go_format(&self.patch),
            _ => String::from_utf8_lossy(&json::encode(patched)).into_owned(),
        };
        invalid_patch(&shown, why)
    }
}

#[async_trait]
impl Change for Patch<'_> {
    async fn apply(&self, current: Option<&Value>, warnings: &mut Vec<String>) -> Result<Option<Value>, Status> {
        let Some(current) = current else { return Ok(None) };
        let patched = self.patched(current)?;
        let row = self.row;
        let mut problems = self.oddities.clone();
        let patched = self.of_its_kind(patched)?;
        let kind = (row.group.as_str(), row.version.as_str(), row.kind.as_str());
        let object =
            body::conform(row, kind, patched.clone(), &mut problems).map_err(|why| self.invalid(&patched, why))?;
        match self.validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => warnings.extend(problems),
            FieldValidation::Strict if problems.is_empty() => {}
            FieldValidation::Strict => {
                return Err(self.invalid(&patched, format!("strict decoding error: {}", problems.join(", "))));
            }
        }
        check_name(&object, self.name)?;
        check_namespace(&object, self.namespace, row.namespaced)?;
        Ok(Some(object))
    }
}

fn invalid_patch(shown: &str, why: String) -> Status {
    let error = FieldError::invalid("patch", shown, why);
    Status::invalid(&GroupKind::new("", ""), "", vec![error])
}

/// What a failed patch means for the client.
pub(super) fn refuse(error: &PatchError) -> Status {
    match error {
        PatchError::BadRequest(text) => Status::bad_request(text.clone()),
        PatchError::Unprocessable(_) => Status::generic(422, "", &GroupResource::default(), "", "", 0),
        PatchError::TooLarge(text) => Status::request_entity_too_large(text),
        PatchError::Invalid { value, detail } => invalid_patch(value, detail.clone()),
        PatchError::Internal(text) => Status::unknown_error(text),
    }
}
