//! The versions of a definition, and what they have in common.

use machinery::{
    Value,
    meta::{field_error::FieldError, go_text},
    schema::{
        Schema,
        structural::{self, CheckOptions, Checked},
    },
    value::Path,
};

use super::{Rules, columns, parts::Parts};
use crate::{
    definition::view::{Definition, Version},
    rules::{self as cel_rules, RuleTree},
};

/// What is wrong with a version's deprecation.
pub(super) fn deprecation(version: Version<'_>, at: &Path<'_>) -> Vec<FieldError> {
    let Some(warning) = version.deprecation_warning() else { return Vec::new() };
    let mut problems = Vec::new();
    if version.is_deprecated() {
        if warning.len() > 256 {
            problems.push("must be <= 256 characters long".to_owned());
        }
        if warning.is_empty() {
            problems.push("must not be an empty string".to_owned());
        }
        if let Some((i, _)) = warning.char_indices().find(|(_, c)| !go_text::is_print(*c)) {
            problems.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {i}"
            ));
        }
    } else {
        problems.push("can only be set for deprecated versions".to_owned());
    }
    let at = at.field("deprecationWarning");
    problems.into_iter().map(|why| FieldError::invalid(at, warning, why)).collect()
}

/// What is wrong with the parts that a version does not share with the others.
pub(super) fn own_parts(version: Version<'_>, parts: &Parts<'_>, rules: &Rules<'_>, at: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let own = |key: &str| parts.own(version.0, key);
    if let Some(schema) = own("schema") {
        let judged = Judged { status_subresource: version.has_status(), kept: rules.keeps_schema(version) };
        errors.extend(schema_errors(schema, judged, rules, &at.field("schema")));
    }
    if let Some(subresources) = own("subresources") {
        errors.extend(columns::subresources(subresources, &at.field("subresources")));
    }
    if let Some(columns) = own("additionalPrinterColumns") {
        errors.extend(columns::columns(columns, &at.field("additionalPrinterColumns")));
    }
    if let Some(fields) = own("selectableFields") {
        let missing = "may only be set when `version.schema.openAPIV3Schema` is not included";
        errors.extend(field_errors(fields, own("schema"), missing, &at.field("selectableFields")));
    }
    errors
}

/// What is wrong with what all versions share.
pub(super) fn common_parts(definition: &Value, parts: &Parts<'_>, rules: &Rules<'_>, at: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(schema) = parts.schema {
        let mut versions = Definition(definition).versions();
        let kept = versions.clone().all(|version| rules.keeps_schema(version));
        let judged = Judged { status_subresource: versions.any(Version::has_status), kept };
        errors.extend(schema_errors(schema, judged, rules, &at.field("validation")));
    }
    if let Some(subresources) = parts.subresources {
        errors.extend(columns::subresources(subresources, &at.field("subresources")));
    }
    if let Some(columns) = parts.columns {
        errors.extend(columns::columns(columns, &at.field("additionalPrinterColumns")));
    }
    if let Some(fields) = parts.fields {
        let missing = "may only be set when validations.schema is included";
        errors.extend(field_errors(fields, parts.schema, missing, &at.field("selectableFields")));
    }
    errors
}

/// What is known of a schema that is judged.
struct Judged {
    status_subresource: bool,
    /// It is not new.
    kept: bool,
}

/// What is wrong with a `schema` (a CustomResourceValidation).
fn schema_errors(schema: &Value, judged: Judged, rules: &Rules<'_>, at: &Path<'_>) -> Vec<FieldError> {
    let Some(props) = schema.get("openAPIV3Schema").filter(|s| s.as_object().is_some()) else { return Vec::new() };
    let at = at.field("openAPIV3Schema");
    let default_rules = |schema: &Schema, default: &Value, at: &Path<'_>| {
        RuleTree::of(schema, schema.embedded_resource)
            .map(|tree| cel_rules::run(&tree, default, None, at))
            .unwrap_or_default()
    };
    let options = CheckOptions {
        status_subresource: judged.status_subresource,
        default_rules: Some(&default_rules),
        tolerance: rules.tolerance,
    };
    let Checked { mut errors, faulty, sound } = structural::check(props, &at, options);
    if sound {
        errors.extend(cel_rules::definition_errors(&structural::parse(props), judged.kept, &faulty, &at));
    }
    errors
}

/// What is wrong with selectableFields, given the schema that they point into.
fn field_errors(fields: &Value, schema: Option<&Value>, missing: &str, at: &Path<'_>) -> Vec<FieldError> {
    let Some(schema) = schema else { return vec![FieldError::invalid(at, "", missing)] };
    let props = schema.get("openAPIV3Schema").unwrap_or(&Value::Null);
    columns::selectable_fields(fields, &structural::parse(props), at)
}
