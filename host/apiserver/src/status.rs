//! The errors that clients get: `meta/v1 Status`, worded as `k8s.io/apimachinery/pkg/api/errors` words them.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One thing that is wrong with an object or a request: `details.causes[]` of a Status.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cause {
    /// The path of the field, such as `spec.replicas`; "" where the cause is about no field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// A word for machines, such as `FieldValueInvalid`.
    pub reason: String,
    /// A text for people.
    pub message: String,
}

/// What the request was about: `details` of a Status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The API group.
    pub group: String,
    /// The plural resource name (in most errors), or the kind (in Invalid).
    pub kind: String,
    /// The object's UID.
    pub uid: String,
    /// What is wrong, one by one.
    pub causes: Vec<Cause>,
    /// After how many seconds a retry makes sense; 0 if it does not say.
    pub retry_after_seconds: u32,
}

/// A failed request, as the client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// A word for machines: `NotFound`, `Conflict`, ….
    pub reason: &'static str,
    /// A text for people.
    pub message: String,
    /// What it was about.
    pub details: Option<Box<Details>>,
    /// `metadata.continue`: where a list whose token expired may go on.
    pub continue_token: Option<String>,
}

/// The resource that an error talks of.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The API group, empty for core.
    pub group: &'a str,
    /// The plural name.
    pub plural: &'a str,
    /// The kind.
    pub kind: &'a str,
}

impl About<'_> {
    /// `deployments.apps`, or `pods` in the core group.
    pub fn qualified(&self) -> String {
        qualify(self.plural, self.group)
    }

    /// `Deployment.apps`, or `Pod` in the core group.
    fn qualified_kind(&self) -> String {
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

fn qualify(word: &str, group: &str) -> String {
    if group.is_empty() { word.to_owned() } else { format!("{word}.{group}") }
}

impl Status {
    fn plain(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, continue_token: None }
    }

    fn with(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// 404 for an object.
    pub fn not_found(about: About<'_>, name: &str) -> Self {
        Self::plain(404, "NotFound", format!("{} {name:?} not found", about.qualified()))
            .with(about.details(name))
    }

    /// 404 for a path that is served by nothing.
    pub fn no_such_resource() -> Self {
        Self::plain(404, "NotFound", "the server could not find the requested resource")
            .with(Details::default())
    }

    /// 405: the resource does not have the verb.
    pub fn method_not_allowed(verb: &str) -> Self {
        let message = format!("the server does not allow this method on the requested resource: {verb}");
        Self::plain(405, "MethodNotAllowed", message).with(Details::default())
    }

    /// 409 for a name that is taken.
    pub fn already_exists(about: About<'_>, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", about.qualified());
        Self::plain(409, "AlreadyExists", message).with(about.details(name))
    }

    /// 409 for a name whose present owner is being deleted.
    pub fn already_exists_deleting(about: About<'_>, name: &str) -> Self {
        let message = format!("object is being deleted: {} {name:?} already exists", about.qualified());
        Self { message, ..Self::already_exists(about, name) }
    }

    /// 500 without a reason, which is how Kubernetes answers a creation with a resourceVersion.
    pub fn resource_version_on_create() -> Self {
        Self::plain(500, "", "resourceVersion should not be set on objects to be created")
    }

    /// 409 with an explanation after Kubernetes' usual words.
    pub fn conflict(about: About<'_>, name: &str, problem: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {problem}", about.qualified());
        Self::plain(409, "Conflict", message).with(about.details(name))
    }

    /// 409: the object has another resourceVersion than the writer saw.
    pub fn modified(about: About<'_>, name: &str) -> Self {
        let problem =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(about, name, problem)
    }

    /// 409 of a server-side apply: fields that other managers own.
    pub fn apply_conflict(message: impl Into<String>, causes: Vec<Cause>) -> Self {
        Self::plain(409, "Conflict", message).with(Details { causes, ..Details::default() })
    }

    /// 422 with all that is wrong with the object.
    pub fn invalid(about: About<'_>, name: &str, causes: Vec<Cause>) -> Self {
        let mut texts: Vec<String> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        texts.dedup();
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} {name:?} is invalid: {list}", about.qualified_kind());
        let details = Details { kind: about.kind.to_owned(), causes, ..about.details(name) };
        Self::plain(422, "Invalid", message).with(details)
    }

    /// 422 without causes, for a patch that cannot be applied.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::plain(422, "Invalid", message)
    }

    /// 400 with a text that says what and where.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(400, "BadRequest", message)
    }

    /// 401: the credentials are worth nothing here.
    pub fn unauthorized() -> Self {
        Self::plain(401, "Unauthorized", "Unauthorized")
    }

    /// 403 for an object, for a collection if `name` is empty, or for a path if there is no resource.
    pub fn forbidden(about: About<'_>, name: &str, problem: &str) -> Self {
        let message = match (about.plural, name) {
            ("", _) => format!("forbidden: {problem}"),
            (_, "") => format!("{} is forbidden: {problem}", about.qualified()),
            _ => format!("{} {name:?} is forbidden: {problem}", about.qualified()),
        };
        Self::plain(403, "Forbidden", message).with(about.details(name))
    }

    /// 403 for a creation in a namespace that is being deleted, with the cause that clients look for.
    pub fn namespace_terminating(about: About<'_>, name: &str, namespace: &str) -> Self {
        let problem =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Self::forbidden(about, name, &problem);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                field: "metadata.namespace".into(),
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {namespace} is being terminated"),
            });
        }
        status
    }

    /// 406: none of the formats that the client takes is served.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::plain(406, "NotAcceptable", message).with(Details::default())
    }

    /// 413: the body is larger than the server takes.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::plain(413, "RequestEntityTooLarge", message).with(Details::default())
    }

    /// 415: the body is in a format that is not understood.
    pub fn unsupported_media_type(found: &str, accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format ({found}) - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::plain(415, "UnsupportedMediaType", message).with(Details::default())
    }

    /// 410: the resourceVersion is older than the history.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::plain(410, "Expired", message)
    }

    /// 410 for a page whose list can no longer be continued; `next` continues it with the present state.
    pub fn expired_continue(next: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a \
                       new list without the continue parameter, or use the continue token in this response to retrieve \
                       the remainder of the results. Continuing with the provided token results in an inconsistent list \
                       - objects that were created, modified, or deleted between the time the first chunk was returned \
                       and now may show up in the list.";
        Self { continue_token: Some(next), ..Self::expired(message) }
    }

    /// 410 for a watch or an exact list that starts before the history does.
    pub fn too_old(requested: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {requested} ({oldest})"))
    }

    /// 504: the client asks for a state that is in the future.
    pub fn too_large_version(requested: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let cause = Cause {
            field: String::new(),
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
        };
        Self::plain(504, "Timeout", message).with(Details {
            causes: vec![cause],
            retry_after_seconds: 1,
            ..Details::default()
        })
    }

    /// 429: come back later.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::plain(429, "TooManyRequests", message)
            .with(Details { retry_after_seconds, ..Details::default() })
    }

    /// 500 for what should not happen.
    pub fn internal(message: impl fmt::Display) -> Self {
        let cause = Cause { field: String::new(), reason: String::new(), message: message.to_string() };
        Self::plain(500, "InternalError", format!("Internal error occurred: {message}"))
            .with(Details { causes: vec![cause], ..Details::default() })
    }

    /// A failure with any code, for injected faults. The reason is the one that goes with the code.
    pub fn with_code(code: u16, message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::plain(code, reason_of(code), message)
            .with(Details { retry_after_seconds, ..Details::default() })
    }

    /// The Status object that is sent.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = token.as_str().into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.to_value();
        }
        status
    }

    /// How long the client should wait, for the `Retry-After` header.
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

