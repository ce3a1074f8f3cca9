//! Where the decoder stands, as a chain on the stack; it turns into text only for an error or an unknown member.

use std::fmt::Write as _;

use crate::json::scan;
use crate::schema::{Embedded, IntFormat, Object, Schema, Shape, ShortForm, StringFormat, builtin};

/// One step from the root of a document.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) parent: Option<&'a Place<'a>>,
    pub(super) step: Step<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    Root,
    /// A member of a struct.
    Field(&'a str, &'a Object),
    Index(usize),
    /// A member of a map.
    Key(&'a str),
}

impl<'a> Place<'a> {
    pub(super) const ROOT: Place<'static> = Place { parent: None, step: Step::Root };

    pub(super) fn child(&'a self, step: Step<'a>) -> Place<'a> {
        Place { parent: Some(self), step }
    }

    /// The way from the root, as the scanner of JSON text goes it.
    pub(super) fn steps(&self) -> Vec<scan::Step<'a>> {
        let mut steps = self.parent.map_or_else(Vec::new, Place::steps);
        match self.step {
            Step::Root => {}
            Step::Field(name, _) | Step::Key(name) => steps.push(scan::Step::Member(name)),
            Step::Index(i) => steps.push(scan::Step::Item(i)),
        }
        steps
    }

    /// The path as strict decoding reports it: `spec.containers[0].port`.
    pub(super) fn path(&self) -> String {
        let mut out = self.parent.map_or_else(String::new, Place::path);
        match self.step {
            Step::Root => {}
            Step::Field(name, _) | Step::Key(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Step::Index(i) => write!(out, "[{i}]").expect("writing to a string"),
        }
        out
    }

    /// The innermost struct and the names that lead to the value: `ContainerPort.spec.containers.ports.containerPort`.
    fn go_field(&self) -> Option<String> {
        let mut names = Vec::new();
        let mut innermost = None;
        let mut place = Some(self);
        while let Some(at) = place {
            if let Step::Field(name, object) = at.step {
                names.push(name);
                embedding(&object.embedded, name, &mut names);
                innermost.get_or_insert(object);
            }
            place = at.parent;
        }
        let innermost = innermost?;
        let own = innermost.go_type.as_deref().map_or("", last);
        names.push(match innermost.definition {
            Some(id) => builtin::type_name(id),
            None => own,
        });
        names.reverse();
        Some(names.join("."))
    }

    /// The type of the value, if it is that of a member, or of an item of a list or map, and has a name of its own.
    fn named_type(&self) -> Option<&'static str> {
        let member = match self.step {
            Step::Index(_) | Step::Key(_) => self.parent?,
            _ => self,
        };
        let Step::Field(name, object) = member.step else { return None };
        let named = builtin::named_go_type(object.definition?, name)?;
        match self.step {
            Step::Index(_) => named.strip_prefix("[]"),
            Step::Key(_) => named.strip_prefix("map[")?.split_once(']').map(|(_, values)| values),
            _ => Some(named),
        }
    }

    /// Go's text for a value of a wrong type.
    pub(super) fn type_error(&self, found: &str, wanted: &Schema) -> String {
        let wanted = self.named_type().map_or_else(|| go_type(wanted), String::from);
        match self.go_field() {
            Some(field) => format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}"),
            None => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
        }
    }
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The embedded structs that a member is in, the innermost first.
fn embedding<'a>(embedded: &'a [Embedded], field: &str, names: &mut Vec<&'a str>) {
    let Some(holder) = embedded.iter().find(|e| embeds(e, field)) else { return };
    if let Some(object) = definition(holder) {
        embedding(&object.embedded, field, names);
    }
    names.push(last(&holder.message));
}

fn definition(embedded: &Embedded) -> Option<&'static Object> {
    builtin::by_message(&embedded.message).and_then(|id| builtin::schema(id).as_object())
}

fn embeds(embedded: &Embedded, field: &str) -> bool {
    match builtin::message(&embedded.message) {
        Some(message) => message.fields.iter().any(|(name, _)| name == field),
        None => definition(embedded).is_some_and(|object| object.field(field).is_some()),
    }
}

/// The Go type of a node, as reflection prints it.
pub(crate) fn go_type(schema: &Schema) -> String {
    match &schema.shape {
        Shape::Any => "interface {}".into(),
        Shape::Object(object) => match object.definition {
            Some(id) => format!("{}.{}", builtin::package(id), builtin::type_name(id)),
            None => object.go_type.as_deref().unwrap_or("map[string]interface {}").into(),
        },
        Shape::Ref(id) => format!("{}.{}", builtin::package(*id), builtin::type_name(*id)),
        Shape::Map(values) => format!("map[string]{}", go_type(values)),
        Shape::List(items) => format!("[]{}", go_type(items)),
        Shape::String(StringFormat::Byte) => "[]uint8".into(),
        Shape::String(StringFormat::Plain | StringFormat::Time | StringFormat::MicroTime | StringFormat::Duration) => {
            "string".into()
        }
        Shape::Integer(IntFormat::Int64) => "int64".into(),
        Shape::Integer(IntFormat::Int32) | Shape::IntOrString => "int32".into(),
        Shape::Integer(IntFormat::Uint32) => "uint32".into(),
        Shape::Integer(IntFormat::Uint8) => "uint8".into(),
        Shape::Number => "float64".into(),
        Shape::Boolean => "bool".into(),
        Shape::Quantity => "resource.Quantity".into(),
        Shape::SchemaOr(ShortForm::List) => "v1.JSONSchemaPropsOrArray".into(),
        Shape::SchemaOr(ShortForm::Bool) => "v1.JSONSchemaPropsOrBool".into(),
        Shape::SchemaOr(ShortForm::Strings) => "v1.JSONSchemaPropsOrStringArray".into(),
    }
}
