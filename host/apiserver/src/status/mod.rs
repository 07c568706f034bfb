//! API errors (`meta/v1 Status`) with the reasons and messages of `k8s.io/apimachinery/pkg/api/errors`.

mod causes;
mod errors;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use causes::Causes;

/// One problem of an object or a request: an entry of a Status' `details.causes` (`metav1.StatusCause`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cause {
    /// The path of the field, such as `spec.replicas`. Empty if the cause does not concern a field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// The machine-readable reason, such as `FieldValueInvalid`.
    pub reason: String,
    /// The human-readable message.
    pub message: String,
}

/// The resource that a request was for and the causes of its failure: `details` of a Status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The API group.
    pub group: String,
    /// The plural resource name; in `Invalid` errors, the kind.
    pub kind: String,
    /// The object's UID.
    pub uid: String,
    /// The individual problems.
    pub causes: Vec<Cause>,
    /// Seconds to wait before a retry; 0 leaves it to the client.
    pub retry_after_seconds: u32,
}

/// The Status of a failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason: `NotFound`, `Conflict`, ….
    pub reason: &'static str,
    /// A reason that is none of Kubernetes' own, from an admission webhook. It replaces `reason` in the response.
    pub custom_reason: Option<Box<str>>,
    /// The human-readable message.
    pub message: String,
    /// The resource concerned and the causes.
    pub details: Option<Box<Details>>,
    /// `metadata.continue`: the token that continues a list whose own token has expired.
    pub continue_token: Option<String>,
    /// The warnings about the request, which become headers of the response.
    pub warnings: Vec<String>,
}

/// The names of the resource that an error concerns.
#[derive(Clone, Copy, Debug)]
pub struct ResourceRef<'a> {
    /// The API group, empty for core.
    pub group: &'a str,
    /// The plural resource name.
    pub plural: &'a str,
    /// The kind.
    pub kind: &'a str,
}

impl ResourceRef<'_> {
    /// Formats the resource as Go's `schema.GroupResource` does: `deployments.apps`, or `pods` in the core group.
    pub fn group_resource(&self) -> String {
        qualify(self.plural, self.group)
    }

    /// Formats the kind as Go's `schema.GroupKind` does: `Deployment.apps`, or `Pod` in the core group.
    fn group_kind(&self) -> String {
        qualify(self.kind, self.group)
    }

    fn details(&self, name: &str) -> Details {
        Details {
            name: name.to_owned(),
            group: self.group.to_owned(),
            kind: self.plural.to_owned(),
            ..Details::default()
        }
    }
}

fn qualify(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            custom_reason: None,
            message: message.into(),
            details: None,
            continue_token: None,
            warnings: Vec::new(),
        }
    }

    /// Returns the error with warnings about the same request before its own.
    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        drop(self.warnings.splice(..0, warnings));
        self
    }

    fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Returns the Status as JSON.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        let reason = self.custom_reason.as_deref().unwrap_or(self.reason);
        if !reason.is_empty() {
            status["reason"] = reason.into();
        }
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = token.as_str().into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.to_value();
        }
        status
    }

    /// Returns the value of the `Retry-After` header in seconds, if the client should wait.
    pub fn retry_after(&self) -> Option<u32> {
        self.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0)
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let mut details = serde_json::Map::new();
        for (key, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                details.insert(key.into(), text.as_str().into());
            }
        }
        if !self.causes.is_empty() {
            details.insert("causes".into(), self.causes.iter().map(Cause::to_value).collect());
        }
        if self.retry_after_seconds > 0 {
            details.insert("retryAfterSeconds".into(), self.retry_after_seconds.into());
        }
        Value::Object(details)
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut cause = serde_json::Map::new();
        for (key, text) in [("reason", &self.reason), ("message", &self.message), ("field", &self.field)] {
            if !text.is_empty() {
                cause.insert(key.into(), text.as_str().into());
            }
        }
        Value::Object(cause)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {})", self.message, self.code, self.reason)
    }
}

impl std::error::Error for Status {}
