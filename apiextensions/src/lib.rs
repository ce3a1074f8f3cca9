//! CustomResourceDefinitions and the resources they define.
//!
//! A definition is an object like others (`definition`). The `controller` accepts its names, establishes it and clears
//! up after it; `rules` are its CEL expressions; `serving` turns it into rows of the resource table, one a served version, which share one registry. All
//! of that is done when the write that changed the definition is answered.
//!
//! ```
//! let row = apiextensions::row();
//! assert_eq!((row.api_version().as_str(), row.kind.as_str()), ("apiextensions.k8s.io/v1", "CustomResourceDefinition"));
//! ```

mod controller;
mod definition;
mod rules;
mod server;
mod serving;

pub use server::{ApiExtensions, Options, build};
pub use serving::ConversionMetrics;

pub use definition::row;
