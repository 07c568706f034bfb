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

use super::written::{Written, object};
use super::{APPLY_PATCH, Discovery, DiscoveryError, Payload, Server, query};
use crate::grants::{Access, Grants};
use crate::queue::Item;
use crate::writer::{Write, Writer};

/// The live client of one version of one plugin.
pub(crate) struct LiveClient {
    server: Server,
    discovery: Discovery,
    grants: Grants,
    writer: Writer,
    field_manager: Arc<str>,
    /// Bytes of an answer to a read. Those to writes have what was written, which has a limit of its own.
    largest_answer: usize,
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
    /// Servers in Go write an empty list as null.
    #[serde(borrow, deserialize_with = "null_is_empty")]
    items: Vec<&'a RawValue>,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<&'de RawValue>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
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
        writer: Writer,
        field_manager: Arc<str>,
    ) -> Self {
        Self { server, discovery, grants, writer, field_manager, largest_answer: usize::MAX }
    }

    /// The same, reading answers of at most so many bytes.
    pub(crate) fn with_answers_up_to(mut self, bytes: usize) -> Self {
        self.largest_answer = bytes;
        self
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
        let body = self.read(&path).await?;
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
        let body = self.read(&path).await?;
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

    /// Creates an object, for the key that is being reconciled; so do the other writes.
    pub(crate) async fn create(
        &self,
        item: Option<&Item>,
        manifest: String,
        subresource: &str,
    ) -> Result<Written, ApiError> {
        let Manifest { resource, key } = self.manifest(&manifest).await?;
        self.allow(&resource, subresource, "create", key.namespace())?;
        let path = if subresource.is_empty() {
            check_segment("namespace", key.namespace())?;
            resource.url_path(Some(key.namespace()))
        } else {
            object_path(&resource, &key, subresource)?
        };
        let path = path + &query(&[("fieldManager", &self.field_manager)]);
        let payload = Payload::json(manifest);
        self.writer.send(item, Write { method: Method::POST, path, payload, resource, key }).await
    }

    pub(crate) async fn update(
        &self,
        item: Option<&Item>,
        manifest: String,
        subresource: &str,
    ) -> Result<Written, ApiError> {
        let Manifest { resource, key } = self.manifest(&manifest).await?;
        self.allow(&resource, subresource, "update", key.namespace())?;
        let path =
            object_path(&resource, &key, subresource)? + &query(&[("fieldManager", &self.field_manager)]);
        let payload = Payload::json(manifest);
        self.writer.send(item, Write { method: Method::PUT, path, payload, resource, key }).await
    }

    pub(crate) async fn patch(
        &self,
        item: Option<&Item>,
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
        let write = Write { method: Method::PATCH, path, payload, resource, key: key.clone() };
        self.writer.send(item, write).await
    }

    pub(crate) async fn delete(
        &self,
        item: Option<&Item>,
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
        let payload = Payload::json(body.to_string());
        let write = Write { method: Method::DELETE, path, payload, resource, key: key.clone() };
        self.writer.send(item, write).await
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
        check_scope(&resource, key.namespace())?;
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

    async fn read(&self, path: &str) -> Result<Bytes, ApiError> {
        let answer = self.server.request_within(Method::GET, path, None, self.largest_answer).await;
        answer.map_err(super::ServerError::into_api_error)
    }
}

fn object_path(resource: &ResourceType, key: &ObjectKey, subresource: &str) -> Result<String, ApiError> {
    if key.name().is_empty() {
        return Err(invalid("metadata.name", "it is empty"));
    }
    check_scope(resource, key.namespace())?;
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

/// There is no default namespace: a plugin's pod is not where its objects are. Without one the path would be that of all
/// namespaces.
fn check_scope(resource: &ResourceType, namespace: &str) -> Result<(), ApiError> {
    if resource.namespaced && namespace.is_empty() {
        let message = format!("it is empty, and {resource} live in namespaces: say which");
        return Err(invalid("metadata.namespace", &message));
    }
    Ok(())
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

#[cfg(test)]
mod tests;
