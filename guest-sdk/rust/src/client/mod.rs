//! Requests to the API server, through [`Context::client`](crate::Context::client).

mod functions;
mod retry;
pub mod untyped;
mod upsert;

use serde_json::Value;

pub use functions::*;
pub use retry::retry_on_conflict;
pub use untyped::UntypedClient;
pub use upsert::Change;

use crate::host::client as wit;
use crate::{ApiError, Context, Object, ObjectKey, ObjectType, Resource};

/// Sends requests to the API server.
///
/// Each method sends one request and waits for the answer. The request must be covered by the descriptor's `writes` and by the
/// operator's grant; otherwise the host answers [`ApiError::Denied`] and sends nothing. No method retries: return the error, and the
/// host retries with backoff. What the plugin writes is visible in its cache reads immediately.
#[derive(Clone, Copy)]
pub struct Client<'c> {
    /// Remembers the handles of answers; `None` for the free functions.
    context: Option<&'c Context<'c>>,
}

/// The options of a server-side apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Apply {
    field_manager: String,
    force: bool,
}

impl Apply {
    /// Takes over fields that another field manager owns, which Kubernetes recommends for controllers.
    #[must_use]
    pub fn forced() -> Self {
        Self { field_manager: String::new(), force: true }
    }

    /// Fails with [`ApiError::Conflict`] when another field manager owns a field.
    #[must_use]
    pub fn cautious() -> Self {
        Self::default()
    }

    /// Uses this field manager instead of the plugin's name. It must be the plugin's name, a slash and a suffix; the host rejects any
    /// other as [`ApiError::Invalid`].
    #[must_use]
    pub fn as_manager(mut self, field_manager: impl Into<String>) -> Self {
        self.field_manager = field_manager.into();
        self
    }
}

