//! One access review: a question to the API server about one verb on one resource.

use http::Method;
use serde_json::{Value, json};

use super::ServiceAccount;
use crate::client::{ApiClient, Payload, RequestError};

/// The attributes of one request, as in a SubjectAccessReview's `resourceAttributes`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceAttributes<'a> {
    /// The API group; "" for core.
    pub(crate) group: &'a str,
    /// The plural name, with `/status` or another subresource if there is one.
    pub(crate) resource: &'a str,
    pub(crate) verb: &'a str,
    /// "" for all namespaces, and for cluster-scoped resources.
    pub(crate) namespace: &'a str,
    /// The name of one object; "" for any.
    pub(crate) name: &'a str,
}

/// Asks the API server whether it allows a request: to the service account, or to the host itself without
/// one.
///
/// # Errors
/// Errors if the server could not be asked; nothing is known then.
pub(crate) async fn is_allowed(
    server: &ApiClient,
    account: Option<&ServiceAccount>,
    attributes: ResourceAttributes<'_>,
) -> Result<bool, RequestError> {
    let (resource, subresource) = attributes.resource.split_once('/').unwrap_or((attributes.resource, ""));
    let resource_attributes = json!({
        "group": attributes.group, "resource": resource, "subresource": subresource, "verb": attributes.verb,
        "namespace": attributes.namespace, "name": attributes.name,
    });
    let (kind, plural, spec) = match account {
        None => {
            let spec = json!({"resourceAttributes": resource_attributes});
            ("SelfSubjectAccessReview", "selfsubjectaccessreviews", spec)
        }
        // Unlike for a request, the server adds no groups here: without them, bindings to a group would not
        // count.
        Some(account) => {
            let spec = json!({"user": account.user(), "groups": account.groups(), "resourceAttributes": resource_attributes});
            ("SubjectAccessReview", "subjectaccessreviews", spec)
        }
    };
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
    let path = format!("/apis/authorization.k8s.io/v1/{plural}");
    let response = server.request(Method::POST, &path, Some(Payload::json(review.to_string()))).await?;
    let response: Value = serde_json::from_slice(&response).unwrap_or_default();
    Ok(response.pointer("/status/allowed").and_then(Value::as_bool).unwrap_or_default())
}
