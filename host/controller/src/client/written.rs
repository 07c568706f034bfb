//! The outcome of a write, from the API server's response.

use pilothouse_model::{Object, ObjectError, ObjectKey, ParseOptions, ResourceType, Transform};
use pilothouse_plugin::ApiError;

/// What a write did, as the plugin's own reads must show it.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    /// The server's new state of the object.
    Object(ResourceType, Object),
    /// The write removed the last finalizer of an object that was being deleted. This is its last state.
    Ended(ResourceType, Object),
    /// The object was deleted. The UID is "" if the server did not send it.
    Deleted(ResourceType, ObjectKey, String),
    /// The response to a write that stores no object: a review, or a subresource such as `eviction`. No read
    /// will show it.
    Answer(ResourceType, Object),
}

impl Written {
    pub(crate) fn resource(&self) -> &ResourceType {
        match self {
            Self::Object(resource, _)
            | Self::Ended(resource, _)
            | Self::Deleted(resource, ..)
            | Self::Answer(resource, _) => resource,
        }
    }

    pub(crate) fn key(&self) -> &ObjectKey {
        match self {
            Self::Object(_, object) | Self::Ended(_, object) | Self::Answer(_, object) => object.key(),
            Self::Deleted(_, key, _) => key,
        }
    }
}

/// Parses the object in a response.
pub(crate) fn object(body: &[u8], resource: &ResourceType) -> Result<Object, ApiError> {
    let api_version = resource.api_version();
    let options =
        ParseOptions { api_version: &api_version, kind: &resource.kind, transform: &Transform::standard() };
    Object::parse(body, &options).map_err(|error| unreadable(resource, &error))
}

/// Parses the response to a creation. If that was one of a subresource, or the response has no name, no
/// object was stored.
pub(crate) fn created(body: &[u8], resource: ResourceType, subresource: bool) -> Result<Written, ApiError> {
    let api_version = resource.api_version();
    let options =
        ParseOptions { api_version: &api_version, kind: &resource.kind, transform: &Transform::standard() };
    if !subresource && let Ok(object) = Object::parse(body, &options) {
        return Ok(of_object(object, resource));
    }
    let answer = Object::parse_answer(body, &options).map_err(|error| unreadable(&resource, &error))?;
    Ok(Written::Answer(resource, answer))
}

/// Parses the response to an update or a patch.
pub(crate) fn written(body: &[u8], resource: ResourceType) -> Result<Written, ApiError> {
    object(body, &resource).map(|object| of_object(object, resource))
}

fn of_object(object: Object, resource: ResourceType) -> Written {
    // An object that is being deleted is removed when its last finalizer is.
    if object.deletion_timestamp().is_some() && !is_held(&object) {
        return Written::Ended(resource, object);
    }
    Written::Object(resource, object)
}

fn unreadable(resource: &ResourceType, error: &ObjectError) -> ApiError {
    ApiError::Unavailable(format!("the API server's answer about {resource} cannot be read: {error}"))
}

/// Parses the response to a deletion. That is a `Status`, or the object: the last state of an object that is
/// gone, or the state of one whose deletion is pending.
pub(crate) fn deleted(answer: &[u8], resource: ResourceType, key: &ObjectKey) -> Written {
    let status = serde_json::from_slice::<serde_json::Value>(answer).unwrap_or_default();
    if status["kind"] == "Status" {
        let uid = status.pointer("/details/uid").and_then(|uid| uid.as_str()).unwrap_or_default();
        return Written::Deleted(resource, key.clone(), uid.to_owned());
    }
    match object(answer, &resource) {
        Ok(object) if is_held(&object) => Written::Object(resource, object),
        Ok(object) => Written::Deleted(resource, key.clone(), object.uid().to_owned()),
        Err(_) => Written::Deleted(resource, key.clone(), String::new()),
    }
}

/// Whether something delays the deletion of an object: finalizers, a grace period (Pods), or a Namespace's
/// own finalizers. Follows kube-apiserver's `ShouldDeleteDuringUpdate`.
fn is_held(object: &Object) -> bool {
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
    fn of_a_pod(members: &serde_json::Value) -> (Written, Written) {
        let key = ObjectKey::new("n", "p");
        let answer = pod(members);
        let write = written(&answer, resource("Pod", "pods")).expect("readable");
        (deleted(&answer, resource("Pod", "pods"), &key), write)
    }

    #[test]
    fn a_pod_in_its_grace_period_is_still_there() {
        let (deletion, write) = of_a_pod(&json!({"deletionGracePeriodSeconds": 30}));
        assert!(matches!(deletion, Written::Object(..)), "{deletion:?}");
        assert!(matches!(write, Written::Object(..)), "{write:?}");
    }

    #[test]
    fn an_object_with_finalizers_is_still_there() {
        let members = json!({"deletionGracePeriodSeconds": 0, "finalizers": ["example.dev/f"]});
        let (deletion, write) = of_a_pod(&members);
        assert!(matches!(deletion, Written::Object(..)), "{deletion:?}");
        assert!(matches!(write, Written::Object(..)), "{write:?}");
    }

    #[test]
    fn an_object_that_nothing_holds_is_gone() {
        for members in [json!({}), json!({"deletionGracePeriodSeconds": 0}), json!({"finalizers": []})] {
            let (deletion, write) = of_a_pod(&members);
            assert!(matches!(&deletion, Written::Deleted(_, _, uid) if uid == "u"), "{deletion:?}");
            assert!(matches!(write, Written::Ended(..)), "{write:?}");
        }
    }

    #[test]
    fn a_namespace_stays_until_its_own_finalizers_are_gone() {
        let namespace = |finalizers: &[&str]| {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": finalizers},
                "metadata": {"name": "n", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
            deleted(
                namespace.to_string().as_bytes(),
                resource("Namespace", "namespaces"),
                &ObjectKey::cluster("n"),
            )
        };
        assert!(matches!(namespace(&["kubernetes"]), Written::Object(..)));
        assert!(matches!(namespace(&[]), Written::Deleted(..)));
    }

    #[test]
    fn a_status_tells_the_uid_of_what_was_deleted() {
        let status = json!({"kind": "Status", "status": "Success", "details": {"name": "p", "uid": "u"}});
        let answer =
            deleted(status.to_string().as_bytes(), resource("Pod", "pods"), &ObjectKey::new("n", "p"));
        assert!(matches!(answer, Written::Deleted(_, _, uid) if uid == "u"));
    }
}
