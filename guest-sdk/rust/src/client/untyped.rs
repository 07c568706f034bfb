//! The same requests without Rust types: manifests are JSON, answers are handles.

use serde_json::Value;

use super::{Delete, Patch};
use crate::bindings::pilothouse::controller::client as wit;
use crate::{ApiError, Object, ObjectKey, ObjectType, Page};

/// Which objects [`list`] asks for: all of a kind, until narrowed. Judged by the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Empty for all namespaces.
    pub namespace: String,
    /// In kubectl's syntax; empty for all.
    pub label_selector: String,
    /// In kubectl's syntax; empty for all.
    pub field_selector: String,
    /// At most so many; never more than 500 (also for 0).
    pub limit: u32,
    /// Empty to begin, then the `next` of the page before.
    pub cursor: String,
}

/// The object as the server has it now. `subresource` is empty, or `status`, `scale`, …
///
/// # Errors
/// See [`super::get`].
pub fn get(target: &ObjectType, key: &ObjectKey, subresource: &str) -> Result<Object, ApiError> {
    Ok(Object::new(wit::get(target, key, subresource)?))
}

/// One page of objects as the server has them now.
///
/// # Errors
/// An expired cursor is [`ApiError::Other`] with code 410: begin again.
pub fn list(target: &ObjectType, options: &ListOptions) -> Result<Page<Object>, ApiError> {
    let ListOptions { namespace, label_selector, field_selector, limit, cursor } = options.clone();
    let options = wit::ListOptions { namespace, label_selector, field_selector, limit, cursor };
    let page = wit::list(target, &options)?;
    let items = page.items.into_iter().map(Object::new).collect();
    Ok(Page { items, next: Some(page.next).filter(|next| !next.is_empty()) })
}

/// Creates the object of a manifest; with a subresource, posts to it (`eviction`).
///
/// # Errors
/// See [`super::create`].
pub fn create(manifest: &Value, subresource: &str) -> Result<Object, ApiError> {
    Ok(Object::new(wit::create(&manifest.to_string(), subresource)?))
}

/// Replaces an object by a manifest with the `resourceVersion` that was read.
///
/// # Errors
/// See [`super::update`].
pub fn update(manifest: &Value, subresource: &str) -> Result<Object, ApiError> {
    Ok(Object::new(wit::update(&manifest.to_string(), subresource)?))
}

/// Changes an object.
///
/// # Errors
/// See [`super::patch`].
pub fn patch(
    target: &ObjectType,
    key: &ObjectKey,
    patch: &Patch<'_>,
    subresource: &str,
) -> Result<Object, ApiError> {
    send_patch(target, key, patch.body_and_type()?, subresource)
}

/// Asks for an object's deletion.
///
/// # Errors
/// See [`super::delete`].
pub fn delete(target: &ObjectType, key: &ObjectKey, options: &Delete) -> Result<(), ApiError> {
    Ok(wit::delete(target, key, &options.options())?)
}

pub(super) fn send_patch(
    target: &ObjectType,
    key: &ObjectKey,
    (body, patch_type): (String, wit::PatchType),
    subresource: &str,
) -> Result<Object, ApiError> {
    Ok(Object::new(wit::patch(target, key, &patch_type, &body, subresource)?))
}
