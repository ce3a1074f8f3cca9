//! `admissionregistration.k8s.io/v1alpha1` to and from v1beta1: the same shape; only that a parameter which is not found denies
//! where v1alpha1 says nothing, and later versions want it said.

use generic_server::resource::Conversion;
use machinery::{Str, Value};

use crate::{
    conversion::renamed,
    defaults::{pointer, within},
};

/// The conversion of v1alpha1.
pub(super) struct V1Alpha1;

impl Conversion for V1Alpha1 {
    fn from_storage(&self, object: Value) -> Value {
        renamed(object, Str::new_static("admissionregistration.k8s.io/v1alpha1"))
    }

    fn to_storage(&self, object: Value) -> Value {
        let mut object = renamed(object, Str::new_static("admissionregistration.k8s.io/v1beta1"));
        within(&mut object, "spec", |spec| {
            within(spec, "paramRef", |reference| pointer(reference, "parameterNotFoundAction", "Deny"));
        });
        object
    }
}
