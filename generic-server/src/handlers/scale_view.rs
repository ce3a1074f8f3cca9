//! The forms that scales are sent in. A scale is a built-in type, whatever is scaled.

use http::StatusCode;
use machinery::{Value, meta::status::Status};

use super::{Target, transform::View};
use crate::{negotiate::Offer, printer, response::Response};

/// How a request wants to see a scale.
pub(super) struct ScaleView(View);

impl ScaleView {
    pub(super) fn of_request(target: &Target) -> Result<Self, Status> {
        let built_in = target.entry.row.built_in;
        let table = if built_in { printer::scale() } else { printer::custom_scale() };
        let offer = if built_in { Offer::OBJECTS } else { Offer::CUSTOM };
        let view = View::with_printer(&target.request, &target.entry, &offer, table.printer())?;
        Ok(ScaleView(view.shown_as(if built_in { "autoscaling.Scale" } else { "v1.Scale" })))
    }

    pub(super) fn answer(&self, scale: &Value) -> Result<Response, Status> {
        self.0.document(StatusCode::OK, scale)
    }
}
