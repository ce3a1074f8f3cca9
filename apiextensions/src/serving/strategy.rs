//! The strategy of custom resources.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use generic_server::resource::{Generation, KindTraits, Strategy, WriteContext};
use machinery::{
    Str, Value,
    meta::{
        Meta,
        field_error::{FieldError, FieldErrorKind},
    },
    patch::apply::ResetFields,
    schema::{self, LazySchema, Schema, structural},
    value::{Content, Path},
};

use super::rows::split;
use crate::{
    definition::{Definition, Shelf, Version},
    rules::{self, RuleTree},
};

/// The rules of one definition's objects, in all versions.
pub(super) struct CustomStrategy {
    traits: KindTraits,
    versions: Vec<Rules>,
    terminating: AtomicBool,
}

/// The rules of one version.
struct Rules {
    version: Str,
    schema: LazySchema,
    has_status: bool,
    scale: Option<Scale>,
    /// Its `x-kubernetes-validations`, compiled when they are first needed.
    rules: OnceLock<Option<RuleTree>>,
}

/// Where the numbers of a scale are, as the definition writes the paths.
struct Scale {
    replicas: Str,
    status_replicas: Str,
    selector: Option<Str>,
}

impl CustomStrategy {
    /// The rules of a definition. Schemas are read, from where the definition is kept, when they are needed; versions with
    /// the same one share it.
    pub(super) fn new<'a>(definition: Definition<'a>, shelf: &Arc<Shelf>) -> Self {
        let name = Str::from(definition.0.str_at(&["metadata", "name"]).unwrap_or(""));
        let mut known: HashMap<Content<'a>, LazySchema> = HashMap::new();
        let mut schema_of = |version: Version<'a>| {
            let props = version.schema()?;
            if let Some(schema) = known.get(&Content(props)) {
                return Some(schema.clone());
            }
            let (shelf, name, version) = (shelf.clone(), name.clone(), version.name());
            let schema = LazySchema::new(move || read_schema(&shelf, &name, &version).unwrap_or_default());
            known.insert(Content(props), schema.clone());
            Some(schema)
        };
        let versions: Vec<Rules> = definition
            .versions()
            .map(|version| Rules {
                version: version.name(),
                schema: schema_of(version).unwrap_or_default(),
                has_status: version.has_status(),
                scale: version.scale().map(Scale::read),
                rules: OnceLock::new(),
            })
            .collect();
        let traits = KindTraits {
            has_status: versions.iter().any(|version| version.has_status),
            generation: Generation::Content,
            allows_unconditional_update: false,
            ..KindTraits::PLAIN
        };
        CustomStrategy { traits, versions, terminating: AtomicBool::new(false) }
    }

    /// Whether the definition is being deleted.
    pub(super) fn set_terminating(&self, terminating: bool) {
        self.terminating.store(terminating, Ordering::Release);
    }

    /// A version's schema.
    pub(super) fn schema(&self, version: &str) -> Option<LazySchema> {
        self.rules(version).map(|r| r.schema.clone())
    }

    fn rules(&self, version: &str) -> Option<&Rules> {
        self.versions.iter().find(|r| r.version == version)
    }

    /// Whether the version of the request has a status that only the subresource writes.
    fn guards_status(&self, cx: &WriteContext<'_>) -> bool {
        self.rules(cx.version).is_some_and(|r| r.has_status)
    }
}

/// The schema of a version, as the definition has it now. Should it be another than when the rules were made, then other
/// rules are about to take their place.
fn read_schema(shelf: &Shelf, name: &str, version: &str) -> Option<Schema> {
    let definition = shelf.get(name)?;
    let found = Definition(&definition).versions().find(|v| v.name() == version)?;
    found.schema().map(structural::parse)
}

impl Scale {
    fn read(scale: &Value) -> Self {
        let text = |key: &str| scale.get(key).and_then(Value::as_shared_str).cloned();
        Scale {
            replicas: text("specReplicasPath").unwrap_or_default(),
            status_replicas: text("statusReplicasPath").unwrap_or_default(),
            selector: text("labelSelectorPath").filter(|p| !p.is_empty()),
        }
    }

