//! ListOptions: which objects of a collection, at which revision, how many.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use machinery::{
    Str, Value,
    meta::{
        field_error::FieldError,
        gvk::GroupKind,
        selector::{FieldSelector, LabelSelector, Operator},
        status::Status,
    },
};
use storage::{
    Revision,
    cache::{Fields, Filter, Labels, Object, ReadAt, Term},
};

use super::{continuation::Continuation, past, shard::Shard};
use crate::{features::Features, options::parse_int, registry::metadata, request::Request, resource::Resource};

/// The options of a list, a watch or a deletion of a collection.
pub(super) struct ListOptions {
    /// The selection.
    pub selection: Arc<Selection>,
    /// As sent.
    pub resource_version: Str,
    /// `Exact`, `NotOlderThan` or empty.
    pub version_match: Str,
    /// The moment whose state a list is of.
    pub at: Option<SystemTime>,
    /// The most objects in one answer; 0 means all.
    pub limit: usize,
    /// Where a list goes on.
    pub continuation: Option<Continuation>,
    /// Whether a watch wants bookmarks.
    pub bookmarks: bool,
    /// Whether a watch begins with the state there is.
    pub send_initial_events: Option<bool>,
    /// How long a watch lasts.
    pub timeout: Option<Duration>,
}

/// Label and field selectors, resolved against a row.
#[derive(Debug)]
pub(super) struct Selection {
    labels: LabelSelector,
    /// Terms on metadata.name, metadata.namespace and the row's selectable fields.
    fields: Vec<(Place, Str, bool)>,
    /// The part of the collection that is asked for, if not all of it.
    shard: Option<Shard>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Name,
    Namespace,
    Field(usize),
}

impl Selection {
    /// Whether everything is selected.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_empty() && self.shard.is_none()
    }

    /// What a list says of the part that it is of, if it is of one.
    pub(super) fn shard(&self) -> Option<String> {
        self.shard.as_ref().map(Shard::text)
    }

    /// Whether a request for this name alone may have the selection: it pins the name, or no field at all.
    pub(super) fn is_of(&self, name: &str) -> bool {
        self.fields.is_empty() || self.name() == Some(name)
    }

    /// The name that is pinned, if one is.
    pub(super) fn name(&self) -> Option<&str> {
        self.fields.iter().find(|(place, _, equal)| *place == Place::Name && *equal).map(|(_, value, _)| value.as_str())
    }

    /// Whether it depends on more than name and namespace, which are the same in all versions of an object.
    pub(super) fn looks_into_objects(&self) -> bool {
        !self.labels.is_everything() || self.fields.iter().any(|(place, ..)| matches!(place, Place::Field(_)))
    }

    /// As much of it as is the same in all versions of an object.
    pub(super) fn of_names(&self) -> Selection {
        let fields = self.fields.iter().filter(|(place, ..)| !matches!(place, Place::Field(_)));
        Selection { labels: LabelSelector::default(), fields: fields.cloned().collect(), shard: self.shard.clone() }
    }

    /// Whether an object is selected that has these labels and fields in the version asked for.
    pub(super) fn matches_with(&self, object: &Object, labels: &Labels, fields: &Fields) -> bool {
        let namespace = object.namespace().unwrap_or("");
        self.matches_parts(object.name(), namespace, |i| fields.get(i).unwrap_or_default(), |key| labels.get(key))
            && self.shard.as_ref().is_none_or(|shard| shard.matches(object))
    }

    /// Whether an object that is in no cache is selected. Its row has no fields of its own to select by.
    pub(super) fn matches_value(&self, object: &Value) -> bool {
        let metadata = |member: &str| object.str_at(&["metadata", member]).unwrap_or_default();
        let label = |key: &str| object.str_at(&["metadata", "labels", key]);
        self.matches_parts(metadata("name"), metadata("namespace"), |_| "", label)
            && self.shard.as_ref().is_none_or(|shard| shard.matches_value(object))
    }

    fn matches_parts<'o>(
        &self,
        name: &'o str,
        namespace: &'o str,
        field: impl Fn(usize) -> &'o str,
        label: impl Fn(&str) -> Option<&'o str>,
    ) -> bool {
        let fields = self.fields.iter().all(|(place, value, equal)| {
            let found = match place {
                Place::Name => name,
                Place::Namespace => namespace,
                Place::Field(i) => field(*i),
            };
            (found == value.as_str()) == *equal
        });
        fields && (self.labels.is_everything() || self.labels.matches_with(label))
    }

    /// A selectable field that is pinned to a value, by its position: one of `preferred` if there is one.
    pub(super) fn pinned_field(&self, preferred: &[usize]) -> Option<(usize, &str)> {
        let pinned = || {
            self.fields.iter().filter_map(|(place, value, equal)| match place {
                Place::Field(i) if *equal => Some((*i, value.as_str())),
                _ => None,
            })
        };
        pinned().find(|(i, _)| preferred.contains(i)).or_else(|| pinned().next())
    }
}

