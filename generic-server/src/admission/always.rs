//! AlwaysAdmit and AlwaysDeny: the plugins that do not look.

use async_trait::async_trait;
use machinery::{Value, meta::status::Status};

use super::{Admission, Attributes, Steps};

/// Admits everything, as a chain without it does.
pub struct AlwaysAdmit;

impl Admission for AlwaysAdmit {
    fn steps(&self) -> Steps {
        Steps::Neither
    }
}

/// Admits nothing.
pub struct AlwaysDeny;

#[async_trait]
impl Admission for AlwaysDeny {
    fn steps(&self) -> Steps {
        Steps::Mutate
    }

    async fn mutate(&self, a: &Attributes<'_>, object: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        Err(a.forbidden(object, "admission control is denying all modifications"))
    }
}
