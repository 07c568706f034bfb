//! A plugin's `client` import: requests on its behalf, checked against its grants.

mod creation;
mod target;

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use parking_lot::Mutex;
use pilothouse_model::{Object, ObjectKey, ParseOptions, ResourceType, Transform};
use pilothouse_plugin::{
    ApiError, DeleteOptions, HostMemoryCharge, ListOptions, LivePage, ObjectType, Patch, PatchType,
    Propagation,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use creation::put_may_create;
use target::{ManifestTarget, TargetRequest, check_manager, object_path};

use super::write_outcome::{WriteOutcome, parse_object};
use super::{APPLY_PATCH, ApiClient, Discovery, Payload, ReconcileContext, query};
use crate::client::write_grants::WriteGrants;
use crate::client::writer::{Write, Writer};
use crate::config::descriptor::Rule;

/// The live client of one version of one plugin.
pub(crate) struct LiveClient {
    server: ApiClient,
    discovery: Discovery,
    grants: WriteGrants,
    writer: Writer,
    field_manager: Arc<str>,
    /// Limit in bytes for the responses to reads. Responses to writes have their own limit.
    max_response_size: usize,
    /// The missing rules that were logged.
    logged_denials: Mutex<Vec<Rule>>,
}

/// How many missing rules are logged for each version of a plugin. Its errors name all of them.
const MAX_LOGGED_DENIALS: usize = 16;

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMetadata,
    /// Servers written in Go send an empty list as null.
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
        server: ApiClient,
        discovery: Discovery,
        grants: WriteGrants,
        writer: Writer,
        field_manager: Arc<str>,
    ) -> Self {
        Self {
            server,
            discovery,
            grants,
            writer,
            field_manager,
            max_response_size: usize::MAX,
            logged_denials: Mutex::default(),
        }
    }

    /// Limits the responses to reads to this many bytes.
    pub(crate) fn with_max_response_size(mut self, bytes: usize) -> Self {
        self.max_response_size = bytes;
        self
    }

    pub(crate) async fn get(
        &self,
        caller: ReconcileContext<'_>,
        target: &ObjectType,
        key: &ObjectKey,
        subresource: &str,
    ) -> Result<Object, ApiError> {
        let request = TargetRequest { verb: "get", namespace: key.namespace(), subresource };
        let resource = self.resolve(target, request).await?;
        let path = object_path(&resource, key, subresource)?;
        let body = self.read(caller, &resource, &path).await?;
        parse_object(&body, &resource)
    }

    pub(crate) async fn list(
        &self,
        caller: ReconcileContext<'_>,
        target: &ObjectType,
        options: &ListOptions,
    ) -> Result<LivePage, ApiError> {
        let request = TargetRequest { verb: "list", namespace: &options.namespace, subresource: "" };
        let resource = self.resolve(target, request).await?;
        let limit = options.limit.to_string();
        let path = resource.url_path(Some(&options.namespace))
            + &query(&[
                ("labelSelector", &options.label_selector),
                ("fieldSelector", &options.field_selector),
                ("limit", &limit),
                ("continue", &options.cursor),
            ]);
        let body = self.read(caller, &resource, &path).await?;
        let unreadable = |error: &dyn std::fmt::Display| {
            ApiError::Unavailable(format!("the API server's list of {resource} cannot be read: {error}"))
        };
        let list: List<'_> = serde_json::from_slice(&body).map_err(|error| unreadable(&error))?;
        let api_version = resource.api_version();
        let transform = Transform::standard();
        let options =
            ParseOptions::default().with_type(&api_version, &resource.kind).with_transform(&transform);
        let items = list
            .items
            .iter()
            .map(|item| Object::parse(item.get().as_bytes(), &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unreadable(&error))?;
        Ok(LivePage { items, next: list.metadata.continue_token })
    }

    /// Creates an object on behalf of the caller, whose key is held until the outcome is known, as is the charge of the manifest. The same
    /// applies to the other writes.
    pub(crate) async fn create(
        &self,
        caller: ReconcileContext<'_>,
        manifest: String,
        subresource: &str,
        charge: Option<HostMemoryCharge>,
    ) -> Result<WriteOutcome, ApiError> {
        let ManifestTarget { resource, key } =
            self.resolve_manifest(&manifest, "create", subresource).await?;
        let path = if subresource.is_empty() {
            resource.url_path(Some(key.namespace()))
        } else {
            object_path(&resource, &key, subresource)?
        };
        let path = path + &query(&[("fieldManager", &self.field_manager)]);
        let payload = Payload::json(manifest);
        let subresource = !subresource.is_empty();
        let write = Write { method: Method::POST, path, payload, resource, key, subresource, charge };
        self.writer.send(caller, write).await
    }

    pub(crate) async fn update(
        &self,
        caller: ReconcileContext<'_>,
        manifest: String,
        subresource: &str,
        charge: Option<HostMemoryCharge>,
    ) -> Result<WriteOutcome, ApiError> {
        let ManifestTarget { resource, key } =
            self.resolve_manifest(&manifest, "update", subresource).await?;
        let path =
            object_path(&resource, &key, subresource)? + &query(&[("fieldManager", &self.field_manager)]);
        let manifest = match put_may_create(&resource, subresource) {
            true => self.restrict_creation(&resource, &key, manifest)?,
            false => manifest,
        };
        let payload = Payload::json(manifest);
        let subresource = !subresource.is_empty();
        let write = Write { method: Method::PUT, path, payload, resource, key, subresource, charge };
        self.writer.send(caller, write).await
    }

    pub(crate) async fn patch(
        &self,
        caller: ReconcileContext<'_>,
        target: &ObjectType,
        key: &ObjectKey,
        patch: Patch,
        subresource: &str,
        charge: Option<HostMemoryCharge>,
    ) -> Result<WriteOutcome, ApiError> {
        let request = TargetRequest { verb: "patch", namespace: key.namespace(), subresource };
        let resource = self.resolve(target, request).await?;
        let (content_type, manager, force) = match &patch.patch_type {
            PatchType::Json => ("application/json-patch+json", None, ""),
            PatchType::Merge => ("application/merge-patch+json", None, ""),
            PatchType::Strategic => ("application/strategic-merge-patch+json", None, ""),
            PatchType::Apply { field_manager, force } => {
                (APPLY_PATCH, field_manager.as_deref(), if *force { "true" } else { "" })
            }
        };
        let manager = manager.unwrap_or(&self.field_manager);
        check_manager(manager, &self.field_manager)?;
        let path = object_path(&resource, key, subresource)?
            + &query(&[("fieldManager", manager), ("force", force)]);
        let may_create = matches!(patch.patch_type, PatchType::Apply { .. }) && subresource.is_empty();
        let body = match may_create {
            true => self.restrict_creation(&resource, key, patch.body)?,
            false => patch.body,
        };
        let payload = Payload { content_type, body: body.into() };
        let (key, subresource) = (key.clone(), !subresource.is_empty());
        let write = Write { method: Method::PATCH, path, payload, resource, key, subresource, charge };
        self.writer.send(caller, write).await
    }

    pub(crate) async fn delete(
        &self,
        caller: ReconcileContext<'_>,
        target: &ObjectType,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<WriteOutcome, ApiError> {
        let request = TargetRequest { verb: "delete", namespace: key.namespace(), subresource: "" };
        let resource = self.resolve(target, request).await?;
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
        let (key, subresource, charge) = (key.clone(), false, None);
        let write = Write { method: Method::DELETE, path, payload, resource, key, subresource, charge };
        self.writer.send(caller, write).await
    }

    async fn read(
        &self,
        caller: ReconcileContext<'_>,
        resource: &ResourceType,
        path: &str,
    ) -> Result<Bytes, ApiError> {
        let span = caller.trace.map(|trace| {
            let mut span = trace.request("k8s.read", &Method::GET);
            span.text("url.path", path.split('?').next().unwrap_or_default());
            span.text("pilothouse.resource", &resource.to_string());
            span
        });
        let server = self.server.for_plugin_request(&self.field_manager, caller.item, span.as_ref());
        let response = server.request_with_limit(Method::GET, path, None, self.max_response_size).await;
        if let Some(span) = span {
            match &response {
                Ok(_) => span.finish(Some(200), None),
                Err(error) => span.finish(error.code(), error.code().is_none().then_some("no_response")),
            }
        }
        response.map_err(|error| {
            if error.is_unknown_resource() {
                self.discovery.invalidate(&resource.group, &resource.version);
            }
            error.into_api_error()
        })
    }
}

#[cfg(test)]
mod tests;
