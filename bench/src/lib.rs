//! Code that the benchmarks share: realistic objects, a fixture server, its consumer, and an API server in memory with canned answers.

pub mod consumer;
pub mod fixture;
pub mod informers;
mod latency;
pub mod traffic;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use pilothouse_informer::{
    ByteStream, Failure, FailureKind, InformerKey, ListParams, ListWatch, WatchParams,
};
use pilothouse_model::{Object, ParseOptions, ResourceType, Transform};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

/// Returns the key of an informer of all Pods.
#[must_use]
pub fn pods() -> InformerKey {
    InformerKey::new(ResourceType {
        group: String::new(),
        version: "v1".into(),
        kind: "Pod".into(),
        plural: "pods".into(),
        namespaced: true,
    })
}

/// Returns the JSON of a Pod as a server sends it: about 3.5 KB, a third of it managed fields. The Pods belong to five workloads with
/// different settings. Versions of one Pod differ in the resource version and in two timestamps, as after a status update of a kubelet.
#[must_use]
pub fn pod_json(number: usize, version: usize) -> String {
    let workload = number % 5;
    let managed: Vec<_> =
        (0..22 + workload).map(|i| format!(r#""f:field-{i}":{{".":{{}},"f:value":{{}}}}"#)).collect();
    let env: Vec<_> = (0..23 + workload)
        .map(|i| format!(r#"{{"name":"SETTING_{i}","value":"some value of moderate length {i}"}}"#))
        .collect();
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"web-{number}","generateName":"web-","namespace":"team-{team}","uid":"00000000-0000-4000-8000-{number:012}","resourceVersion":"{version}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app":"web","shard":"s{shard}","pod-template-hash":"5d59d67564"}},"annotations":{{"checksum/config":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-{workload}","uid":"11111111-0000-4000-8000-00000000000{workload}","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{{managed}}}}}}}]}},"spec":{{"containers":[{{"name":"web","image":"registry.example.com/web:1.2.3","env":[{env}],"resources":{{"limits":{{"cpu":"500m","memory":"128Mi"}}}}}}],"nodeName":"node-{node}","restartPolicy":"Always","terminationGracePeriodSeconds":30}},"status":{{"phase":"Running","podIP":"10.0.0.1","conditions":[{{"type":"Ready","status":"True","lastTransitionTime":"{time}"}}]}}}}"#,
        team = number % 20,
        shard = number % 8,
        node = number % 100,
        time = time_of(version),
        managed = managed.join(","),
        env = env.join(","),
    )
}

/// Returns the timestamp of a version: one second later for each, within one hour.
fn time_of(version: usize) -> String {
    format!("2026-01-02T03:{:02}:{:02}Z", version / 60 % 60, version % 60)
}

/// Returns a Pod as a cache stores it.
///
/// # Panics
/// Never: the JSON is well formed.
#[must_use]
pub fn pod(number: usize, version: usize) -> Object {
    let transform = Transform::standard();
    let options = ParseOptions::default().with_transform(&transform);
    Object::parse(pod_json(number, version).as_bytes(), &options).expect("the pod is well formed")
}

/// Returns the bytes of a watch, split into chunks as by a connection.
#[must_use]
pub fn watch_chunks(events: impl IntoIterator<Item = String>, chunk_bytes: usize) -> Vec<Bytes> {
    let text: String = events.into_iter().collect();
    let text = Bytes::from(text);
    (0..text.len()).step_by(chunk_bytes).map(|at| text.slice(at..text.len().min(at + chunk_bytes))).collect()
}

/// Returns a MODIFIED event.
#[must_use]
pub fn modified(number: usize, version: usize) -> String {
    format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", pod_json(number, version))
}

/// An API server in memory: one list, and one watch with the events that the benchmark sends.
pub struct CannedServer {
    list: Bytes,
    watch: Mutex<Option<mpsc::UnboundedReceiver<Bytes>>>,
}

impl CannedServer {
    /// Returns a server with `count` Pods, and the sender for its only watch.
    #[must_use]
    pub fn with_pods(count: usize) -> (Arc<Self>, mpsc::UnboundedSender<Bytes>) {
        Self::with_items(&(0..count).map(|number| pod_json(number, 1)).collect::<Vec<_>>())
    }

    /// Returns a server with these objects, and the sender for its only watch.
    #[must_use]
    pub fn with_items(items: &[String]) -> (Arc<Self>, mpsc::UnboundedSender<Bytes>) {
        let list = format!(
            r#"{{"kind":"PodList","metadata":{{"resourceVersion":"1"}},"items":[{}]}}"#,
            items.join(",")
        );
        let (feed, watch) = mpsc::unbounded_channel();
        (Arc::new(Self { list: Bytes::from(list), watch: Mutex::new(Some(watch)) }), feed)
    }
}

#[async_trait]
impl ListWatch for CannedServer {
    async fn list(&self, _: &ListParams) -> Result<ByteStream, Failure> {
        let list = self.list.clone();
        let chunks: Vec<_> = (0..list.len())
            .step_by(65_536)
            .map(|at| Ok(list.slice(at..list.len().min(at + 65_536))))
            .collect();
        Ok(futures::stream::iter(chunks).boxed())
    }

    async fn watch(&self, _: &WatchParams) -> Result<ByteStream, Failure> {
        let watch = self.watch.lock().take();
        let watch =
            watch.ok_or_else(|| Failure::new(FailureKind::Server, "this server serves one watch only"))?;
        Ok(UnboundedReceiverStream::new(watch).map(Ok).boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_has_the_documented_size() {
        let json = pod_json(1, 1);
        assert!((3300..3900).contains(&json.len()), "{}", json.len());
        assert!(pod(1, 1).json().len() < json.len() * 4 / 5, "managed fields are dropped");
    }
}
