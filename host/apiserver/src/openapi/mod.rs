//! OpenAPI documents: what `kubectl explain`, `apply`, `create` and `edit` read to know the server's types.
//!
//! `/openapi/v3` lists a document per group and version, with a hash of its content in the URL, so that clients fetch
//! each once. `/openapi/v2` is one document for all. Documents are built when first asked for and kept until what they
//! describe changes.

pub(crate) mod answer;
mod components;
mod paths;
mod v2;
mod v3;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

/// A resource as one group and version serves it.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// The API group, empty for core.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The kind of lists.
    pub list_kind: &'a str,
    /// The plural name in URLs.
    pub plural: &'a str,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether there is a status subresource.
    pub status: bool,
    /// Whether there is a scale subresource.
    pub scale: bool,
    /// Whether objects can only be created, such as access reviews.
    pub create_only: bool,
    /// The CRD's `openAPIV3Schema`, for a custom resource.
    pub custom: Option<&'a Value>,
    /// Whether this is a custom resource: those have no strategic merge patch.
    pub is_custom: bool,
}

/// A document as it goes to the client.
#[derive(Clone, Debug)]
pub struct Document {
    /// The JSON text.
    pub body: Bytes,
    /// The hash of what it describes: the `hash` of its URL, and its entity tag.
    pub hash: String,
}

/// Builds documents and keeps the last of each group and version. Safe to share.
#[derive(Debug, Default)]
pub struct Documents {
    built: Mutex<HashMap<String, Document>>,
}

impl Documents {
    /// No documents yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The answer to `/openapi/v3`: the URL of each group and version, given what it serves.
    pub fn index<'a>(
        &self,
        versions: impl IntoIterator<Item = (&'a str, &'a str, Vec<Served<'a>>)>,
    ) -> Value {
        let mut paths = Map::new();
        for (group, version, served) in versions {
            let path = path(group, version);
            let url = format!("/openapi/v3/{path}?hash={}", hash(&served));
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
        json!({"paths": paths})
    }

    /// The answer to `/openapi/v3/apis/GROUP/VERSION`, or `/openapi/v3/api/v1` for the core group.
    pub fn v3(&self, group: &str, version: &str, served: &[Served<'_>]) -> Document {
        self.keep(path(group, version), served, || v3::document(served))
    }

    /// The answer to `/openapi/v2`, for all that is served.
    pub fn v2(&self, served: &[Served<'_>]) -> Document {
        self.keep("v2".to_owned(), served, || v2::document(served))
    }

    fn keep(&self, name: String, served: &[Served<'_>], build: impl FnOnce() -> Value) -> Document {
        let hash = hash(served);
        if let Some(document) = self.built.lock().get(&name).filter(|document| document.hash == hash) {
            return document.clone();
        }
        // Built outside the lock: another request may build the same in vain, none waits.
        let body = Bytes::from(serde_json::to_vec(&build()).expect("a JSON value has string keys"));
        let document = Document { body, hash };
        self.built.lock().insert(name, document.clone());
        document
    }
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// A hash of all that goes into a document.
fn hash(served: &[Served<'_>]) -> String {
    let mut hasher = DefaultHasher::new();
    // Built-in schemas change with the program only.
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    for one in served {
        (one.group, one.version, one.kind, one.list_kind, one.plural).hash(&mut hasher);
        (one.namespaced, one.status, one.scale, one.create_only, one.is_custom).hash(&mut hasher);
        one.custom.map(Value::to_string).hash(&mut hasher);
    }
    format!("{:016X}", hasher.finish())
}
