//! The resource table: one row a resource. The route, the verbs in discovery, the OpenAPI paths, the Table columns, the
//! metrics' labels and the authorizer's attributes are all read from it.

mod columns;
mod conversion;
mod emulation;
mod enablement;
mod registered;
mod row;
mod strategy;
mod traits;
mod version_name;

pub use columns::{Column, Printer};
pub use conversion::{Conversion, Converter, RemoteConversion};
pub use emulation::Emulation;
pub use enablement::{Enablement, EnablementError};
pub use registered::REGISTERED;
pub use row::{Availability, Deprecation, Resource, SelectableField, Subresource, SubresourceKind, UnknownField};
pub use strategy::{Strategy, WriteContext};
pub use traits::{Generation, KindTraits, SecondLook};
pub use version_name::compare_versions;
