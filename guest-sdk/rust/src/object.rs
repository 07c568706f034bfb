//! Objects as handles.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use serde::de::DeserializeOwned;

use crate::host::objects as wit;
use crate::{DecodeError, ObjectKey, Resource};

/// A handle to one immutable state of an object that the host holds: what you read never changes while you hold the handle.
///
/// Reading a field copies only that field. Clones share the handle, which is closed with the last clone. An instance that holds more
/// handles than the limit `handles` allows is stopped.
#[derive(Clone)]
pub struct Object(Rc<wit::Object>);

/// The controlling owner of an object: the entry of `metadata.ownerReferences` with `controller: true`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The API version, spelled as in a manifest: `apps/v1`.
    pub api_version: String,
    /// The kind, spelled as in a manifest: `Deployment`.
    pub kind: String,
    /// The owner's name. The owner is in the same namespace, or cluster-scoped.
    pub name: String,
    /// The owner's UID, which distinguishes it from earlier and later objects of the same name.
    pub uid: String,
}

impl Object {
    pub(crate) fn new(handle: wit::Object) -> Self {
        Self(Rc::new(handle))
    }

    pub(crate) fn handle(&self) -> &wit::Object {
        &self.0
    }

    /// The object's namespace and name.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        self.0.key()
    }

    /// The API version, spelled as in a manifest: `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        self.0.api_version()
    }

    /// The kind, spelled as in a manifest: `Deployment`.
    #[must_use]
    pub fn kind(&self) -> String {
        self.0.kind()
    }

    /// `metadata.uid`; empty when it is missing.
    #[must_use]
    pub fn uid(&self) -> String {
        self.0.uid()
    }

    /// `metadata.resourceVersion`, an opaque string.
    #[must_use]
    pub fn resource_version(&self) -> String {
        self.0.resource_version()
    }

    /// `metadata.generation`; 0 when it is missing.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.0.generation()
    }

    /// All labels.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.0.labels().into_iter().map(|pair| (pair.key, pair.value)).collect()
    }

    /// The value of one label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<String> {
        self.0.label(key)
    }

    /// The value of one annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<String> {
        self.0.annotation(key)
    }

    /// Returns whether `metadata.deletionTimestamp` is set: deletion was requested, but finalizers or a grace period still keep the object.
    #[must_use]
    pub fn is_being_deleted(&self) -> bool {
        self.0.deletion_timestamp().is_some()
    }

    /// The owner that controls the object.
    #[must_use]
    pub fn controller(&self) -> Option<Owner> {
        let wit::Owner { api_version, kind, name, uid } = self.0.controller()?;
        Some(Owner { api_version, kind, name, uid })
    }

    /// Returns the value at a JSON pointer (RFC 6901), such as `/spec/replicas`, read as `T`; `None` if there is no value at the
    /// pointer.
    ///
    /// # Errors
    /// Errors if the value cannot be read as `T`.
    pub fn field<T: DeserializeOwned>(&self, pointer: &str) -> Result<Option<T>, DecodeError> {
        let Some(json) = self.0.field(pointer) else { return Ok(None) };
        let what = || format!("{pointer} of {self}");
        decode(&json, what).map(Some)
    }

    /// Returns the value at a JSON pointer (RFC 6901) as text: a string without quotes, any other value as JSON; `None` if there is
    /// no value at the pointer.
    #[must_use]
    pub fn text(&self, pointer: &str) -> Option<String> {
        self.0.text(pointer)
    }

    /// Returns the values at several JSON pointers (at most 64) in one call. See [`field`](Self::field).
    ///
    /// ```no_run
    /// # fn read(foo: &pilothouse_sdk::Object) -> Result<(), pilothouse_sdk::DecodeError> {
    /// let [replicas, ready] = foo.fields::<u32, _>(["/spec/replicas", "/status/readyReplicas"])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Errors if one of the values cannot be read as `T`.
    pub fn fields<T: DeserializeOwned, const N: usize>(
        &self,
        pointers: [&str; N],
    ) -> Result<[Option<T>; N], DecodeError> {
        let found = with_owned(pointers, |pointers| self.0.fields(pointers));
        let read = found.into_iter().zip(pointers).map(|(json, pointer)| {
            json.map(|json| decode(&json, || format!("{pointer} of {self}"))).transpose()
        });
        read.collect::<Result<Vec<_>, _>>().map(in_order)
    }

    /// Returns the texts at several JSON pointers (at most 64) in one call; see [`text`](Self::text):
    /// `let [node, phase] = pod.texts(["/spec/nodeName", "/status/phase"]);`
    #[must_use]
    pub fn texts<const N: usize>(&self, pointers: [&str; N]) -> [Option<String>; N] {
        with_owned(pointers, |pointers| in_order(self.0.texts(pointers)))
    }

    /// Returns the whole object as JSON. Copies all of it; to read a few values, prefer [`field`](Self::field).
    #[must_use]
    pub fn json(&self) -> String {
        self.0.json()
    }

    /// Returns the whole object as a Rust type.
    ///
    /// # Errors
    /// Errors if the object cannot be read as `K`.
    pub fn parse<K: Resource>(&self) -> Result<K, DecodeError> {
        decode(&self.0.json(), || self.to_string())
    }

    /// Returns the whole object as a JSON tree.
    ///
    /// # Errors
    /// Errors if the host's JSON does not parse, which would be a bug of the host.
    pub fn value(&self) -> Result<serde_json::Value, DecodeError> {
        decode(&self.0.json(), || self.to_string())
    }
}

thread_local! {
    /// The pointers of the last call of `fields` or `texts`. The next call usually passes the same pointers, which are then not copied again.
    static POINTERS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Calls with owned strings, which the bindings require.
fn with_owned<T, const N: usize>(pointers: [&str; N], call: impl FnOnce(&[String]) -> T) -> T {
    POINTERS.with_borrow_mut(|owned| {
        owned.resize_with(pointers.len().max(owned.len()), String::new);
        for (owned, pointer) in owned.iter_mut().zip(pointers) {
            if owned != pointer {
                pointer.clone_into(owned);
            }
        }
        call(&owned[..pointers.len()])
    })
}

/// Converts the host's answer, which has one value per pointer, to an array.
fn in_order<T, const N: usize>(values: Vec<T>) -> [T; N] {
    let count = values.len();
    values.try_into().unwrap_or_else(|_| {
        panic!("the host returned {count} values for {N} pointers; this is a defect of the host")
    })
}

/// Parses JSON; `what` names the text in the error.
pub(crate) fn decode<T: DeserializeOwned>(
    json: &str,
    what: impl FnOnce() -> String,
) -> Result<T, DecodeError> {
    serde_json::from_str(json).map_err(|source| DecodeError {
        what: what(),
        as_type: std::any::type_name::<T>(),
        source,
    })
}

impl fmt::Display for Object {
    /// `apps/v1 Deployment default/web`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.api_version(), self.kind(), self.key())
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({self} at {})", self.resource_version())
    }
}
