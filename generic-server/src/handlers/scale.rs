//! The scale subresource: how many replicas an object wants, in a document that is the same for all kinds.

use async_trait::async_trait;
use machinery::{
    Str, Value,
    meta::{GvkRef, field_error::FieldError, gvk::GroupKind, selector::LabelSelector, status::Status},
    object,
    request::Verb,
    schema::{Schema, Shape, builtin},
};
use storage::cache::ReadAt;

use super::{
    Target, body,
    patch::{Document, PatchType},
    scale_fields::ScaleFields,
    scale_view::ScaleView,
    warned,
};
use crate::decode::{check_name, check_namespace};
use crate::{
    decode::repeated_keys,
    options::{FieldValidation, WriteKind, WriteOptions},
};
use crate::{
    registry::{Change, Write, field_manager},
    resource::{Resource, SubresourceKind},
    response::Response,
};

/// The kind of the document.
const SCALE: GvkRef<'static> = GvkRef::new("autoscaling", "v1", "Scale");

/// Where the parts of a scale stand in an object.
struct Paths {
    replicas: Vec<Str>,
    status_replicas: Vec<Str>,
    selector: Option<Vec<Str>>,
    /// The selector is a set of labels, not one that matches labels and expressions (replication controllers).
    is_plain: bool,
}

impl Paths {
    fn of(row: &Resource) -> Self {
        match row.subresource("scale").map(|s| &s.kind) {
            Some(SubresourceKind::Scale { spec_replicas, status_replicas, selector }) => Paths {
                replicas: spec_replicas.clone(),
                status_replicas: status_replicas.clone(),
                selector: selector.clone(),
                is_plain: selector.as_ref().is_some_and(|path| is_map(&row.schema, path)),
            },
            _ => unreachable!("only rows with a scale come here"),
        }
    }

    /// The scale of an object. A custom resource must have the number of replicas.
    fn scale_of(&self, row: &Resource, object: &Value) -> Result<Value, Status> {
        let path: Vec<&str> = self.replicas.iter().map(Str::as_str).collect();
        if !row.built_in && object.at(&path).is_none() {
            let why = format!("the spec replicas field {:?} does not exist", format!(".{}", path.join(".")));
            return Err(Status::internal_error(why));
        }
        Ok(self.scale(object))
    }

    fn scale(&self, object: &Value) -> Value {
        let at = |path: &[Str]| object.at(&path.iter().map(Str::as_str).collect::<Vec<_>>()).cloned();
        let mut metadata = Value::object();
        for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object.at(&["metadata", key]) {
                metadata.make_object().insert(key, value.clone());
            }
        }
        let mut spec = Value::object();
        if let Some(replicas) = at(&self.replicas).filter(|r| r.as_i64() != Some(0)) {
            spec.make_object().insert("replicas", replicas);
        }
        let replicas = at(&self.status_replicas).and_then(|v| v.as_i64()).unwrap_or(0);
        let mut status = object! { "replicas" => replicas };
        let selector = self.selector.as_ref().and_then(|path| at(path)).map(|selector| match selector {
            Value::String(text) => text,
            Value::Object(labels) if self.is_plain => LabelSelector::from_labels(&labels).to_string().into(),
            other => LabelSelector::from_value(&other).map(|s| s.to_string().into()).unwrap_or_default(),
        });
        if let Some(selector) = selector.filter(|s| !s.is_empty()) {
            status.make_object().insert("selector", selector);
        }
        object! {
            "kind" => "Scale", "apiVersion" => "autoscaling/v1",
            "metadata" => metadata, "spec" => spec, "status" => status,
        }
    }
}

/// The scale of an object of a row that has one: what admission sees of a write through the subresource.
pub fn scale_of(row: &Resource, object: &Value) -> Value {
    Paths::of(row).scale(object)
}

/// Writes what admission has made of an object's scale into the object.
pub fn rescale(row: &Resource, scale: &Value, object: &mut Value) {
    let replicas = scale.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
    object.set(&Paths::of(row).replicas.iter().map(Str::as_str).collect::<Vec<_>>(), replicas);
}

/// Whether a path leads to a map whose keys are data.
fn is_map(schema: &Schema, path: &[Str]) -> bool {
    let found = path.iter().try_fold(schema, |at, name| Some(&at.as_object()?.field(name)?.schema));
    found.is_some_and(|schema| matches!(schema.resolve().shape, Shape::Map(_)))
}

/// Answers the request.
pub(super) async fn serve(mut target: Target) -> Result<Response, Status> {
    let view = ScaleView::of_request(&target)?;
    let paths = Paths::of(&target.entry.row);
    let verb = target.request.info.verb;
    if verb == Verb::Get {
        let info = &target.request.info;
        let object = target.registry.get(&info.namespace, &info.name, ReadAt::Latest).await?;
        let object = target.registry.decode(object.bytes())?;
        let object = target.registry.value_in_version(&target.entry.row, object).await?;
        let scale = paths.scale_of(&target.entry.row, &object)?;
        return view.answer(&scale);
    }
    let mut warnings = Vec::new();
    let answer = write(&mut target, &paths, &mut warnings).await.and_then(|scale| view.answer(&scale));
    warned(&target.request, answer, &warnings)
}

