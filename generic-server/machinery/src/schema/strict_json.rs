//! Schemas as the strict reader of JSON sees them.

use super::{Object, Schema, Shape};
use crate::json::{Container, Fields, Typed};

impl Typed for Schema {
    fn container(&self) -> Container<'_> {
        match &self.resolve().shape {
            Shape::Object(object) => Container::Object(&**object),
            Shape::Map(values) => Container::Each(&**values),
            Shape::List(items) => Container::Each(&**items),
            _ => Container::Other,
        }
    }
}

impl Fields for Object {
    fn field(&self, name: &str) -> Option<&dyn Typed> {
        Object::field(self, name).map(|field| &field.schema as &dyn Typed)
    }
}

#[cfg(test)]
mod tests {
    use crate::{json::strict_findings, schema::builtin};

    #[test]
    fn findings_come_in_the_order_of_the_text() {
        let pod = builtin::schema_of("", "v1", "Pod").expect("a definition");
        for (text, want) in [
            (r#"{"kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[]}}"#, &[][..]),
            (
                r#"{"zzz":{"a":1,"a":2},"metadata":{"lables":{},"name":"a","name":"b"},"spec":{"containers":[{"port":1,"livenessProbe":{"httpget":{}}}]},"kind":"Pod","kind":"Pod"}"#,
                &[
                    r#"unknown field "zzz""#,
                    r#"unknown field "metadata.lables""#,
                    r#"duplicate field "metadata.name""#,
                    r#"unknown field "spec.containers[0].port""#,
                    r#"unknown field "spec.containers[0].livenessProbe.httpget""#,
                    r#"duplicate field "kind""#,
                ],
            ),
            (
                r#"{"metadata":{"labels":{"a":"b","a":"c"},"managedFields":[{"fieldsV1":{"x":1,"x":2}}]},"a\"b":1,"a\"b":2}"#,
                &[r#"duplicate field "metadata.labels.a""#, r#"unknown field "a\"b""#],
            ),
        ] {
            let findings = strict_findings(text.as_bytes(), pod).expect(text);
            let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
            assert_eq!(texts, want, "{text}");
        }
    }
}