impl Filter for Selection {
    fn matches(&self, object: &Object) -> bool {
        let namespace = object.namespace().unwrap_or("");
        self.matches_parts(object.name(), namespace, |i| object.field(i), |key| object.labels().get(key))
            && self.shard.as_ref().is_none_or(|shard| shard.matches(object))
    }

    fn terms(&self) -> Vec<Term> {
        let fields = self.fields.iter().filter_map(|(place, value, equal)| match place {
            Place::Field(i) if *equal => Some(Term::Field(*i, value.clone())),
            _ => None,
        });
        let labels = self.labels.requirements().iter().filter_map(|requirement| match requirement.operator() {
            Operator::In | Operator::Equals | Operator::DoubleEquals => match requirement.values() {
                [value] => Some(Term::Label(requirement.key().clone(), value.clone())),
                _ => None,
            },
            _ => None,
        });
        fields.chain(labels).collect()
    }
}

impl ListOptions {
    /// Reads and validates the query.
    pub(super) fn read(request: &Request, row: &Resource, watch: bool, features: &Features) -> Result<Self, Status> {
        let mut options = Self::read_whole(request, row, watch, features)?;
        let token = request.query.get("continue").unwrap_or("");
        if !token.is_empty() && !watch {
            options.continuation = Some(Continuation::open(token)?);
            if !matches!(options.resource_version.as_str(), "" | "0") {
                return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
            }
        }
        Ok(options)
    }

    /// The same of what has no pages: a list goes on nowhere.
    pub(super) fn read_whole(
        request: &Request,
        row: &Resource,
        watch: bool,
        features: &Features,
    ) -> Result<Self, Status> {
        let query = &request.query;
        let text = |key: &str| Str::from(query.get(key).unwrap_or(""));
        let limit = query.get("limit").map_or(Ok(0), parse_int)?;
        let timeout = query.get("timeoutSeconds").map(parse_int).transpose()?;
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or(""))
            .map_err(|e| Status::bad_request(e.to_string()))?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or(""))
            .map_err(|e| Status::bad_request(e.to_string()))?;
        let send_initial_events = query.has("sendInitialEvents").then(|| query.flag("sendInitialEvents"));
        let (version, version_match, token) = (text("resourceVersion"), text("resourceVersionMatch"), text("continue"));
        let mut errors = Vec::new();
        validate(watch, &version, &version_match, &token, send_initial_events, &mut errors);
        if watch && send_initial_events.is_some() && !features.is_on("WatchList") {
            let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            errors.push(FieldError::forbidden("sendInitialEvents", why));
        }
        if !errors.is_empty() {
            return Err(Status::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", errors));
        }
        let fields = resolve_fields(&fields, row)?;
        Ok(ListOptions {
            selection: Arc::new(Selection { labels, fields, shard: shard(request, features)? }),
            resource_version: version,
            version_match,
            at: past::moment(request)?,
            limit: usize::try_from(limit).unwrap_or(0),
            continuation: None,
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events,
            timeout: timeout.filter(|t| *t != 0).map(seconds),
        })
    }

    /// The state that a list wants.
    pub(super) fn read_at(&self) -> Result<ReadAt, Status> {
        if let Some(continuation) = &self.continuation {
            return Ok(continuation.revision.map_or(ReadAt::Latest, ReadAt::Exact));
        }
        let version = self.resource_version.as_str();
        Ok(match (version, self.version_match.as_str()) {
            ("", _) => ReadAt::Latest,
            ("0", _) => ReadAt::Any,
            (version, "Exact") => ReadAt::Exact(parse_resource_version(version)?),
            (version, "") if self.limit > 0 => ReadAt::Exact(parse_resource_version(version)?),
            (version, _) => ReadAt::NotOlderThan(parse_resource_version(version)?),
        })
    }
}

