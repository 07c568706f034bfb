//! The objects that the guest `probe` watches.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use pilothouse_bench::{pod_json, watch_chunks};

/// The number of objects that the guest reads in turn.
pub(crate) const READ_KEYS: usize = 1000;
/// The number of objects whose changes are commands to the guest: `fill`, `read` and `mark`.
pub(crate) const COMMAND_OBJECTS: usize = 3;
/// The size of a chunk, as a connection would deliver it, in bytes.
const CHUNK: usize = 64 << 10;
/// The bookmark at the end of a streaming list.
const BOOKMARK: &str = r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

/// The last resource version that was used.
static VERSION: AtomicUsize = AtomicUsize::new(1);

fn next_version() -> usize {
    VERSION.fetch_add(1, Ordering::Relaxed) + 1
}

/// Returns the event that changes a command object, each time to another generation.
pub(crate) fn change(name: &str, reads: usize) -> Bytes {
    let version = next_version();
    Bytes::from(event("MODIFIED", &command_object(name, version, version, reads)))
}

/// Returns the JSON of a command object. For `read`, `reads` is the number of objects to read.
pub(crate) fn command_object(name: &str, generation: usize, version: usize, reads: usize) -> String {
    let uid = name.bytes().fold(900_000_000, |uid, byte| uid + usize::from(byte));
    // The object has the size and the fields of the Pods: it is the first of them with the name, UID and annotation of the command.
    pod_json(0, version)
        .replace(r#""name":"web-0""#, &format!(r#""name":"{name}","generation":{generation}"#))
        .replace(r#""annotations":{"#, &format!(r#""annotations":{{"bench/reads":"{reads}","#))
        .replace("00000000-0000-4000-8000-000000000000", &format!("00000000-0000-4000-8000-{uid:012}"))
}

fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

/// Returns the initial events of a watch: `objects` Pods and the command objects.
pub(crate) fn list(objects: usize) -> Vec<Bytes> {
    let pods = (0..objects).map(|number| pod_json(number, 1));
    let commands: [String; COMMAND_OBJECTS] =
        ["fill", "read", "mark"].map(|name| command_object(name, 0, 1, 0));
    let events = pods.chain(commands).map(|object| event("ADDED", &object));
    watch_chunks(events.chain([format!("{BOOKMARK}\n")]), CHUNK)
}

/// Returns the events of a round: a change of every Pod, then of `mark`.
pub(crate) fn round(objects: usize) -> Vec<Bytes> {
    let pods = (0..objects).map(|number| event("MODIFIED", &pod_json(number, next_version())));
    let mut chunks = watch_chunks(pods, CHUNK);
    chunks.push(change("mark", 0));
    chunks
}
