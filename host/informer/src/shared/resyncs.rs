//! Starts the resyncs of an informer's subscribers.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::informer::Informer;

impl Informer {
    /// Starts resyncs: ticks at the smallest period of all subscribers; only subscribers that are due receive the resync.
    pub(super) async fn run_resyncs(&self) {
        loop {
            let next = self.subscribers.lock().next_tick;
            match next {
                None => self.resyncs_changed.notified().await,
                Some(at) => tokio::select! {
                    // `biased` keeps simulations repeatable. The order of the branches has no effect.
                    biased;
                    () = sleep_until(at) => self.resync(at),
                    () = self.resyncs_changed.notified() => {}
                },
            }
        }
    }

    fn resync(&self, now: Instant) {
        let due = {
            let mut subscribers = self.subscribers.lock();
            let synced = subscribers.synced;
            let mut due = false;
            let mut smallest: Option<Duration> = None;
            for resync in
                subscribers.registrations.iter_mut().filter_map(|registration| registration.resync.as_mut())
            {
                resync.running = synced && resync.due <= now;
                if resync.due <= now {
                    resync.due = now + resync.period;
                }
                due |= resync.running;
                smallest = Some(smallest.map_or(resync.period, |period| period.min(resync.period)));
            }
            subscribers.next_tick = smallest.map(|period| now + period);
            due
        };
        if due {
            self.queue.resync();
        }
    }
}
