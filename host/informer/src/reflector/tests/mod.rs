//! The state machine and its driver against a scripted server, in virtual time. Each test covers a row of the table in the
//! module documentation, or an interruption of one.

mod hostile;
mod interrupted;
mod list;
mod restored;
mod server_recovery;
mod streaming;
mod table;
mod watching;

use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::{Delta, Transform};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Reflector, ServerRecovery};
use crate::delta_queue::DeltaQueue;
use crate::failure::Failure;
use crate::key::InformerKey;
use crate::options::InformerOptions;
use crate::scripted_server::{Pod, Server, pod, pods_key, scripted_server, with_timeout};
use crate::status::{InformerPhase, InformerStatus};
use crate::store::Store;

/// A running reflector and the queue that it fills.
struct RunningReflector {
    server: Server,
    queue: Arc<DeltaQueue>,
    store: Arc<Store>,
    status: watch::Receiver<InformerStatus>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn start(options: &InformerOptions) -> RunningReflector {
    start_for(&pods_key(), options)
}

fn start_for(key: &InformerKey, options: &InformerOptions) -> RunningReflector {
    start_with(key, options, None)
}

fn start_with(
    key: &InformerKey,
    options: &InformerOptions,
    recovery: Option<Arc<ServerRecovery>>,
) -> RunningReflector {
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
    RunningReflector { server, queue, store, status, stop, task }
}

fn plain() -> InformerOptions {
    InformerOptions { streaming_list: false, seed: Some(7), ..InformerOptions::default() }
}

fn streaming() -> InformerOptions {
    InformerOptions { streaming_list: true, ..plain() }
}

impl RunningReflector {
    /// Applies the next deltas to the store and abbreviates them: `=5[a@1,b@2]` is a replacement, `+a@1` an addition, `~a@2` an
    /// update, `-a@3` a deletion.
    async fn deltas(&self, count: usize) -> Vec<String> {
        let mut deltas = Vec::new();
        while deltas.len() < count {
            let popped = with_timeout(self.queue.pop(|delta| self.apply(delta))).await;
            deltas.push(popped.expect("an open queue"));
        }
        deltas
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
            Delta::Added(object) => self.store_object("+", object),
            Delta::Updated(object) => self.store_object("~", object),
            Delta::Sync(object) => self.store_object("s", object),
            Delta::Deleted(deletion) => {
                self.store.delete(deletion.last.key(), None);
                format!("-{}@{}", deletion.last.name(), deletion.last.resource_version())
            }
        }
    }

    fn store_object(&self, sign: &str, object: pilothouse_model::Object) -> String {
        let summary = format!("{sign}{}@{}", object.name(), object.resource_version());
        self.store.update(object);
        summary
    }

    /// Whether no request and no delta arrives within 700 ms.
    async fn is_quiet(&mut self) -> bool {
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

/// Whether this is the first wait of the backoff.
fn is_first_backoff(waited: Duration) -> bool {
    (Duration::from_millis(800)..Duration::from_millis(1700)).contains(&waited)
}
