//! A plugin's dedicated instance. The observer needs one, because its memory holds what it has observed; a stateful plugin also reconciles
//! on it.

use std::sync::Arc;

use pilothouse_plugin::{Failure, Fault, Instance, InstancePool, Observation, Outcome, Request};
use tokio::sync::{Mutex, Notify, watch};

/// At most one instance at a time, created on demand and replaced after it failed.
///
/// Callers hold the slot during a call, because an instance takes one call at a time. There are only two: the observer and, for a stateful
/// plugin, its single worker.
pub(crate) struct DedicatedInstance {
    instances: InstancePool,
    /// Whether an observer uses the instance.
    has_observer: bool,
    slot: Mutex<Slot>,
    /// Whether the current instance has received everything that the observer has to deliver.
    caught_up: watch::Sender<bool>,
    discarded: Notify,
}

#[derive(Default)]
struct Slot {
    instance: Option<Instance>,
    /// The number of instances created so far.
    generation: u64,
}

impl DedicatedInstance {
    /// Creates an empty slot. Instances are created by `instances` and are not returned to that pool.
    pub(crate) fn new(instances: InstancePool, has_observer: bool) -> Self {
        Self {
            instances,
            has_observer,
            slot: Mutex::default(),
            caught_up: watch::Sender::new(!has_observer),
            discarded: Notify::new(),
        }
    }

    /// Creates an instance unless there is a usable one, and returns its generation.
    pub(crate) async fn ensure(&self) -> Result<u64, Fault> {
        let mut slot = self.slot.lock().await;
        self.instance(&mut slot).await?;
        Ok(slot.generation)
    }

    /// Delivers a batch to the instance of that generation; `None` if it does not exist any more.
    pub(crate) async fn observe(
        &self,
        generation: u64,
        batch: Vec<Observation>,
    ) -> Option<Result<(), Failure>> {
        let mut slot = self.slot.lock().await;
        if slot.generation != generation {
            return None;
        }
        let usable = slot.instance.as_mut().filter(|instance| instance.is_usable())?;
        let outcome = usable.observe_owned(batch).await;
        self.discard_unusable(&mut slot);
        Some(outcome)
    }

    /// Drops the idle instance of that generation; [`ensure`](Self::ensure) creates another. For observers that keep no state of their own:
    /// the next instance receives everything again.
    pub(crate) async fn drop_idle(&self, generation: u64) {
        let mut slot = self.slot.lock().await;
        if slot.generation == generation {
            slot.instance = None;
            self.caught_up.send_replace(!self.has_observer);
        }
    }

    /// Reconciles on the instance; `None` until its observer has caught up.
    pub(crate) async fn reconcile(&self, request: &Arc<Request>) -> Option<Result<Outcome, Failure>> {
        let mut slot = self.slot.lock().await;
        // First, because it resets `caught_up` if the instance is gone.
        self.discard_unusable(&mut slot);
        if !*self.caught_up.borrow() {
            return None;
        }
        let outcome = match self.instance(&mut slot).await {
            Ok(instance) => instance.reconcile(Arc::clone(request)).await,
            Err(fault) => Err(fault.into()),
        };
        self.discard_unusable(&mut slot);
        Some(outcome)
    }

    /// Marks the instance of that generation as caught up, so that it may reconcile.
    pub(crate) async fn set_caught_up(&self, generation: u64) {
        let slot = self.slot.lock().await;
        if slot.generation == generation && slot.instance.is_some() {
            self.caught_up.send_replace(true);
        }
    }

    /// Returns a receiver that is true while the instance may reconcile. It is closed with the version.
    pub(crate) fn subscribe_caught_up(&self) -> watch::Receiver<bool> {
        self.caught_up.subscribe()
    }

    /// Waits until an instance was discarded, possibly by a worker, so that the observer has to create another.
    ///
    /// # Cancellation safety
    /// Safe.
    pub(crate) async fn wait_until_discarded(&self) {
        self.discarded.notified().await;
    }

    async fn instance<'a>(&self, slot: &'a mut Slot) -> Result<&'a mut Instance, Fault> {
        self.discard_unusable(slot);
        let instance = match slot.instance.take() {
            Some(instance) => instance,
            None => {
                let instance = self.instances.instantiate().await?;
                slot.generation += 1;
                instance
            }
        };
        Ok(slot.instance.insert(instance))
    }

    /// Drops an instance that trapped or leaks. A cancelled call leaves its instance in the slot; the next call discards it here.
    fn discard_unusable(&self, slot: &mut Slot) {
        if slot.instance.as_ref().is_some_and(|instance| !instance.is_usable()) {
            slot.instance = None;
            if self.has_observer {
                self.caught_up.send_replace(false);
                self.discarded.notify_one();
            }
        }
    }
}
