//! `format`: named formats of text.

use std::sync::Arc;

use machinery::meta::names;
use machinery::schema::has_format;

use super::standard::leaked;
use super::urls::fault;
use super::{Library, args};
use crate::types::Type;
use crate::value::{Error, Opaque, Value};

const TYPE: &str = "kubernetes.NamedFormat";

/// A format.
#[derive(Clone, Copy, Debug)]
struct Format {
    name: &'static str,
    /// What is wrong with a text.
    check: fn(&str) -> Vec<String>,
}

impl Opaque for Format {
    fn type_name(&self) -> &'static str {
        TYPE
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        (other as &dyn std::any::Any).downcast_ref::<Format>().is_some_and(|o| o.name == self.name)
    }
}

const FORMATS: [Format; 13] = [
    Format { name: "dns1123Label", check: names::dns1123_label },
    Format { name: "dns1123Subdomain", check: names::dns1123_subdomain },
    Format { name: "dns1035Label", check: names::dns1035_label },
    Format { name: "qualifiedName", check: names::qualified_name },
    Format { name: "dns1123LabelPrefix", check: |s| names::name_is_dns_label(s, true) },
    Format { name: "dns1123SubdomainPrefix", check: |s| names::name_is_dns_subdomain(s, true) },
    Format { name: "dns1035LabelPrefix", check: |s| names::name_is_dns1035_label(s, true) },
    Format { name: "labelValue", check: names::label_value },
    Format { name: "uri", check: |s| fault(s).into_iter().collect() },
    Format { name: "uuid", check: |s| known("uuid", s, "does not match the UUID format") },
    Format { name: "byte", check: |s| known("byte", s, "invalid base64") },
    Format { name: "date", check: |s| known("date", s, "invalid date") },
    Format { name: "datetime", check: |s| known("date-time", s, "invalid datetime") },
];

fn known(format: &str, text: &str, otherwise: &str) -> Vec<String> {
    if has_format(format, text) == Some(true) { Vec::new() } else { vec![otherwise.to_owned()] }
}

pub(super) fn add(library: &mut Library) {
    let format = || Type::opaque(TYPE);
    // Each function knows its format by its place in the table.
    macro_rules! formats {
        ($($place:literal),+) => {
            $(library.global(
                leaked(format!("format.{}", FORMATS[$place].name)),
                leaked(format!("format-{}", FORMATS[$place].name)),
                &[],
                format(),
                |_| Ok(Value::Opaque(Arc::new(FORMATS[$place]))),
            );)+
        };
    }
    formats!(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
    library.global("format.named", "format-named", &[Type::String], Type::optional(format()), |a| {
        args!(a, Value::String(name) => {
            let found = FORMATS.iter().find(|f| f.name == name.as_str());
            Ok(found.map_or_else(Value::none, |f| Value::some(Value::Opaque(Arc::new(*f)))))
        })
    });
    let errors = Type::optional(Type::list(Type::String));
    library.member("validate", "format-validate", &[format(), Type::String], errors, |a| {
        args!(a, of, Value::String(text) => {
            let wrong = (of.opaque::<Format>().ok_or_else(Error::no_overload)?.check)(text);
            Ok(match wrong.is_empty() {
                true => Value::none(),
                false => Value::some(Value::list(wrong.into_iter().map(Value::string).collect())),
            })
        })
    });
}
