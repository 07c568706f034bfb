//! The instance that an observer keeps, because its memory holds what it has learned. A stateful plugin reconciles on
//! it, too.

use std::sync::Arc;

use pilothouse_plugin::{Failure, Fault, Instance, InstancePool, Observation, Outcome, Request};
use tokio::sync::{Mutex, Notify, watch};

/// One instance at a time, made when it is needed and made anew after it has failed.
///
/// Who calls it holds the seat meanwhile: an instance takes one call at a time, and only the observer and the one
/// worker of the same plugin ever ask.
pub(crate) struct Pinned {
    instances: InstancePool,
    /// Whether an observer uses it.
    observes: bool,
    seat: Mutex<Seat>,
    /// Whether the present instance has been told of everything there is.
    caught_up: watch::Sender<bool>,
    lost: Notify,
}

#[derive(Default)]
struct Seat {
    instance: Option<Instance>,
    /// Counts the instances made.
    generation: u64,
}

impl Pinned {
    /// A seat without an instance. The pool makes the instances, and does not get to see them.
    pub(crate) fn new(instances: InstancePool, observes: bool) -> Self {
        Self {
            instances,
            observes,
            seat: Mutex::default(),
            caught_up: watch::Sender::new(!observes),
            lost: Notify::new(),
        }
    }

    /// Has an instance there, and says which one it is.
    pub(crate) async fn ready(&self) -> Result<u64, Fault> {
        let mut seat = self.seat.lock().await;
        self.instance(&mut seat).await?;
        Ok(seat.generation)
    }

    /// Delivers a batch to the instance of that generation; `None` when it is gone.
    pub(crate) async fn observe(
        &self,
        generation: u64,
        batch: Vec<Observation>,
    ) -> Option<Result<(), Failure>> {
        let mut seat = self.seat.lock().await;
        if seat.generation != generation {
            return None;
        }
        let usable = seat.instance.as_mut().filter(|instance| instance.is_usable())?;
        let outcome = usable.observe_owned(batch).await;
        self.discard_unusable(&mut seat);
        Some(outcome)
    }

    /// Lets go of the instance of that generation, because nothing happens; [`ready`](Self::ready) makes another. For observers that say
    /// that all they know is what they are told: the next instance is told everything.
    pub(crate) async fn rest(&self, generation: u64) {
        let mut seat = self.seat.lock().await;
        if seat.generation == generation {
            seat.instance = None;
            self.caught_up.send_replace(!self.observes);
        }
    }

    /// Reconciles on the instance; `None` while its observer has not been told of everything.
    pub(crate) async fn reconcile(&self, request: &Arc<Request>) -> Option<Result<Outcome, Failure>> {
        let mut seat = self.seat.lock().await;
        // Before the observer is asked whether it has caught up, and with whom.
        self.discard_unusable(&mut seat);
        if !*self.caught_up.borrow() {
            return None;
        }
        let outcome = match self.instance(&mut seat).await {
            Ok(instance) => instance.reconcile(Arc::clone(request)).await,
            Err(fault) => Err(fault.into()),
        };
        self.discard_unusable(&mut seat);
        Some(outcome)
    }

    /// The instance of that generation has been told of everything: it may reconcile.
    pub(crate) async fn has_caught_up(&self, generation: u64) {
        let seat = self.seat.lock().await;
        if seat.generation == generation && seat.instance.is_some() {
            self.caught_up.send_replace(true);
        }
    }

    /// Turns true when the instance may reconcile, and ends with the version.
    pub(crate) fn caught_up(&self) -> watch::Receiver<bool> {
        self.caught_up.subscribe()
    }

    /// Waits until an instance is gone without its observer having noticed. Cancellation safe.
    pub(crate) async fn lost(&self) {
        self.lost.notified().await;
    }

    async fn instance<'a>(&self, seat: &'a mut Seat) -> Result<&'a mut Instance, Fault> {
        self.discard_unusable(seat);
        let instance = match seat.instance.take() {
            Some(instance) => instance,
            None => {
                let made = self.instances.instantiate().await?;
                seat.generation += 1;
                made
            }
        };
        Ok(seat.instance.insert(instance))
    }

    /// An instance that trapped, leaks, or was left in the middle of a call (then this runs at the next).
    fn discard_unusable(&self, seat: &mut Seat) {
        if seat.instance.as_ref().is_some_and(|instance| !instance.is_usable()) {
            seat.instance = None;
            if self.observes {
                self.caught_up.send_replace(false);
                self.lost.notify_one();
            }
        }
    }
}
