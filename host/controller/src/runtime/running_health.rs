//! Whether a worker may take a key: some running version may be called.

use crate::lifecycle::Health;

/// The health of the running versions. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct RunningHealth {
    stable: Health,
    canary: Option<Health>,
}

impl RunningHealth {
    pub(super) fn new(stable: Health, canary: Option<Health>) -> Self {
        Self { stable, canary }
    }

    /// Whether a canary runs.
    pub(super) fn has_canary(&self) -> bool {
        self.canary.is_some()
    }

    /// Waits until one of the versions may be called. Cancellation safe.
    pub(super) async fn wait_until_allowed(&self) {
        match &self.canary {
            None => self.stable.wait_until_allowed().await,
            // Boxed, because each worker's future contains this one, and most plugins have no canary.
            Some(canary) => {
                let either = async {
                    tokio::select! {
                        // `biased` keeps simulations repeatable. The order of the branches has no effect.
                        biased;
                        () = self.stable.wait_until_allowed() => {}
                        () = canary.wait_until_allowed() => {}
                    }
                };
                Box::pin(either).await;
            }
        }
    }

    /// Waits until none of the versions may be called. With a canary, one may be called again by the time this returns. Cancellation safe.
    pub(super) async fn wait_until_blocked(&self) {
        match &self.canary {
            None => self.stable.wait_until_blocked().await,
            Some(canary) => {
                let both =
                    async { tokio::join!(self.stable.wait_until_blocked(), canary.wait_until_blocked()) };
                Box::pin(both).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_test::{assert_pending, assert_ready, task};

    use super::*;
    use crate::lifecycle::Activity;

    fn break_down(health: &Health) {
        for _ in 0..5 {
            health.record_fault(Activity::Reconcile, None, &"it trapped");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn workers_stop_only_if_no_version_may_be_called() {
        let (stable, canary) = (Health::default(), Health::default());
        let health = RunningHealth::new(stable.clone(), Some(canary.clone()));
        let mut blocked = task::spawn(health.wait_until_blocked());
        assert_pending!(blocked.poll());
        break_down(&canary);
        assert_pending!(blocked.poll());
        assert_ready!(task::spawn(health.wait_until_allowed()).poll());
        break_down(&stable);
        assert_ready!(blocked.poll());
        let mut allowed = task::spawn(health.wait_until_allowed());
        assert_pending!(allowed.poll());
        canary.retire();
        assert_ready!(allowed.poll());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_canary_the_health_of_the_version_decides() {
        let stable = Health::default();
        let health = RunningHealth::new(stable.clone(), None);
        assert_ready!(task::spawn(health.wait_until_allowed()).poll());
        break_down(&stable);
        assert_ready!(task::spawn(health.wait_until_blocked()).poll());
        assert_pending!(task::spawn(health.wait_until_allowed()).poll());
    }
}