/// The reason that `k8s.io/apimachinery/pkg/api/errors.NewGenericServerResponse` gives a code.
fn reason_of(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Expired",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOOS: About<'static> = About { group: "example.com", plural: "foos", kind: "Foo" };
    const PODS: About<'static> = About { group: "", plural: "pods", kind: "Pod" };

    #[test]
    fn messages_are_those_of_kubernetes() {
        assert_eq!(Status::not_found(PODS, "a").message, r#"pods "a" not found"#);
        assert_eq!(Status::already_exists(FOOS, "a").message, r#"foos.example.com "a" already exists"#);
        assert_eq!(
            Status::modified(PODS, "a").message,
            "Operation cannot be fulfilled on pods \"a\": the object has been modified; please apply your changes to \
             the latest version and try again"
        );
        let cause = Cause {
            field: "spec".into(),
            reason: "FieldValueRequired".into(),
            message: "Required value".into(),
        };
        let invalid = Status::invalid(FOOS, "a", vec![cause]);
        assert_eq!(invalid.message, r#"Foo.example.com "a" is invalid: spec: Required value"#);
        assert_eq!(invalid.to_value()["details"]["kind"], "Foo");
        assert_eq!(invalid.to_value()["details"]["causes"][0]["field"], "spec");
    }

    #[test]
    fn a_version_from_the_future_tells_when_to_retry() {
        let status = Status::too_large_version(9, 5);
        assert_eq!(status.retry_after(), Some(1));
        assert_eq!(status.to_value()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    }
}
