//! How a StatefulSet updates its Pods and keeps their claims.

use serde_json::Value;

use super::{NOT_NEGATIVE, text};
use crate::schema::field;
use crate::status::Causes;

pub(super) fn validate(spec: &Value, causes: &mut Causes) {
    const PATH: &str = "spec.updateStrategy.rollingUpdate";
    let strategy = &spec["updateStrategy"];
    let update = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "OnDelete" => {
            if !update.is_null() {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                causes.push(field::invalid_shown(PATH, &as_go(update), detail));
            }
        }
        "RollingUpdate" => {
            if update["partition"].as_i64().is_some_and(|partition| partition < 0) {
                causes.push(field::invalid(
                    &field::child(PATH, "partition"),
                    &update["partition"],
                    NOT_NEGATIVE,
                ));
            }
        }
        // A strategy without a type was not defaulted yet.
        "" => {}
        _ => {
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{}}}", strategy["type"], as_go(update));
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            causes.push(field::invalid_shown("spec.updateStrategy", &shown, detail));
        }
    }
    let policy = &spec["persistentVolumeClaimRetentionPolicy"];
    for name in ["whenDeleted", "whenScaled"] {
        let supported = ["Retain", "Delete"];
        if policy[name].as_str().is_some_and(|value| !supported.contains(&value)) {
            let path = field::child("spec.persistentVolumeClaimRetentionPolicy", name);
            causes.push(field::not_supported(&path, &policy[name], &supported));
        }
    }
}

/// Returns the settings of rolling updates as messages show them.
fn as_go(update: &Value) -> String {
    if update.is_null() {
        return "null".to_owned();
    }
    let partition = update["partition"].as_i64().unwrap_or(0);
    format!("{{\"Partition\":{partition},\"MaxUnavailable\":{}}}", update["maxUnavailable"])
}
