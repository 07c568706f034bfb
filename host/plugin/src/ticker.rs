//! The thread that advances the engine's epoch while guests run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Ticks while a call runs, and sleeps while none does: an idle host wakes for nothing. It must be a thread: a task of a runtime whose
/// threads are all busy with guests would be the one thing that never runs. Dropping it ends the thread.
pub(crate) struct Ticker {
    calls: Arc<Calls>,
    wake: Option<Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Calls {
    running: AtomicUsize,
    /// Whether the thread waits to be woken, or is about to, and nobody has woken it.
    asleep: AtomicBool,
}

/// A call that runs: there is a tick at least every so often until this is dropped.
pub(crate) struct Running<'a>(&'a Calls);

impl Ticker {
    /// `tick` is called each `every` while calls run.
    pub(crate) fn start(every: Duration, tick: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (wake, woken) = mpsc::channel();
        let calls = Arc::new(Calls::default());
        let seen = Arc::clone(&calls);
        let thread = std::thread::Builder::new()
            .name("wasm-ticker".to_owned())
            .spawn(move || while seen.pass(&woken, every, &tick) {})?;
        Ok(Self { calls, wake: Some(wake), thread: Some(thread) })
    }

    pub(crate) fn enter(&self) -> Running<'_> {
        // Both are in one order for all threads. So either the thread sees the call before it sleeps, or this sees that it does.
        self.calls.running.fetch_add(1, Ordering::SeqCst);
        // Only the first who comes wakes it: it may be long until it gets to run, and a wake-up costs more than a call.
        if self.calls.asleep.load(Ordering::SeqCst)
            && self.calls.asleep.swap(false, Ordering::SeqCst)
            && let Some(wake) = &self.wake
        {
            // It ends only with this.
            let _ = wake.send(());
        }
        Running(&self.calls)
    }
}

impl Calls {
    /// One tick, or one sleep; `false` once the ticker is gone.
    fn pass(&self, woken: &Receiver<()>, every: Duration, tick: &impl Fn()) -> bool {
        if self.running.load(Ordering::SeqCst) > 0 {
            return match woken.recv_timeout(every) {
                Err(RecvTimeoutError::Timeout) => {
                    tick();
                    true
                }
                // Woken twice.
                Ok(()) => true,
                Err(RecvTimeoutError::Disconnected) => false,
            };
        }
        self.asleep.store(true, Ordering::SeqCst);
        let goes_on = self.running.load(Ordering::SeqCst) > 0 || woken.recv().is_ok();
        self.asleep.store(false, Ordering::SeqCst);
        goes_on
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            // It waits for nothing but the channel that was just closed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticker() -> (Ticker, Receiver<()>) {
        let (ticked, ticks) = mpsc::channel();
        let tick = move || {
            // The test may have ended.
            let _ = ticked.send(());
        };
        let ticker = Ticker::start(Duration::from_millis(1), tick).expect("a thread");
        (ticker, ticks)
    }

    #[test]
    fn it_ticks_while_calls_run_and_sleeps_while_none_does() {
        let (ticker, ticks) = ticker();
        for _ in 0..50 {
            let (first, second) = (ticker.enter(), ticker.enter());
            ticks.recv().expect("a tick");
            drop(first);
            ticks.recv().expect("a tick");
            drop(second);
            while !ticker.calls.asleep.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            while ticks.try_recv().is_ok() {}
            assert!(ticks.recv_timeout(Duration::from_millis(5)).is_err(), "it sleeps");
        }
    }

    #[test]
    fn a_ticker_that_sleeps_or_ticks_ends_when_it_is_dropped() {
        let (asleep, _ticks) = ticker();
        drop(asleep);
        let (awake, ticks) = ticker();
        // A call that never ends.
        std::mem::forget(awake.enter());
        ticks.recv().expect("a tick");
        drop(awake);
    }
}
