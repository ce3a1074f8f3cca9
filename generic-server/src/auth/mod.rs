//! Who asks, and may they?

mod authorizer;
mod certificate;
mod tokens;
mod user;

pub use authorizer::{Attributes, Authorizer, Decision, Mode, SystemMasters};
pub use certificate::{ClientCertificates, RequestHeader, RequestHeaderOptions};
pub use tokens::StaticTokens;
pub use user::User;
