//! Prefetches memory that is about to be read. Among many objects, a stored version is in no cache of the processor, and reading it without
//! a prefetch waits for one cache line after another.

use super::metadata::Metadata;
use super::{Form, Object, Plain};

/// Bytes of a text that are prefetched. In a longer one, the processor's own prefetcher has detected the sequential read by then.
const MAX_PREFETCHED_BYTES: usize = 16 * 1024;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks the processor to load the cache line at the start of `value`, without waiting for it. Does nothing on architectures other than
/// x86-64, which have no safe intrinsic for it.
#[inline]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    safe_arch::prefetch_t0(value);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// As [`prefetch`], for all cache lines of a slice of items of one byte.
#[inline]
pub(super) fn prefetch_bytes<T>(bytes: &[T]) {
    let (lines, rest) = bytes[..bytes.len().min(MAX_PREFETCHED_BYTES)].as_chunks::<LINE>();
    lines.iter().for_each(prefetch);
    rest.iter().take(1).for_each(prefetch);
}

/// Returns an empty string with at least this capacity, whose memory is prefetched: memory that was freed a while ago is in no cache either.
pub(super) fn prefetched_string(capacity: usize) -> String {
    let mut bytes = Vec::with_capacity(capacity);
    prefetch_bytes(&bytes.spare_capacity_mut()[..capacity]);
    String::from_utf8(bytes).unwrap_or_default()
}

impl Object {
    /// Prefetches the object's metadata; see [`prefetch`].
    pub fn prefetch_metadata(&self) {
        match &self.0 {
            Form::Plain(plain) => {
                prefetch(&plain.json);
                plain.metadata.prefetch();
            }
            Form::Packed(view) => view.object().prefetch_metadata(),
        }
    }

    /// Prefetches the object's text and its key, unless the text is compressed; see [`prefetch`].
    pub fn prefetch_text(&self) {
        match &self.0 {
            Form::Plain(plain) => {
                prefetch_bytes(plain.json.as_bytes());
                prefetch_bytes(self.key().as_str().as_bytes());
            }
            Form::Packed(view) => view.object().prefetch_text(),
        }
    }

    /// Prefetches the parts of the object's text that are read most often, unless the object is packed: the UID, the labels, and the fields
    /// that were looked up in this version or in the previous one. See [`prefetch`].
    pub fn prefetch_fields(&self) {
        // A packed object is unpacked as a whole for its first reader.
        let Form::Plain(plain) = &self.0 else { return };
        let Plain { json, metadata, .. } = &**plain;
        let [top_level, _, nested] = metadata.hints.offsets();
        for offset in [metadata.uid.span().start(), metadata.labels.span().start(), top_level, nested] {
            if let Some(byte) = json.as_bytes().get(offset) {
                prefetch(byte);
            }
        }
    }
}

impl Metadata {
    pub(super) fn prefetch(&self) {
        prefetch(&self.key);
        prefetch(&self.uid);
        prefetch(&self.resource_version);
        prefetch(&self.generation);
        prefetch(&self.owner_references);
        prefetch(&self.after_metadata);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefetched_string_is_empty_and_has_the_capacity() {
        for capacity in [0, 1, 63, 64, 65, 5000, MAX_PREFETCHED_BYTES + 1000] {
            let string = prefetched_string(capacity);
            assert!(string.is_empty() && string.capacity() >= capacity, "{capacity}");
        }
    }
}
