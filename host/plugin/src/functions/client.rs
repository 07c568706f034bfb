//! Implements `client`: sends requests to the API server. A request suspends the guest, but blocks no thread.

use wasmtime::component::Resource;

use super::{MAX_PAGE_SIZE, MAX_SELECTOR_LENGTH, check_length, non_empty};
use crate::bindings::pilothouse::controller::client as wit;
use crate::bindings::pilothouse::controller::types;
use crate::fault::ByteCount;
use crate::sandbox::{GuestState, ObjectHandle, StopReason};
use crate::{
    ApiError, DeleteOptions, HostMemoryCharge, HostMemoryKind, ListOptions, MAX_MILLISECONDS, ObjectType,
    Patch, PatchType, Propagation,
};

type Handle = Resource<ObjectHandle>;
/// The outer error traps the guest; the inner one is the result that the guest gets.
type Answer<T> = wasmtime::Result<Result<T, types::ApiError>>;

impl wit::Host for GuestState {
    async fn get(
        &mut self,
        target: types::ObjectType,
        key: types::ObjectKey,
        subresource: String,
    ) -> Answer<Handle> {
        self.begin_request("client.get")?;
        let result = self.host.client_get(&self.call, &target.into(), &(&key).into(), &subresource).await;
        self.end_request_with_object(result)
    }

    async fn list(&mut self, target: types::ObjectType, options: wit::ListOptions) -> Answer<wit::Page> {
        self.begin_request("client.list")?;
        let texts = [
            ("a label selector", &options.label_selector),
            ("a field selector", &options.field_selector),
            ("a cursor", &options.cursor),
        ];
        for (argument, text) in texts {
            check_length("client.list", argument, MAX_SELECTOR_LENGTH, text)?;
        }
        let options = ListOptions {
            namespace: options.namespace,
            label_selector: options.label_selector,
            field_selector: options.field_selector,
            limit: if options.limit == 0 { MAX_PAGE_SIZE } else { options.limit.min(MAX_PAGE_SIZE) },
            cursor: options.cursor,
        };
        let result = self.host.client_list(&self.call, &target.into(), &options).await;
        self.waiting_in = None;
        Ok(match result {
            Ok(page) => Ok(wit::Page { items: self.open_all(page.items)?, next: page.next }),
            Err(error) => Err(error.into()),
        })
    }

    async fn create(&mut self, manifest: String, subresource: String) -> Answer<Handle> {
        self.begin_request("client.create")?;
        if let Err(too_large) = self.check_object_size(manifest.len()) {
            return Ok(Err(too_large));
        }
        let charge = self.charge_write(manifest.len())?;
        let result = self.host.client_create(&self.call, manifest, &subresource, charge).await;
        self.end_request_with_object(result)
    }

    async fn update(&mut self, manifest: String, subresource: String) -> Answer<Handle> {
        self.begin_request("client.update")?;
        if let Err(too_large) = self.check_object_size(manifest.len()) {
            return Ok(Err(too_large));
        }
        let charge = self.charge_write(manifest.len())?;
        let result = self.host.client_update(&self.call, manifest, &subresource, charge).await;
        self.end_request_with_object(result)
    }

    async fn patch(
        &mut self,
        target: types::ObjectType,
        key: types::ObjectKey,
        patch_type: wit::PatchType,
        body: String,
        subresource: String,
    ) -> Answer<Handle> {
        self.begin_request("client.patch")?;
        if let Err(too_large) = self.check_object_size(body.len()) {
            return Ok(Err(too_large));
        }
        let charge = self.charge_write(body.len())?;
        let patch = Patch { patch_type: patch_type.into(), body };
        let (target, key) = (target.into(), (&key).into());
        let result = self.host.client_patch(&self.call, &target, &key, patch, &subresource, charge).await;
        self.end_request_with_object(result)
    }

