//! The futures that an informer runs, and how it recovers after a panic in one of them.

use std::sync::Arc;

use pilothouse_model::Deletion;

use super::change::Change;
use super::informer::Informer;
use crate::failure::{Failure, FailureKind};
use crate::list_watch::ListWatch;
use crate::options::InformerOptions;
use crate::reflector::{Reflector, ServerRecovery};
use crate::status::InformerPhase;
use crate::supervise::TaskPanic;

/// Everything an informer needs to run until it is stopped. After a panic, [`run`](Self::run) is called again.
pub(super) struct InformerRun<F> {
    pub(super) informer: Arc<Informer>,
    pub(super) list_watch: Arc<dyn ListWatch>,
    /// Shared by all informers of one server.
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
            () = informer.run_resyncs() => {}
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

    /// Pushes the deletion that a panic interrupted. The relist cannot deliver it, because the object is no longer in the
    /// cache. Subscribers that had received it before the panic receive it twice.
    pub(super) fn finish_deletion(&self) {
        let mut subscribers = self.subscribers.lock();
        let Some((stored, Deletion { last, final_state_unknown })) = subscribers.pending_deletion.take()
        else {
            return;
        };
        if self.store.contains(last.key()) {
            return;
        }
        subscribers.push(&Change::Deleted { stored: &stored, last: &last, final_state_unknown });
        subscribers.wake();
    }
}
