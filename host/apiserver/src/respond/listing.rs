//! Lists, and their JSON text.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value};

use crate::registry::Endpoint;
use crate::storage::StoredObject;

/// The size in bytes from which a chunk of a list is sent.
const CHUNK: usize = 128 * 1024;

/// The objects of a list response, and the list's metadata.
#[derive(Debug)]
pub(crate) struct Listing {
    pub objects: Vec<Arc<StoredObject>>,
    pub revision: u64,
    /// The `continue` token of the next page.
    pub next: Option<String>,
    /// The number of objects after this page.
    pub remaining: Option<usize>,
}

impl Listing {
    /// Returns the `metadata` of the list.
    pub(crate) fn metadata(&self) -> Value {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".into(), self.revision.to_string().into());
        if let Some(next) = &self.next {
            metadata.insert("continue".into(), next.as_str().into());
        }
        if let Some(remaining) = self.remaining {
            metadata.insert("remainingItemCount".into(), remaining.into());
        }
        Value::Object(metadata)
    }

    /// Returns the `metadata` of a list of whole objects. That of custom resources always has a token, which is empty after the last page.
    pub(crate) fn metadata_of_objects(&self, endpoint: &Endpoint) -> Value {
        let mut metadata = self.metadata();
        if endpoint.resource.custom.is_some() && self.next.is_none() {
            metadata["continue"] = "".into();
        }
        metadata
    }

    /// Returns the JSON text of the list in chunks, built while it is sent. The objects' bytes are copied, not
    /// serialized again.
    pub(crate) fn into_chunks(self, endpoint: Arc<Endpoint>) -> impl Iterator<Item = Bytes> + Send {
        let head = format!(
            "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{},\"items\":[",
            Value::from(endpoint.resource.names.list_kind.as_str()),
            Value::from(endpoint.api_version.as_str()),
            self.metadata_of_objects(&endpoint)
        );
        let mut buffer = BytesMut::from(head.as_bytes());
        let mut objects = self.objects.into_iter();
        let mut first = true;
        let mut ended = false;
        std::iter::from_fn(move || {
            if ended {
                return None;
            }
            while buffer.len() < CHUNK {
                let Some(object) = objects.next() else {
                    ended = true;
                    buffer.put_slice(b"]}\n");
                    break;
                };
                if !std::mem::take(&mut first) {
                    buffer.put_u8(b',');
                }
                endpoint.put_item(&mut buffer, &object);
            }
            Some(std::mem::replace(&mut buffer, BytesMut::with_capacity(CHUNK + CHUNK / 4)).freeze())
        })
    }
}
