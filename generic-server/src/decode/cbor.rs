//! Documents in CBOR. Upstream reads built-in ones right into their types, and has words of its own for what is wrong.

use machinery::{
    Str, Value,
    codec::cbor,
    meta::{GroupVersion, GvkRef, status::Status},
    object,
    schema::builtin,
};

use super::{Expected, conform_text};
use crate::{negotiate::Media, options::FieldValidation};

/// The apiVersion and the kind of a document, as it says, or why it does not.
pub(crate) fn type_of(bytes: &[u8]) -> Result<(Str, Str), String> {
    let meta = cbor::type_meta(bytes);
    let (api_version, kind) = meta.map_err(|error| format!("unable to determine group/version/kind: {error}"))?;
    // A group version that is none counts as not said.
    let is_none = GroupVersion::parse(&api_version).is_err();
    Ok((if is_none { Str::default() } else { api_version }, kind))
}

impl Expected<'_> {
    /// [`super::decode_object`] of CBOR.
    pub(super) fn decode_cbor(
        &self,
        bytes: &[u8],
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), Status> {
        let own = self.gvk.kind == self.row.kind;
        if own && !self.row.built_in {
            let value = self.check_kind(self.parse_cbor(bytes)?, bytes, Media::Cbor, validation)?;
            // What the definition does not specify goes without a word here.
            let value = conform_text(self.row, self.gvk, value, None, &mut Vec::new());
            return Ok((value.map_err(|why| self.unhandled(why))?, Vec::new()));
        }
        let (api_version, kind) = type_of(bytes).map_err(|why| self.unrecognized(&why, bytes))?;
        let said = object! { "apiVersion" => api_version, "kind" => kind };
        let checked = self.check_kind(said, bytes, Media::Cbor, validation)?;
        let schema = match own {
            true => Some(&*self.row.schema),
            false => builtin::schema_of(self.gvk.group, self.gvk.version, self.gvk.kind),
        };
        let schema = schema.ok_or_else(|| self.unhandled("no kind is registered"))?;
        let read = cbor::decode_as(schema, bytes).map_err(|error| self.unhandled(error));
        let (mut value, unknown) = read?;
        for key in ["kind", "apiVersion"] {
            value.set(&[key], checked.get(key).cloned().unwrap_or_default());
        }
        let problems = unknown.iter().map(ToString::to_string).collect();
        let value = conform_text(self.row, self.gvk, value, None, &mut Vec::new());
        Ok((value.map_err(|why| self.unhandled(why))?, problems))
    }

    /// The document of a custom resource, which must say what it is.
    pub(super) fn parse_cbor(&self, bytes: &[u8]) -> Result<Value, Status> {
        let value = match cbor::decode(bytes) {
            Ok(value) => value,
            Err(error) => {
                let (_, kind) = type_of(bytes).map_err(|why| self.unrecognized(&why, bytes))?;
                let GvkRef { version, kind: wanted, .. } = self.gvk;
                let kind = if kind.is_empty() { wanted } else { kind.as_str() };
                let text = format!("{kind} in version {version:?} cannot be handled as a {wanted}: {error}");
                return Err(Status::bad_request(text));
            }
        };
        let text = |key| value.str_at(&[key]).unwrap_or_default();
        let (kind, api_version) = (text("kind"), text("apiVersion"));
        let missing = |what| format!("Object '{what}' is missing in '{}'", cbor::notation(bytes));
        if kind.is_empty() || GroupVersion::parse(api_version).is_err() {
            return Err(self.unrecognized(&missing("Kind"), bytes));
        }
        if api_version.is_empty() {
            let wanted = self.gvk.kind;
            let why = missing("apiVersion");
            return Err(Status::bad_request(format!("{kind} in version \"\" cannot be handled as a {wanted}: {why}")));
        }
        Ok(value)
    }
}
