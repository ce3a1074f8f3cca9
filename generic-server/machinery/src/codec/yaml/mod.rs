//! YAML as Kubernetes reads and writes it: what sigs.k8s.io/yaml (go-yaml v2, so YAML 1.1 scalars) makes of a document.

mod decode;
mod emit;
mod encode;
mod error;
mod order;
mod resolve;
mod style;
#[cfg(test)]
mod tests;

pub use decode::{decode, decode_strict};
pub use encode::encode;
pub use error::YamlError;
