//! The scale subresource: how many replicas an object wants, in a document that is the same for all kinds.

use async_trait::async_trait;
use machinery::{
    Str, Value,
    meta::{field_error::FieldError, gvk::GroupKind, selector::LabelSelector, status::Status},
    object,
    patch::{json_patch, merge, strategic},
    schema::builtin,
};
use storage::cache::ReadAt;

use super::{
    Target, body,
    create::{check_name, check_namespace},
    options::{FieldValidation, WriteKind, WriteOptions},
    scale_fields::ScaleFields,
    scale_view::ScaleView,
    warned,
};
use crate::{
    pipeline::respond::Response,
    registry::{Change, Write},
    resource::{Resource, SubresourceKind, Verb},
};

/// Where the parts of a scale stand in an object.
struct Paths {
    replicas: Vec<Str>,
    status_replicas: Vec<Str>,
    selector: Option<Vec<Str>>,
}

impl Paths {
    fn of(row: &Resource) -> Self {
        match row.subresource("scale").map(|s| &s.kind) {
            Some(SubresourceKind::Scale { spec_replicas, status_replicas, selector }) => Paths {
                replicas: spec_replicas.clone(),
                status_replicas: status_replicas.clone(),
                selector: selector.clone(),
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
    let write_kind = match verb {
        Verb::Patch if is_apply(target) => WriteKind::Apply,
        Verb::Patch => WriteKind::Patch,
        _ => WriteKind::Update,
    };
    let options = WriteOptions::read(&target.request, write_kind)?;
    let change = if verb == Verb::Patch {
        NewScale::Patch(read_patch(target).await?)
    } else {
        let row = &target.entry.row;
        let kind = ("autoscaling", "v1", "Scale");
        let scale = body::read_object(&mut target.request, row, kind, options.field_validation, warnings).await?;
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
    Patch(ScalePatch),
}

enum ScalePatch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    Apply(Value),
}

const APPLY: &str = "application/apply-patch+yaml";

fn is_apply(target: &Target) -> bool {
    target.request.header("content-type").is_some_and(|t| t.split(';').next() == Some(APPLY))
}

async fn read_patch(target: &mut Target) -> Result<ScalePatch, Status> {
    let content_type = target.request.header("content-type").unwrap_or("").to_owned();
    let built_in = target.entry.row.built_in;
    let bytes = body::read_body(&mut target.request).await?;
    let patch =
        machinery::codec::json::decode(&bytes).map_err(|e| Status::bad_request(format!("error decoding patch: {e}")));
    match content_type.split(';').next().unwrap_or("").trim() {
        "application/json-patch+json" => Ok(ScalePatch::Json(patch?)),
        "application/merge-patch+json" => Ok(ScalePatch::Merge(patch?)),
        "application/strategic-merge-patch+json" if built_in => Ok(ScalePatch::Strategic(patch?)),
        APPLY => {
            let applied = machinery::codec::yaml::decode(&bytes).map_err(|e| Status::bad_request(e.to_string()))?;
            Ok(ScalePatch::Apply(applied))
        }
        _ => {
            let known = ["application/json-patch+json", "application/merge-patch+json", APPLY];
            Err(Status::unsupported_media_type(if built_in { &known[..2] } else { &known }))
        }
    }
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
            NewScale::Patch(ScalePatch::Apply(config)) => {
                self.conformed(self.fields.apply(&before, config)?, warnings)?
            }
            change => {
                let mut scale = match change {
                    NewScale::Whole(scale) => scale.clone(),
                    NewScale::Patch(patch) => self.patched(&before, patch, warnings)?,
                };
                self.fields.track(&before, &mut scale);
                scale
            }
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
    fn patched(&self, scale: &Value, patch: &ScalePatch, warnings: &mut Vec<String>) -> Result<Value, Status> {
        let schema = builtin::schema_of("autoscaling", "v1", "Scale").expect("the table has Scale");
        let patched = match patch {
            ScalePatch::Json(patch) => json_patch::apply(scale, patch),
            ScalePatch::Merge(patch) => merge::apply(scale, patch),
            ScalePatch::Strategic(patch) | ScalePatch::Apply(patch) => strategic::apply(scale, patch, schema),
        }
        .map_err(|e| super::patch::refuse(&e))?;
        self.conformed(patched, warnings)
    }

    fn conformed(&self, patched: Value, warnings: &mut Vec<String>) -> Result<Value, Status> {
        let kind = ("autoscaling", "v1", "Scale");
        let mut problems = Vec::new();
        let patched = body::conform(self.row, kind, patched, &mut problems).map_err(Status::bad_request)?;
        match self.fields.options.field_validation {
            FieldValidation::Warn => warnings.extend(problems),
            FieldValidation::Strict if !problems.is_empty() => {
                return Err(Status::bad_request(format!("strict decoding error: {}", problems.join(", "))));
            }
            _ => {}
        }
        check_name(&patched, self.name)?;
        Ok(without_zero(patched))
    }
}
