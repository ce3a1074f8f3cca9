//! Who asks, and may they: users and what proves who one is, and the interface of those who decide what a user may do.
//!
//! `certificate` knows users by their certificates and by what a front proxy says of them, `token` by bearer tokens, of which `tokens` is the
//! kind that a file lists and `jwt` those that are signed; `authorizer` is the interface of authorizers and `authz` those that ask nobody's objects; `reload` follows files.
//!
//! ```
//! use auth::{StaticTokens, TokenAuthenticator};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let tokens = StaticTokens::parse("tokens.csv", "secret,alice,1001,\"dev,qa\"", Default::default()).unwrap();
//! let alice = tokens.authenticate("secret", None).await.unwrap().expect("the file has the token");
//! assert_eq!(alice.user.name, "alice");
//! assert!(alice.user.in_group("qa") && alice.user.in_group("system:authenticated"));
//! assert!(tokens.authenticate("other", None).await.unwrap().is_none());
//! # });
//! ```

pub mod authn;
mod authorizer;
pub mod authz;
mod certificate;
mod csv;
mod evaluate;
pub mod flight;
mod header;
pub mod jwt;
mod refusal;
pub mod reload;
mod token;
mod tokens;
mod user;
pub mod websocket;

pub use authorizer::{
    Attributes, Authorizer, Decision, Mode, NonResourceRule, ResourceRule, SystemMasters, UserRules, Verdict, aggregate,
};
pub use certificate::{CertificateError, ClientCertificates, RequestHeader, RequestHeaderOptions};
pub use csv::{CsvError, CsvFault};
pub use header::header_text;
pub use refusal::{authorize_info, escape, refusal_of};
pub use token::{TokenAuthenticator, TokenAuthenticators, TokenError, TokenNotes, TokenOwner, UnknownToken};
pub use tokens::{StaticTokens, TokenFileError};
pub use user::{User, node_of_name, service_account_of_name};