/// Changes the scale; gives it as it is then.
async fn write(target: &mut Target, paths: &Paths, warnings: &mut Vec<String>) -> Result<Value, Status> {
    let verb = target.request.info.verb;
    let patch = match verb {
        Verb::Patch => Some(PatchType::read(&target.request, &target.entry.row)?),
        _ => None,
    };
    let write_kind = match patch {
        Some(PatchType::Apply(_)) => WriteKind::Apply,
        Some(_) => WriteKind::Patch,
        None => WriteKind::Update,
    };
    let options = WriteOptions::read(&target.request, write_kind)?;
    let change = if let Some(patch) = patch {
        read_patch(target, patch, options.field_validation, warnings).await?
    } else {
        let row = &target.entry.row;
        let scale = body::read_object(&mut target.request, row, SCALE, options.field_validation, warnings).await?;
        check_name(&scale, &target.request.info.name)?;
        check_namespace(&scale, &target.request.info.namespace, row.namespaced)?;
        NewScale::Whole(without_zero(scale))
    };
    let info = &target.request.info;
    let mut write = Write {
        row: &target.entry.row,
        namespace: &info.namespace,
        subresource: &info.subresource,
        user: &target.request.user,
        audit: &target.request.audit,
        options: &options,
        warnings,
    };
    let row = &target.entry.row;
    let fields = ScaleFields { row, versions: target.registry.versions(), options: &options };
    let change = SetReplicas { paths, row, name: &info.name, change, fields };
    let written = target.registry.update(&mut write, &info.name, &change).await?;
    let object = target.registry.decode(&written.bytes)?;
    Ok(paths.scale(&target.registry.value_in_version(&target.entry.row, object).await?))
}

/// What a request makes of the scale.
enum NewScale {
    Whole(Value),
    Patched(Document),
    Applied(Value),
}

async fn read_patch(
    target: &mut Target,
    kind: PatchType,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<NewScale, Status> {
    let bytes = body::read_body(&mut target.request).await?;
    body::record_patch(&target.request, &bytes, kind);
    let Some(media) = kind.applied() else {
        return Document::read(kind, &bytes, validation).map(NewScale::Patched);
    };
    let (config, repeated) = field_manager::read_applied(&bytes, media, validation)?;
    if let (Some(repeated), FieldValidation::Warn) = (repeated, validation) {
        warnings.extend(repeated_keys(&repeated));
    }
    Ok(NewScale::Applied(config))
}

/// A scale to no replicas does not name them.
fn without_zero(mut scale: Value) -> Value {
    let path = ["spec", "replicas"];
    if scale.at(&path).and_then(Value::as_i64) == Some(0) {
        scale.remove_at(&path);
    }
    scale
}

/// Writes the scale's replicas into the object.
struct SetReplicas<'a> {
    paths: &'a Paths,
    row: &'a Resource,
    name: &'a str,
    change: NewScale,
    fields: ScaleFields<'a>,
}

#[async_trait]
impl Change for SetReplicas<'_> {
    async fn apply(&self, current: Option<&Value>, warnings: &mut Vec<String>) -> Result<Option<Value>, Status> {
        let Some(current) = current else { return Ok(None) };
        let mut before = self.paths.scale(current);
        self.fields.show(current, &mut before);
        let scale = match &self.change {
            NewScale::Applied(config) => self.decoded(self.fields.apply(&before, config)?, warnings)?,
            NewScale::Whole(scale) => self.tracked(&before, scale.clone()),
            NewScale::Patched(patch) => self.tracked(&before, self.patched(&before, patch, warnings)?),
        };
        let replicas = scale.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
        // Custom resources say in their own words what is wrong with them.
        if replicas < 0 && self.row.built_in {
            let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
            return Err(Status::invalid(&GroupKind::new("autoscaling", "Scale"), self.name, vec![error]));
        }
        let mut object = current.clone();
        object.set(&self.paths.replicas.iter().map(Str::as_str).collect::<Vec<_>>(), replicas);
        let version = scale.at(&["metadata", "resourceVersion"]).cloned().unwrap_or(Value::from(""));
        object.set(&["metadata", "resourceVersion"], version);
        if let Some(uid) = scale.at(&["metadata", "uid"]) {
            object.set(&["metadata", "uid"], uid.clone());
        }
        self.fields.carry_back(&scale, &mut object);
        Ok(Some(object))
    }

    fn tracks_fields(&self) -> bool {
        true
    }
}

impl SetReplicas<'_> {
    fn patched(&self, scale: &Value, patch: &Document, warnings: &mut Vec<String>) -> Result<Value, Status> {
        let schema = builtin::schema_of(SCALE.group, SCALE.version, SCALE.kind).expect("the table has Scale");
        let patched = patch.applied_to(scale, schema)?;
        if self.row.built_in {
            patch.check_kind(SCALE, &patched)?;
        }
        let scale = patch.decode(self.row, SCALE, patched, warnings)?;
        check_name(&scale, self.name)?;
        Ok(without_zero(scale))
    }

    fn tracked(&self, before: &Value, mut scale: Value) -> Value {
        self.fields.track(before, &mut scale);
        scale
    }

    /// Decodes an applied configuration, once it is merged.
    fn decoded(&self, merged: Value, warnings: &mut Vec<String>) -> Result<Value, Status> {
        let mut problems = Vec::new();
        let scale = crate::decode::conform(self.row, SCALE, merged, &mut problems).map_err(Status::unknown_error)?;
        match self.fields.options.field_validation {
            FieldValidation::Warn => warnings.extend(problems),
            FieldValidation::Strict if !problems.is_empty() => {
                return Err(Status::bad_request(format!("strict decoding error: {}", problems.join(", "))));
            }
            _ => {}
        }
        check_name(&scale, self.name)?;
        Ok(without_zero(scale))
    }
}