    async fn delete(
        &mut self,
        target: types::ObjectType,
        key: types::ObjectKey,
        options: wit::DeleteOptions,
    ) -> Answer<()> {
        self.begin_request("client.delete")?;
        drop(self.charge_write(0)?);
        let options = DeleteOptions {
            propagation: match options.propagation {
                wit::Propagation::Background => Propagation::Background,
                wit::Propagation::Foreground => Propagation::Foreground,
                wit::Propagation::Orphan => Propagation::Orphan,
            },
            uid: non_empty(options.uid),
            resource_version: non_empty(options.resource_version),
        };
        let result = self.host.client_delete(&self.call, &target.into(), &(&key).into(), &options).await;
        self.waiting_in = None;
        Ok(result.map_err(types::ApiError::from))
    }
}

impl GuestState {
    fn begin_request(&mut self, function: &'static str) -> wasmtime::Result<()> {
        self.check_available(function)?;
        self.waiting_in = Some(function);
        Ok(())
    }

    /// Charges the body of a write, whose result is kept among the plugin's own writes. The body is charged before the host waits for
    /// anything: many writes may wait at the same time.
    ///
    /// # Errors
    /// If the plugin would use more than its host memory.
    fn charge_write(&mut self, bytes: usize) -> wasmtime::Result<HostMemoryCharge> {
        Ok(self
            .handles
            .memory()
            .try_charge(HostMemoryKind::OwnWrites, bytes)
            .map_err(StopReason::HostMemory)?)
    }

    /// Refuses a body that is too large with the error of the API server, without sending it.
    fn check_object_size(&mut self, bytes: usize) -> Result<(), types::ApiError> {
        if bytes <= self.object_size {
            return Ok(());
        }
        self.waiting_in = None;
        Err(types::ApiError::Other(types::HttpStatus {
            code: 413,
            reason: "RequestEntityTooLarge".to_owned(),
            message: format!(
                "a manifest of {bytes} bytes exceeds limits.objectSize of {}: spread it over several objects",
                ByteCount(self.object_size)
            ),
        }))
    }

    fn end_request_with_object(
        &mut self,
        result: Result<pilothouse_model::Object, ApiError>,
    ) -> Answer<Handle> {
        self.waiting_in = None;
        Ok(match result {
            Ok(object) => Ok(self.open(object)?),
            Err(error) => Err(error.into()),
        })
    }
}

impl From<types::ObjectType> for ObjectType {
    fn from(target: types::ObjectType) -> Self {
        Self { api_version: target.api_version, kind: target.kind }
    }
}

impl From<wit::PatchType> for PatchType {
    fn from(patch_type: wit::PatchType) -> Self {
        match patch_type {
            wit::PatchType::Json => Self::Json,
            wit::PatchType::Merge => Self::Merge,
            wit::PatchType::Strategic => Self::Strategic,
            wit::PatchType::Apply(options) => {
                Self::Apply { field_manager: non_empty(options.field_manager), force: options.force }
            }
        }
    }
}

impl From<ApiError> for types::ApiError {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::NotFound(message) => Self::NotFound(message),
            ApiError::AlreadyExists(message) => Self::AlreadyExists(message),
            ApiError::Conflict { message, resource_version } => {
                Self::Conflict(types::ConflictInfo { message, resource_version })
            }
            ApiError::Invalid(causes) => Self::Invalid(causes.into_iter().map(types::Cause::from).collect()),
            ApiError::Forbidden(message) => Self::Forbidden(message),
            ApiError::Denied(rule) => Self::Denied(types::Rule {
                api_groups: rule.api_groups,
                resources: rule.resources,
                verbs: rule.verbs,
                namespaces: rule.namespaces,
            }),
            ApiError::TooManyRequests { retry_after_ms } => {
                Self::TooManyRequests(retry_after_ms.min(MAX_MILLISECONDS))
            }
            ApiError::Unavailable(message) => Self::Unavailable(message),
            ApiError::Other { code, reason, message } => {
                Self::Other(types::HttpStatus { code, reason, message })
            }
        }
    }
}

impl From<crate::Cause> for types::Cause {
    fn from(cause: crate::Cause) -> Self {
        Self { field: cause.field, reason: cause.reason, message: cause.message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_capped_at_the_longest_duration() {
        let error = ApiError::TooManyRequests { retry_after_ms: u32::MAX };
        let capped = types::ApiError::from(error);
        assert!(matches!(capped, types::ApiError::TooManyRequests(MAX_MILLISECONDS)), "{capped:?}");
    }
}
