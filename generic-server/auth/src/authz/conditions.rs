//! Match conditions: expressions that say which requests a webhook is asked about (KEP-3221).

use std::sync::{Arc, LazyLock};

use cel::{Decl, Env, Program, Type};
use machinery::{Str, Value, meta::field_error::FieldError, object};

use crate::{aggregate, evaluate::evaluate};

/// As many conditions as a webhook may have.
const MAX_CONDITIONS: usize = 64;

/// The conditions of a webhook, in their order. Without any, all requests match.
#[derive(Clone, Debug, Default)]
pub struct Conditions(Vec<Condition>);

#[derive(Clone, Debug)]
struct Condition {
    text: Str,
    program: Program,
}

impl Conditions {
    /// Compiles conditions; `path` is where their list stands.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub fn compile(texts: &[Str], path: &str) -> Result<Self, Vec<FieldError>> {
        if texts.len() > MAX_CONDITIONS {
            return Err(vec![FieldError::too_many(path, texts.len(), MAX_CONDITIONS)]);
        }
        let (mut conditions, mut errors) = (Conditions::default(), Vec::new());
        for (at, text) in texts.iter().enumerate() {
            let path = format!("{path}[{at}].expression");
            if text.trim().is_empty() {
                errors.push(FieldError::required(path, ""));
            } else if texts[..at].contains(text) {
                errors.push(FieldError::duplicate(path, text.clone()));
            } else {
                match compile(text) {
                    Ok(program) => conditions.0.push(Condition { text: text.clone(), program }),
                    Err(why) => errors.push(FieldError::invalid(path, text.clone(), why)),
                }
            }
        }
        if errors.is_empty() { Ok(conditions) } else { Err(errors) }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all hold for the spec of a review. One that does not makes failures of those before it good.
    ///
    /// # Errors
    /// Those of all that cannot be evaluated.
    pub(crate) fn hold(&self, spec: &Value) -> Result<bool, String> {
        let request = cel::from_json(&whole(spec), &REQUEST).map_err(|error| error.to_string())?;
        let mut errors = Vec::new();
        for Condition { text, program } in &self.0 {
            match evaluate(program, &request) {
                Ok(cel::Value::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(why) => {
                    errors.push(format!("cel evaluation error: expression '{text}' resulted in error: {why}"));
                }
            }
        }
        aggregate(&errors).map_or(Ok(true), Err)
    }
}

fn compile(text: &str) -> Result<Program, String> {
    let program = Env::new()
        .variable_with("request", &REQUEST)
        .compile(text)
        .map_err(|issues| format!("compilation failed: {issues}"))?;
    if *program.result() != Type::Bool {
        return Err(format!("must evaluate to bool but got {}", program.result().full_name()));
    }
    match program.fault() {
        Some(why) => Err(format!("program instantiation failed: {why}")),
        None => Ok(program),
    }
}

/// The spec with the texts that are empty.
fn whole(spec: &Value) -> Value {
    let filled = |members: &[&str], given: &Value| {
        let mut filled = Value::object();
        for member in members {
            filled.set(&[member], given.str_at(&[member]).unwrap_or_default());
        }
        filled
    };
    let mut request = filled(&["user", "uid"], spec);
    let or = |key: &str, otherwise: Value| spec.get(key).cloned().unwrap_or(otherwise);
    request.set(&["groups"], or("groups", Value::from(Vec::<Value>::new())));
    request.set(&["extra"], or("extra", object! {}));
    if let Some(asked) = spec.get("resourceAttributes") {
        let mut resource = filled(&["namespace", "verb", "group", "version", "resource", "subresource", "name"], asked);
        for selector in ["fieldSelector", "labelSelector"] {
            let requirements = asked.at(&[selector, "requirements"]).and_then(Value::as_array);
            if let Some(requirements) = requirements {
                let whole: Vec<Value> = requirements.iter().map(whole_requirement).collect();
                resource.set(&[selector, "requirements"], whole);
            }
        }
        request.set(&["resourceAttributes"], resource);
    }
    if let Some(asked) = spec.get("nonResourceAttributes") {
        request.set(&["nonResourceAttributes"], filled(&["path", "verb"], asked));
    }
    request
}

/// A requirement of a selector, with its values though there be none.
fn whole_requirement(given: &Value) -> Value {
    let mut whole = given.clone();
    if given.get("values").is_none() {
        whole.set(&["values"], Vec::<Value>::new());
    }
    whole
}

/// The spec of a review of v1, as expressions see it.
static REQUEST: LazyLock<Arc<Decl>> = LazyLock::new(|| {
    let text = Arc::new(Decl::string());
    let texts = Arc::new(Decl::list_of(Decl::string()));
    let object = |name: &str, fields: &[(&str, &Arc<Decl>)]| {
        Arc::new(Decl::object(name, fields.iter().map(|(name, decl)| (*name, (*decl).clone())).collect()))
    };
    let requirement =
        object("kubernetes.SelectorRequirement", &[("key", &text), ("operator", &text), ("values", &texts)]);
    let requirements = Arc::new(Decl::list_of((*requirement).clone()));
    let selector = |name: &str| object(name, &[("rawSelector", &text), ("requirements", &requirements)]);
    let resource = object(
        "kubernetes.ResourceAttributes",
        &[
            ("namespace", &text),
            ("verb", &text),
            ("group", &text),
            ("version", &text),
            ("resource", &text),
            ("subresource", &text),
            ("name", &text),
            ("fieldSelector", &selector("kubernetes.FieldSelectorAttributes")),
            ("labelSelector", &selector("kubernetes.LabelSelectorAttributes")),
        ],
    );
    let other = object("kubernetes.NonResourceAttributes", &[("path", &text), ("verb", &text)]);
    let extra = Arc::new(Decl::map_of(Decl::list_of(Decl::string())));
    object(
        "kubernetes.SubjectAccessReviewSpec",
        &[
            ("resourceAttributes", &resource),
            ("nonResourceAttributes", &other),
            ("user", &text),
            ("groups", &texts),
            ("extra", &extra),
            ("uid", &text),
        ],
    )
});

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    const POD: &str = r#"{"resourceAttributes":{"verb":"list","resource":"pods","fieldSelector":{"requirements":
        [{"key":"a","operator":"In","values":["b"]}]}},"user":"u","groups":["g"]}"#;

    #[test]
    fn conditions_say_which_requests_match() {
        let check = |spec: &str, conditions: &[&str], expect: Result<bool, &str>| {
            let texts: Vec<Str> = conditions.iter().map(|text| Str::from(*text)).collect();
            let conditions = Conditions::compile(&texts, "c").expect("valid");
            let spec = json::decode(spec.as_bytes()).expect("JSON");
            assert_eq!(conditions.hold(&spec), expect.map_err(str::to_owned), "{texts:?}");
        };
        check(POD, &[], Ok(true));
        check(POD, &["has(request.resourceAttributes)", "request.resourceAttributes.resource in ['pods']"], Ok(true));
        check(POD, &["has(request.nonResourceAttributes)"], Ok(false));
        check(POD, &["request.resourceAttributes.namespace == ''", "request.uid == ''"], Ok(true));
        check(POD, &["!('system:masters' in request.groups)", "request.extra.size() == 0"], Ok(true));
        check(POD, &["request.resourceAttributes.fieldSelector.requirements.exists(r, r.key == 'a')"], Ok(true));
        check(POD, &["has(request.resourceAttributes.labelSelector)"], Ok(false));
        let exists = r#"{"resourceAttributes":{"fieldSelector":{"requirements":[{"key":"a","operator":"Exists"}]}}}"#;
        check(exists, &["request.resourceAttributes.fieldSelector.requirements[0].values.size() == 0"], Ok(true));
        let missing = "cel evaluation error: expression 'request.nonResourceAttributes.path == \"/\"' resulted in error: no such \
                       key: nonResourceAttributes";
        let path = "request.nonResourceAttributes.path == \"/\"";
        check(POD, &[path], Err(missing));
        check(POD, &[path, "false"], Ok(false));
        check(POD, &[path, "true"], Err(missing));
    }

    #[test]
    fn wrong_conditions_are_told_with_their_place() {
        let check = |conditions: &[&str], expect: &[&str]| {
            let texts: Vec<Str> = conditions.iter().map(|text| Str::from(*text)).collect();
            let errors = Conditions::compile(&texts, "c").map(|_| ()).expect_err("wrong");
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expect);
        };
        check(&["", " "], &["c[0].expression: Required value", "c[1].expression: Required value"]);
        check(&["true", "true"], &["c[1].expression: Duplicate value: \"true\""]);
        check(
            &["request.user", "request.groups"],
            &[
                "c[0].expression: Invalid value: \"request.user\": must evaluate to bool but got string",
                "c[1].expression: Invalid value: \"request.groups\": must evaluate to bool but got list(string)",
            ],
        );
        check(&["1"; 65], &["c: Too many: 65: must have at most 64 items"]);
        let errors = Conditions::compile(&["request.foo".into()], "c").map(|_| ()).expect_err("wrong");
        assert!(
            errors[0].to_string().contains("compilation failed: ERROR: <input>:1:8: undefined field 'foo'"),
            "{errors:?}"
        );
    }
}
