//! The options of writes: CreateOptions, UpdateOptions, PatchOptions, DeleteOptions from query and body, validated.

use machinery::{
    Str, Value,
    meta::{field_error::FieldError, gvk::GroupKind, status::Status},
};

use crate::request::Request;

/// The option to delete an object that cannot be read.
pub(crate) const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// What to do about unknown and repeated fields in a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them in silence.
    Ignore,
    /// Drop them and say so in Warning headers.
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

/// Options of a create, an update or a patch.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Do all but write.
    pub dry_run: bool,
    /// Who manages the fields that this write sets: the parameter, or the start of the User-Agent.
    pub field_manager: Str,
    /// What to do about unknown fields.
    pub field_validation: FieldValidation,
    /// Take over fields that others manage (apply only).
    pub force: bool,
    /// What the request itself says, as admission shows it.
    pub asked: AskedOptions,
}

/// Options in the words of the request; empty where it says nothing.
#[derive(Clone, Debug, Default)]
pub struct AskedOptions {
    /// `fieldManager`
    pub field_manager: Str,
    /// `fieldValidation`
    pub field_validation: Str,
}

/// Which kind of write the options belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// POST
    Create,
    /// PUT
    Update,
    /// PATCH other than apply
    Patch,
    /// Server-side apply
    Apply,
}

impl WriteOptions {
    /// Reads and validates the query.
    pub fn read(request: &Request, kind: WriteKind) -> Result<Self, Status> {
        let query = &request.query;
        let mut errors = Vec::new();
        let manager = query.get("fieldManager").unwrap_or("");
        let force = query.has("force").then(|| query.flag("force"));
        if kind == WriteKind::Apply && manager.is_empty() {
            errors.push(FieldError::required("fieldManager", "is required for apply patch"));
        }
        if kind == WriteKind::Patch && force.is_some() {
            errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
        }
        validate_field_manager(manager, &mut errors);
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        validate_dry_run(&dry_run, &mut errors);
        let field_validation = match query.get("fieldValidation").unwrap_or("") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                errors.push(FieldError::not_supported("fieldValidation", other, ["", "Ignore", "Strict", "Warn"]));
                FieldValidation::Warn
            }
        };
        let name = match kind {
            WriteKind::Create => "CreateOptions",
            WriteKind::Update => "UpdateOptions",
            WriteKind::Patch | WriteKind::Apply => "PatchOptions",
        };
        refuse(name, errors)?;
        let asked = AskedOptions {
            field_manager: manager.into(),
            field_validation: query.get("fieldValidation").unwrap_or("").into(),
        };
        let field_manager = if manager.is_empty() {
            manager_of_agent(request.header("user-agent").unwrap_or(""))
        } else {
            manager.into()
        };
        Ok(WriteOptions {
            dry_run: !dry_run.is_empty(),
            field_manager,
            field_validation,
            force: force.unwrap_or(false),
            asked,
        })
    }

    /// The options of a create or an update as a document without its kind: what is not asked for is left out.
    pub(crate) fn document(&self) -> Value {
        let mut document = Value::object();
        if self.dry_run {
            document.set(&["dryRun"], vec![Value::from("All")]);
        }
        let texts = [("fieldManager", &self.asked.field_manager), ("fieldValidation", &self.asked.field_validation)];
        for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            document.set(&[key], text);
        }
        document
    }
}

/// The User-Agent up to its first slash, without what cannot be printed, at most 128 bytes: the default field manager.
fn manager_of_agent(agent: &str) -> Str {
    let name: String = agent.split('/').next().unwrap_or("").chars().filter(|c| !c.is_control()).collect();
    let end = (0..=name.len().min(128)).rev().find(|i| name.is_char_boundary(*i)).unwrap_or(0);
    if name[..end].is_empty() { "unknown".into() } else { name[..end].into() }
}

fn validate_field_manager(manager: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > 128 {
        errors.push(FieldError::too_long("fieldManager", 128));
    }
    if let Some((i, c)) = manager.chars().enumerate().find(|(_, c)| c.is_control()) {
        let detail = format!("invalid character U+{:04X} (at position {i})", u32::from(c));
        errors.push(FieldError::invalid("fieldManager", manager, detail));
    }
}

fn validate_dry_run(dry_run: &[&str], errors: &mut Vec<FieldError>) {
    if dry_run.iter().any(|v| *v != "All") {
        let all: Value = dry_run.iter().map(|v| Value::from(*v)).collect();
        errors.push(FieldError::not_supported("dryRun", all, ["All"]));
    }
}

/// Refuses with 422 if options are wrong.
pub(crate) fn refuse(kind: &str, errors: Vec<FieldError>) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", errors)) }
}

/// What becomes of an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are left alone.
    Orphan,
    /// They go after the object.
    Background,
    /// They go before the object.
    Foreground,
}

impl Propagation {
    /// As clients name it.
    const fn name(self) -> &'static str {
        match self {
            Propagation::Orphan => "Orphan",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        }
    }
}

