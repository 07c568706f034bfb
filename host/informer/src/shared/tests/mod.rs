//! Tests of shared informers against scripted servers, in virtual time.

mod conditions;
mod delivery;
mod lifecycle;
mod observing;
mod sharing;
mod stream;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_model::{FieldSelector, LabelSelector, Notification, ObjectKey};
use tokio::time::advance;

use super::*;
use crate::failure::Failure;
use crate::key::InformerKey;
use crate::list_watch::ListWatch;
use crate::options::InformerOptions;
use crate::scripted_server::{Pod, Server, pod, pods_key, scripted_server, with_timeout};
use crate::store::{IndexError, IndexFn};

/// A registry in which each informer talks to a scripted server of its own.
struct Cluster {
    registry: InformerRegistry,
    servers: Arc<Mutex<Vec<Option<Server>>>>,
}

impl Cluster {
    fn new() -> Self {
        let servers = Arc::new(Mutex::new(Vec::new()));
        let factory = {
            let servers = Arc::clone(&servers);
            move |_: &InformerKey| -> Arc<dyn ListWatch> {
                let (server, list_watch) = scripted_server();
                servers.lock().push(Some(server));
                list_watch
            }
        };
        let options = InformerOptions { streaming_list: false, seed: Some(1), ..InformerOptions::default() };
        Self { registry: InformerRegistry::new(factory, options), servers }
    }

    fn subscribe(&self, key: InformerKey) -> Subscription {
        self.registry.subscribe(key, SubscribeOptions::default()).expect("the registry is open")
    }

    /// Returns how many informers were ever started.
    fn started(&self) -> usize {
        self.servers.lock().len()
    }

    fn server(&self, position: usize) -> Server {
        self.servers.lock()[position].take().expect("the server is taken once")
    }
}

/// Abbreviates a notification: `+a@1` is an addition (`*+a@1` if initial), `a@1>2` an update, `-a@2` a deletion, and `-a@2?` a
/// deletion with unknown final state.
fn summary(notification: &Notification) -> String {
    match notification {
        Notification::Added { object, initial } => {
            format!("{}+{}@{}", if *initial { "*" } else { "" }, object.name(), object.resource_version())
        }
        Notification::Updated { old, new } => {
            format!("{}@{}>{}", new.name(), old.resource_version(), new.resource_version())
        }
        Notification::Deleted { last, final_state_unknown } => {
            format!(
                "-{}@{}{}",
                last.name(),
                last.resource_version(),
                if *final_state_unknown { "?" } else { "" }
            )
        }
    }
}

/// Takes batches until it has at least `count` notifications, and abbreviates them.
async fn summaries(subscription: &Subscription, count: usize) -> Vec<String> {
    let mut summaries = Vec::new();
    while summaries.len() < count {
        let batch = with_timeout(subscription.next_batch()).await.expect("an open subscription");
        summaries.extend(batch.iter().map(summary));
    }
    summaries
}

/// Lets all tasks run until they are idle.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

async fn nothing_more(subscription: &Subscription) -> bool {
    settle().await;
    tokio::time::timeout(Duration::from_millis(1), subscription.next_batch()).await.is_err()
}
