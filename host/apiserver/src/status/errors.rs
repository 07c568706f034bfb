//! The errors of kube-apiserver, in the order of their HTTP codes.

use std::fmt;

use pilothouse_model::hash::HashSet;

use super::{Cause, Causes, Details, ResourceRef, Status};
use crate::{etcd_limits, go};

impl Status {
    /// 400: the request is malformed. `message` says what is wrong with it.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401: the credentials are missing or invalid.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403: access is denied to an object, to a collection if `name` is empty, or to a path if there is no resource.
    pub fn forbidden(resource: ResourceRef<'_>, name: &str, problem: &str) -> Self {
        let message = match (resource.plural, name) {
            ("", _) => format!("forbidden: {problem}"),
            (_, "") => format!("{} is forbidden: {problem}", resource.group_resource()),
            _ => format!("{} {name:?} is forbidden: {problem}", resource.group_resource()),
        };
        Self::new(403, "Forbidden", message).with_details(resource.details(name))
    }

    /// 403: the namespace of a new object is being deleted. Clients recognise the cause `NamespaceTerminating`.
    pub fn namespace_terminating(resource: ResourceRef<'_>, name: &str, namespace: &str) -> Self {
        let problem =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Self::forbidden(resource, name, &problem);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                field: "metadata.namespace".into(),
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {namespace} is being terminated"),
            });
        }
        status
    }

    /// 404: the object does not exist.
    pub fn not_found(resource: ResourceRef<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", resource.group_resource()))
            .with_details(resource.details(name))
    }

    /// 404: nothing serves the path.
    pub fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with_details(Details::default())
    }

    /// 404: the path is served only with a flag.
    pub(crate) fn not_enabled(path: &str, flag: &str) -> Self {
        Self::new(404, "NotFound", format!("{path} is not served; start the server with {flag}"))
            .with_details(Details::default())
    }

    /// 405: the resource does not have the method.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with_details(Details::default())
    }

    /// 405: the resource does not support the action, such as `create`, at the moment.
    pub fn method_not_supported(resource: ResourceRef<'_>, action: &str) -> Self {
        let message =
            format!("{action} is not supported on resources of kind {:?}", resource.group_resource());
        Self::new(405, "MethodNotAllowed", message).with_details(resource.details(""))
    }

    /// 406: the client accepts none of the served media types.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::new(406, "NotAcceptable", message)
    }

    /// 406: the client accepts only media types that are unknown here.
    pub fn no_representation(available: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", available.join(", "));
        Self::new(406, "NotAcceptable", message).with_details(Details::default())
    }

    /// 409: an object of this name exists.
    pub fn already_exists(resource: ResourceRef<'_>, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.group_resource());
        Self::new(409, "AlreadyExists", message).with_details(resource.details(name))
    }

    /// 409: an object of this name exists and is being deleted.
    pub fn already_exists_deleting(resource: ResourceRef<'_>, name: &str) -> Self {
        let message =
            format!("object is being deleted: {} {name:?} already exists", resource.group_resource());
        Self { message, ..Self::already_exists(resource, name) }
    }

    /// 409: the operation conflicts with the state of the object, as `problem` explains.
    pub fn conflict(resource: ResourceRef<'_>, name: &str, problem: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {problem}", resource.group_resource());
        Self::new(409, "Conflict", message).with_details(resource.details(name))
    }

    /// 409: the object's resourceVersion is not the one that the client sent.
    pub fn modified(resource: ResourceRef<'_>, name: &str) -> Self {
        let problem =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, problem)
    }

    /// 409 of a server-side apply: other managers own fields that it changes.
    pub fn apply_conflict(message: impl Into<String>, causes: Vec<Cause>) -> Self {
        Self::new(409, "Conflict", message).with_details(Details { causes, ..Details::default() })
    }

    /// 410: the history no longer reaches back to the requested resourceVersion.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 410: a continue token has expired. `next` continues the list with the current state.
    pub fn expired_continue(next: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a \
                       new list without the continue parameter, or use the continue token in this response to retrieve \
                       the remainder of the results. Continuing with the provided token results in an inconsistent list \
                       - objects that were created, modified, or deleted between the time the first chunk was returned \
                       and now may show up in the list.";
        Self { continue_token: Some(next), ..Self::expired(message) }
    }

    /// 410: a watch or an exact list starts before the oldest resourceVersion of the history.
    pub fn too_old_resource_version(requested: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {requested} ({oldest})"))
    }

    /// 413: the request is too large. `problem` names the limit.
    pub fn request_entity_too_large(problem: &str) -> Self {
        let message = format!("Request entity too large: {problem}");
        Self::new(413, "RequestEntityTooLarge", message).with_details(Details::default())
    }

    /// 415: the server does not read the body's media type.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 415: the media type is none of the patches that the resource has.
    pub fn unsupported_patch() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").with_details(Details::default())
    }

    /// 422: the object is invalid, with every cause.
    pub fn invalid(resource: ResourceRef<'_>, name: &str, causes: Vec<Cause>) -> Self {
        let causes = Vec::from(causes.into_iter().collect::<Causes>());
        // kube-apiserver lists equal causes, but mentions each only once.
        let mut mentioned = HashSet::default();
        let mut problems = Vec::new();
        for cause in &causes {
            if mentioned.insert((&*cause.field, &*cause.message)) {
                problems.push(format!("{}: {}", cause.field, cause.message));
            }
        }
        let problems = match problems.as_slice() {
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} {name:?} is invalid: {problems}", resource.group_kind());
        let details = Details { kind: resource.kind.to_owned(), causes, ..resource.details(name) };
        Self::new(422, "Invalid", message).with_details(details)
    }

    /// 422 without a name: the result of a patch cannot be decoded. `value` is the result or the patch, as Go prints it.
    pub fn undecodable_patch(value: &str, problem: &str) -> Self {
        let cause = Cause {
            field: "patch".into(),
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: {}: {problem}", go::quoted(value)),
        };
        Self::invalid(ResourceRef { group: "", plural: "", kind: "" }, "", vec![cause])
    }

    /// 422 without causes: a patch cannot be applied.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message).with_details(Details::default())
    }

    /// 429: the client must retry later.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::new(429, "TooManyRequests", message)
            .with_details(Details { retry_after_seconds, ..Details::default() })
    }

    /// 500 without a reason: kube-apiserver's answer to a create request with a resourceVersion.
    pub fn resource_version_on_create() -> Self {
        Self::new(500, "", "resourceVersion should not be set on objects to be created")
    }

    /// 500 without a reason: kube-apiserver's answer to an error that it does not classify.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 500: an object is too large to be stored. `bytes` is its size, if it is known.
    pub(crate) fn too_large_for_storage(bytes: Option<usize>) -> Self {
        Self::unclassified(etcd_limits::too_large(bytes))
    }

    /// 500: an internal error.
    pub fn internal(message: impl fmt::Display) -> Self {
        let cause = Cause { field: String::new(), reason: String::new(), message: message.to_string() };
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
            .with_details(Details { causes: vec![cause], ..Details::default() })
    }

    /// 504: the requested resourceVersion is newer than the current one.
    pub fn too_large_resource_version(requested: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let cause = Cause {
            field: String::new(),
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
        };
        Self::new(504, "Timeout", message).with_details(Details {
            causes: vec![cause],
            retry_after_seconds: 1,
            ..Details::default()
        })
    }

    /// A failure with any code and its usual reason, for injected faults.
    pub fn with_code(code: u16, message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::new(code, default_reason(code), message)
            .with_details(Details { retry_after_seconds, ..Details::default() })
    }

    /// The refusal of an admission webhook, with the code, reason and details that it chose.
    pub fn denied(code: u16, reason: &str, message: String, details: Option<Details>) -> Self {
        Self {
            custom_reason: (!reason.is_empty()).then(|| reason.into()),
            details: details.map(Box::new),
            ..Self::new(code, "", message)
        }
    }
}

/// Returns the reason that `k8s.io/apimachinery/pkg/api/errors.NewGenericServerResponse` gives a code.
fn default_reason(code: u16) -> &'static str {
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

    const FOOS: ResourceRef<'static> = ResourceRef { group: "example.com", plural: "foos", kind: "Foo" };
    const PODS: ResourceRef<'static> = ResourceRef { group: "", plural: "pods", kind: "Pod" };

    #[test]
    fn messages_match_apimachinery() {
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
    fn too_large_resource_version_asks_for_a_retry() {
        let status = Status::too_large_resource_version(9, 5);
        assert_eq!(status.retry_after(), Some(1));
        assert_eq!(status.to_value()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    }
}
