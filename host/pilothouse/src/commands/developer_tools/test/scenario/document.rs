//! A scenario as it is written in YAML: its members, and the validation of each.

use std::time::Duration;

use pilothouse_controller::{PluginState, printable};
use serde::Deserialize;
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::super::condition::Condition;
use super::super::object_reference::ObjectReference;
use super::{Deletion, EventExpectation, Expectation, MAX_FILE_SIZE, Patch, PluginExpectation};

const API_VERSION: &str = "pilothouse.dev/v1alpha1";
const KIND: &str = "Scenario";
/// The kind of the scenario files of `pilothouse sim`.
const OTHER_KIND: &str = "Simulation";
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
const MAX_NAME_CHARS: usize = 100;

/// A scenario as it is written.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Document {
    /// `pilothouse.dev/v1alpha1`.
    pub(super) api_version: String,
    /// `Scenario`.
    pub(super) kind: String,
    /// The scenario's name; by default that of the file without its extension.
    pub(super) name: Option<String>,
    /// How long each step may take, such as `500ms`, `30s` or `2m`; 10 s by default.
    pub(super) timeout: Option<String>,
    /// Manifests that are applied before the plugin starts, or `{file: PATH}`.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<Value>"))]
    pub(super) objects: Vec<Spanned<Value>>,
    /// What is done and expected, in this order.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<StepDocument>"))]
    pub(super) steps: Vec<Spanned<StepDocument>>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct StepDocument {
    /// How long the step may take, in place of the scenario's `timeout`.
    pub(super) timeout: Option<String>,
    /// A manifest that is applied by server-side apply, or `{file: PATH}`.
    pub(super) apply: Option<Value>,
    /// A manifest of an object that must not exist, or `{file: PATH}`.
    pub(super) create: Option<Value>,
    /// Changes an object by a merge patch.
    pub(super) patch: Option<PatchDocument>,
    /// A reference, or an object with the members of [`DeletionDocument`].
    pub(super) delete: Option<Value>,
    /// Waits until an object exists and is as described.
    pub(super) expect: Option<ExpectationDocument>,
    /// Waits until there is no such object.
    pub(super) expect_absent: Option<String>,
    /// Waits until there is such an Event.
    pub(super) expect_event: Option<EventDocument>,
    /// Waits until the plugin has this state or error.
    pub(super) expect_plugin: Option<PluginDocument>,
    /// Waits until a line of the plugin's log contains this text.
    pub(super) expect_log: Option<String>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PatchDocument {
    object: String,
    subresource: Option<String>,
    merge: Map<String, Value>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeletionDocument {
    object: String,
    wait: Option<bool>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExpectationDocument {
    object: String,
    #[serde(rename = "match")]
    fields: Option<Map<String, Value>>,
    cel: Option<String>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EventDocument {
    object: Option<String>,
    #[serde(rename = "type")]
    severity: Option<String>,
    reason: Option<String>,
    note: Option<String>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PluginDocument {
    state: Option<PluginState>,
    error: Option<String>,
}

impl PatchDocument {
    pub(super) fn validate(self) -> Result<Patch, String> {
        let is_known = |name: &str| matches!(name, "status" | "scale");
        if let Some(name) = self.subresource.as_deref().filter(|name| !is_known(name)) {
            return Err(format!("patch.subresource: {name:?} is neither status nor scale"));
        }
        let object = ObjectReference::parse(&self.object)?;
        Ok(Patch { object, subresource: self.subresource, merge: self.merge })
    }
}

impl ExpectationDocument {
    pub(super) fn validate(self) -> Result<Expectation, String> {
        let condition = match self.cel {
            Some(text) => {
                let condition =
                    Condition::compile(&text).map_err(|problem| format!("expect.cel: {problem}"))?;
                Some(Box::new(condition))
            }
            None => None,
        };
        Ok(Expectation { object: ObjectReference::parse(&self.object)?, fields: self.fields, condition })
    }
}

impl EventDocument {
    pub(super) fn validate(self) -> Result<EventExpectation, String> {
        let members = [&self.object, &self.severity, &self.reason, &self.note];
        if members.into_iter().all(Option::is_none) {
            return Err(
                "expectEvent selects every Event; give at least one of object, type, reason and note"
                    .to_owned(),
            );
        }
        if let Some(severity) = self.severity.as_deref().filter(|text| !matches!(*text, "Normal" | "Warning"))
        {
            return Err(format!("expectEvent.type: {severity:?} is neither Normal nor Warning"));
        }
        let object = self.object.as_deref().map(ObjectReference::parse).transpose()?;
        Ok(EventExpectation { object, severity: self.severity, reason: self.reason, note: self.note })
    }
}

impl PluginDocument {
    pub(super) fn validate(self) -> Result<PluginExpectation, String> {
        if self.state.is_none() && self.error.is_none() {
            return Err("expectPlugin: give a state, an error, or both".to_owned());
        }
        Ok(PluginExpectation { state: self.state, error: self.error })
    }
}

/// Parses `KIND/NAME`, or an object that may say not to wait.
pub(super) fn deletion_of(value: Value) -> Result<Deletion, String> {
    let document = match value {
        Value::String(object) => DeletionDocument { object, wait: None },
        value => serde_json::from_value(value)
            .map_err(|error| format!("delete: {error}; write KIND/NAME, or object and wait"))?,
    };
    Ok(Deletion { object: ObjectReference::parse(&document.object)?, wait: document.wait.unwrap_or(true) })
}

/// Parses the YAML within bounds.
pub(super) fn parse_document(text: &str) -> Result<Document, String> {
    if text.len() > MAX_FILE_SIZE {
        return Err(format!("it has {} bytes, and a scenario may have {MAX_FILE_SIZE}", text.len()));
    }
    pilothouse_yaml::from_str(text).map_err(|problem| match pilothouse_yaml::from_str(text) {
        Ok(Header { kind }) if kind == OTHER_KIND => other_command(),
        _ => printable(&problem).to_string(),
    })
}

/// The member that tells the files of `sim` and `test` apart.
#[derive(Deserialize)]
struct Header {
    kind: String,
}

fn other_command() -> String {
    format!(
        "it is a {OTHER_KIND}, which `pilothouse sim` runs; name it with `pilothouse sim --scenario`, or write kind: {KIND}"
    )
}

pub(super) fn check_header(document: &Document) -> Result<(), String> {
    if document.kind == OTHER_KIND {
        return Err(other_command());
    }
    if document.api_version != API_VERSION || document.kind != KIND {
        return Err(format!(
            "apiVersion {:?} and kind {:?} are unknown; write apiVersion: {API_VERSION} and kind: {KIND}",
            document.api_version, document.kind
        ));
    }
    match &document.name {
        Some(name) if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || name.contains('\n') => {
            Err(format!("the name {name:?} is not one line of at most {MAX_NAME_CHARS} characters"))
        }
        _ => Ok(()),
    }
}

/// Parses a number with the unit `ms`, `s` or `m`.
pub(super) fn parse_timeout(text: &str) -> Result<Duration, String> {
    let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        _ => None,
    };
    let milliseconds = factor.and_then(|factor| number.parse::<u64>().ok()?.checked_mul(factor));
    let timeout = milliseconds.map(Duration::from_millis).filter(|timeout| *timeout <= MAX_TIMEOUT);
    timeout.ok_or_else(|| {
        format!("timeout: {text:?} is not a duration of at most an hour, such as 500ms, 30s or 2m")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_of_scenarios_matches_the_types() {
        crate::published_schema::assert_matches::<Document>(
            "scenario.schema.json",
            "Pilothouse scenario (pilothouse.dev/v1alpha1)",
        );
    }
}
