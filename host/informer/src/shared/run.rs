//! What an informer runs, and what it does when that panicked.

use std::sync::Arc;

use pilothouse_model::Deletion;

use super::change::Change;
use super::informer::Informer;
use crate::failure::{Failure, FailureKind};
use crate::list_watch::ListWatch;
use crate::options::InformerOptions;
use crate::reflector::{ServerRecovery, Reflector};
use crate::status::InformerPhase;
use crate::supervise::TaskPanic;

/// What an informer runs until it is stopped, and anew after a panic.
pub(super) struct InformerRun<F> {
    pub(super) informer: Arc<Informer>,
    pub(super) list_watch: Arc<dyn ListWatch>,
    /// Shared by all informers of a server.
    pub(super) recovery: Option<Arc<ServerRecovery>>,
    pub(super) options: InformerOptions,
    pub(super) forbidden: F,
}

impl<F: Fn(&Arc<Informer>) + Send + Sync> InformerRun<F> {
    pub(super) async fn run(&self) {
        let informer = &self.informer;
        informer.finish_deletion();
        let reflector = informer.reflector(Arc::clone(&self.list_watch), &self.options);
        let reflector = reflector.with_recovery(self.recovery.clone());
        tokio::select! {
            biased;
            () = informer.stop.cancelled() => {}
            () = reflector.run(&informer.stop) => {}
            () = informer.process() => {}
            () = informer.tick() => {}
            () = informer.watch_for_forbidden(&self.forbidden) => {}
        }
    }
}

impl Informer {
    fn reflector(&self, list_watch: Arc<dyn ListWatch>, options: &InformerOptions) -> Reflector {
        let queue = Arc::clone(&self.queue);
        let reflector = Reflector::new(&self.key, list_watch, queue, options, self.status.clone());
        reflector.resuming_from(&self.status.borrow())
    }

    pub(super) fn panicked(&self, panic: &TaskPanic) {
        tracing::error!(key = %self.key, "an informer {panic}");
        let failure = Failure::new(FailureKind::Defect, format!("the informer {panic}"));
        self.status.send_modify(|status| {
            status.phase = InformerPhase::BackingOff;
            status.error = Some(Arc::new(failure));
            status.failures += 1;
        });
    }

    /// Tells everybody of a deletion that a panic kept from some: the list that follows cannot, because the cache does not
    /// have the object any more. Those who were told already are told twice.
    pub(super) fn finish_deletion(&self) {
        let mut subscribers = self.subscribers.lock();
        let Some((stored, Deletion { last, final_state_unknown })) = subscribers.deletion.take() else { return };
        if self.store.contains(last.key()) {
            return;
        }
        subscribers.push_to_all(|| Some(Change::Deleted { stored: &stored, last: &last, final_state_unknown }));
        subscribers.wake();
    }
}
