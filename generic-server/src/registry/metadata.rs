//! What the server itself does to `metadata` when objects are made and changed.

use machinery::{
    Map, Value,
    meta::{TimeForm, Timestamp, go_text},
    value::{Content, Seen},
};

/// Now, as objects carry it.
pub(super) fn now() -> Value {
    Value::from(Timestamp::now().text(TimeForm::Seconds))
}

/// A new uid.
pub(super) fn new_uid() -> Value {
    Value::from(uuid::Uuid::new_v4().to_string())
}

/// The metadata of an object for writing; made if it is not there.
pub(super) fn metadata_mut(object: &mut Value) -> &mut Map {
    object.at_mut(&["metadata"]).make_object()
}

/// A text member of the metadata; empty if absent.
pub(super) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.str_at(&["metadata", key]).unwrap_or("")
}

/// Drops what only the server sets on a new object.
pub fn wipe_system_fields(object: &mut Value) {
    let metadata = metadata_mut(object);
    for key in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(key);
    }
}

/// Sets what only the server sets on a new object.
pub(super) fn fill_system_fields(object: &mut Value) {
    wipe_system_fields(object);
    let metadata = metadata_mut(object);
    metadata.remove("resourceVersion");
    metadata.insert("creationTimestamp", now());
    metadata.insert("uid", new_uid());
}

/// Members of an update that come from the stored object: some whatever the client sends, some if it left them out.
pub(super) fn carry_over(new: &mut Value, old: &Value) {
    let metadata = metadata_mut(new);
    metadata.remove("selfLink");
    for key in ["uid", "deletionGracePeriodSeconds"] {
        if let (None, Some(value)) = (metadata.get(key), old.at(&["metadata", key])) {
            metadata.insert(key, value.clone());
        }
    }
    if let Some(value) = old.at(&["metadata", "deletionTimestamp"]) {
        metadata.insert("deletionTimestamp", value.clone()); // a deletion once begun is not taken back
    }
    for key in ["creationTimestamp", "generation"] {
        match old.at(&["metadata", key]) {
            Some(value) => {
                metadata.insert(key, value.clone());
            }
            None => {
                metadata.remove(key);
            }
        }
    }
}

/// Drops who manages which field, so that the object gets smaller. Whether there was anything to drop.
pub(super) fn forget_managers(object: &mut Value) -> bool {
    object.remove_at(&["metadata", "managedFields"]).is_some()
}

/// Whether there are finalizers.
pub(super) fn has_finalizers(object: &Value) -> bool {
    object.at(&["metadata", "finalizers"]).and_then(Value::as_array).is_some_and(|f| !f.is_empty())
}

/// Whether deletion has begun.
pub(super) fn is_deleting(object: &Value) -> bool {
    object.at(&["metadata", "deletionTimestamp"]).is_some()
}

/// The generation.
pub(super) fn generation(object: &Value) -> i64 {
    object.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0)
}

/// Whether two objects are the same but for the resourceVersion and the times in managedFields.
pub(super) fn unchanged(new: &Value, old: &Value) -> bool {
    let strip = |object: &Value| {
        let mut object = object.clone();
        object.remove_at(&["metadata", "resourceVersion"]);
        object
    };
    strip(new) == strip(old)
}

/// What the warning about repeated owners says of those that are there once admission has run, or come with a patch.
pub(super) const AFTER_ADMISSION: &str = " after mutating admission happens";

/// Of equal owner references the first one stays; a warning names what was repeated, and says `when` it was found.
pub(super) fn note_repeated_owners(object: &mut Value, when: &str, warnings: &mut Vec<String>) {
    let Some(owners) = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array) else { return };
    let (mut owner_seen, mut uid_seen) = (Seen::default(), Seen::default());
    let (kept, again): (Vec<&Value>, Vec<&Value>) = owners.iter().partition(|owner| owner_seen.insert(Content(owner)));
    if again.is_empty() {
        return;
    }
    let uids = again.into_iter().map(|owner| owner.str_at(&["uid"]).unwrap_or(""));
    let repeated: Vec<&str> = uids.filter(|uid| uid_seen.insert(*uid)).collect();
    let kept: Vec<Value> = kept.into_iter().cloned().collect();
    warnings.push(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject \
         such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        repeated.join(", ")
    ));
    object.set(&["metadata", "ownerReferences"], kept);
}
/// The resourceVersion that a client's object names; 0 if it names none.
pub(super) fn asked_version(object: &Value) -> Result<u64, String> {
    match text(object, "resourceVersion") {
        "" => Ok(0),
        version => parse_version(version),
    }
}

/// A resourceVersion as a number, or the error that Go's strconv gives.
pub(crate) fn parse_version(text: &str) -> Result<u64, String> {
    let digits = if text.starts_with('+') { "" } else { text };
    digits.parse().map_err(|e: std::num::ParseIntError| {
        let why = match e.kind() {
            std::num::IntErrorKind::PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.ParseUint: parsing {}: {why}", go_text::quote(text))
    })
}
