//! The outcome of a write, from the API server's response.

use std::borrow::Cow;

use pilothouse_model::{Object, ObjectError, ObjectKey, ParseOptions, ResourceType, Transform};
use pilothouse_plugin::ApiError;
use serde::Deserialize;

/// What a write did, as the plugin's own reads must show it.
#[derive(Clone, Debug)]
pub(crate) enum WriteOutcome {
    /// The server's new state of the object.
    Object(ResourceType, Object),
    /// The write removed the last finalizer of an object that was being deleted. This is its last state.
    Finalized(ResourceType, Object),
    /// The object was deleted. The UID is "" if the server did not send it.
    Deleted(ResourceType, ObjectKey, String),
    /// The response to a write that stores no object: a review, or a subresource such as `eviction`. No read
    /// will show it.
    Response(ResourceType, Object),
}

impl WriteOutcome {
    pub(crate) fn resource(&self) -> &ResourceType {
        match self {
            Self::Object(resource, _)
            | Self::Finalized(resource, _)
            | Self::Deleted(resource, ..)
            | Self::Response(resource, _) => resource,
        }
    }

    /// Returns the resource version of the result; "" for a deletion.
    pub(crate) fn resource_version(&self) -> &str {
        match self {
            Self::Object(_, object) | Self::Finalized(_, object) | Self::Response(_, object) => {
                object.resource_version()
            }
            Self::Deleted(..) => "",
        }
    }

    pub(crate) fn key(&self) -> &ObjectKey {
        match self {
            Self::Object(_, object) | Self::Finalized(_, object) | Self::Response(_, object) => object.key(),
            Self::Deleted(_, key, _) => key,
        }
    }
}

/// Parses the object in a response.
pub(crate) fn parse_object(body: &[u8], resource: &ResourceType) -> Result<Object, ApiError> {
    let (api_version, transform) = (resource.api_version(), Transform::standard());
    let options = ParseOptions::default().with_type(&api_version, &resource.kind).with_transform(&transform);
    Object::parse(body, &options).map_err(|error| invalid_response(resource, &error))
}

/// Parses the response to a creation. If that was one of a subresource, or the response has no name, no
/// object was stored.
pub(crate) fn parse_creation(
    body: &[u8],
    resource: ResourceType,
    subresource: bool,
) -> Result<WriteOutcome, ApiError> {
    let (api_version, transform) = (resource.api_version(), Transform::standard());
    let options = ParseOptions::default().with_type(&api_version, &resource.kind).with_transform(&transform);
    if !subresource && let Ok(object) = Object::parse(body, &options) {
        return Ok(from_object(object, resource));
    }
    let response =
        Object::parse_response(body, &options).map_err(|error| invalid_response(&resource, &error))?;
    Ok(WriteOutcome::Response(resource, response))
}

/// Parses the response to an update or a patch.
pub(crate) fn parse_update(body: &[u8], resource: ResourceType) -> Result<WriteOutcome, ApiError> {
    parse_object(body, &resource).map(|object| from_object(object, resource))
}

fn from_object(object: Object, resource: ResourceType) -> WriteOutcome {
    // An object that is being deleted is removed when its last finalizer is.
    if object.deletion_timestamp().is_some() && !is_deletion_delayed(&object) {
        return WriteOutcome::Finalized(resource, object);
    }
    WriteOutcome::Object(resource, object)
}

fn invalid_response(resource: &ResourceType, error: &ObjectError) -> ApiError {
    ApiError::Unavailable(format!("the API server's response about {resource} cannot be read: {error}"))
}

/// What is read of a `Status`. The other members of a response, which may be large, are skipped.
#[derive(Default, Deserialize)]
struct DeletionStatus<'a> {
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    details: Option<StatusDetails<'a>>,
}

#[derive(Default, Deserialize)]
struct StatusDetails<'a> {
    #[serde(borrow)]
    uid: Option<Cow<'a, str>>,
}

