use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use serde::de::DeserializeOwned;

use crate::bindings::pilothouse::controller::objects as wit;
use crate::{DecodeError, ObjectKey, Resource};

/// One state of one object, held by the host: immutable, so what you read never changes while you hold it.
///
/// Reading a field copies that field and nothing else. Cloning shares the handle, which closes with the last clone; a
/// plugin that holds too many handles is stopped (the limit `handles`).
#[derive(Clone)]
pub struct Object(Rc<wit::Object>);

/// A controlling owner: `metadata.ownerReferences` with `controller: true`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// As in a manifest: `apps/v1`.
    pub api_version: String,
    /// As in a manifest: `Deployment`.
    pub kind: String,
    /// The owner's name; it lives in the same namespace, or in none.
    pub name: String,
    /// Tells it from another object that had the name before.
    pub uid: String,
}

impl Object {
    pub(crate) fn new(handle: wit::Object) -> Self {
        Self(Rc::new(handle))
    }

    pub(crate) fn handle(&self) -> &wit::Object {
        &self.0
    }

    /// Its namespace and name.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        self.0.key()
    }

    /// As in a manifest: `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        self.0.api_version()
    }

    /// As in a manifest: `Deployment`.
    #[must_use]
    pub fn kind(&self) -> String {
        self.0.kind()
    }

    /// `metadata.uid`; empty for an object that has none.
    #[must_use]
    pub fn uid(&self) -> String {
        self.0.uid()
    }

    /// `metadata.resourceVersion`: opaque.
    #[must_use]
    pub fn resource_version(&self) -> String {
        self.0.resource_version()
    }

    /// `metadata.generation`; 0 for an object that has none.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.0.generation()
    }

    /// All labels.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.0.labels().into_iter().map(|pair| (pair.key, pair.value)).collect()
    }

    /// One label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<String> {
        self.0.label(key)
    }

    /// One annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<String> {
        self.0.annotation(key)
    }

    /// Deletion was asked for, and finalizers hold the object.
    #[must_use]
    pub fn is_being_deleted(&self) -> bool {
        self.0.deletion_timestamp().is_some()
    }

    /// The owner that controls it.
    #[must_use]
    pub fn controller(&self) -> Option<Owner> {
        let wit::Owner { api_version, kind, name, uid } = self.0.controller()?;
        Some(Owner { api_version, kind, name, uid })
    }

    /// The value at an RFC 6901 pointer (`/spec/replicas`), read as `T`; `None` when nothing is there.
    ///
    /// # Errors
    /// When something of another type is there.
    pub fn field<T: DeserializeOwned>(&self, pointer: &str) -> Result<Option<T>, DecodeError> {
        let Some(json) = self.0.field(pointer) else { return Ok(None) };
        let what = || format!("{pointer} of {self}");
        decode(&json, what).map(Some)
    }

    /// The text at an RFC 6901 pointer: a string without quotes, any other value as JSON; `None` when nothing is
    /// there.
    #[must_use]
    pub fn text(&self, pointer: &str) -> Option<String> {
        self.0.text(pointer)
    }

    /// [`field`](Self::field) at several pointers (at most 64), in one call in place of many.
    ///
    /// ```no_run
    /// # fn read(foo: &pilothouse_sdk::Object) -> Result<(), pilothouse_sdk::DecodeError> {
    /// let [replicas, ready] = foo.fields::<u32, _>(["/spec/replicas", "/status/readyReplicas"])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When something of another type is at one of them.
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

    /// [`text`](Self::text) at several pointers (at most 64), in one call in place of many:
    /// `let [node, phase] = pod.texts(["/spec/nodeName", "/status/phase"]);`
    #[must_use]
    pub fn texts<const N: usize>(&self, pointers: [&str; N]) -> [Option<String>; N] {
        with_owned(pointers, |pointers| in_order(self.0.texts(pointers)))
    }

    /// The whole object as JSON. Copies it all: prefer [`field`](Self::field) for a few values.
    #[must_use]
    pub fn json(&self) -> String {
        self.0.json()
    }

    /// The whole object as a Rust type.
    ///
    /// # Errors
    /// When it is of another kind or shape.
    pub fn parse<K: Resource>(&self) -> Result<K, DecodeError> {
        decode(&self.0.json(), || self.to_string())
    }

    /// The whole object as a tree.
    ///
    /// # Errors
    /// When the host's JSON does not parse, which would be a fault of the host.
    pub fn value(&self) -> Result<serde_json::Value, DecodeError> {
        decode(&self.0.json(), || self.to_string())
    }
}

thread_local! {
    /// The pointers of the last call for several values: mostly the next one asks for the same, and then nothing is copied.
    static POINTERS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The bindings take owned texts.
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

/// The host answers one value for each pointer.
fn in_order<T, const N: usize>(values: Vec<T>) -> [T; N] {
    let given = values.len();
    values.try_into().unwrap_or_else(|_| panic!("the host answered {given} values for {N} pointers"))
}

/// Parses JSON text, naming what it was on failure.
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
