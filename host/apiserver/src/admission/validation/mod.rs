//! Validation of webhook configurations, policies and bindings, after `k8s.io/kubernetes/pkg/apis/admissionregistration/validation`.

mod annotations;
mod params;
mod policies;
mod shared;
#[cfg(test)]
mod tests;
mod webhooks;

use serde_json::Value;

use super::cache::GROUP;
use crate::status::Cause;
use shared::Checker;

/// Returns what is invalid in an object of this group beyond its schema; nothing for objects of other groups.
pub(crate) fn validate(group: &str, plural: &str, object: &Value) -> Vec<Cause> {
    if group != GROUP {
        return Vec::new();
    }
    let mut checker = Checker::default();
    match plural {
        "mutatingwebhookconfigurations" => webhooks::validate(&mut checker, object, true),
        "validatingwebhookconfigurations" => webhooks::validate(&mut checker, object, false),
        "validatingadmissionpolicies" => policies::validate_policy(&mut checker, object),
        "validatingadmissionpolicybindings" => {
            policies::validate_binding(&mut checker, &object["spec"]);
            policies::validate_actions(&mut checker, &object["spec"]);
        }
        "mutatingadmissionpolicies" => policies::validate_mutating_policy(&mut checker, &object["spec"]),
        "mutatingadmissionpolicybindings" => {
            policies::validate_mutating_binding(&mut checker, &object["spec"]);
        }
        _ => {}
    }
    checker.into_causes()
}
