//! Requests to the API server. Each is one round trip, must be covered by the descriptor's `writes` and the operator's
//! grant, and is not repeated by itself: return the error, and the host tries again with backoff.
//!
//! What this plugin writes is in its own cache reads at once.

mod retry;
pub mod untyped;
mod upsert;

use serde_json::Value;

pub use retry::retry_on_conflict;
pub use upsert::{Change, create_or_update};

use crate::bindings::pilothouse::controller::client as wit;
use crate::{ApiError, Object, ObjectKey, ObjectType, Resource};

/// How a server-side apply treats fields that another field manager owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Apply {
    field_manager: String,
    force: bool,
}

impl Apply {
    /// Takes them over: what Kubernetes recommends to controllers, which know what they want.
    #[must_use]
    pub fn forced() -> Self {
        Self { field_manager: String::new(), force: true }
    }

    /// Fails with [`ApiError::Conflict`].
    #[must_use]
    pub fn cautious() -> Self {
        Self::default()
    }

    /// Under this name in place of the plugin's own: `NAME/` and more, where NAME is the plugin's. Any other is invalid.
    #[must_use]
    pub fn as_manager(mut self, field_manager: impl Into<String>) -> Self {
        self.field_manager = field_manager.into();
        self
    }
}

/// The body of a patch.
#[derive(Clone, Debug)]
pub enum Patch<'a> {
    /// JSON Patch, RFC 6902.
    Json(&'a Value),
    /// JSON Merge Patch, RFC 7386.
    Merge(&'a Value),
    /// Strategic merge patch: built-in kinds only.
    Strategic(&'a Value),
    /// Server-side apply of a partial manifest (`apiVersion` and `kind` included).
    Apply(&'a Value, Apply),
}

/// What happens to the objects that a deleted one owns, and which state may be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delete {
    propagation: Propagation,
    uid: String,
    resource_version: String,
}

/// What happens to the objects that a deleted one owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted afterwards.
    #[default]
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}

impl Delete {
    /// Deletes what it owns in this way.
    #[must_use]
    pub fn propagating(propagation: Propagation) -> Self {
        Self { propagation, ..Self::default() }
    }

    /// Deletes only the object that was read, not a later one of the same name.
    #[must_use]
    pub fn only_uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = uid.into();
        self
    }

    /// Deletes only the state that was read.
    #[must_use]
    pub fn only_resource_version(mut self, resource_version: impl Into<String>) -> Self {
        self.resource_version = resource_version.into();
        self
    }

    fn options(&self) -> wit::DeleteOptions {
        wit::DeleteOptions {
            propagation: match self.propagation {
                Propagation::Background => wit::Propagation::Background,
                Propagation::Foreground => wit::Propagation::Foreground,
                Propagation::Orphan => wit::Propagation::Orphan,
            },
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
        }
    }
}

const STATUS: &str = "status";

/// The object as the server has it now. The cache is free by comparison.
///
/// # Errors
/// [`ApiError::NotFound`] and the rest of [`ApiError`].
pub fn get<K: Resource>(key: &ObjectKey) -> Result<K, ApiError> {
    parsed(&untyped::get(&ObjectType::of::<K>(), key, "")?)
}

/// Creates an object and returns it as stored.
///
/// # Errors
/// [`ApiError::AlreadyExists`], [`ApiError::Invalid`] and the rest of [`ApiError`].
pub fn create<K: Resource>(object: &K) -> Result<K, ApiError> {
    parsed(&untyped::create(&manifest(object)?, "")?)
}

/// Replaces an object by a changed copy of what was read. Its `resourceVersion` guards against changes in between.
///
/// # Errors
/// [`ApiError::Conflict`], [`ApiError::NotFound`], [`ApiError::Invalid`] and the rest of [`ApiError`].
pub fn update<K: Resource>(object: &K) -> Result<K, ApiError> {
    parsed(&untyped::update(&manifest(object)?, "")?)
}

/// As [`update`], of the status alone; everything else in the object is ignored.
///
/// # Errors
/// As [`update`].
pub fn update_status<K: Resource>(object: &K) -> Result<K, ApiError> {
    parsed(&untyped::update(&manifest(object)?, STATUS)?)
}