    fn spec_errors(&self, object: &Value) -> Option<FieldError> {
        replicas_error(object, &self.replicas)
    }

    fn status_errors(&self, object: &Value) -> Vec<FieldError> {
        let mut errors: Vec<FieldError> = replicas_error(object, &self.status_replicas).into_iter().collect();
        if let Some(path) = &self.selector {
            let wrong = match nested(object, path) {
                Ok(None | Some(Value::String(_))) => None,
                Ok(Some(other)) => Some(accessor_error(path, other, "string")),
                Err(why) => Some(why),
            };
            errors.extend(wrong.map(|why| FieldError::invalid(path, "", why)));
        }
        errors
    }
}

/// The value at a path, or the error of something on the way to it that is no object.
fn nested<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let (mut value, mut at) = (object, String::new());
    for key in split(path) {
        at.push('.');
        at.push_str(&key);
        let Some(members) = value.as_object() else {
            return Err(accessor_error(&at, value, "map[string]interface{}"));
        };
        match members.get(&key) {
            Some(found) => value = found,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

fn accessor_error(path: &str, value: &Value, expected: &str) -> String {
    let shown = machinery::json::encode_text(value);
    format!("{path} accessor error: {} is of the type {}, expected {expected}", shown.trim_matches('"'), go_type(value))
}

pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn replicas_error(object: &Value, path: &str) -> Option<FieldError> {
    let wrong = |why: String| Some(FieldError::invalid(path, 0, why));
    let number = match nested(object, path) {
        Ok(None) => return None,
        Ok(Some(Value::Int(number))) => *number,
        Ok(Some(other)) => return wrong(accessor_error(path, other, "int64")),
        Err(why) => return wrong(why),
    };
    let max = i64::from(i32::MAX);
    if number < 0 {
        return Some(FieldError::invalid(path, number, "should be a non-negative integer"));
    }
    (number > max).then(|| FieldError::invalid(path, number, format!("should be less than or equal to {max}")))
}

impl Rules {
    fn embedded(&self, object: &Value) -> Vec<FieldError> {
        schema::validate_embedded(&self.schema, object, &Path::ROOT)
    }

    fn lists(&self, object: &Value) -> Vec<FieldError> {
        schema::validate_lists(&self.schema, object, &Path::ROOT)
    }

    fn scale_errors(&self, object: &Value) -> Vec<FieldError> {
        let scale = self.scale.iter();
        scale.flat_map(|scale| scale.spec_errors(object).into_iter().chain(scale.status_errors(object))).collect()
    }

    /// What is wrong with a new object.
    fn create(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = schema::validate(&self.schema, object, &Path::ROOT);
        errors.extend(self.scale_errors(object));
        errors.extend(self.embedded(object));
        errors.extend(self.lists(object));
        self.run_rules(object, None, &mut errors);
        errors
    }

    /// Adds what the rules say, if what is wrong already lets them be run.
    fn run_rules(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let Some(tree) = self.rules.get_or_init(|| RuleTree::of(&self.schema, true)) else { return };
        use FieldErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
        let blocks = |e: &FieldError| matches!(e.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid);
        if errors.iter().any(blocks) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to \
                       complete validation";
            errors.push(FieldError::invalid("", Value::Null, why));
            return;
        }
        errors.extend(rules::run(tree, new, old, &Path::ROOT));
    }

    /// What an update makes wrong.
    fn update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = ratchet(&self.schema, old, new, &Path::ROOT);
        errors.extend(self.scale_errors(new));
        errors.extend(self.embedded(new));
        if self.lists(old).is_empty() {
            errors.extend(self.lists(new));
        }
        self.run_rules(new, Some(old), &mut errors);
        errors
    }

    /// What an update of the status makes wrong.
    fn status(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let (Some(status), Some(schema)) = (new.get("status"), self.status_schema()) {
            let at = Path::ROOT.field("status");
            errors.extend(match old.get("status") {
                Some(old) => ratchet(schema, old, status, &at),
                None => schema::validate(schema, status, &at),
            });
        }
        errors.extend(self.scale.iter().flat_map(|scale| scale.status_errors(new)));
        if self.lists(old).is_empty() {
            errors.extend(self.lists(new));
        }
        self.run_rules(new, Some(old), &mut errors);
        errors
    }

    fn status_schema(&self) -> Option<&Schema> {
        self.schema.as_object()?.field("status").map(|f| &f.schema)
    }
}

