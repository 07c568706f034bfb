//! OpenAPI documents, from which `kubectl explain`, `apply`, `create` and `edit` learn the server's types.
//!
//! `/openapi/v3` lists one document per group and version, with a hash of its content in the URL, so that clients can
//! cache it. `/openapi/v2` is one document for all groups. Documents are built on first request and cached until the
//! resources that they describe change.

mod components;
mod corrections;
pub(crate) mod handler;
mod paths;
mod v2;
mod v2_protobuf;
mod v3;

#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use parking_lot::Mutex;
use pilothouse_model::hash::HashMap;
use serde_json::{Map, Value, json};

/// A resource of a group and version, as OpenAPI documents describe it.
#[derive(Clone, Copy, Debug)]
pub struct ServedResource<'a> {
    /// The API group, empty for core.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The kind of a list of objects.
    pub list_kind: &'a str,
    /// The plural resource name, as in URLs.
    pub plural: &'a str,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// Whether the status subresource is served.
    pub has_status: bool,
    /// Whether the scale subresource is served.
    pub has_scale: bool,
    /// Whether objects can only be created, such as access reviews.
    pub create_only: bool,
    /// The CRD's `openAPIV3Schema`, for a custom resource.
    pub crd_schema: Option<&'a Value>,
    /// Whether this is a custom resource. Custom resources do not support strategic merge patch.
    pub is_custom: bool,
}

/// A serialized document.
#[derive(Clone, Debug)]
pub struct Document {
    /// The JSON text, or protobuf.
    pub body: Bytes,
    /// The hash of the described resources, used as the URL's `hash` parameter and as the entity tag.
    pub hash: String,
}

/// Builds documents and caches the latest one of each group and version. All methods take `&self`.
#[derive(Debug, Default)]
pub struct DocumentCache {
    documents: Mutex<HashMap<String, Document>>,
}

impl DocumentCache {
    /// Creates an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the response to `/openapi/v3`: the document URL of each group and version, given its resources.
    pub fn index<'a>(
        &self,
        versions: impl IntoIterator<Item = (&'a str, &'a str, Vec<ServedResource<'a>>)>,
    ) -> Value {
        let mut paths = Map::new();
        for (group, version, served) in versions {
            let path = path(group, version);
            let url = format!("/openapi/v3/{path}?hash={}", hash(&served));
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
        json!({"paths": paths})
    }

    /// Returns the document at `/openapi/v3/apis/GROUP/VERSION`, or `/openapi/v3/api/v1` for the core group.
    pub fn v3(&self, group: &str, version: &str, served: &[ServedResource<'_>]) -> Document {
        self.get_or_build(path(group, version), served, || json_text(&v3::document(served)))
    }

    /// Returns the document at `/openapi/v2`, given all served resources.
    pub fn v2(&self, served: &[ServedResource<'_>]) -> Document {
        self.get_or_build("v2".to_owned(), served, || json_text(&v2::document(served)))
    }

    /// Returns the document at `/openapi/v2` as protobuf, given all served resources.
    pub fn v2_protobuf(&self, served: &[ServedResource<'_>]) -> Document {
        self.get_or_build("v2 protobuf".to_owned(), served, || v2_protobuf::encode(&v2::document(served)))
    }

    fn get_or_build(
        &self,
        name: String,
        served: &[ServedResource<'_>],
        build: impl FnOnce() -> Vec<u8>,
    ) -> Document {
        let hash = hash(served);
        if let Some(document) = self.documents.lock().get(&name).filter(|document| document.hash == hash) {
            return document.clone();
        }
        // Building outside the lock may build a document twice, but no request waits for another.
        let body = Bytes::from(build());
        let document = Document { body, hash };
        self.documents.lock().insert(name, document.clone());
        document
    }
}

fn json_text(document: &Value) -> Vec<u8> {
    serde_json::to_vec(document).expect("a JSON value has string keys")
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Returns a hash of everything that goes into a document.
fn hash(served: &[ServedResource<'_>]) -> String {
    let mut hasher = DefaultHasher::new();
    // Built-in schemas change only with the version of the program.
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    for resource in served {
        (resource.group, resource.version, resource.kind, resource.list_kind, resource.plural)
            .hash(&mut hasher);
        (
            resource.namespaced,
            resource.has_status,
            resource.has_scale,
            resource.create_only,
            resource.is_custom,
        )
            .hash(&mut hasher);
        resource.crd_schema.map(Value::to_string).hash(&mut hasher);
    }
    format!("{:016X}", hasher.finish())
}
