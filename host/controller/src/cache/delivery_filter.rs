//! Which changes a plugin's subscription delivers: those that the running version may act on, or every change while something else of the
//! plugin needs them.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pilothouse_informer::Subscription;
use pilothouse_informer::condition::Condition;

/// Sets the condition of one subscription. It belongs to the subscription, and so outlives versions.
pub(crate) struct DeliveryFilter {
    subscription: Weak<Subscription>,
    state: Mutex<FilterState>,
}

struct FilterState {
    /// The condition of the version that the subscription is dispatched to.
    condition: Condition,
    holds: usize,
}

/// While this exists, the subscription delivers every change. Changes from before are in the cache once this has been created.
pub(crate) struct DeliveryHold(Arc<DeliveryFilter>);

impl DeliveryFilter {
    /// Returns the filter of a new subscription, which delivers every change.
    pub(crate) fn new(subscription: &Arc<Subscription>) -> Arc<Self> {
        let state = FilterState { condition: Condition::constant(true), holds: 0 };
        Arc::new(Self { subscription: Arc::downgrade(subscription), state: Mutex::new(state) })
    }

    /// Replaces the condition. It takes effect once there are no holds.
    pub(crate) fn set_condition(&self, condition: Condition) {
        let mut state = self.state.lock();
        state.condition = condition;
        self.apply(&state);
    }

    /// Delivers every change from now on, until the result is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> DeliveryHold {
        let mut state = self.state.lock();
        state.holds += 1;
        if state.holds == 1 {
            self.apply(&state);
        }
        DeliveryHold(Arc::clone(self))
    }

    /// Whether the subscription was dropped.
    pub(crate) fn has_ended(&self) -> bool {
        self.subscription.strong_count() == 0
    }

    /// Must be called with the state locked, so that the last change of the state is the last one that the informer sees.
    fn apply(&self, state: &FilterState) {
        if let Some(subscription) = self.subscription.upgrade() {
            let condition = if state.holds > 0 { Condition::constant(true) } else { state.condition.clone() };
            subscription.set_condition(condition);
        }
    }
}

impl Drop for DeliveryHold {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.holds -= 1;
        if state.holds == 0 {
            self.0.apply(&state);
        }
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_informer::condition::EventKind;

    use super::*;
    use crate::cache::views::model_tests::model_server::{ModelServer, TestWatch};

    #[tokio::test(start_paused = true)]
    async fn every_change_is_delivered_while_anybody_needs_it() {
        let (mut server, mut watched) = (ModelServer::new(true), TestWatch::open("").await);
        let filter = DeliveryFilter::new(&watched.subscription);
        filter.set_condition(Condition::event(EventKind::Deleted));
        let mut delivered = async |server: &mut ModelServer, step: usize| {
            drop(server.put(step % 3, 0, 0));
            watched.deliver(server, 1).await;
            watched.subscription.take_pending().len()
        };
        assert_eq!(delivered(&mut server, 0).await, 0);
        let (first, second) = (filter.hold(), filter.hold());
        assert_eq!(delivered(&mut server, 1).await, 1);
        drop(first);
        assert_eq!(delivered(&mut server, 2).await, 1);
        filter.set_condition(Condition::constant(false));
        assert_eq!(delivered(&mut server, 3).await, 1);
        drop(second);
        assert_eq!(delivered(&mut server, 4).await, 0);
        filter.set_condition(Condition::constant(true));
        assert_eq!(delivered(&mut server, 5).await, 1);
    }
}
