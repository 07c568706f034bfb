//! The methods of [`Client`] as free functions, which they were in 0.1.0. They will be removed in the next release.

use super::{Apply, Change, Client, Delete, Patch};
use crate::{ApiError, ObjectKey, Resource};

/// See [`Client::get`].
///
/// # Errors
/// As [`Client::get`].
#[deprecated(note = "use `ctx.client().get(key)`")]
pub fn get<K: Resource>(key: &ObjectKey) -> Result<K, ApiError> {
    Client::without_context().get(key)
}

/// See [`Client::create`].
///
/// # Errors
/// As [`Client::create`].
#[deprecated(note = "use `ctx.client().create(object)`")]
pub fn create<K: Resource>(object: &K) -> Result<K, ApiError> {
    Client::without_context().create(object)
}

/// See [`Client::update`].
///
/// # Errors
/// As [`Client::update`].
#[deprecated(note = "use `ctx.client().update(object)`")]
pub fn update<K: Resource>(object: &K) -> Result<K, ApiError> {
    Client::without_context().update(object)
}

/// See [`Client::update_status`].
///
/// # Errors
/// As [`Client::update_status`].
#[deprecated(note = "use `ctx.client().update_status(object)`")]
pub fn update_status<K: Resource>(object: &K) -> Result<K, ApiError> {
    Client::without_context().update_status(object)
}

/// See [`Client::patch`].
///
/// # Errors
/// As [`Client::patch`].
#[deprecated(note = "use `ctx.client().patch(key, patch)`")]
pub fn patch<K: Resource>(key: &ObjectKey, patch: &Patch<'_>) -> Result<K, ApiError> {
    Client::without_context().patch(key, patch)
}

/// See [`Client::patch_status`].
///
/// # Errors
/// As [`Client::patch_status`].
#[deprecated(note = "use `ctx.client().patch_status(key, patch)`")]
pub fn patch_status<K: Resource>(key: &ObjectKey, patch: &Patch<'_>) -> Result<K, ApiError> {
    Client::without_context().patch_status(key, patch)
}

/// See [`Client::apply`].
///
/// # Errors
/// As [`Client::apply`].
#[deprecated(note = "use `ctx.client().apply(object, apply)`")]
pub fn apply<K: Resource>(object: &K, apply: Apply) -> Result<K, ApiError> {
    Client::without_context().apply(object, apply)
}

/// See [`Client::apply_status`].
///
/// # Errors
/// As [`Client::apply_status`].
#[deprecated(note = "use `ctx.client().apply_status(object, apply)`")]
pub fn apply_status<K: Resource>(object: &K, apply: Apply) -> Result<K, ApiError> {
    Client::without_context().apply_status(object, apply)
}

/// See [`Client::delete`].
///
/// # Errors
/// As [`Client::delete`].
#[deprecated(note = "use `ctx.client().delete::<K>(key, options)`")]
pub fn delete<K: Resource>(key: &ObjectKey, options: &Delete) -> Result<(), ApiError> {
    Client::without_context().delete::<K>(key, options)
}

/// See [`Client::create_or_update`].
///
/// # Errors
/// As [`Client::create_or_update`].
#[deprecated(note = "use `ctx.client().create_or_update(present, absent, mutate)`")]
pub fn create_or_update<K: Resource>(
    present: Option<K>,
    absent: impl FnOnce() -> K,
    mutate: impl FnOnce(&mut K),
) -> Result<(K, Change), ApiError> {
    Client::without_context().create_or_update(present, absent, mutate)
}
