use http::Method;
use serde_json::{Value, json};

use super::ServiceAccount;
use crate::client::{Payload, Server, ServerError};

/// One verb on one resource, as the API server is asked about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    /// The API group, "" for core.
    pub(crate) group: &'a str,
    /// The plural name, with `/status` or another subresource where there is one.
    pub(crate) resource: &'a str,
    pub(crate) verb: &'a str,
    /// "" for all namespaces and for cluster scope.
    pub(crate) namespace: &'a str,
    /// One object; "" for any.
    pub(crate) name: &'a str,
}

/// Whether the API server allows it: to the service account, or to the host itself where there is none.
///
/// # Errors
/// The server could not be asked; nothing is known then.
pub(crate) async fn may(
    server: &Server,
    account: Option<&ServiceAccount>,
    asked: Attributes<'_>,
) -> Result<bool, ServerError> {
    let (resource, subresource) = asked.resource.split_once('/').unwrap_or((asked.resource, ""));
    let attributes = json!({
        "group": asked.group, "resource": resource, "subresource": subresource, "verb": asked.verb,
        "namespace": asked.namespace, "name": asked.name,
    });
    let (kind, plural, spec) = match account {
        None => {
            let spec = json!({"resourceAttributes": attributes});
            ("SelfSubjectAccessReview", "selfsubjectaccessreviews", spec)
        }
        // The server adds no groups here as it does to a request: without them, what is bound to a group is not found.
        Some(account) => {
            let spec =
                json!({"user": account.user(), "groups": account.groups(), "resourceAttributes": attributes});
            ("SubjectAccessReview", "subjectaccessreviews", spec)
        }
    };
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
    let path = format!("/apis/authorization.k8s.io/v1/{plural}");
    let answer = server.request(Method::POST, &path, Some(Payload::json(review.to_string()))).await?;
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    Ok(answer.pointer("/status/allowed").and_then(Value::as_bool).unwrap_or_default())
}
