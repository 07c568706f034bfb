//! Runs the controllers: inline, or each in a thread while webhooks may delay its writes.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use super::kind::Kind;
use super::{Change, Controller, Observation};
use crate::registry::Endpoint;
use crate::state::State;
use crate::storage::StoredObject;

/// How many changes are kept for a controller that is running. The controllers observe no further changes when one of them has more.
const MAX_UNOBSERVED: usize = 65_536;

/// A controller, and the position of its slot.
type Finished = (usize, Box<dyn Controller>);

/// The controllers, each of which runs at most once at the same time.
pub(super) struct Runner {
    slots: Vec<Slot>,
    running: FuturesUnordered<JoinHandle<Finished>>,
}

struct Slot {
    /// `None` while the controller runs in a thread.
    controller: Option<Box<dyn Controller>>,
    /// Changes that the controller has yet to observe, because it runs.
    unobserved: Vec<OwnedObservation>,
}

/// An [`Observation`] that is kept.
struct OwnedObservation {
    endpoint: Arc<Endpoint>,
    kind: Option<Kind>,
    object: Arc<StoredObject>,
    is_deletion: bool,
    due: Instant,
}

impl Runner {
    pub(super) fn new(controllers: Vec<Box<dyn Controller>>) -> Self {
        let slot = |controller| Slot { controller: Some(controller), unobserved: Vec::new() };
        Self { slots: controllers.into_iter().map(slot).collect(), running: FuturesUnordered::new() }
    }

    /// Passes a change to all controllers.
    pub(super) fn observe(&mut self, observation: &Observation<'_>) {
        for slot in &mut self.slots {
            match &mut slot.controller {
                Some(controller) => controller.observe(observation),
                None => slot.unobserved.push(OwnedObservation::new(observation)),
            }
        }
    }

    /// Whether a running controller has too many changes to observe.
    pub(super) fn is_full(&self) -> bool {
        self.slots.iter().any(|slot| slot.unobserved.len() >= MAX_UNOBSERVED)
    }

    /// Returns the time at which the next item of a controller that is not running is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let idle = self.slots.iter().filter_map(|slot| slot.controller.as_ref());
        idle.filter_map(|controller| controller.next_due()).min()
    }

    /// Runs the controllers that have something due, except those that are running.
    ///
    /// # Panics
    /// If a controller panics, after all others have run.
    pub(super) fn run(&mut self, state: &Arc<State>, now: Instant) {
        if may_wait(state) {
            return self.start_threads(state, now);
        }
        let mut panic = None;
        for controller in self.slots.iter_mut().filter_map(|slot| slot.controller.as_mut()) {
            // What a controller leaves behind when it panics is dropped.
            if let Err(error) = catch_unwind(AssertUnwindSafe(|| controller.run(state, now))) {
                panic = Some(error);
            }
        }
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Starts a thread for each controller that has something due.
    fn start_threads(&mut self, state: &Arc<State>, now: Instant) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let due = slot.controller.as_ref().and_then(|controller| controller.next_due());
            if due.is_none_or(|due| due > now) {
                continue;
            }
            let Some(mut controller) = slot.controller.take() else { continue };
            let state = Arc::clone(state);
            self.running.push(tokio::task::spawn_blocking(move || {
                controller.run(&state, now);
                (index, controller)
            }));
        }
    }

    /// Waits until a thread has finished; forever if there is none.
    ///
    /// # Panics
    /// If the controller panicked.
    pub(super) async fn finished(&mut self) {
        match self.running.next().await {
            Some(result) => self.accept(result),
            None => std::future::pending().await,
        }
    }

    /// Takes back the controllers whose threads have finished, without waiting.
    ///
    /// # Panics
    /// If a controller panicked.
    pub(super) fn collect_finished(&mut self) {
        while let Some(Some(result)) = self.running.next().now_or_never() {
            self.accept(result);
        }
    }

    fn accept(&mut self, result: Result<Finished, JoinError>) {
        match result {
            Ok(finished) => self.put_back(finished),
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The runtime ends.
            Err(_) => {}
        }
    }

    /// Takes a controller back and passes it the changes that it missed.
    fn put_back(&mut self, (index, mut controller): Finished) {
        let slot = &mut self.slots[index];
        for observation in slot.unobserved.drain(..) {
            controller.observe(&observation.borrow());
        }
        slot.unobserved.shrink_to_fit();
        slot.controller = Some(controller);
    }
}

/// Whether the writes of controllers may wait for webhooks.
fn may_wait(state: &State) -> bool {
    // Without further threads, webhooks are skipped; see `rest::write_steps::internal`.
    let is_multi_threaded =
        Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    is_multi_threaded
        && (state.admission.is_configured()
            || state.registry().endpoints().any(|endpoint| endpoint.webhook.is_some()))
}

