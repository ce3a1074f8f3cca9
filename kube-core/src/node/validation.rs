//! Validates node.k8s.io/v1 RuntimeClasses.

use generic_server::resource::WriteContext;
use machinery::meta::{FieldError, names};

use crate::{
    core::pods::validation::{class_overhead, tolerations as check_tolerations},
    validation::{Errors, Field, Go, Member, repeated, shown},
};

const TOLERATION: &[Member] = &[
    Member("Key", "key", Go::Text),
    Member("Operator", "operator", Go::Text),
    Member("Value", "value", Go::Text),
    Member("Effect", "effect", Go::Text),
    Member("TolerationSeconds", "tolerationSeconds", Go::Plain),
];

pub(super) fn class(_cx: &WriteContext<'_>, class: &Field<'_>, errors: &mut Errors) {
    class.at("handler").check_given(names::dns1123_label, errors);
    let overhead = class.at("overhead");
    class_overhead(&overhead, overhead.at("podFixed").value(), errors);
    let scheduling = class.at("scheduling");
    scheduling.at("nodeSelector").labels(errors);
    let tolerations = scheduling.at("tolerations");
    check_tolerations(&tolerations, false, errors);
    for i in repeated(tolerations.items()) {
        errors.push(FieldError::duplicate(tolerations.index(i), shown(&tolerations.items()[i], TOLERATION)));
    }
}

pub(super) fn class_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    new.at("handler").immutable(&old.at("handler"), errors);
}

#[cfg(test)]
mod tests {
    use auth::User;
    use machinery::codec::json;

    use super::*;

    #[test]
    fn a_class_has_a_handler_and_tolerates_nothing_twice() {
        let check = |text: &str, expect: &[&str]| {
            let object = json::decode(text.as_bytes()).expect("valid JSON");
            let user = User::default();
            let cx = WriteContext {
                group: "",
                version: "v1",
                namespace: "",
                subresource: "",
                user: &user,
                features: &Default::default(),
            };
            let mut errors = Errors::default();
            class(&cx, &Field::root(&object), &mut errors);
            let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
            assert_eq!(texts, expect, "{text}");
        };
        check("{}", &["handler: Required value"]);
        check(
            r#"{"handler":"h","scheduling":{"tolerations":[{"key":"k","operator":"Exists"},{"key":"k","operator":"Exists"}]}}"#,
            &[
                r#"scheduling.tolerations[1]: Duplicate value: {"Key":"k","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}"#,
            ],
        );
    }

    #[test]
    fn overhead_is_judged_as_limits_of_a_container() {
        let check = |fixed: &str, expect: &[&str]| {
            let text = format!(r#"{{"handler":"h","overhead":{{"podFixed":{fixed}}}}}"#);
            let object = json::decode(text.as_bytes()).expect("valid JSON");
            let user = User::default();
            let cx = WriteContext {
                group: "",
                version: "v1",
                namespace: "",
                subresource: "",
                user: &user,
                features: &Default::default(),
            };
            let mut errors = Errors::default();
            class(&cx, &Field::root(&object), &mut errors);
            let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
            assert_eq!(texts, expect, "{fixed}");
        };
        check(r#"{"cpu":"1","memory":"1Mi"}"#, &[]);
        check(r#"{"cpu":"-1"}"#, &[r#"overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0"#]);
        check(
            r#"{"hugepages-2Mi":"3Mi"}"#,
            &[
                r#"overhead.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi"#,
                "overhead: Forbidden: HugePages require cpu or memory",
            ],
        );
    }
}
