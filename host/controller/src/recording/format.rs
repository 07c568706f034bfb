//! The format of a recording: a file of JSON lines. The first line is the head, each further line is one reconcile.

use pilothouse_plugin::HostCall;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the format, in the head of each file.
pub const FORMAT: &str = "pilothouse.dev/recording/v1";

/// How the values of Secrets are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SecretMode {
    /// As hashes with a random key that is not stored. Equal values have equal hashes within one run of the host.
    #[default]
    Hashed,
    /// As they are.
    Plain,
}

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordingHead {
    /// [`FORMAT`].
    pub format: String,
    /// The plugin's name.
    pub plugin: String,
    /// SHA-256 of the plugin's .wasm, in hex.
    pub digest: String,
    /// The plugin's configuration.
    pub config: Value,
    /// How the values of Secrets are recorded.
    pub secrets: SecretMode,
}

/// A line after the first: one reconcile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedReconcile {
    /// When it began, in RFC 3339.
    pub time: String,
    /// How long it took, in microseconds.
    pub microseconds: u64,
    /// The target watch.
    pub watch: String,
    /// The namespace of its key, "" for a cluster-scoped object.
    pub namespace: String,
    /// The name of its key.
    pub name: String,
    /// The reasons, in the notation of the contract.
    pub reasons: Vec<String>,
    /// How many times in a row the key had failed.
    pub attempt: u32,
    /// Further information in the request.
    #[serde(default)]
    pub extra: Vec<(String, String)>,
    /// The calls of host functions, in order.
    pub calls: Vec<RecordedCall>,
    /// The result, in the form of [`GuestResult::to_json`](pilothouse_plugin::GuestResult::to_json).
    pub result: Value,
}

/// A call of a host function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedCall {
    /// The function, such as `cache.get`.
    pub function: String,
    /// Its arguments, in the form of [`HostRequest::arguments`](pilothouse_plugin::HostRequest::arguments).
    pub arguments: Value,
    /// The answer, in the form of [`HostAnswer::to_json`](pilothouse_plugin::HostAnswer::to_json).
    pub answer: Value,
}

/// Returns a line of a recording.
pub(super) fn json_line(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

impl RecordedReconcile {
    /// Returns the key as text: `namespace/name`, or `name` for a cluster-scoped object.
    #[must_use]
    pub fn key(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
}

impl From<&HostCall> for RecordedCall {
    fn from(call: &HostCall) -> Self {
        Self {
            function: call.request.function().to_owned(),
            arguments: call.request.arguments(),
            answer: call.answer.to_json(),
        }
    }
}
