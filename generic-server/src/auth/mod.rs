//! Who asks, and may they?

mod authorizer;
mod certificate;
pub mod jwt;
pub mod reload;
mod token;
mod tokens;
mod user;
pub(crate) mod websocket;

pub use authorizer::{
    Attributes, Authorizer, Decision, Mode, NonResourceRule, ResourceRule, SystemMasters, UserRules, Verdict, aggregate,
};
pub use certificate::{ClientCertificates, RequestHeader, RequestHeaderOptions};
pub use token::{TokenAuthenticator, TokenAuthenticators, TokenOwner};
pub use tokens::StaticTokens;
pub use user::{User, node_of_name, service_account_of_name};
