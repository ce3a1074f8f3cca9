//! PATCH of an object, or of its status: JSON Patch, JSON Merge Patch, Strategic Merge Patch.

use async_trait::async_trait;
use bytes::Bytes;
use machinery::{
    Value,
    codec::json,
    meta::{
        GvkRef,
        field_error::FieldError,
        go_text::no_type_in,
        gvk::{GroupKind, GroupResource, GroupVersion},
        status::{Details, Status},
    },
    patch::{PatchError, go_format, json_patch, merge, strategic},
    schema::Schema,
};

use super::{Target, body, permission::Permitted, transform::View};
use crate::decode::{check_name, check_namespace};
use crate::options::{FieldValidation, WriteKind, WriteOptions};
use crate::{
    negotiate::Media,
    registry::{Change, Write},
    request::Request,
    resource::Resource,
    response::Response,
};

/// The kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchType {
    Json,
    Merge,
    Strategic,
    /// A configuration in YAML or CBOR.
    Apply(Media),
}

impl PatchType {
    const CUSTOM: [&str; 4] = [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
        "application/apply-patch+cbor",
    ];

    pub(super) fn read(request: &Request, row: &Resource) -> Result<Self, Status> {
        let content_type = request.header("content-type");
        let essence = content_type.unwrap_or("").split(';').next().unwrap_or("").trim();
        match essence {
            "application/json-patch+json" => Ok(PatchType::Json),
            "application/merge-patch+json" => Ok(PatchType::Merge),
            "application/strategic-merge-patch+json" if row.built_in => Ok(PatchType::Strategic),
            "application/apply-patch+yaml" => Ok(PatchType::Apply(Media::Yaml)),
            "application/apply-patch+cbor" if request.serves_cbor() => Ok(PatchType::Apply(Media::Cbor)),
            _ if row.built_in => {
                let text = "415: Unsupported Media Type";
                Err(Status::new(415, "UnsupportedMediaType", text).with_details(Details::default()))
            }
            _ if request.serves_cbor() => Err(Status::unsupported_media_type(&Self::CUSTOM)),
            _ => Err(Status::unsupported_media_type(&Self::CUSTOM[..3])),
        }
    }

    /// The encoding of a configuration that is applied.
    pub(super) fn applied(self) -> Option<Media> {
        match self {
            PatchType::Apply(media) => Some(media),
            _ => None,
        }
    }
}

/// Answers the request.
pub(super) async fn serve(target: &mut Target, warnings: &mut Vec<String>) -> Result<Response, Status> {
    let row = &target.entry.row;
    let kind = PatchType::read(&target.request, row)?;
    let view = View::of_request(&target.request, &target.entry)?;
    let write_kind = if kind.applied().is_some() { WriteKind::Apply } else { WriteKind::Patch };
    let bytes = body::read_body(&mut target.request).await?;
    let options = WriteOptions::read(&target.request, write_kind)?;
    body::record_patch(&target.request, &bytes, kind);
    let info = &target.request.info;
    let mut write = Write {
        row,
        namespace: &info.namespace,
        subresource: &info.subresource,
        user: &target.request.user,
        audit: &target.request.audit,
        options: &options,
        warnings,
    };
    let written = if let Some(media) = kind.applied() {
        let change = {
            let place = (info.namespace.as_str(), info.name.as_str(), info.subresource.as_str());
            crate::registry::field_manager::Apply::read(row, &target.registry, place, (&bytes, media), &options)?
        };
        target.registry.update(&mut write, &info.name, &Permitted::new(&change, &target.request)).await?
    } else {
        let document = Document::read(kind, &bytes, options.field_validation)?;
        let versions = target.registry.versions();
        let change = Patch { document, row, versions, namespace: &info.namespace, name: &info.name };
        target.registry.update(&mut write, &info.name, &change).await?
    };
    target.settle_written(options.dry_run, &written).await;
    traces::event("Object stored in database", |_| {});
    view.written(&target.registry, &written).await
}

/// A patch as it was sent.
pub(super) struct Document {
    kind: PatchType,
    patch: Value,
    /// What is odd about the patch itself: repeated members, unknown ones in operations.
    oddities: Vec<String>,
    validation: FieldValidation,
}

