//! CPU time: how long an instance may compute in one call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use wasmtime::UpdateDeadline;

use super::StopReason;

/// Counts the engine's ticks during which a guest ran: its CPU time, with the precision of a tick.
///
/// At each tick the guest yields its thread to the runtime. A guest that never returns therefore delays other tasks by at most a tick, and
/// the timeout of the call (see `Instance`) gets polled.
///
/// The engine does not interrupt host functions, however long they take. All ticks that pass meanwhile are charged when the guest goes on.
/// Host functions that may take longer than a tick charge them earlier ([`CpuMeter::charge_elapsed`]), so that the call's limit ends them,
/// and those that look at many objects also yield. Ticks during which the guest is suspended are not charged.
pub(crate) struct CpuMeter {
    tick: Duration,
    /// The engine's ticks so far.
    ticks: Arc<AtomicU64>,
    /// The tick up to which ticks were charged.
    charged: u64,
    /// The tick at which the guest was last resumed.
    resumed: Arc<AtomicU64>,
    /// Ticks charged to this call.
    used: u64,
    /// Ticks that this call may use.
    allowed: u64,
    /// Whether the guest is suspended because of a tick, not because it waits for something.
    has_yielded: Arc<AtomicBool>,
}

impl CpuMeter {
    pub(crate) fn new(tick: Duration, ticks: Arc<AtomicU64>) -> Self {
        Self {
            tick,
            ticks,
            charged: 0,
            resumed: Arc::default(),
            used: 0,
            allowed: 0,
            has_yielded: Arc::default(),
        }
    }

    /// Starts a call that may compute for this long.
    pub(crate) fn begin_call(&mut self, allowed: Duration) {
        self.used = 0;
        self.charged = self.now();
        self.has_yielded.store(false, Ordering::Relaxed);
        self.allowed = nanos(allowed).div_ceil(nanos(self.tick).max(1));
    }

    /// Returns the CPU time used in this call.
    pub(crate) fn used(&self) -> Duration {
        self.tick.saturating_mul(u32::try_from(self.used).unwrap_or(u32::MAX))
    }

    /// Returns whether a suspended guest is in the middle of a computation, not waiting for something.
    pub(crate) fn is_computing(&self) -> bool {
        self.has_yielded.load(Ordering::Relaxed)
    }

    /// Charges the ticks since the last charge to the running guest, at least one, and makes it yield. Errors if its CPU time is used up.
    pub(crate) fn on_tick(&mut self) -> wasmtime::Result<UpdateDeadline> {
        let elapsed = self.take_elapsed();
        self.charge(elapsed.max(1))?;
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(self.yield_now())))
    }

    /// Charges the ticks since the last charge. Returns whether there were any. Errors if the CPU time is used up.
    pub(crate) fn charge_elapsed(&mut self) -> wasmtime::Result<bool> {
        let elapsed = self.take_elapsed();
        self.charge(elapsed)?;
        Ok(elapsed > 0)
    }

    /// Returns a function to call whenever the guest is resumed: the ticks until then were not its CPU time.
    pub(crate) fn on_resume(&self) -> impl Fn() + Send + use<> {
        let (ticks, resumed) = (Arc::clone(&self.ticks), Arc::clone(&self.resumed));
        move || resumed.store(ticks.load(Ordering::Relaxed), Ordering::Relaxed)
    }

    /// Lets other tasks run in the middle of the guest's computation.
    pub(crate) fn yield_now(&self) -> impl Future<Output = ()> + Send + use<> {
        let has_yielded = Arc::clone(&self.has_yielded);
        has_yielded.store(true, Ordering::Relaxed);
        async move {
            tokio::task::yield_now().await;
            has_yielded.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the ticks since the last charge during which the guest was not suspended.
    fn take_elapsed(&mut self) -> u64 {
        let (now, resumed) = (self.now(), self.resumed.load(Ordering::Relaxed));
        let since = std::mem::replace(&mut self.charged, now).max(resumed);
        now.saturating_sub(since)
    }

    fn now(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    fn charge(&mut self, ticks: u64) -> wasmtime::Result<()> {
        self.used = self.used.saturating_add(ticks);
        if self.used > self.allowed { Err(StopReason::CpuTime.into()) } else { Ok(()) }
    }
}

/// 64 bits of nanoseconds are enough for 584 years.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_yields_at_each_tick_and_is_stopped_when_its_cpu_time_is_used_up() {
        let mut meter = CpuMeter::new(Duration::from_millis(10), Arc::default());
        meter.begin_call(Duration::from_millis(25));
        for _ in 0..3 {
            assert!(matches!(meter.on_tick(), Ok(UpdateDeadline::YieldCustom(1, _))));
        }
        assert_eq!(meter.used(), Duration::from_millis(30));
        assert!(meter.is_computing());
        let stopped = meter.on_tick().err().expect("the time is used up");
        assert!(matches!(stopped.downcast_ref(), Some(StopReason::CpuTime)));
        meter.begin_call(Duration::from_millis(25));
        assert_eq!(meter.used(), Duration::ZERO);
    }

    #[test]
    fn ticks_during_a_host_function_are_charged_to_the_guest() {
        let ticks = Arc::new(AtomicU64::new(7));
        let mut meter = CpuMeter::new(Duration::from_millis(10), Arc::clone(&ticks));
        meter.begin_call(Duration::from_millis(25));
        assert!(!meter.charge_elapsed().expect("no time passed"));
        ticks.fetch_add(3, Ordering::Relaxed);
        assert!(meter.charge_elapsed().expect("three ticks are allowed"));
        assert_eq!(meter.used(), Duration::from_millis(30));
        assert!(!meter.charge_elapsed().expect("they count once"));
        ticks.fetch_add(1, Ordering::Relaxed);
        let stopped = meter.charge_elapsed().expect_err("one too many");
        assert!(matches!(stopped.downcast_ref(), Some(StopReason::CpuTime)));
    }

    #[test]
    fn ticks_that_a_host_function_does_not_charge_are_charged_when_the_guest_goes_on() {
        let ticks = Arc::new(AtomicU64::new(7));
        let mut meter = CpuMeter::new(Duration::from_millis(10), Arc::clone(&ticks));
        meter.begin_call(Duration::from_millis(100));
        ticks.fetch_add(5, Ordering::Relaxed);
        assert!(meter.on_tick().is_ok());
        assert_eq!(meter.used(), Duration::from_millis(50));
        ticks.fetch_add(6, Ordering::Relaxed);
        let stopped = meter.on_tick().err().expect("the time is used up");
        assert!(matches!(stopped.downcast_ref(), Some(StopReason::CpuTime)));
    }

    #[test]
    fn ticks_while_the_guest_is_suspended_are_not_charged() {
        let ticks = Arc::new(AtomicU64::new(7));
        let mut meter = CpuMeter::new(Duration::from_millis(10), Arc::clone(&ticks));
        let resume = meter.on_resume();
        meter.begin_call(Duration::from_millis(25));
        ticks.fetch_add(100, Ordering::Relaxed);
        resume();
        assert!(!meter.charge_elapsed().expect("no time passed"));
        ticks.fetch_add(2, Ordering::Relaxed);
        assert!(meter.charge_elapsed().expect("two ticks are allowed"));
        assert_eq!(meter.used(), Duration::from_millis(20));
    }
}
