//! DELETE of a collection: its objects as they are now, one by one.

use futures_util::{StreamExt, stream};
use machinery::meta::{field_error::FieldError, status::Status};

use super::{Target, delete_options::read_options, list::read_page, list_options::ListOptions, transform::View};
use crate::options::{IGNORE_READ_ERROR, WriteOptions, refuse};
use crate::{registry::Write, response::Response};

/// Answers the request: the list of what was deleted.
pub(super) async fn serve(target: &mut Target, warnings: &mut Vec<String>) -> Result<Response, Status> {
    let view = View::of_request(&target.request, &target.entry)?;
    view.check_list()?;
    let features = &target.registry.settings().features;
    let list = ListOptions::read(&target.request, &target.entry.row, false, features)?;
    let options = read_options(&mut target.request, target.registry.settings()).await?;
    if options.ignore_store_read_error {
        let why = "is not allowed with DELETECOLLECTION, try again after removing the option";
        refuse("DeleteOptions", vec![FieldError::invalid(IGNORE_READ_ERROR, true, why)])?;
    }
    if options.propagation.is_none() && options.orphan_dependents.is_none() {
        warnings.extend(target.registry.row.strategy.traits().orphan_warning.map(str::to_owned)); // also if there are no objects
    }
    let info = &target.request.info;
    let page = read_page(&target.registry, &view, &info.namespace, &list).await?;
    view.convert_all(target.registry.lister(), &page.objects).await?;
    let write_options = WriteOptions { dry_run: options.dry_run, ..WriteOptions::default() };
    let target_ref = &*target;
    let (options_ref, write_options_ref) = (&options, &write_options);
    let results: Vec<(Result<(), Status>, Vec<String>)> = stream::iter(page.objects.clone())
        .map(|object| async move {
            let mut warnings = Vec::new();
            let mut write = Write {
                row: &target_ref.entry.row,
                namespace: object.namespace().unwrap_or(""),
                subresource: "",
                user: &target_ref.request.user,
                audit: &target_ref.request.audit,
                options: write_options_ref,
                warnings: &mut warnings,
            };
            let result = match target_ref.registry.delete_item(&mut write, object.name(), options_ref).await {
                Ok(_) => {
                    let namespace = object.namespace().unwrap_or("");
                    target_ref.settle(options_ref.dry_run, namespace, object.name()).await;
                    Ok(())
                }
                Err(status) if status.is_not_found() => Ok(()), // somebody was faster
                Err(status) => Err(status),
            };
            (result, warnings)
        })
        .buffer_unordered(target.registry.settings().delete_collection_workers)
        .collect()
        .await;
    let (results, of_items): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    warnings.extend(of_items.into_iter().flatten());
    results.into_iter().collect::<Result<Vec<()>, Status>>()?;
    view.list(target.registry.lister(), page.objects, &page.meta).await
}