impl Document {
    /// Reads a patch that is not an applied configuration.
    pub(super) fn read(kind: PatchType, bytes: &Bytes, validation: FieldValidation) -> Result<Self, Status> {
        // A strategic merge patch fails with the decoder's words alone.
        let prefix = if kind == PatchType::Strategic { "" } else { "error decoding patch: " };
        let (patch, mut oddities) =
            json::decode_strict(bytes).map_err(|e| Status::bad_request(format!("{prefix}{e}")))?;
        match kind {
            PatchType::Json if validation != FieldValidation::Ignore => {
                let unknown = json_patch::strict_errors(&patch).map_err(|e| refuse(&e))?;
                oddities = json_patch::repeated(&oddities).chain(unknown).collect();
            }
            PatchType::Json => oddities.clear(),
            PatchType::Merge => merge::check_type(&patch).map_err(|e| refuse(&e))?,
            PatchType::Strategic | PatchType::Apply(_) => {}
        }
        Ok(Document { kind, patch, oddities, validation })
    }

    /// What the patch makes of an object of this type; not decoded yet.
    pub(super) fn applied_to(&self, current: &Value, schema: &Schema) -> Result<Value, Status> {
        let patched = match self.kind {
            PatchType::Json => json_patch::apply(current, &self.patch),
            PatchType::Merge => merge::apply(current, &self.patch),
            PatchType::Strategic | PatchType::Apply(_) => strategic::apply(current, &self.patch, schema),
        }
        .map_err(|e| refuse(&e))?;
        match patched {
            Value::Object(_) => Ok(patched),
            other => Err(self.invalid(&other, no_type_in(&other))),
        }
    }

    /// Decodes what the patch has made as a `kind` (group, version, kind).
    pub(super) fn decode(
        &self,
        row: &Resource,
        kind: GvkRef<'_>,
        patched: Value,
        warnings: &mut Vec<String>,
    ) -> Result<Value, Status> {
        let mut problems = self.oddities.clone();
        let object = crate::decode::conform(row, kind, patched.clone(), &mut problems)
            .map_err(|why| self.invalid(&patched, why.to_string()))?;
        self.judge(&patched, problems, warnings)?;
        Ok(object)
    }

    /// Warns of what a strict reader minds, or refuses the patch for it.
    fn judge(&self, patched: &Value, problems: Vec<String>, warnings: &mut Vec<String>) -> Result<(), Status> {
        match self.validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => warnings.extend(problems),
            FieldValidation::Strict if problems.is_empty() => {}
            FieldValidation::Strict => {
                return Err(self.invalid(patched, format!("strict decoding error: {}", problems.join(", "))));
            }
        }
        Ok(())
    }

    /// A patch leaves the kind of a built-in document as it is.
    pub(super) fn check_kind(&self, wanted: GvkRef<'_>, patched: &Value) -> Result<(), Status> {
        let text = |key: &str| patched.str_at(&[key]).unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        if self.kind == PatchType::Strategic || version.is_empty() || kind.is_empty() {
            return Ok(());
        }
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let found = GvkRef::new(group, version, kind);
        if found == wanted { Ok(()) } else { Err(self.other_kind(wanted, found, patched)) }
    }

    /// The refusal of a patch that makes another kind of the object.
    fn other_kind(&self, wanted: GvkRef<'_>, found: GvkRef<'_>, patched: &Value) -> Status {
        let why = crate::decode::other_kind(wanted, found, || crate::decode::check_readable(found, patched));
        self.invalid(patched, why.unwrap_or_else(|| crate::decode::unconverted(wanted, found)))
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

/// A patch that is applied to whatever the object's current state is.
struct Patch<'a> {
    document: Document,
    row: &'a Resource,
    /// The rows of all versions; empty if there is just one.
    versions: &'a [Resource],
    namespace: &'a str,
    name: &'a str,
}

