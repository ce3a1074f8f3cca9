//! Table columns of webhooks and policies.

use machinery::Value;

use generic_server::printer::{AGE, Doc, Heading, NAME, Table, UNSET, age, integer, items, name, text, text_at};

/// Configurations of webhooks.
pub(super) const WEBHOOKS: Table = Table::new(
    &[
        NAME,
        integer("Webhooks", Doc::Text("Webhooks indicates the number of webhooks registered in this configuration")),
        AGE,
    ],
    |config, now| vec![name(config), Value::Int(items(config, &["webhooks"]).len() as i64), age(config, now)],
);

const PARAM_KIND: Heading =
    text("ParamKind", Doc::Text("ParamKind specifies the kind of resources used to parameterize this policy"));

/// Validating policies.
pub(super) const VALIDATING_POLICIES: Table = Table::new(
    &[
        NAME,
        integer(
            "Validations",
            Doc::Text("Validations indicates the number of validation rules defined in this configuration"),
        ),
        PARAM_KIND,
        AGE,
    ],
    |policy, now| rules(policy, "validations", now),
);

/// Mutating policies.
pub(super) const MUTATING_POLICIES: Table = Table::new(
    &[
        NAME,
        integer(
            "Mutations",
            Doc::Text("Mutation indicates the number of mutations rules defined in this configuration"),
        ),
        PARAM_KIND,
        AGE,
    ],
    |policy, now| rules(policy, "mutations", now),
);

fn rules(policy: &Value, list: &str, now: i64) -> Vec<Value> {
    let kind = policy.at(&["spec", "paramKind"]).filter(|k| !k.is_null()).map_or_else(
        || UNSET.to_owned(),
        |kind| {
            let part = |name: &str| kind.str_at(&[name]).unwrap_or_default();
            format!("{}/{}", part("apiVersion"), part("kind"))
        },
    );
    vec![name(policy), Value::Int(items(policy, &["spec", list]).len() as i64), kind.into(), age(policy, now)]
}

/// Bindings of policies.
pub(super) const BINDINGS: Table = Table::new(
    &[
        NAME,
        text("PolicyName", Doc::Text("PolicyName indicates the policy definition which the policy binding binded to")),
        text("ParamRef", Doc::Text("ParamRef indicates the param resource which sets the configuration param")),
        AGE,
    ],
    |binding, now| {
        let parameters = binding.at(&["spec", "paramRef"]).filter(|p| !p.is_null()).map_or_else(String::new, param);
        let parameters = if parameters.is_empty() { UNSET.to_owned() } else { parameters };
        vec![name(binding), text_at(binding, &["spec", "policyName"]), parameters.into(), age(binding, now)]
    },
);

fn param(reference: &Value) -> String {
    let part = |name: &str| reference.str_at(&[name]).filter(|t| !t.is_empty());
    match (part("name"), reference.get("selector").filter(|s| !s.is_null())) {
        (Some(name), _) => format!("{}/{name}", part("namespace").unwrap_or("*")),
        (None, Some(selector)) => go_text(selector),
        (None, None) => String::new(),
    }
}

/// A label selector as Go's generated code prints it.
fn go_text(selector: &Value) -> String {
    let mut labels = String::new();
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        labels.push_str(&format!("{key}: {},", value.as_str().unwrap_or_default()));
    }
    let mut expressions = String::new();
    for expression in items(selector, &["matchExpressions"]) {
        let part = |name: &str| expression.str_at(&[name]).unwrap_or_default();
        let values: Vec<&str> = items(expression, &["values"]).iter().filter_map(Value::as_str).collect();
        expressions.push_str(&format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            part("key"),
            part("operator"),
            values.join(" ")
        ));
    }
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
