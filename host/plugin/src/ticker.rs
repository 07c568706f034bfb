//! The thread that advances the engine's epoch while guests run, so that they yield and their CPU time is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// A thread that ticks while calls run, and sleeps while none does, so that an idle host does not wake up. Dropping it ends the thread.
///
/// This cannot be an async task: when guests occupy all threads of the runtime, no task would run to interrupt them.
pub(crate) struct Ticker {
    calls: Arc<Calls>,
    wake: Option<Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Calls {
    running: AtomicUsize,
    /// Whether the thread is asleep or about to sleep, and was not woken yet.
    asleep: AtomicBool,
}

/// A running call: the thread ticks until this is dropped.
pub(crate) struct RunningCall<'a>(&'a Calls);

impl Ticker {
    /// Starts the thread, which calls `tick` once per `period` while calls run.
    pub(crate) fn start(period: Duration, tick: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (wake, wake_ups) = mpsc::channel();
        let calls = Arc::new(Calls::default());
        let thread_calls = Arc::clone(&calls);
        let thread = std::thread::Builder::new()
            .name("wasm-ticker".to_owned())
            .spawn(move || while thread_calls.tick_or_sleep(&wake_ups, period, &tick) {})?;
        Ok(Self { calls, wake: Some(wake), thread: Some(thread) })
    }

    /// Returns a ticker without a thread, which never ticks.
    pub(crate) fn stopped() -> Self {
        Self { calls: Arc::default(), wake: None, thread: None }
    }

    /// Begins a call, and wakes the thread if it sleeps.
    pub(crate) fn enter(&self) -> RunningCall<'_> {
        // `running` and `asleep` are sequentially consistent: either the thread sees the call before it sleeps, or this sees that it
        // sleeps.
        self.calls.running.fetch_add(1, Ordering::SeqCst);
        // Only the first caller wakes the thread: it may take long until the thread is scheduled, and a wake-up costs more than a call.
        if self.calls.asleep.load(Ordering::SeqCst)
            && self.calls.asleep.swap(false, Ordering::SeqCst)
            && let Some(wake) = &self.wake
        {
            // The receiver lives as long as this ticker.
            let _ = wake.send(());
        }
        RunningCall(&self.calls)
    }
}

impl Calls {
    /// Waits for one tick, or sleeps until a call begins. Returns `false` once the ticker was dropped.
    fn tick_or_sleep(&self, wake_ups: &Receiver<()>, period: Duration, tick: &impl Fn()) -> bool {
        if self.running.load(Ordering::SeqCst) > 0 {
            return match wake_ups.recv_timeout(period) {
                Err(RecvTimeoutError::Timeout) => {
                    tick();
                    true
                }
                // A wake-up that came when the thread was awake already.
                Ok(()) => true,
                Err(RecvTimeoutError::Disconnected) => false,
            };
        }
        self.asleep.store(true, Ordering::SeqCst);
        let is_alive = self.running.load(Ordering::SeqCst) > 0 || wake_ups.recv().is_ok();
        self.asleep.store(false, Ordering::SeqCst);
        is_alive
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            // The thread ends soon: it only waits for the channel that was just closed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticker() -> (Ticker, Receiver<()>) {
        let (sender, ticks) = mpsc::channel();
        let tick = move || {
            // The test may have ended.
            let _ = sender.send(());
        };
        let ticker = Ticker::start(Duration::from_millis(1), tick).expect("a thread");
        (ticker, ticks)
    }

    #[test]
    fn the_thread_ticks_while_calls_run_and_sleeps_while_none_does() {
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
    fn dropping_a_ticker_ends_it_whether_it_sleeps_or_ticks() {
        let (asleep, _ticks) = ticker();
        drop(asleep);
        let (awake, ticks) = ticker();
        // A call that never ends.
        std::mem::forget(awake.enter());
        ticks.recv().expect("a tick");
        drop(awake);
    }
}
