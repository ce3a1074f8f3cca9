//! Authenticators that are configured: tokens of identity providers, of webhooks, and of bootstrapping nodes.

pub mod bootstrap;
mod cache;
pub mod config;
pub mod oidc;
pub mod webhook;

pub use cache::{CacheMetrics, CachedTokens, NoRandomNumbers};
