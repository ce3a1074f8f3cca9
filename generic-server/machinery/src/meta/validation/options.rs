//! The rules for the options of requests.

use crate::Value;
use crate::meta::field_error::FieldError;
use crate::meta::go_text::is_print;

const MAX_FIELD_MANAGER: usize = 128; // bytes

/// The name of a field manager: at most 128 bytes, all printable.
pub fn validate_field_manager(manager: &str, path: impl std::fmt::Display + Copy) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > MAX_FIELD_MANAGER {
        errors.push(FieldError::too_long(path, MAX_FIELD_MANAGER));
    }
    let shown = Value::from(manager); // shared by as many errors as it has odd characters
    for (position, c) in manager.char_indices().filter(|(_, c)| !is_print(*c)) {
        let detail = format!("invalid character U+{:04X} (at position {position})", c as u32);
        errors.push(FieldError::invalid(path, &shown, detail));
    }
    errors
}

/// The `dryRun` option: any number of `All`.
pub fn validate_dry_run<S: AsRef<str>>(values: &[S]) -> Option<FieldError> {
    let shown = || values.iter().map(|v| Value::from(v.as_ref())).collect::<Value>();
    let odd = values.iter().any(|v| v.as_ref() != "All");
    odd.then(|| FieldError::not_supported("dryRun", shown(), ["All"]))
}

/// The `fieldValidation` option.
pub fn validate_field_validation(value: &str) -> Option<FieldError> {
    let known = ["", "Ignore", "Strict", "Warn"];
    (!known.contains(&value)).then(|| FieldError::not_supported("fieldValidation", value, known))
}

/// The options of a deletion, `propagationPolicy` and the older `orphanDependents`.
pub fn validate_propagation(policy: Option<&str>, orphan_dependents: Option<bool>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(policy) = policy else { return errors };
    let field = "propagationPolicy";
    if orphan_dependents.is_some() {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid(field, policy, detail));
    }
    let known = ["Foreground", "Background", "Orphan"];
    if !known.contains(&policy) {
        errors.push(FieldError::not_supported(field, policy, known.into_iter().chain(["nil"])));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(errors: Vec<FieldError>) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn options() {
        assert_eq!(validate_dry_run(&["All", "All"]), None);
        let error = validate_dry_run(&["no"]).expect("unknown");
        assert_eq!(error.to_string(), r#"dryRun: Unsupported value: ["no"]: supported values: "All""#);
        let error = validate_field_validation("Never").expect("unknown");
        let want = r#"fieldValidation: Unsupported value: "Never": supported values: "", "Ignore", "Strict", "Warn""#;
        assert_eq!(error.to_string(), want);
        let errors = texts(validate_propagation(Some("Later"), Some(true)));
        assert_eq!(
            errors,
            [
                r#"propagationPolicy: Invalid value: "Later": orphanDependents and deletionPropagation cannot be both set"#,
                r#"propagationPolicy: Unsupported value: "Later": supported values: "Foreground", "Background", "Orphan", "nil""#,
            ]
        );
        assert_eq!(
            texts(validate_field_manager(&"x".repeat(129), "fieldManager")),
            ["fieldManager: Too long: may not be more than 128 bytes"]
        );
    }
}
