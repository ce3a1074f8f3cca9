//! Every namespace has a service account that pods run as unless they say otherwise: `default`.

use std::sync::Arc;

use machinery::object;

use crate::{
    per_namespace::{self, Wanted},
    ready::Ready,
    shared::Shared,
};

/// Makes it where it is missing.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let wanted = Wanted {
        queue: "serviceaccount",
        plural: "serviceaccounts",
        name: "default",
        object: object! {
            "kind" => "ServiceAccount", "apiVersion" => "v1", "metadata" => object! { "name" => "default" },
        },
        mend: |_, _| None,
    };
    per_namespace::run(shared, ready, wanted).await;
}
