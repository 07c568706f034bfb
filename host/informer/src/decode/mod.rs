//! Decodes the bytes of list and watch bodies into objects as the bytes arrive.

mod event;
mod lines;
mod list;
mod prefetch;
mod utf8;

pub(crate) use event::{EventDecoder, WatchEvent};
pub(crate) use lines::{LineHandler, LineSplitter};
pub(crate) use list::{ListDecoder, ListPage};
pub(crate) use prefetch::Prefetcher;

use pilothouse_model::{Object, ObjectError, ObjectKey, ObjectReader, ParseOptions, Transform};

use crate::InformerKey;
use crate::failure::{Failure, FailureKind};

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::new(FailureKind::Malformed, error.to_string())
    }
}

/// How the objects of one informer are decoded: their type and their transform.
#[derive(Debug)]
pub(crate) struct ObjectFormat {
    api_version: String,
    kind: String,
    transform: Transform,
    /// As [`ParseOptions::shares_text_after`], for a large cache.
    shares_text_after: u32,
    is_large: bool,
}

/// A cache of fewer bytes of JSON is small: its texts are stored as they are, because each reader of a shared text has to write it anew.
const LARGE_CACHE_BYTES: usize = 4 << 20;

/// The longest accepted resource version, in bytes. Real ones are decimal numbers. Versions go into URLs, whose length is
/// limited, too.
const MAX_VERSION_BYTES: usize = 256;

/// Errors if the version is too long to watch from.
fn check_version(version: &str) -> Result<(), DecodeError> {
    if version.len() > MAX_VERSION_BYTES {
        return Err(DecodeError::LongResourceVersion(version.len()));
    }
    Ok(())
}

/// Why a part of a body cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("{0}")]
    Object(#[from] ObjectError),
    #[error("expected {expected}, found {found}")]
    Kind { expected: String, found: String },
    #[error("the object {0} has no metadata.resourceVersion")]
    NoResourceVersion(String),
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("unknown event type {0:?}; expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR")]
    EventType(String),
    #[error("not a list: {0}")]
    NotAList(&'static str),
    #[error("a resource version of {0} bytes")]
    LongResourceVersion(usize),
    #[error("a list of more than {limit} items; raise max_list_items if there are so many")]
    TooMany { limit: usize },
    #[error("more than {limit} bytes without an end; raise max_object_bytes if the object is that large")]
    TooLong { limit: usize },
}

impl ObjectFormat {
    /// Returns the format of objects for a store that compresses them, or for a plain one.
    pub(crate) fn new(key: &InformerKey, is_compressed: bool) -> Self {
        Self {
            // A compressed cache would not keep the text that is shared as it is. So it has to save the text of more objects.
            shares_text_after: if is_compressed { 8 } else { 1 },
            is_large: false,
            api_version: key.resource.api_version(),
            kind: key.resource.kind.clone(),
            transform: key.transform.clone(),
        }
    }

    /// Notes how many bytes of JSON are in the cache, or were read for it.
    pub(crate) fn note_cache_bytes(&mut self, bytes: usize) {
        // A cache that has been large stays large: sharing text makes it smaller.
        self.is_large |= bytes >= LARGE_CACHE_BYTES;
    }

    /// Decodes one object. A missing type is added, as in the items of a list; a present type must be the informer's. `stored`
    /// is as in [`ObjectReader::read`].
    pub(crate) fn object(
        &self,
        json: &[u8],
        reader: &mut ObjectReader,
        stored: impl FnMut(&ObjectKey) -> Option<Object>,
    ) -> Result<Object, DecodeError> {
        let object = reader.read(json, &self.options(), stored)?;
        self.check_type(&object)?;
        Ok(object)
    }

    /// Decodes the object of the event that `text` starts with, and returns it with its length. Returns `None` if one pass over the
    /// text cannot decode it; see [`ObjectReader::read_event_object`]. `is_line` says whether the text is known to be a single line.
    pub(crate) fn event_object(
        &self,
        text: &str,
        is_line: bool,
        reader: &mut ObjectReader,
        stored: impl FnMut(&ObjectKey) -> Option<Object>,
    ) -> Option<(Object, usize)> {
        let decoded = if is_line {
            reader.read_line_object(text, &self.options(), stored)
        } else {
            reader.read_event_object(text, &self.options(), stored)
        };
        decoded.filter(|(object, _)| self.check_type(object).is_ok())
    }

    /// Decodes the object that `text` starts with and returns it with its length. Returns `None` if one pass over the text
    /// cannot decode it.
    pub(crate) fn first_object(
        &self,
        text: &str,
        reader: &mut ObjectReader,
    ) -> Result<Option<(Object, usize)>, DecodeError> {
        let first = reader.read_prefix(text, &self.options());
        if let Some((object, _)) = &first {
            self.check_type(object)?;
        }
        Ok(first)
    }

    fn options(&self) -> ParseOptions<'_> {
        ParseOptions::default()
            .with_type(&self.api_version, &self.kind)
            .with_transform(&self.transform)
            .with_shared_text(self.is_large.then_some(self.shares_text_after))
    }

    fn check_type(&self, object: &Object) -> Result<(), DecodeError> {
        if object.kind() != self.kind || object.api_version() != self.api_version {
            return Err(DecodeError::Kind {
                expected: format!("{} {}", self.api_version, self.kind),
                found: format!("{} {}", object.api_version(), object.kind()),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod test_support {
    use super::ObjectFormat;
    use pilothouse_model::Transform;

    pub(crate) fn pod_format() -> ObjectFormat {
        let (api_version, kind) = ("v1".into(), "Pod".into());
        ObjectFormat {
            api_version,
            kind,
            transform: Transform::standard(),
            shares_text_after: 1,
            is_large: true,
        }
    }

    /// Returns a pod as an item of a list: without its type.
    pub(crate) fn pod_item(name: &str, version: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"uid-{name}","resourceVersion":"{version}"}},"spec":{{}}}}"#
        )
    }
}
