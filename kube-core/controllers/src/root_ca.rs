//! Every namespace has a config map with the authority that pods trust this server by.

use std::sync::Arc;

use machinery::{Value, object};

use crate::{
    per_namespace::{self, Wanted},
    ready::Ready,
    shared::Shared,
};

const NAME: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as \
                    the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
                    Kubernetes clusters.";

/// Publishes it.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let wanted = Wanted {
        queue: "root_ca_cert_publisher",
        plural: "configmaps",
        name: NAME,
        object: object! {
            "kind" => "ConfigMap", "apiVersion" => "v1",
            "metadata" => object! { "name" => NAME, "annotations" => object! { DESCRIPTION => TEXT } },
            "data" => object! { "ca.crt" => shared.root_ca.clone() },
        },
        mend,
    };
    per_namespace::run(shared, ready, wanted).await;
}

/// The data must be just this; the annotation must say something.
fn mend(current: &Value, wanted: &Value) -> Option<Value> {
    let described = current.str_at(&["metadata", "annotations", DESCRIPTION]).is_some_and(|text| !text.is_empty());
    if described && current.get("data") == wanted.get("data") {
        return None;
    }
    let mut mended = current.clone();
    mended.set(&["data"], wanted.get("data").cloned().unwrap_or(Value::Null));
    mended.set(&["metadata", "annotations", DESCRIPTION], TEXT);
    Some(mended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_mended_and_other_metadata_stays() {
        let map = |data: &str, annotations: Value| {
            object! {
                "metadata" => object! { "name" => NAME, "annotations" => annotations },
                "data" => object! { "ca.crt" => data },
            }
        };
        let wanted = map("CA", object! { DESCRIPTION => TEXT });
        assert_eq!(mend(&wanted, &wanted), None);
        assert_eq!(mend(&map("CA", object! { DESCRIPTION => "mine", "a" => "b" }), &wanted), None);
        let mended = mend(&map("other", object! { "a" => "b" }), &wanted).expect("it is not as it should be");
        assert_eq!(mended, map("CA", object! { "a" => "b", DESCRIPTION => TEXT }));
        assert_eq!(mend(&map("CA", object! { "a" => "b" }), &wanted), Some(mended));
    }
}
