//! Which members a node has, found by one look at all of them: most nodes have few, and there are many rules.

use crate::Value;

/// Kinds of members of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Keys(u16);

impl Keys {
    /// `default`.
    pub(super) const DEFAULT: Keys = Keys(1);
    /// `enum`.
    pub(super) const ENUM: Keys = Keys(1 << 1);
    /// `nullable`.
    pub(super) const NULLABLE: Keys = Keys(1 << 2);
    /// `pattern`.
    pub(super) const PATTERN: Keys = Keys(1 << 3);
    /// `allOf`, `anyOf`, `oneOf`, `not`.
    pub(super) const LOGIC: Keys = Keys(1 << 4);
    /// What only restricts values: the above two, and numbers, lengths and the like.
    pub(super) const RESTRICTING: Keys = Keys(1 << 5);
    /// Kubernetes' own: `x-…`.
    pub(super) const EXTENSION: Keys = Keys(1 << 6);
    /// What JSON Schema has, and CRDs have not.
    pub(super) const FOREIGN: Keys = Keys(1 << 7);

    /// The members of a node.
    pub(super) fn of(props: &Value) -> Keys {
        Keys(props.as_object().into_iter().flatten().fold(0, |all, (key, _)| all | kind(key).0))
    }

    /// Whether any of them is of these kinds.
    pub(super) fn any(self, kinds: Keys) -> bool {
        self.0 & kinds.0 != 0
    }

    const fn and(self, other: Keys) -> Keys {
        Keys(self.0 | other.0)
    }
}

fn kind(key: &str) -> Keys {
    match key {
        "default" => Keys::DEFAULT,
        "enum" => Keys::ENUM,
        "nullable" => Keys::NULLABLE,
        "pattern" => Keys::PATTERN.and(Keys::RESTRICTING),
        "allOf" | "anyOf" | "oneOf" | "not" => Keys::LOGIC.and(Keys::RESTRICTING),
        "exclusiveMaximum" | "exclusiveMinimum" | "format" | "maxItems" | "maxLength" | "maxProperties" | "maximum"
        | "minItems" | "minLength" | "minProperties" | "minimum" | "multipleOf" | "required" | "uniqueItems" => {
            Keys::RESTRICTING
        }
        "x-kubernetes-validations" => Keys::EXTENSION.and(Keys::RESTRICTING),
        "id" | "$schema" | "$ref" | "patternProperties" | "definitions" | "additionalItems" | "dependencies" => {
            Keys::FOREIGN
        }
        key if key.starts_with("x-") => Keys::EXTENSION,
        _ => Keys(0),
    }
}