impl Patch<'_> {
    /// A built-in object whose JSON was patched must still be read as one of its kind. One without a kind is of the one that
    /// it was; one without an apiVersion has no members but those.
    fn of_built_in_kind(&self, mut patched: Value) -> Result<Value, Status> {
        let row = self.row;
        if self.document.kind == PatchType::Strategic {
            patched.set(&["kind"], row.kind.clone());
            patched.set(&["apiVersion"], row.api_version());
            return Ok(patched);
        }
        let invalid = |why: String| Err(self.document.invalid(&patched, why));
        if let Some(why) = crate::decode::no_text_in(&patched) {
            return invalid(why);
        }
        let text = |key: &str| patched.str_at(&[key]).unwrap_or_default();
        let (own, kind) = (row.api_version(), if text("kind").is_empty() { &row.kind } else { text("kind") });
        match text("apiVersion") {
            "" => {
                let why = format!(
                    "the name of the object ({} based on URL) was undeterminable: name must be provided",
                    self.name
                );
                return Err(Status::bad_request(why));
            }
            version if version.matches('/').count() > 1 => {
                return invalid(format!("unexpected GroupVersion string: {version}"));
            }
            version if *version != *own || *kind != *row.kind => {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                return Err(self.document.other_kind(row.gvk(), GvkRef::new(group, version, kind), &patched));
            }
            _ => {}
        }
        patched.set(&["kind"], row.kind.clone());
        patched.set(&["apiVersion"], own);
        Ok(patched)
    }

    /// A patch cannot turn an object into one of another kind.
    fn of_its_kind(&self, patched: Value) -> Result<Value, Status> {
        let row = self.row;
        if row.built_in {
            return self.of_built_in_kind(patched);
        }
        if let Err(why) = GroupVersion::parse(patched.str_at(&["apiVersion"]).unwrap_or("")) {
            return Err(self.document.invalid(&patched, why.to_string()));
        }
        let mut errors = Vec::new();
        let found_kind = patched.str_at(&["kind"]).unwrap_or("").to_owned();
        for (key, want) in [("kind", row.kind.clone()), ("apiVersion", row.api_version())] {
            match patched.str_at(&[key]) {
                Some(found) if *found == *want => {}
                found => errors.push(FieldError::invalid(key, found.unwrap_or(""), format!("must be {want}"))),
            }
        }
        match errors.is_empty() {
            true => Ok(patched),
            false => {
                let version = patched.str_at(&["apiVersion"]).unwrap_or("");
                let group = version.split_once('/').map_or("", |(group, _)| group);
                Err(Status::invalid(&GroupKind::new(group, found_kind.as_str()), self.name, errors))
            }
        }
    }

    /// The members that an object cannot have in the version that a patch gives it, where there is no such version.
    fn unknown_elsewhere(&self, patched: &Value) -> Vec<String> {
        let row = self.row;
        let version = patched.str_at(&["apiVersion"]).unwrap_or("");
        let unknown = |known: &[&str]| -> Vec<String> {
            let members = patched.as_object().into_iter().flat_map(|members| members.keys());
            let unknown = members.filter(|key| !known.contains(&key.as_str()));
            unknown.map(|key| format!("unknown field {:?}", key.as_str())).collect()
        };
        if row.built_in
            && version.is_empty()
            && self.document.kind != PatchType::Strategic
            && crate::decode::no_text_in(patched).is_none()
        {
            return unknown(&["apiVersion", "kind"]);
        }
        let is_known = version == row.api_version() || self.versions.iter().any(|row| row.api_version() == version);
        let of_group = version.split_once('/').is_some_and(|(group, _)| group == row.group);
        if row.built_in || is_known || !of_group || patched.str_at(&["kind"]) != Some(row.kind.as_str()) {
            return Vec::new();
        }
        unknown(&["apiVersion", "kind", "metadata"])
    }
}

#[async_trait]
impl Change for Patch<'_> {
    async fn apply(&self, current: Option<&Value>, warnings: &mut Vec<String>) -> Result<Option<Value>, Status> {
        let Some(current) = current else { return Ok(None) };
        let row = self.row;
        let patched = self.document.applied_to(current, &row.schema)?;
        self.document.judge(&patched, self.unknown_elsewhere(&patched), warnings)?;
        let patched = self.of_its_kind(patched)?;
        let kind = row.gvk();
        let object = self.document.decode(row, kind, patched, warnings)?;
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
fn refuse(error: &PatchError) -> Status {
    match error {
        PatchError::BadRequest(text) => Status::bad_request(text.clone()),
        PatchError::Unprocessable(_) => Status::generic(422, "", &GroupResource::default(), "", "", 0),
        PatchError::TooLarge(text) => Status::request_entity_too_large(text),
        PatchError::Invalid { value, detail } => invalid_patch(value, detail.clone()),
        PatchError::Internal(text) => Status::unknown_error(text),
    }
}