impl OwnedObservation {
    fn new(observation: &Observation<'_>) -> Self {
        let object = match observation.change {
            Change::Applied(object) | Change::Deleted(object) => Arc::clone(object),
        };
        Self {
            endpoint: Arc::clone(observation.endpoint),
            kind: observation.kind,
            object,
            is_deletion: observation.is_deletion(),
            due: observation.due,
        }
    }

    fn borrow(&self) -> Observation<'_> {
        let change =
            if self.is_deletion { Change::Deleted(&self.object) } else { Change::Applied(&self.object) };
        Observation { endpoint: &self.endpoint, kind: self.kind, change, due: self.due }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::access::Authorization;
    use crate::admission_plugins::AdmissionPlugins;
    use crate::clock::SystemClock;
    use crate::cluster_ip_range::ClusterIpRange;
    use crate::identifiers::Identifiers;
    use crate::state::StateOptions;
    use crate::storage::{HistoryLimits, ObjectDraft};

    /// Counts changes and runs. A run waits for a message if there is a gate.
    #[derive(Default)]
    struct Probe {
        observed: Arc<AtomicUsize>,
        runs: Arc<AtomicUsize>,
        gate: Option<Mutex<mpsc::Receiver<()>>>,
        due: Option<Instant>,
    }

    impl Controller for Probe {
        fn observe(&mut self, observation: &Observation<'_>) {
            self.observed.fetch_add(1, Ordering::SeqCst);
            self.due = Some(observation.due);
        }

        fn next_due(&self) -> Option<Instant> {
            self.due
        }

        fn run(&mut self, _: &State, _: Instant) {
            if let Some(gate) = &self.gate {
                gate.lock().recv().expect("a message");
            }
            self.runs.fetch_add(1, Ordering::SeqCst);
            self.due = None;
        }
    }

    fn state() -> Arc<State> {
        Arc::new(State::new(StateOptions {
            clock: Arc::new(SystemClock),
            identifiers: Identifiers::default(),
            history: HistoryLimits { events: 10, bytes: 1 << 20 },
            first_revision: 1,
            bookmark_interval: Duration::from_secs(60),
            authorization: Authorization::default(),
            allow_anonymous: false,
            webhooks: false,
            plugins: AdmissionPlugins::default(),
            cluster_ips: ClusterIpRange::default(),
            pod_removal_pause: Duration::ZERO,
            change_logs: Vec::new(),
        }))
    }

    #[tokio::test]
    async fn controller_that_waits_does_not_delay_others_and_misses_no_change() {
        let (open, gate) = mpsc::channel();
        let slow = Probe { gate: Some(Mutex::new(gate)), ..Probe::default() };
        let quick = Probe::default();
        let count = |counter: &Arc<AtomicUsize>| {
            let counter = Arc::clone(counter);
            move || counter.load(Ordering::SeqCst)
        };
        let (slow_observed, slow_runs) = (count(&slow.observed), count(&slow.runs));
        let (quick_observed, quick_runs) = (count(&quick.observed), count(&quick.runs));
        let mut runner = Runner::new(vec![Box::new(slow), Box::new(quick)]);
        let state = state();
        let registry = state.registry();
        let endpoint = registry.endpoint("", "v1", "configmaps").expect("served");
        let value = json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"}});
        let draft = ObjectDraft { value, fields: Box::default(), schema: 0 };
        let object = Arc::new(StoredObject::new(draft, 1));
        let due = Instant::now();
        let change = Observation { endpoint, kind: None, change: Change::Applied(&object), due };

        runner.observe(&change);
        runner.start_threads(&state, due);
        runner.finished().await;
        assert_eq!((quick_runs(), slow_runs()), (1, 0), "the other controller waits");
        runner.observe(&change);
        runner.start_threads(&state, due);
        runner.finished().await;
        assert_eq!((quick_runs(), quick_observed()), (2, 2));
        assert_eq!((slow_runs(), slow_observed()), (0, 1), "it runs, so it observes later");
        open.send(()).expect("a receiver");
        runner.finished().await;
        assert_eq!((slow_runs(), slow_observed()), (1, 2));
        assert_eq!(runner.next_due(), Some(due), "the change that it missed is due");
    }

    /// Panics when it runs.
    struct Broken;

    impl Controller for Broken {
        fn observe(&mut self, _: &Observation<'_>) {}

        fn next_due(&self) -> Option<Instant> {
            None
        }

        fn run(&mut self, _: &State, _: Instant) {
            panic!("broken");
        }
    }

    #[tokio::test]
    async fn a_controller_that_panics_does_not_keep_others_from_their_work() {
        let healthy = Probe::default();
        let runs = Arc::clone(&healthy.runs);
        let mut runner = Runner::new(vec![Box::new(Broken), Box::new(healthy)]);
        let state = state();
        let ran = catch_unwind(AssertUnwindSafe(|| runner.run(&state, Instant::now())));
        assert_eq!((ran.is_err(), runs.load(Ordering::SeqCst)), (true, 1));
    }
}
