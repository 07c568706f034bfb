//! A plugin's `client`: requests in its name, held against its grants.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use pilothouse_model::{Object, ObjectKey, ParseOptions, ResourceType, Transform};
use pilothouse_plugin::{
    ApiError, Cause, DeleteOptions, ListOptions, LivePage, ObjectType, Patch, PatchType, Propagation, Rule,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{APPLY_PATCH, Discovery, DiscoveryError, Payload, Server, query};
use crate::fence::Fence;
use crate::grants::{Access, Grants};

/// The live client of one version of one plugin.
pub(crate) struct LiveClient {
    server: Server,
    discovery: Discovery,
    grants: Grants,
    fence: Fence,
    field_manager: Arc<str>,
}

/// What a write did, for the plugin's own reads.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    /// The server's new state of the object.
    Object(ResourceType, Object),
    /// The write took the last finalizer of an object that was being deleted: its last state, which nobody will see again.
    Ended(ResourceType, Object),
    /// The object was deleted: its UID where the server told it.
    Deleted(ResourceType, ObjectKey, String),
}

struct Manifest {
    resource: ResourceType,
    key: ObjectKey,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestHead {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ManifestMetadata,
}

#[derive(Default, Deserialize)]
struct ManifestMetadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    continue_token: String,
}

impl LiveClient {
    pub(crate) fn new(
        server: Server,
        discovery: Discovery,
        grants: Grants,
        fence: Fence,
        field_manager: Arc<str>,
    ) -> Self {
        Self { server, discovery, grants, fence, field_manager }
    }

    pub(crate) async fn get(
        &self,
        target: &ObjectType,
        key: &ObjectKey,
        subresource: &str,
    ) -> Result<Object, ApiError> {
        let resource = self.resolve(target).await?;
        self.allow(&resource, subresource, "get", key.namespace())?;
        let path = object_path(&resource, key, subresource)?;
        let body = self.send(Method::GET, &path, None).await?;
        object(&body, &resource)
    }

    pub(crate) async fn list(
        &self,
        target: &ObjectType,
        options: &ListOptions,
    ) -> Result<LivePage, ApiError> {
        let resource = self.resolve(target).await?;
        self.allow(&resource, "", "list", &options.namespace)?;
        check_segment("namespace", &options.namespace)?;
        let limit = options.limit.to_string();
        let path = resource.url_path(Some(&options.namespace))
            + &query(&[
                ("labelSelector", &options.label_selector),
                ("fieldSelector", &options.field_selector),
                ("limit", &limit),
                ("continue", &options.cursor),
            ]);
        let body = self.send(Method::GET, &path, None).await?;
        let unreadable = |error: &dyn std::fmt::Display| {
            ApiError::Unavailable(format!("the API server's list of {resource} cannot be read: {error}"))
        };
        let list: List<'_> = serde_json::from_slice(&body).map_err(|error| unreadable(&error))?;
        let api_version = resource.api_version();
        let options = ParseOptions {
            api_version: &api_version,
            kind: &resource.kind,
            transform: &Transform::standard(),
        };
        let items = list
            .items
            .iter()
            .map(|item| Object::parse(item.get().as_bytes(), &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unreadable(&error))?;
        Ok(LivePage { items, next: list.metadata.continue_token })
    }

    pub(crate) async fn create(&self, manifest: String, subresource: &str) -> Result<Written, ApiError> {
        let Manifest { resource, key } = self.manifest(&manifest).await?;
        self.allow(&resource, subresource, "create", key.namespace())?;
        let path = if subresource.is_empty() {
            check_segment("namespace", key.namespace())?;
            resource.url_path(Some(key.namespace()))
        } else {
            object_path(&resource, &key, subresource)?
        };
        let path = path + &query(&[("fieldManager", &self.field_manager)]);
        let body = self.send(Method::POST, &path, Some(Payload::json(manifest))).await?;
        written(&body, resource)
    }

    pub(crate) async fn update(&self, manifest: String, subresource: &str) -> Result<Written, ApiError> {
        let Manifest { resource, key } = self.manifest(&manifest).await?;
        self.allow(&resource, subresource, "update", key.namespace())?;
        let path =
            object_path(&resource, &key, subresource)? + &query(&[("fieldManager", &self.field_manager)]);
        let body = self.send(Method::PUT, &path, Some(Payload::json(manifest))).await?;
        written(&body, resource)
    }

    pub(crate) async fn patch(
        &self,
        target: &ObjectType,
        key: &ObjectKey,
        patch: Patch,
        subresource: &str,
    ) -> Result<Written, ApiError> {
        let resource = self.resolve(target).await?;
        self.allow(&resource, subresource, "patch", key.namespace())?;
        let (content_type, manager, force) = match &patch.patch_type {
            PatchType::Json => ("application/json-patch+json", None, ""),
            PatchType::Merge => ("application/merge-patch+json", None, ""),
            PatchType::Strategic => ("application/strategic-merge-patch+json", None, ""),
            PatchType::Apply { field_manager, force } => {
                (APPLY_PATCH, field_manager.as_deref(), if *force { "true" } else { "" })
            }
        };
        let manager = manager.unwrap_or(&self.field_manager);
        let path = object_path(&resource, key, subresource)?
            + &query(&[("fieldManager", manager), ("force", force)]);
        let payload = Payload { content_type, body: patch.body.into() };
        let body = self.send(Method::PATCH, &path, Some(payload)).await?;
        written(&body, resource)
    }

    pub(crate) async fn delete(
        &self,
        target: &ObjectType,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<Written, ApiError> {
        let resource = self.resolve(target).await?;
        self.allow(&resource, "", "delete", key.namespace())?;
        let path = object_path(&resource, key, "")?;
        let propagation = match options.propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        };
        let mut preconditions = serde_json::Map::new();
        if let Some(uid) = &options.uid {
            preconditions.insert("uid".into(), uid.as_str().into());
        }
        if let Some(version) = &options.resource_version {
            preconditions.insert("resourceVersion".into(), version.as_str().into());
        }
        let mut body = serde_json::json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation
        });
        if !preconditions.is_empty() {
            body["preconditions"] = preconditions.into();
        }
        let answer = self.send(Method::DELETE, &path, Some(Payload::json(body.to_string()))).await?;
        Ok(deleted(&answer, resource, key))
    }

    async fn resolve(&self, target: &ObjectType) -> Result<ResourceType, ApiError> {
        self.discovery.resolve(&target.api_version, &target.kind).await.map_err(|error| match error {
            DiscoveryError::NotServed { .. } => ApiError::NotFound(error.to_string()),
            DiscoveryError::Server { source, .. } => source.into_api_error(),
            DiscoveryError::Answer { .. } => ApiError::Unavailable(error.to_string()),
        })
    }

    async fn manifest(&self, text: &str) -> Result<Manifest, ApiError> {
        let head: ManifestHead =
            serde_json::from_str(text).map_err(|error| invalid("", &error.to_string()))?;
        for (field, value) in [("apiVersion", &head.api_version), ("kind", &head.kind)] {
            if value.is_empty() {
                return Err(invalid(field, "the manifest must say it"));
            }
        }
        let target = ObjectType { api_version: head.api_version, kind: head.kind };
        let resource = self.resolve(&target).await?;
        let key = ObjectKey::new(&head.metadata.namespace, &head.metadata.name);
        Ok(Manifest { resource, key })
    }

    fn allow(
        &self,
        resource: &ResourceType,
        subresource: &str,
        verb: &str,
        namespace: &str,
    ) -> Result<(), ApiError> {
        let name = match subresource {
            "" => resource.plural.clone(),
            subresource => format!("{}/{subresource}", resource.plural),
        };
        let access = Access { group: &resource.group, resource: &name, verb, namespace };
        self.grants.check(access).map_err(|missing| {
            ApiError::Denied(Rule {
                api_groups: missing.api_groups,
                resources: missing.resources,
                verbs: missing.verbs,
                namespaces: missing.namespaces,
            })
        })
    }

    async fn send(&self, method: Method, path: &str, payload: Option<Payload>) -> Result<Bytes, ApiError> {
        // The last thing before sending: a version that was swapped out sends nothing more (invariant 5).
        if method != Method::GET && self.fence.is_down() {
            return Err(ApiError::Unavailable("this version of the plugin has been replaced".into()));
        }
        self.server.request(method, path, payload).await.map_err(super::ServerError::into_api_error)
    }
}

