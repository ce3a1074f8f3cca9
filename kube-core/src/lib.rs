//! The built-in API groups
