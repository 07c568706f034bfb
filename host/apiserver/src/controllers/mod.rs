//! What a cluster's controllers do, simulated as far as development and tests need it.
//!
//! All of them are one task: it reads what changed, shows it to each controller, lets them act, and waits for the next
//! change. They see the tables directly and write by the same functions as requests do.

mod accounts;
pub(crate) mod aggregation;
mod bootstrap;
mod collector;
mod feed;
mod namespaces;
mod pods;
mod remaining;
mod workloads;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub(crate) use bootstrap::bootstrap;

use crate::registry::Endpoint;
use crate::server::State;
use crate::storage::Stored;
use feed::Feed;

/// The field manager of everything that the controllers write.
const MANAGER: &str = "kube-controller-manager";

/// What happened to an object.
#[derive(Clone, Copy)]
enum Change<'a> {
    /// It is new, or changed.
    Present(&'a Stored),
    /// It is gone.
    Gone(&'a Stored),
}

/// A controller: it looks at every change, then acts on the present state.
trait Controller: Send {
    /// Notes what a change makes necessary.
    fn observe(&mut self, endpoint: &Arc<Endpoint>, change: Change<'_>);

    /// Does what is necessary. What it writes comes back as changes.
    fn act(&mut self, state: &State);
}

/// Runs all controllers until `shutdown`.
pub(crate) async fn run(state: Arc<State>, shutdown: CancellationToken) {
    let mut controllers: Vec<Box<dyn Controller>> = vec![
        Box::new(accounts::Accounts::default()),
        Box::new(aggregation::Aggregation::default()),
        Box::new(workloads::Workloads::default()),
        Box::new(pods::Pods::default()),
        Box::new(namespaces::Namespaces::default()),
        Box::new(collector::Collector::default()),
    ];
    let mut feed = Feed::default();
    let mut changed = state.storage.subscribe();
    loop {
        changed.borrow_and_update();
        let seen = feed.read(&state, &mut |endpoint, change| {
            for controller in &mut controllers {
                controller.observe(endpoint, change);
            }
        });
        for controller in &mut controllers {
            controller.act(&state);
        }
        if seen {
            // More may have come meanwhile; others want to run, too.
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