fn object_path(resource: &ResourceType, key: &ObjectKey, subresource: &str) -> Result<String, ApiError> {
    if key.name().is_empty() {
        return Err(invalid("metadata.name", "it is empty"));
    }
    if resource.namespaced && key.namespace().is_empty() {
        return Err(invalid(
            "metadata.namespace",
            &format!("it is empty, and {resource} live in namespaces"),
        ));
    }
    check_segment("metadata.namespace", key.namespace())?;
    check_segment("metadata.name", key.name())?;
    check_segment("subresource", subresource)?;
    let mut path = resource.object_path(key);
    if !subresource.is_empty() {
        path.push('/');
        path.push_str(subresource);
    }
    Ok(path)
}

/// Names go into the path as they are; one that would change the path's meaning is refused, so that a grant on one
/// resource cannot reach another.
fn check_segment(field: &str, text: &str) -> Result<(), ApiError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':' | b'~');
    if text.bytes().all(plain) && text != "." && text != ".." {
        return Ok(());
    }
    Err(invalid(field, &format!("{text:?} has characters that no name of an object has")))
}

fn invalid(field: &str, message: &str) -> ApiError {
    ApiError::Invalid(vec![Cause {
        field: field.to_owned(),
        reason: "FieldValueInvalid".to_owned(),
        message: message.to_owned(),
    }])
}

fn object(body: &[u8], resource: &ResourceType) -> Result<Object, ApiError> {
    let api_version = resource.api_version();
    let options =
        ParseOptions { api_version: &api_version, kind: &resource.kind, transform: &Transform::standard() };
    Object::parse(body, &options).map_err(|error| {
        ApiError::Unavailable(format!("the API server's answer about {resource} cannot be read: {error}"))
    })
}

fn written(body: &[u8], resource: ResourceType) -> Result<Written, ApiError> {
    let object = object(body, &resource)?;
    // Removing the last finalizer of an object that is being deleted ends it.
    if object.deletion_timestamp().is_some() && !is_held(&object) {
        return Ok(Written::Ended(resource, object));
    }
    Ok(Written::Object(resource, object))
}

/// What a deletion did. The server answers with a `Status`, or with the object: with its last state where nothing holds
/// it, and otherwise with the state in which it stays there for a while.
fn deleted(answer: &[u8], resource: ResourceType, key: &ObjectKey) -> Written {
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

/// Whether something keeps an object that is being deleted: its finalizers, a grace period (Pods), or a Namespace's own
/// finalizers. The rule of the API server's `ShouldDeleteDuringUpdate`.
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

    /// The answer to a deletion, and to another write of an object that is being deleted.
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
