//! The routes of custom resources. Upstream decides on them request by request, and refuses otherwise than the routes of
//! built-in resources do.

use machinery::{
    meta::{gvk::GroupResource, names, status::Status},
    request::{Verb, Verbs},
};

use super::patch::PatchType;
use crate::{
    request::Request,
    response::{Response, page_not_found},
    table::TableEntry,
};

/// Refuses what is not served: what has no place at all with a plain 404, the rest with a Status.
pub(super) fn check_route(request: &Request, entry: &TableEntry) -> Result<Option<Response>, Status> {
    let (info, row) = (&request.info, &entry.row);
    let in_namespace = !info.namespace.is_empty();
    let anywhere = matches!(info.verb, Verb::List | Verb::Watch);
    if (in_namespace && !row.namespaced) || (row.namespaced && !in_namespace && !anywhere) {
        return Ok(Some(page_not_found()));
    }
    let resource = GroupResource::new(row.group.clone(), row.plural.clone());
    let verbs = if info.subresource.is_empty() {
        Verbs::STANDARD
    } else {
        row.subresource(&info.subresource).ok_or_else(|| Status::not_found(&resource, &info.name))?.verbs
    };
    if !verbs.contains(info.verb) {
        // Methods that make no verb have no name.
        let verb = if info.verb == Verb::Other { String::new() } else { info.verb.to_string() };
        return Err(Status::method_not_supported(&resource, &verb));
    }
    if info.verb == Verb::Patch {
        PatchType::read(request, row)?;
    }
    if matches!(info.verb, Verb::Update | Verb::Patch | Verb::Delete) && info.name.is_empty() {
        return Err(Status::bad_request("name must be provided"));
    }
    if let Some(problem) = names::path_segment_name(&info.name).first() {
        return Err(Status::bad_request(format!("Name parameter invalid: {:?}: {problem}", info.name.as_str())));
    }
    Ok(None)
}
