//! Simulated controllers of a cluster, as far as development and tests need them.
//!
//! All controllers run in one task, which reads changes from the tables, passes them to each controller, lets the controllers
//! reconcile, and waits for the next change. They write through the same functions as requests.

pub(crate) mod aggregation;
mod feed;
mod garbage_collector;
mod kubelet;
mod namespaces;
mod remaining_content;
mod service_accounts;
mod workloads;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::registry::Endpoint;
use crate::state::State;
use crate::storage::StoredObject;
use feed::Feed;

/// The field manager of everything that the controllers write.
const MANAGER: &str = "kube-controller-manager";

/// A change of an object.
#[derive(Clone, Copy)]
enum Change<'a> {
    /// The object was created or updated.
    Applied(&'a StoredObject),
    /// The object was deleted.
    Deleted(&'a StoredObject),
}

/// A controller, which observes every change and then acts on the current state.
trait Controller: Send {
    /// Records what a change requires.
    fn observe(&mut self, endpoint: &Arc<Endpoint>, change: Change<'_>);

    /// Does what the observed changes require. Its writes are observed as changes in turn.
    fn reconcile(&mut self, state: &State);
}

/// Runs all controllers until `shutdown` is cancelled.
pub(crate) async fn run(state: Arc<State>, shutdown: CancellationToken) {
    let mut controllers: Vec<Box<dyn Controller>> = vec![
        Box::new(service_accounts::ServiceAccounts::default()),
        Box::new(aggregation::Aggregation::default()),
        Box::new(workloads::Workloads::default()),
        Box::new(kubelet::Kubelet::default()),
        Box::new(namespaces::Namespaces::default()),
        Box::new(garbage_collector::GarbageCollector::default()),
    ];
    let mut feed = Feed::default();
    let mut changed = state.storage.subscribe();
    loop {
        changed.borrow_and_update();
        let any_change = feed.read(&state, &mut |endpoint, change| {
            for controller in &mut controllers {
                controller.observe(endpoint, change);
            }
        });
        for controller in &mut controllers {
            controller.reconcile(&state);
        }
        if any_change {
            // There may be more changes already, but other tasks need to run, too.
            tokio::task::yield_now().await;
            if shutdown.is_cancelled() {
                return;
            }
            continue;
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            changed = changed.changed() => if changed.is_err() { return },
        }
    }
}