/// Parses the response to a deletion. That is a `Status`, or the object: the last state of an object that is
/// gone, or the state of one whose deletion is pending.
pub(crate) fn parse_deletion(response: &[u8], resource: ResourceType, key: &ObjectKey) -> WriteOutcome {
    let status = serde_json::from_slice::<DeletionStatus<'_>>(response).unwrap_or_default();
    if status.kind.as_deref() == Some("Status") {
        let uid = status.details.and_then(|details| details.uid).unwrap_or_default();
        return WriteOutcome::Deleted(resource, key.clone(), uid.into_owned());
    }
    match parse_object(response, &resource) {
        Ok(object) if is_deletion_delayed(&object) => WriteOutcome::Object(resource, object),
        Ok(object) => WriteOutcome::Deleted(resource, key.clone(), object.uid().to_owned()),
        Err(_) => WriteOutcome::Deleted(resource, key.clone(), String::new()),
    }
}

/// Whether something delays the deletion of an object: finalizers, a grace period (Pods), or a Namespace's
/// own finalizers. Follows kube-apiserver's `ShouldDeleteDuringUpdate`.
fn is_deletion_delayed(object: &Object) -> bool {
    let is_set = |pointer: &str, nothing: &str| object.field(pointer).is_some_and(|text| text != nothing);
    !object.finalizers().is_empty()
        || is_set("/metadata/deletionGracePeriodSeconds", "0")
        || (object.kind() == "Namespace" && object.api_version() == "v1" && is_set("/spec/finalizers", "[]"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(kind: &str, plural: &str) -> ResourceType {
        ResourceType {
            group: String::new(),
            version: "v1".into(),
            kind: kind.into(),
            plural: plural.into(),
            namespaced: kind != "Namespace",
        }
    }

    fn pod(members: &serde_json::Value) -> Vec<u8> {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "deletionTimestamp": "2026-01-01T00:00:00Z"
        }});
        let metadata = pod["metadata"].as_object_mut().expect("an object");
        metadata.extend(members.as_object().expect("an object").clone());
        pod.to_string().into_bytes()
    }

    /// The outcomes of a deletion, and of another write to an object that is being deleted, for the same
    /// response.
    fn pod_outcomes(members: &serde_json::Value) -> (WriteOutcome, WriteOutcome) {
        let key = ObjectKey::new("n", "p");
        let response = pod(members);
        let write = parse_update(&response, resource("Pod", "pods")).expect("readable");
        (parse_deletion(&response, resource("Pod", "pods"), &key), write)
    }

    #[test]
    fn a_pod_in_its_grace_period_is_still_there() {
        let (deletion, write) = pod_outcomes(&json!({"deletionGracePeriodSeconds": 30}));
        assert!(matches!(deletion, WriteOutcome::Object(..)), "{deletion:?}");
        assert!(matches!(write, WriteOutcome::Object(..)), "{write:?}");
    }

    #[test]
    fn an_object_with_finalizers_is_still_there() {
        let members = json!({"deletionGracePeriodSeconds": 0, "finalizers": ["example.dev/f"]});
        let (deletion, write) = pod_outcomes(&members);
        assert!(matches!(deletion, WriteOutcome::Object(..)), "{deletion:?}");
        assert!(matches!(write, WriteOutcome::Object(..)), "{write:?}");
    }

    #[test]
    fn an_object_whose_deletion_is_not_delayed_is_gone() {
        for members in [json!({}), json!({"deletionGracePeriodSeconds": 0}), json!({"finalizers": []})] {
            let (deletion, write) = pod_outcomes(&members);
            assert!(matches!(&deletion, WriteOutcome::Deleted(_, _, uid) if uid == "u"), "{deletion:?}");
            assert!(matches!(write, WriteOutcome::Finalized(..)), "{write:?}");
        }
    }

    #[test]
    fn a_namespace_stays_until_its_own_finalizers_are_gone() {
        let namespace = |finalizers: &[&str]| {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": finalizers},
                "metadata": {"name": "n", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
            parse_deletion(
                namespace.to_string().as_bytes(),
                resource("Namespace", "namespaces"),
                &ObjectKey::cluster("n"),
            )
        };
        assert!(matches!(namespace(&["kubernetes"]), WriteOutcome::Object(..)));
        assert!(matches!(namespace(&[]), WriteOutcome::Deleted(..)));
    }

    #[test]
    fn the_uid_of_a_deleted_object_is_read_from_the_status() {
        let status = json!({"kind": "Status", "status": "Success", "details": {"name": "p", "uid": "u"}});
        let response =
            parse_deletion(status.to_string().as_bytes(), resource("Pod", "pods"), &ObjectKey::new("n", "p"));
        assert!(matches!(response, WriteOutcome::Deleted(_, _, uid) if uid == "u"));
    }
}
