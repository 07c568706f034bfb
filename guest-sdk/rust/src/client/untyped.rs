//! Requests without Rust types: manifests are JSON, and answers are handles.

use std::marker::PhantomData;

use serde_json::Value;

use super::{Delete, Patch};
use crate::host::client as wit;
use crate::{ApiError, Context, Object, ObjectKey, ObjectType, Page};

/// Selects the objects that [`UntypedClient::list`] returns; the server evaluates the selectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Only objects in this namespace; empty for all namespaces.
    pub namespace: String,
    /// A label selector in kubectl's syntax; empty for all.
    pub label_selector: String,
    /// A field selector in kubectl's syntax; empty for all.
    pub field_selector: String,
    /// The maximum number of objects in the page: never more than 500, which is also what 0 means.
    pub limit: u32,
    /// Where to continue: empty for the start, otherwise the `next` of the previous page.
    pub cursor: String,
}

/// Sends requests to the API server without Rust types: see [`Client::untyped`](super::Client::untyped).
#[derive(Clone, Copy)]
pub struct UntypedClient<'c> {
    context: PhantomData<&'c Context<'c>>,
}

impl UntypedClient<'_> {
    pub(super) fn new() -> Self {
        Self { context: PhantomData }
    }

    /// Returns the current object from the server. `subresource` is empty, or a name such as `status` or `scale`.
    ///
    /// # Errors
    /// As [`Client::get`](super::Client::get).
    pub fn get(&self, target: &ObjectType, key: &ObjectKey, subresource: &str) -> Result<Object, ApiError> {
        Ok(Object::new(wit::get(target, key, subresource)?))
    }

    /// Returns one page of the current objects from the server.
    ///
    /// # Errors
    /// [`ApiError::Other`] with code 410 when the cursor has expired: start again without one. Otherwise any [`ApiError`].
    pub fn list(&self, target: &ObjectType, options: &ListOptions) -> Result<Page<Object>, ApiError> {
        let ListOptions { namespace, label_selector, field_selector, limit, cursor } = options.clone();
        let options = wit::ListOptions { namespace, label_selector, field_selector, limit, cursor };
        let page = wit::list(target, &options)?;
        let items = page.items.into_iter().map(Object::new).collect();
        Ok(Page { items, next: Some(page.next).filter(|next| !next.is_empty()) })
    }

    /// Creates the object of a manifest and returns it as stored. With a subresource, such as `eviction`, posts the manifest to it.
    ///
    /// # Errors
    /// As [`Client::create`](super::Client::create).
    pub fn create(&self, manifest: &Value, subresource: &str) -> Result<Object, ApiError> {
        Ok(Object::new(wit::create(&manifest.to_string(), subresource)?))
    }

    /// Replaces an object with a manifest that has the `resourceVersion` that was read, and returns it as stored.
    ///
    /// # Errors
    /// As [`Client::update`](super::Client::update).
    pub fn update(&self, manifest: &Value, subresource: &str) -> Result<Object, ApiError> {
        Ok(Object::new(wit::update(&manifest.to_string(), subresource)?))
    }

    /// Patches an object and returns it as stored.
    ///
    /// # Errors
    /// As [`Client::patch`](super::Client::patch).
    pub fn patch(
        &self,
        target: &ObjectType,
        key: &ObjectKey,
        patch: &Patch<'_>,
        subresource: &str,
    ) -> Result<Object, ApiError> {
        let (body, patch_type) = patch.body_and_type()?;
        Ok(Object::new(wit::patch(target, key, &patch_type, &body, subresource)?))
    }

    /// Requests an object's deletion.
    ///
    /// # Errors
    /// As [`Client::delete`](super::Client::delete).
    pub fn delete(&self, target: &ObjectType, key: &ObjectKey, options: &Delete) -> Result<(), ApiError> {
        Ok(wit::delete(target, key, &options.options())?)
    }
}

/// See [`UntypedClient::get`].
///
/// # Errors
/// As [`UntypedClient::get`].
#[deprecated(note = "use `ctx.client().untyped().get(target, key, subresource)`")]
pub fn get(target: &ObjectType, key: &ObjectKey, subresource: &str) -> Result<Object, ApiError> {
    UntypedClient::new().get(target, key, subresource)
}

/// See [`UntypedClient::list`].
///
/// # Errors
/// As [`UntypedClient::list`].
#[deprecated(note = "use `ctx.client().untyped().list(target, options)`")]
pub fn list(target: &ObjectType, options: &ListOptions) -> Result<Page<Object>, ApiError> {
    UntypedClient::new().list(target, options)
}

/// See [`UntypedClient::create`].
///
/// # Errors
/// As [`UntypedClient::create`].
#[deprecated(note = "use `ctx.client().untyped().create(manifest, subresource)`")]
pub fn create(manifest: &Value, subresource: &str) -> Result<Object, ApiError> {
    UntypedClient::new().create(manifest, subresource)
}

/// See [`UntypedClient::update`].
///
/// # Errors
/// As [`UntypedClient::update`].
#[deprecated(note = "use `ctx.client().untyped().update(manifest, subresource)`")]
pub fn update(manifest: &Value, subresource: &str) -> Result<Object, ApiError> {
    UntypedClient::new().update(manifest, subresource)
}

/// See [`UntypedClient::patch`].
///
/// # Errors
/// As [`UntypedClient::patch`].
#[deprecated(note = "use `ctx.client().untyped().patch(target, key, patch, subresource)`")]
pub fn patch(
    target: &ObjectType,
    key: &ObjectKey,
    patch: &Patch<'_>,
    subresource: &str,
) -> Result<Object, ApiError> {
    UntypedClient::new().patch(target, key, patch, subresource)
}

/// See [`UntypedClient::delete`].
///
/// # Errors
/// As [`UntypedClient::delete`].
#[deprecated(note = "use `ctx.client().untyped().delete(target, key, options)`")]
pub fn delete(target: &ObjectType, key: &ObjectKey, options: &Delete) -> Result<(), ApiError> {
    UntypedClient::new().delete(target, key, options)
}
