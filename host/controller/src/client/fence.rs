//! Stops the requests of a version that was swapped out, and lets the swap wait for its requests in flight.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The fence of one version. A permit is taken right before each request is sent; a swap closes the fence and
/// waits for the permits to be dropped. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fence(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    drained: Notify,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    in_flight: usize,
}

/// Permission to send one request, held until its response has arrived or nobody waits for it any more.
#[derive(Debug)]
pub(crate) struct FencePermit(Arc<Shared>);

impl Fence {
    /// Returns a permit to send a request; `None` once the fence is closed.
    pub(crate) fn enter(&self) -> Option<FencePermit> {
        let mut state = self.0.state.lock();
        if state.is_closed {
            return None;
        }
        state.in_flight += 1;
        Some(FencePermit(Arc::clone(&self.0)))
    }

    /// Closes the fence: the version sends nothing from now on.
    pub(crate) fn close(&self) {
        self.0.state.lock().is_closed = true;
    }

    /// Opens the fence again, for a version that continues after all.
    pub(crate) fn open(&self) {
        self.0.state.lock().is_closed = false;
    }

    /// Waits until no request is in flight. Cancellation safe.
    pub(crate) async fn drained(&self) {
        loop {
            let drained = self.0.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            if self.0.state.lock().in_flight == 0 {
                return;
            }
            drained.await;
        }
    }
}

impl Drop for FencePermit {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.in_flight -= 1;
        let is_last = state.in_flight == 0;
        drop(state);
        if is_last {
            self.0.drained.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_closed_fence_admits_no_request_and_is_drained_when_the_last_one_has_ended() {
        let fence = Fence::default();
        let (first, second) = (fence.enter().expect("open"), fence.enter().expect("open"));
        fence.close();
        assert!(fence.enter().is_none());
        let mut drained = tokio_test::task::spawn(fence.drained());
        assert!(drained.poll().is_pending());
        drop(first);
        assert!(!drained.is_woken());
        drop(second);
        assert!(drained.is_woken() && drained.poll().is_ready());
        fence.open();
        assert!(fence.enter().is_some());
        assert!(fence.drained().now_or_never().is_some());
    }
}