/// What an update makes wrong that was not so before, counted.
fn ratchet(schema: &Schema, old: &Value, new: &Value, at: &Path<'_>) -> Vec<FieldError> {
    let (errors, compared) = schema::ratchet(schema, old, new, at);
    rules::compared(compared);
    errors
}

impl Strategy for CustomStrategy {
    fn traits(&self) -> &KindTraits {
        &self.traits
    }

    fn prepare_create(&self, cx: &WriteContext<'_>, object: &mut Value) {
        if self.guards_status(cx) {
            object.make_object().remove("status");
        }
    }

    fn validate(&self, cx: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        self.rules(cx.version).map(|rules| rules.create(object)).unwrap_or_default()
    }

    fn prepare_update(&self, cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
        if !self.guards_status(cx) {
            return;
        }
        let object = new.make_object();
        match old.get("status") {
            Some(status) => object.insert("status", status.clone()),
            None => object.remove("status"),
        };
    }

    fn validate_update(&self, cx: &WriteContext<'_>, new: &Value, old: &Value) -> Vec<FieldError> {
        self.rules(cx.version).map(|rules| rules.update(new, old)).unwrap_or_default()
    }

    /// Only the status is taken from an update of the status; of the metadata only who manages which fields.
    fn prepare_status_update(&self, _cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
        let status = new.get("status").cloned();
        let managed = new.at(&["metadata", "managedFields"]).cloned();
        *new = old.clone();
        match managed {
            Some(managed) => new.set(&["metadata", "managedFields"], managed),
            None => {
                new.remove_at(&["metadata", "managedFields"]);
            }
        }
        let object = new.make_object();
        match status {
            Some(status) => object.insert("status", status),
            None => object.remove("status"),
        };
    }

    fn validate_status_update(&self, cx: &WriteContext<'_>, new: &Value, old: &Value) -> Vec<FieldError> {
        self.rules(cx.version).map(|rules| rules.status(new, old)).unwrap_or_default()
    }

    /// What rules may cost is known when they are compiled, and that takes long itself.
    fn takes_long(&self, version: &str) -> bool {
        self.rules(version).is_some_and(|rules| match rules.rules.get() {
            Some(tree) => tree.as_ref().is_some_and(RuleTree::takes_long),
            None => true,
        })
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        finalizer_warnings(object, None)
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        finalizer_warnings(new, Some(old))
    }

    /// A status that a write may not set goes, and readers find the schema's default in its place.
    fn leaves_defaults_to_readers(&self, version: &str) -> bool {
        let guarded = self.rules(version).filter(|r| r.has_status);
        guarded.and_then(Rules::status_schema).is_some_and(|s| s.default.as_ref().is_some_and(|d| !d.is_null()))
    }

    fn reset_fields(&self, version: &str, subresource: &str) -> ResetFields {
        match subresource {
            "" if self.rules(version).is_some_and(|r| r.has_status) => ResetFields::exclude(&[&["status"]]),
            "status" => ResetFields::exclude(&[&["metadata"], &["spec"]]),
            _ => ResetFields::None,
        }
    }

    fn refuse_create(&self) -> Option<&'static str> {
        let terminating = self.terminating.load(Ordering::Acquire);
        terminating.then_some("create not allowed while custom resource definition is terminating")
    }
}

/// Warnings about finalizers that name no domain.
fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let known: HashSet<&str> = old.into_iter().flat_map(|o| Meta::of(o).finalizers()).collect();
    let mut added: Vec<&str> = Meta::of(new).finalizers().filter(|f| !known.contains(f)).collect();
    added.sort_unstable();
    added.dedup();
    let bare =
        added.into_iter().filter(|f| !f.contains('/') && !matches!(*f, "orphan" | "foregroundDeletion" | "kubernetes"));
    bare.map(|f| {
        let path = if f.contains('.') { " including a path (/)" } else { "" };
        format!(
            "metadata.finalizers: {f:?}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with \
             other finalizer writers"
        )
    })
    .collect()
}