/// The part of the collection that is asked for, with the feature.
fn shard(request: &Request, features: &Features) -> Result<Option<Shard>, Status> {
    let text = request.query.get("shardSelector").filter(|text| !text.is_empty());
    let Some(text) = text.filter(|_| features.is_on("ShardedListAndWatch")) else { return Ok(None) };
    let refused = |why: String| Status::unknown_error(format!("invalid shard selector: {why}"));
    Shard::parse(text).map(Some).map_err(refused)
}

/// Go's duration of so many seconds, which wraps around beyond 292 years. What is over before it begins lasts no time.
fn seconds(seconds: i64) -> Duration {
    let nanoseconds = seconds.wrapping_mul(1_000_000_000);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}

/// A resourceVersion, or the 400 for what is none.
pub(super) fn parse_resource_version(text: &str) -> Result<Revision, Status> {
    parse_revision(text).map_err(|error| Status::bad_request(format!("invalid resource version: {error}")))
}

/// A resourceVersion, or the field error for what is none.
pub(super) fn parse_revision(text: &str) -> Result<Revision, FieldError> {
    metadata::parse_version(text).map_err(|why| FieldError::invalid("resourceVersion", text, why))
}

fn validate(
    watch: bool,
    version: &str,
    version_match: &str,
    token: &str,
    initial: Option<bool>,
    errors: &mut Vec<FieldError>,
) {
    let forbidden = |field: &str, why: &str| FieldError::forbidden(field, why);
    if !version_match.is_empty() {
        if watch {
            if initial.is_none() {
                errors.push(forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
        } else {
            if version.is_empty() {
                errors.push(forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !token.is_empty() {
                errors.push(forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            if !matches!(version_match, "Exact" | "NotOlderThan") {
                let known = ["Exact", "NotOlderThan", ""];
                errors.push(FieldError::not_supported("resourceVersionMatch", version_match, known));
            }
            if version_match == "Exact" && version == "0" {
                errors.push(forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
    }
    match (watch, initial) {
        (false, Some(_)) => errors.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")),
        (true, Some(_)) if version_match != "NotOlderThan" => errors.push(forbidden(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )),
        _ => {}
    }
    if watch && !matches!(version_match, "" | "NotOlderThan") {
        errors.push(FieldError::not_supported("resourceVersionMatch", version_match, ["NotOlderThan"]));
    }
    if watch && !version_match.is_empty() && !token.is_empty() {
        errors.push(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"));
    }
}

fn resolve_fields(selector: &FieldSelector, row: &Resource) -> Result<Vec<(Place, Str, bool)>, Status> {
    selector
        .terms()
        .iter()
        .map(|term| {
            if let Some(why) = row.refuse_field(&term.field) {
                return Err(Status::bad_request(why));
            }
            let place = match term.field.as_str() {
                "metadata.name" => Place::Name,
                "metadata.namespace" => Place::Namespace,
                field => match row.selectable_fields.iter().position(|f| f.name == field) {
                    Some(i) => Place::Field(i),
                    None => return Err(Status::bad_request(format!("field label not supported: {field}"))),
                },
            };
            Ok((place, term.value.clone(), term.equal))
        })
        .collect()
}
