//! The status of ValidatingAdmissionPolicies, and conditions.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{NOT_NEGATIVE, items, push_invalid, text};
use crate::schema::{field, names};
use crate::status::Causes;

/// The longest reason and message of a condition in bytes.
const MAX_REASON: usize = 1024;
const MAX_MESSAGE: usize = 32 * 1024;

pub(super) fn validate(status: &Value, causes: &mut Causes) {
    const PATH: &str = "status.typeChecking.expressionWarnings";
    for (index, warning) in items(&status["typeChecking"]["expressionWarnings"]).iter().enumerate() {
        for name in ["warning", "fieldRef"] {
            if text(warning, name).is_empty() {
                causes.push(field::required(&field::child(&field::index(PATH, index), name), ""));
            }
        }
    }
    validate_conditions(&status["conditions"], "status.conditions", causes);
}

/// Checks conditions (`ValidateConditions` of `k8s.io/apimachinery`).
pub(super) fn validate_conditions(conditions: &Value, path: &str, causes: &mut Causes) {
    let mut types = BTreeSet::new();
    for (index, condition) in items(conditions).iter().enumerate() {
        let at = |name: &str| field::child(&field::index(path, index), name);
        let (kind, state, reason) =
            (text(condition, "type"), text(condition, "status"), text(condition, "reason"));
        if !types.insert(kind) {
            causes.push(field::duplicate(&at("type"), &kind.into()));
        }
        push_invalid(causes, &at("type"), kind, names::qualified_name_errors(kind));
        let states = ["False", "True", "Unknown"];
        if !states.contains(&state) {
            causes.push(field::not_supported(&at("status"), &state.into(), &states));
        }
        if condition["observedGeneration"].as_i64().is_some_and(|generation| generation < 0) {
            causes.push(field::invalid(
                &at("observedGeneration"),
                &condition["observedGeneration"],
                NOT_NEGATIVE,
            ));
        }
        if condition["lastTransitionTime"].is_null() {
            causes.push(field::required(&at("lastTransitionTime"), ""));
        }
        if reason.is_empty() {
            causes.push(field::required(&at("reason"), ""));
        } else {
            push_invalid(causes, &at("reason"), reason, reason_errors(reason));
            if reason.len() > MAX_REASON {
                causes.push(field::too_long(&at("reason"), MAX_REASON as u64));
            }
        }
        if text(condition, "message").len() > MAX_MESSAGE {
            causes.push(field::too_long(&at("message"), MAX_MESSAGE as u64));
        }
    }
}

fn reason_errors(reason: &str) -> Vec<String> {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_,:".contains(&byte);
    let is_last = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let bytes = reason.as_bytes();
    let has_syntax = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.iter().all(|byte| is_inner(*byte))
        && bytes.last().is_some_and(is_last);
    if has_syntax {
        return Vec::new();
    }
    vec![
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or \
         '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  \
         or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
            .to_owned(),
    ]
}