/// The body of a patch.
#[derive(Clone, Debug)]
pub enum Patch<'a> {
    /// JSON Patch (RFC 6902).
    Json(&'a Value),
    /// JSON Merge Patch (RFC 7386).
    Merge(&'a Value),
    /// Strategic merge patch; only for built-in kinds.
    Strategic(&'a Value),
    /// Server-side apply of a partial manifest, which includes `apiVersion` and `kind`.
    Apply(&'a Value, Apply),
}

/// The options of a deletion: its propagation policy and its preconditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delete {
    propagation: Propagation,
    uid: String,
    resource_version: String,
}

/// How the garbage collector treats the dependents of a deleted object (`propagationPolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents are deleted after the object.
    #[default]
    Background,
    /// Dependents are deleted before the object.
    Foreground,
    /// Dependents are kept.
    Orphan,
}

impl Delete {
    /// Deletes with this propagation policy.
    #[must_use]
    pub fn propagating(propagation: Propagation) -> Self {
        Self { propagation, ..Self::default() }
    }

    /// Deletes only the object with this UID, not a later one of the same name.
    #[must_use]
    pub fn only_uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = uid.into();
        self
    }

    /// Deletes only this version of the object.
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

impl<'c> Client<'c> {
    pub(crate) fn new(context: &'c Context<'c>) -> Self {
        Self { context: Some(context) }
    }

    /// Returns a client for functions that have no context.
    pub(crate) fn without_context() -> Self {
        Self { context: None }
    }

    /// The same requests without Rust types: manifests are JSON, and answers are handles.
    #[must_use]
    pub fn untyped(&self) -> UntypedClient<'c> {
        UntypedClient::new()
    }

    /// Returns the current object from the server. [`Context::cache`] reads without a request.
    ///
    /// # Errors
    /// [`ApiError::NotFound`], or any other [`ApiError`].
    pub fn get<K: Resource>(&self, key: &ObjectKey) -> Result<K, ApiError> {
        self.answer(self.untyped().get(&ObjectType::of::<K>(), key, "")?)
    }

    /// Creates an object and returns it as stored.
    ///
    /// # Errors
    /// [`ApiError::AlreadyExists`], [`ApiError::Invalid`], or any other [`ApiError`].
    pub fn create<K: Resource>(&self, object: &K) -> Result<K, ApiError> {
        self.answer(self.untyped().create(&manifest(object)?, "")?)
    }

    /// Replaces an object with a changed copy of what was read, and returns it as stored. Its `resourceVersion` protects concurrent
    /// changes.
    ///
    /// # Errors
    /// [`ApiError::Conflict`], [`ApiError::NotFound`], [`ApiError::Invalid`], or any other [`ApiError`].
    pub fn update<K: Resource>(&self, object: &K) -> Result<K, ApiError> {
        self.answer(self.untyped().update(&manifest(object)?, "")?)
    }

    /// Like [`update`](Self::update), but replaces only the status; the server ignores the rest of the object.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn update_status<K: Resource>(&self, object: &K) -> Result<K, ApiError> {
        self.answer(self.untyped().update(&manifest(object)?, STATUS)?)
    }

    /// Patches an object and returns it as stored.
    ///
    /// # Errors
    /// [`ApiError::NotFound`], [`ApiError::Conflict`], [`ApiError::Invalid`], or any other [`ApiError`].
    pub fn patch<K: Resource>(&self, key: &ObjectKey, patch: &Patch<'_>) -> Result<K, ApiError> {
        self.answer(self.untyped().patch(&ObjectType::of::<K>(), key, patch, "")?)
    }

    /// Like [`patch`](Self::patch), but patches only the status.
    ///
    /// # Errors
    /// As [`patch`](Self::patch).
    pub fn patch_status<K: Resource>(&self, key: &ObjectKey, patch: &Patch<'_>) -> Result<K, ApiError> {
        self.answer(self.untyped().patch(&ObjectType::of::<K>(), key, patch, STATUS)?)
    }

    /// Applies an object server-side and returns it as stored: the plugin owns the fields that are set, and gives up those that it
    /// leaves out. Creates the object when it does not exist.
    ///
    /// # Errors
    /// [`ApiError::Conflict`] when another manager owns a field and `apply` is not forced, or any other [`ApiError`].
    pub fn apply<K: Resource>(&self, object: &K, apply: Apply) -> Result<K, ApiError> {
        self.apply_to(object, apply, "")
    }

    /// Like [`apply`](Self::apply), but applies only the status.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn apply_status<K: Resource>(&self, object: &K, apply: Apply) -> Result<K, ApiError> {
        self.apply_to(object, apply, STATUS)
    }

    /// Requests an object's deletion; finalizers may keep it in existence afterwards.
    ///
    /// # Errors
    /// [`ApiError::NotFound`], [`ApiError::Conflict`] when a precondition of `options` does not hold, or any other [`ApiError`].
    pub fn delete<K: Resource>(&self, key: &ObjectKey, options: &Delete) -> Result<(), ApiError> {
        self.untyped().delete(&ObjectType::of::<K>(), key, options)
    }

    /// Parses an object of an answer. The context remembers its handle, so that an Event about the object needs no request.
    fn answer<K: Resource>(&self, object: Object) -> Result<K, ApiError> {
        let parsed = object.parse()?;
        if let Some(context) = self.context {
            context.remember(object);
        }
        Ok(parsed)
    }

    fn apply_to<K: Resource>(&self, object: &K, apply: Apply, subresource: &str) -> Result<K, ApiError> {
        let mut object = object.clone();
        // A version would be a precondition, and the server rejects managed fields in an apply.
        object.meta_mut().managed_fields = None;
        object.meta_mut().resource_version = None;
        let key = ObjectKey::of(&object);
        let body = manifest(&object)?;
        let patch = Patch::Apply(&body, apply);
        self.answer(self.untyped().patch(&ObjectType::of::<K>(), &key, &patch, subresource)?)
    }
}

fn manifest<K: Resource>(object: &K) -> Result<Value, ApiError> {
    serde_json::to_value(object).map_err(ApiError::Encode)
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
    fn the_field_manager_of_an_apply_is_the_plugin_by_default() {
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
    fn delete_options_include_the_preconditions() {
        let options =
            Delete::propagating(Propagation::Foreground).only_uid("u1").only_resource_version("7").options();
        assert_eq!(options.propagation, wit::Propagation::Foreground);
        assert_eq!((options.uid.as_str(), options.resource_version.as_str()), ("u1", "7"));
        assert_eq!(Delete::default().options().propagation, wit::Propagation::Background);
    }
}
