//! How containers are restarted, and the fields that only restarted ones can have.

use serde_json::Value;

use super::{has, items, text};
use crate::schema::field;
use crate::status::Causes;

const POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
const ACTIONS: [&str; 2] = ["Restart", "RestartAllContainers"];
/// The most restart rules of a container, and exit codes of a rule.
const MAX_RULES: usize = 20;
const MAX_CODES: usize = 255;

/// Checks what an init container without `restartPolicy: Always` cannot have.
pub(super) fn validate_init(container: &Value, at: &str, causes: &mut Causes) {
    const DETAIL: &str = "may not be set for init containers without restartPolicy=Always";
    if text(container, "restartPolicy") == "Always" {
        return;
    }
    for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if has(container, name) {
            causes.push(field::forbidden(&field::child(at, name), DETAIL));
        }
    }
}

/// Checks the restart policy of a container and its rules.
pub(super) fn validate_restart(container: &Value, at: &str, causes: &mut Causes) {
    let (policy, path) = (&container["restartPolicy"], field::child(at, "restartPolicy"));
    let rules = items(&container["restartPolicyRules"]);
    match policy.as_str() {
        None if !rules.is_empty() => {
            causes.push(field::required(&path, "must specify restartPolicy when restart rules are used"));
        }
        Some(name) if !POLICIES.contains(&name) => {
            causes.push(field::not_supported(&path, policy, &POLICIES));
        }
        _ => {}
    }
    let at = field::child(at, "restartPolicyRules");
    if rules.len() > MAX_RULES {
        causes.push(field::too_many(&at, rules.len(), MAX_RULES as u64));
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = field::index(&at, index);
        if !ACTIONS.contains(&text(rule, "action")) {
            causes.push(field::not_supported(&field::child(&at, "action"), &rule["action"], &ACTIONS));
        }
        let (codes, at) = (&rule["exitCodes"], field::child(&at, "exitCodes"));
        if codes.is_null() {
            causes.push(field::required(&at, "must be specified"));
            continue;
        }
        if !["In", "NotIn"].contains(&text(codes, "operator")) {
            let path = field::child(&at, "operator");
            causes.push(field::not_supported(&path, &codes["operator"], &["In", "NotIn"]));
        }
        let count = items(&codes["values"]).len();
        if count > MAX_CODES {
            causes.push(field::too_many(&field::child(&at, "values"), count, MAX_CODES as u64));
        }
    }
}
