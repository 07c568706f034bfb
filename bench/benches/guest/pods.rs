//! The objects, as the guest `probe` knows them.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use pilothouse_bench::{pod_json, watch_chunks};

/// How many objects the guest reads in turn.
pub(crate) const READ_KEYS: usize = 1000;
/// How many objects have names of their own.
pub(crate) const SPECIAL: usize = 3;
/// What a read of a connection brings.
const CHUNK: usize = 64 << 10;
/// The end of the list of a streaming list.
const BOOKMARK: &str = r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

/// The last version that an object was given.
static VERSION: AtomicUsize = AtomicUsize::new(1);

fn next_version() -> usize {
    VERSION.fetch_add(1, Ordering::Relaxed) + 1
}

/// A change of an object that says what there is to do; it has another generation each time.
pub(crate) fn change(name: &str, reads: usize) -> Bytes {
    let version = next_version();
    Bytes::from(event("MODIFIED", &special(name, version, version, reads)))
}

pub(crate) fn special(name: &str, generation: usize, version: usize, reads: usize) -> String {
    let uid = name.bytes().fold(900_000_000, |uid, byte| uid + usize::from(byte));
    pod_json(0, version)
        .replace(r#""name":"web-0""#, &format!(r#""name":"{name}","generation":{generation}"#))
        .replace(r#""annotations":{"#, &format!(r#""annotations":{{"bench/reads":"{reads}","#))
        .replace("00000000-0000-4000-8000-000000000000", &format!("00000000-0000-4000-8000-{uid:012}"))
}

fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

/// What a watch begins with: so many objects, and those with names of their own.
pub(crate) fn list(objects: usize) -> Vec<Bytes> {
    let usual = (0..objects).map(|number| pod_json(number, 1));
    let special: [String; SPECIAL] = ["fill", "read", "mark"].map(|name| special(name, 0, 1, 0));
    let events = usual.chain(special).map(|object| event("ADDED", &object));
    watch_chunks(events.chain([format!("{BOOKMARK}\n")]), CHUNK)
}

/// A change of every object, then of the mark.
pub(crate) fn round(objects: usize) -> Vec<Bytes> {
    let usual = (0..objects).map(|number| event("MODIFIED", &pod_json(number, next_version())));
    let mut chunks = watch_chunks(usual, CHUNK);
    chunks.push(change("mark", 0));
    chunks
}
