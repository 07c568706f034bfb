//! The status of an object of the kind `Plugin`. The CRD's schema is generated from these types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the host reports about the plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PluginObjectStatus {
    /// The generation of the object that the status is about.
    pub(super) observed_generation: u64,
    /// The state of the plugin, as `pilothouse status` shows it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) state: String,
    /// The version that the running plugin names.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) version: String,
    /// The digest of the artifact's manifest, which signatures are about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) digest: String,
    /// What is wrong with the plugin, or the error of its last failed call.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) last_error: String,
    /// Accepted, Verified, Loaded, Running and Ready.
    pub(super) conditions: Vec<Condition>,
}

/// A condition in the form of `metav1.Condition`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    /// The type of the condition.
    pub(super) r#type: String,
    /// Whether it holds.
    pub(super) status: ConditionStatus,
    /// Why, as one word.
    pub(super) reason: String,
    /// Why, and what to do.
    pub(super) message: String,
    /// When `status` last changed, in RFC 3339.
    pub(super) last_transition_time: String,
    /// The generation of the object that the condition is about.
    #[serde(default)]
    pub(super) observed_generation: u64,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(super) enum ConditionStatus {
    True,
    False,
    #[default]
    Unknown,
}

/// How a status differs from the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Not at all.
    None,
    /// In messages only.
    Messages,
    /// In something that somebody may wait for.
    State,
}

impl PluginObjectStatus {
    /// Returns how `self` differs from the stored status.
    pub(crate) fn change_from(&self, stored: &Self) -> Change {
        if self == stored {
            Change::None
        } else if self.without_messages() == stored.without_messages() {
            Change::Messages
        } else {
            Change::State
        }
    }

    fn without_messages(&self) -> Self {
        let mut status = self.clone();
        status.last_error.clear();
        for condition in &mut status.conditions {
            condition.message.clear();
            condition.last_transition_time.clear();
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_messages_is_distinguished_from_one_of_the_state() {
        let condition = Condition { r#type: "Running".to_owned(), ..Condition::default() };
        let stored = PluginObjectStatus { conditions: vec![condition], ..PluginObjectStatus::default() };
        assert_eq!(stored.change_from(&stored), Change::None);
        let mut messages = stored.clone();
        messages.last_error = "other".to_owned();
        messages.conditions[0].message = "other".to_owned();
        assert_eq!(messages.change_from(&stored), Change::Messages);
        let mut state = stored.clone();
        state.conditions[0].status = ConditionStatus::True;
        assert_eq!(state.change_from(&stored), Change::State);
        assert_eq!(PluginObjectStatus::default().change_from(&stored), Change::State);
    }

    #[test]
    fn a_condition_has_the_form_of_kubernetes() {
        let condition = Condition { r#type: "Ready".to_owned(), ..Condition::default() };
        let written = serde_json::to_value(condition).expect("JSON");
        assert!(written["type"] == "Ready" && written["status"] == "Unknown", "{written}");
        assert!(written["lastTransitionTime"].is_string() && written["observedGeneration"].is_u64());
    }
}
