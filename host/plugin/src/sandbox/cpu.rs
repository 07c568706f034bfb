//! How long an instance may compute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wasmtime::UpdateDeadline;

use super::Stop;

/// Counts the engine's ticks that a guest was running in, which is its CPU time to the tick.
///
/// At each tick the guest gives the thread back to the runtime, so that one that never ends delays others by a tick at most, and so that
/// the clock of the call (see `Instance`) gets to run.
pub(crate) struct CpuMeter {
    tick: Duration,
    used: u64,
    allowed: u64,
    /// Whether the guest stands still because of a tick, and not because it waits for something.
    gave_way: Arc<AtomicBool>,
}

impl CpuMeter {
    pub(crate) fn new(tick: Duration) -> Self {
        Self { tick, used: 0, allowed: 0, gave_way: Arc::default() }
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
        self.used += 1;
        if self.used > self.allowed {
            return Err(Stop::CpuTime.into());
        }
        let gave_way = Arc::clone(&self.gave_way);
        gave_way.store(true, Ordering::Relaxed);
        Ok(UpdateDeadline::YieldCustom(
            1,
            Box::pin(async move {
                tokio::task::yield_now().await;
                gave_way.store(false, Ordering::Relaxed);
            }),
        ))
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
        let mut meter = CpuMeter::new(Duration::from_millis(10));
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
}
