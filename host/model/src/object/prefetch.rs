//! Having the processor load what is about to be read. Among many objects, a stored version is in no cache, and to read it is to wait for
//! one part of it after another.

use super::Object;
use super::packed::Json;

/// Bytes of a text that are asked for at once. Of a longer one, the processor has learnt by then that it is read from the start to the end.
const FETCHED: usize = 16 * 1024;
/// Bytes that a processor loads at a time.
const LINE: usize = 64;

/// Has the processor load what is there, or where it begins: nothing waits for it. On processors for which there is no safe way to ask,
/// it does nothing.
#[inline]
pub fn fetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    safe_arch::prefetch_t0(value);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// As [`fetch`], of all of these, each of which is a byte.
#[inline]
fn fetch_bytes<T>(bytes: &[T]) {
    let (lines, rest) = bytes[..bytes.len().min(FETCHED)].as_chunks::<LINE>();
    lines.iter().for_each(fetch);
    rest.iter().take(1).for_each(fetch);
}

/// Room for a text of so many bytes, which the processor loads until it is written: memory that was freed a while ago is in no cache either.
pub(super) fn room(len: usize) -> String {
    let mut room = Vec::with_capacity(len);
    fetch_bytes(&room.spare_capacity_mut()[..len]);
    String::from_utf8(room).unwrap_or_default()
}

impl Object {
    /// Has the processor load what is known of the object beside its text; see [`fetch`].
    pub fn fetch_metadata(&self) {
        let inner = &*self.0;
        fetch(inner);
        fetch(&inner.json);
        let metadata = &inner.metadata;
        fetch(&metadata.key);
        fetch(&metadata.uid);
        fetch(&metadata.resource_version);
        fetch(&metadata.generation);
        fetch(&metadata.owners);
        fetch(&metadata.behind);
    }

    /// Has the processor load its text, if it is not packed, and its key; see [`fetch`].
    pub fn fetch_text(&self) {
        if let Json::Plain(json) = &self.0.json {
            fetch_bytes(json.as_bytes());
            fetch_bytes(self.key().as_str().as_bytes());
        }
    }

    /// Has the processor load those parts of its text that readers mostly ask for, if it is not packed: where the metadata's fields begin,
    /// and where readers of this version, or of the one before it, went. See [`fetch`].
    pub fn fetch_parts(&self) {
        // What is packed is unpacked for its first reader, which reads all of it.
        let Json::Plain(json) = &self.0.json else { return };
        let metadata = &self.0.metadata;
        let [value, _, member] = metadata.farthest.places();
        for place in [metadata.uid.place().start(), metadata.labels.place().start(), value, member] {
            if let Some(byte) = json.as_bytes().get(place) {
                fetch(byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_empty_and_as_large_as_wanted() {
        for len in [0, 1, 63, 64, 65, 5000, FETCHED + 1000] {
            let room = room(len);
            assert!(room.is_empty() && room.capacity() >= len, "{len}");
        }
    }
}
