//! `/flagz`: the flags that the server runs with.

use std::collections::BTreeMap;

use async_trait::async_trait;
use machinery::{Map, Str, Value, meta::status::Status, object};

use super::{heading, page};
use crate::{endpoint::Endpoint, request::Request, response::Response};

/// The page: flags and their values.
pub struct Flagz(pub BTreeMap<&'static str, String>);

#[async_trait]
impl Endpoint for Flagz {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        let text = || {
            let lines = self.0.iter().map(|(name, value)| format!("{name}={value}\n"));
            heading("flagz") + &lines.collect::<String>()
        };
        let document = || {
            let flags: Map =
                self.0.iter().map(|(name, value)| (Str::new_static(name), Value::from(&**value))).collect();
            object! { "flags" => flags }
        };
        page(&request, "Flagz", text, document)
    }
}