/// Options of a delete.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Seconds that the object may live on.
    pub grace_period_seconds: Option<i64>,
    /// Only if the object has this uid.
    pub uid: Option<Str>,
    /// Only if the object is at this resourceVersion.
    pub resource_version: Option<Str>,
    /// What becomes of dependents; none: the kind decides.
    pub propagation: Option<Propagation>,
    /// The old form of `propagation`.
    pub orphan_dependents: Option<bool>,
    /// Do all but delete.
    pub dry_run: bool,
    /// Delete although the stored object cannot be read.
    pub ignore_store_read_error: bool,
}

impl DeleteOptions {
    /// From a body (a DeleteOptions document) or, without one, from the query. The option to delete what cannot be read
    /// counts only if the server deletes such objects.
    pub fn read(request: &Request, body: Option<Value>, deletes_unreadable: bool) -> Result<Self, Status> {
        let body = match body {
            Some(body) => body,
            None => Self::of_query(request)?,
        };
        let text = |key: &str| body.get(key).and_then(Value::as_str);
        let mut errors = Vec::new();
        let orphan_dependents = body.get("orphanDependents").and_then(Value::as_bool);
        let policy = text("propagationPolicy");
        if let (Some(policy), Some(_)) = (policy, orphan_dependents) {
            errors.push(FieldError::invalid(
                "propagationPolicy",
                policy,
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let propagation = match policy {
            None => None,
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some(other) => {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported("propagationPolicy", other, known));
                None
            }
        };
        let dry_run: Vec<&str> =
            body.get("dryRun").and_then(Value::as_array).unwrap_or(&[]).iter().filter_map(Value::as_str).collect();
        validate_dry_run(&dry_run, &mut errors);
        let ignore_store_read_error =
            deletes_unreadable && body.get(IGNORE_READ_ERROR).and_then(Value::as_bool) == Some(true);
        if ignore_store_read_error {
            validate_alone(&body, &mut errors);
        }
        refuse("DeleteOptions", errors)?;
        let precondition = |key: &str| body.at(&["preconditions", key]).and_then(Value::as_shared_str).cloned();
        Ok(DeleteOptions {
            grace_period_seconds: body.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            propagation,
            orphan_dependents,
            dry_run: !dry_run.is_empty(),
            ignore_store_read_error,
        })
    }

    /// The options as a document without its kind: what is not asked for is left out.
    pub(crate) fn document(&self) -> Value {
        let mut document = Value::object();
        if self.dry_run {
            document.set(&["dryRun"], vec![Value::from("All")]);
        }
        if let Some(seconds) = self.grace_period_seconds {
            document.set(&["gracePeriodSeconds"], seconds);
        }
        if let Some(orphan) = self.orphan_dependents {
            document.set(&["orphanDependents"], orphan);
        }
        for (key, text) in [("uid", &self.uid), ("resourceVersion", &self.resource_version)] {
            if let Some(text) = text {
                document.set(&["preconditions", key], text);
            }
        }
        if let Some(propagation) = self.propagation {
            document.set(&["propagationPolicy"], propagation.name());
        }
        if self.ignore_store_read_error {
            document.set(&[IGNORE_READ_ERROR], true);
        }
        document
    }

    fn of_query(request: &Request) -> Result<Value, Status> {
        let query = &request.query;
        let mut body = Value::object();
        let object = body.make_object();
        if let Some(text) = query.get("gracePeriodSeconds") {
            object.insert("gracePeriodSeconds", parse_int(text)?);
        }
        if let Some(text) = query.get("orphanDependents") {
            object.insert("orphanDependents", !(text.eq_ignore_ascii_case("false") || text == "0"));
        }
        if let Some(policy) = query.get("propagationPolicy") {
            object.insert("propagationPolicy", policy);
        }
        if query.has("dryRun") {
            object.insert("dryRun", query.all("dryRun").map(Value::from).collect::<Value>());
        }
        if let Some(text) = query.get(IGNORE_READ_ERROR) {
            object.insert(IGNORE_READ_ERROR, !matches!(text, "false" | "0"));
        }
        Ok(body)
    }
}

/// [`IGNORE_READ_ERROR`] goes with no other option.
fn validate_alone(body: &Value, errors: &mut Vec<FieldError>) {
    for name in ["dryRun", "propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions"] {
        let is_set = match body.get(name) {
            None | Some(Value::Null) => false,
            Some(value) => value.as_array().is_none_or(|items| !items.is_empty()),
        };
        if is_set {
            errors.push(FieldError::invalid(IGNORE_READ_ERROR, true, format!("cannot be set together with .{name}")));
        }
    }
}

/// An integer of a query, or the error that Go's strconv gives.
pub fn parse_int(text: &str) -> Result<i64, Status> {
    text.parse().map_err(|e: std::num::ParseIntError| {
        let why = match e.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::manager_of_agent;

    #[test]
    fn the_default_manager_is_the_agents_name() {
        assert_eq!(manager_of_agent("some-tool/1.2 (linux; amd64) rest"), "some-tool");
        assert_eq!(manager_of_agent(""), "unknown");
        assert_eq!(manager_of_agent(&"é".repeat(100)).len(), 128);
    }
}
