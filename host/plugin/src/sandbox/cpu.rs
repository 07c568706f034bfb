//! How long an instance may compute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use wasmtime::UpdateDeadline;

use super::Stop;

/// Counts the engine's ticks that a guest was running in, which is its CPU time to the tick.
///
/// At each tick the guest gives the thread back to the runtime, so that one that never ends delays others by a tick at most, and so that
/// the clock of the call (see `Instance`) gets to run.
///
/// Host functions run between two looks of the engine, however long they take. So those that may take longer than a tick count theirs
/// themselves ([`CpuMeter::now`], [`CpuMeter::account`]), and those that look at many objects give way at ticks, too.
pub(crate) struct CpuMeter {
    tick: Duration,
    /// The engine's ticks so far.
    ticks: Arc<AtomicU64>,
    used: u64,
    allowed: u64,
    /// Whether the guest stands still because of a tick, and not because it waits for something.
    gave_way: Arc<AtomicBool>,
}

impl CpuMeter {
    pub(crate) fn new(tick: Duration, ticks: Arc<AtomicU64>) -> Self {
        Self { tick, ticks, used: 0, allowed: 0, gave_way: Arc::default() }
    }

    /// Starts a call that may compute for this long.
    pub(crate) fn begin(&mut self, allowed: Duration) {
        self.used = 0;
        self.gave_way.store(false, Ordering::Relaxed);
        self.allowed = nanos(allowed).div_ceil(nanos(self.tick).max(1));
    }

    /// The time used in this call.
    pub(crate) fn used(&self) -> Duration {
        self.tick.saturating_mul(u32::try_from(self.used).unwrap_or(u32::MAX))
    }

    /// Whether the guest, which stands still, would go on computing if it were let.
    pub(crate) fn is_computing(&self) -> bool {
        self.gave_way.load(Ordering::Relaxed)
    }

    /// A tick passed while the guest was running.
    pub(crate) fn on_tick(&mut self) -> wasmtime::Result<UpdateDeadline> {
        self.take(1)?;
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(self.give_way())))
    }

    /// The engine's ticks so far, where a host function begins that may take long.
    pub(crate) fn now(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Charges the ticks since then to the call, and says whether there were any.
    pub(crate) fn account(&mut self, since: &mut u64) -> wasmtime::Result<bool> {
        let now = self.now();
        let passed = now.saturating_sub(std::mem::replace(since, now));
        self.take(passed)?;
        Ok(passed > 0)
    }

    /// Lets others run, in the middle of the guest's work.
    pub(crate) fn give_way(&self) -> impl Future<Output = ()> + Send + use<> {
        let gave_way = Arc::clone(&self.gave_way);
        gave_way.store(true, Ordering::Relaxed);
        async move {
            tokio::task::yield_now().await;
            gave_way.store(false, Ordering::Relaxed);
        }
    }

    fn take(&mut self, ticks: u64) -> wasmtime::Result<()> {
        self.used = self.used.saturating_add(ticks);
        if self.used > self.allowed { Err(Stop::CpuTime.into()) } else { Ok(()) }
    }
}

/// In 64 bits, which are enough for some centuries.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_yields_at_each_tick_and_is_stopped_when_its_time_is_used_up() {
        let mut meter = CpuMeter::new(Duration::from_millis(10), Arc::default());
        meter.begin(Duration::from_millis(25));
        for _ in 0..3 {
            assert!(matches!(meter.on_tick(), Ok(UpdateDeadline::YieldCustom(1, _))));
        }
        assert_eq!(meter.used(), Duration::from_millis(30));
        assert!(meter.is_computing());
        let stopped = meter.on_tick().err().expect("the time is used up");
        assert!(matches!(stopped.downcast_ref(), Some(Stop::CpuTime)));
        meter.begin(Duration::from_millis(25));
        assert_eq!(meter.used(), Duration::ZERO);
    }

    #[test]
    fn ticks_of_a_host_function_count_as_the_guests() {
        let ticks = Arc::new(AtomicU64::new(7));
        let mut meter = CpuMeter::new(Duration::from_millis(10), Arc::clone(&ticks));
        meter.begin(Duration::from_millis(25));
        let mut since = meter.now();
        assert!(!meter.account(&mut since).expect("no time passed"));
        ticks.fetch_add(3, Ordering::Relaxed);
        assert!(meter.account(&mut since).expect("three ticks are allowed"));
        assert_eq!(meter.used(), Duration::from_millis(30));
        assert!(!meter.account(&mut since).expect("they count once"));
        ticks.fetch_add(1, Ordering::Relaxed);
        let stopped = meter.account(&mut since).expect_err("one too many");
        assert!(matches!(stopped.downcast_ref(), Some(Stop::CpuTime)));
    }
}