/// Changes an object.
///
/// # Errors
/// [`ApiError::NotFound`], [`ApiError::Conflict`], [`ApiError::Invalid`] and the rest of [`ApiError`].
pub fn patch<K: Resource>(key: &ObjectKey, patch: &Patch<'_>) -> Result<K, ApiError> {
    parsed(&untyped::patch(&ObjectType::of::<K>(), key, patch, "")?)
}

/// As [`patch`], of the status alone.
///
/// # Errors
/// As [`patch`].
pub fn patch_status<K: Resource>(key: &ObjectKey, patch: &Patch<'_>) -> Result<K, ApiError> {
    parsed(&untyped::patch(&ObjectType::of::<K>(), key, patch, STATUS)?)
}

/// Server-side apply: states what this plugin wants of the object, and creates it where it is absent. Fields that are
/// left out are not this plugin's.
///
/// # Errors
/// [`ApiError::Conflict`] when another manager owns a field and `apply` is not forced, and the rest of [`ApiError`].
pub fn apply<K: Resource>(object: &K, apply: Apply) -> Result<K, ApiError> {
    apply_to(object, apply, "")
}

/// As [`apply`], of the status alone.
///
/// # Errors
/// As [`apply`].
pub fn apply_status<K: Resource>(object: &K, apply: Apply) -> Result<K, ApiError> {
    apply_to(object, apply, STATUS)
}

/// Asks for an object's deletion; finalizers may hold it afterwards.
///
/// # Errors
/// [`ApiError::NotFound`], [`ApiError::Conflict`] when it is not the state that was named, and the rest of
/// [`ApiError`].
pub fn delete<K: Resource>(key: &ObjectKey, options: &Delete) -> Result<(), ApiError> {
    untyped::delete(&ObjectType::of::<K>(), key, options)
}

fn apply_to<K: Resource>(object: &K, apply: Apply, subresource: &str) -> Result<K, ApiError> {
    let mut object = object.clone();
    // A version would be a precondition, and the server refuses managed fields in an apply.
    object.meta_mut().managed_fields = None;
    object.meta_mut().resource_version = None;
    let patch = Patch::Apply(&manifest(&object)?, apply).body_and_type()?;
    let key = ObjectKey::of(&object);
    parsed(&untyped::send_patch(&ObjectType::of::<K>(), &key, patch, subresource)?)
}

fn manifest<K: Resource>(object: &K) -> Result<Value, ApiError> {
    serde_json::to_value(object).map_err(ApiError::Encode)
}

fn parsed<K: Resource>(object: &Object) -> Result<K, ApiError> {
    Ok(object.parse()?)
}

impl Patch<'_> {
    fn body_and_type(&self) -> Result<(String, wit::PatchType), ApiError> {
        let (body, patch_type) = match self {
            Self::Json(body) => (body, wit::PatchType::Json),
            Self::Merge(body) => (body, wit::PatchType::Merge),
            Self::Strategic(body) => (body, wit::PatchType::Strategic),
            Self::Apply(body, apply) => {
                let Apply { field_manager, force } = apply.clone();
                (body, wit::PatchType::Apply(wit::ApplyOptions { field_manager, force }))
            }
        };
        Ok((serde_json::to_string(body).map_err(ApiError::Encode)?, patch_type))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_forced_apply_is_by_the_plugin_unless_said_otherwise() {
        let body = json!({"kind": "ConfigMap"});
        let (text, patch_type) = Patch::Apply(&body, Apply::forced()).body_and_type().unwrap();
        assert_eq!(text, r#"{"kind":"ConfigMap"}"#);
        let expected = wit::ApplyOptions { field_manager: String::new(), force: true };
        assert_eq!(patch_type, wit::PatchType::Apply(expected));
        let (_, patch_type) =
            Patch::Apply(&body, Apply::cautious().as_manager("me")).body_and_type().unwrap();
        let expected = wit::ApplyOptions { field_manager: "me".into(), force: false };
        assert_eq!(patch_type, wit::PatchType::Apply(expected));
    }

    #[test]
    fn a_deletion_names_its_preconditions() {
        let options =
            Delete::propagating(Propagation::Foreground).only_uid("u1").only_resource_version("7").options();
        assert_eq!(options.propagation, wit::Propagation::Foreground);
        assert_eq!((options.uid.as_str(), options.resource_version.as_str()), ("u1", "7"));
        assert_eq!(Delete::default().options().propagation, wit::Propagation::Background);
    }
}
