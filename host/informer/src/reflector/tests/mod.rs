//! The machine and its driver against a scripted server, in virtual time. Each test is a row of the table in the module's
//! documentation, or a way in which a row can be interrupted.

mod hostile;
mod interrupted;
mod list;
mod recovery;
mod restored;
mod streaming;
mod table;
mod watching;

use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::{Delta, Transform};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{ServerRecovery, Reflector};
use crate::delta_queue::DeltaQueue;
use crate::failure::Failure;
use crate::key::InformerKey;
use crate::options::InformerOptions;
use crate::scripted_server::{Pod, Server, pod, pods_key, scripted_server, with_timeout};
use crate::status::{InformerPhase, InformerStatus};
use crate::store::Store;

/// A reflector at work, and the queue that it fills.
struct Running {
    server: Server,
    queue: Arc<DeltaQueue>,
    store: Arc<Store>,
    status: watch::Receiver<InformerStatus>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn start(options: &InformerOptions) -> Running {
    start_for(&pods_key(), options)
}

fn start_for(key: &InformerKey, options: &InformerOptions) -> Running {
    start_with(key, options, None)
}

fn start_with(key: &InformerKey, options: &InformerOptions, recovery: Option<Arc<ServerRecovery>>) -> Running {
    let (server, list_watch) = scripted_server();
    let store = Arc::new(Store::new());
    let queue = Arc::new(DeltaQueue::new(Arc::clone(&store), options.delta_capacity));
    let (sender, status) = watch::channel(InformerStatus::default());
    let reflector =
        Reflector::new(key, list_watch, Arc::clone(&queue), options, sender).with_recovery(recovery);
    let stop = CancellationToken::new();
    let task = tokio::spawn({
        let stop = stop.clone();
        async move { reflector.run(&stop).await }
    });
    Running { server, queue, store, status, stop, task }
}

fn plain() -> InformerOptions {
    InformerOptions { streaming_list: false, seed: Some(7), ..InformerOptions::default() }
}

fn streaming() -> InformerOptions {
    InformerOptions { streaming_list: true, ..plain() }
}

impl Running {
    /// The next deltas, applied to the store, in words: `=5[a@1,b@2]` a replacement, `+a@1`, `~a@2`, `-a@3`.
    async fn deltas(&self, count: usize) -> Vec<String> {
        let mut words = Vec::new();
        while words.len() < count {
            let popped = with_timeout(self.queue.pop(|delta| self.apply(delta))).await;
            words.push(popped.expect("an open queue"));
        }
        words
    }

    fn apply(&self, delta: Delta) -> String {
        match delta {
            Delta::Replaced(replacement) => {
                let items: Vec<_> = replacement
                    .items
                    .iter()
                    .map(|item| format!("{}@{}", item.name(), item.resource_version()))
                    .collect();
                self.store.replace_all(&replacement.items, &replacement.resource_version);
                format!("={}[{}]", replacement.resource_version, items.join(","))
            }
            Delta::Added(object) => self.put("+", object),
            Delta::Updated(object) => self.put("~", object),
            Delta::Sync(object) => self.put("s", object),
            Delta::Deleted(deletion) => {
                self.store.delete(deletion.last.key(), None);
                format!("-{}@{}", deletion.last.name(), deletion.last.resource_version())
            }
        }
    }

    fn put(&self, sign: &str, object: pilothouse_model::Object) -> String {
        let word = format!("{sign}{}@{}", object.name(), object.resource_version());
        self.store.update(object);
        word
    }

    async fn quiet(&mut self) -> bool {
        self.server.is_quiet_for(Duration::from_millis(700)).await && self.queue.is_empty()
    }
}

fn expired() -> Failure {
    Failure::response(410, None, br#"{"reason":"Expired","message":"too old resource version"}"#)
}

fn too_large() -> Failure {
    Failure::response(
        504,
        None,
        br#"{"reason":"Timeout","message":"Too large resource version: 9, current: 5"}"#,
    )
}

/// Within the first wait after a fault.
fn is_first_backoff(waited: Duration) -> bool {
    (Duration::from_millis(800)..Duration::from_millis(1700)).contains(&waited)
}
