//! DefaultTolerationSeconds: pods stay for a while on nodes that are in trouble.

use async_trait::async_trait;
use generic_server::admission::{Admission, Attributes, Operation, Steps};
use machinery::{Value, meta::status::Status, object};

use super::PluginSettings;

/// The plugin.
pub(super) struct DefaultTolerations {
    not_ready_seconds: i64,
    unreachable_seconds: i64,
}

impl DefaultTolerations {
    pub(super) fn new(settings: &PluginSettings) -> Self {
        DefaultTolerations {
            not_ready_seconds: settings.not_ready_toleration_seconds,
            unreachable_seconds: settings.unreachable_toleration_seconds,
        }
    }
}

#[async_trait]
impl Admission for DefaultTolerations {
    fn steps(&self) -> Steps {
        Steps::Mutate
    }

    async fn mutate(&self, a: &Attributes<'_>, pod: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let writes = matches!(a.operation, Operation::Create | Operation::Update);
        if !writes || !a.subresource.is_empty() || !a.row.group.is_empty() || a.row.plural != "pods" {
            return Ok(());
        }
        let mut tolerations = pod.at(&["spec", "tolerations"]).and_then(Value::as_array).unwrap_or_default().to_vec();
        let before = tolerations.len();
        for (key, seconds) in [
            ("node.kubernetes.io/not-ready", self.not_ready_seconds),
            ("node.kubernetes.io/unreachable", self.unreachable_seconds),
        ] {
            if !tolerations[..before].iter().any(|t| tolerates(t, key)) {
                tolerations.push(object! {
                    "key" => key, "operator" => "Exists", "effect" => "NoExecute", "tolerationSeconds" => seconds,
                });
            }
        }
        if tolerations.len() > before {
            pod.set(&["spec", "tolerations"], tolerations);
        }
        Ok(())
    }
}

fn tolerates(toleration: &Value, key: &str) -> bool {
    let text = |member: &str| toleration.str_at(&[member]).unwrap_or("");
    (text("key").is_empty() || text("key") == key) && matches!(text("effect"), "" | "NoExecute")
}
