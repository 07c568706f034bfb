//! Which traces are exported. Pure.

use std::time::Duration;

use super::ids::TraceId;

/// The number of random bits of a trace's identifier that decide, as W3C Trace Context defines them.
const RANDOM_BITS: u32 = 56;

/// The rules by which reconciles are selected: a share of all, and each slow one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampling {
    /// Identifiers whose random bits are below this number are not selected.
    threshold: u64,
    slow: Duration,
}

impl Sampling {
    /// Selects a share of the traces between 0 and 1, and each reconcile that takes `slow` or longer.
    pub(crate) fn new(ratio: f64, slow: Duration) -> Self {
        let rejected = (1.0 - ratio.clamp(0.0, 1.0)) * (1_u64 << RANDOM_BITS) as f64;
        Self { threshold: rejected as u64, slow }
    }

    /// Whether the trace belongs to the share. Every process with the same ratio decides alike.
    pub(crate) fn selects(&self, trace: TraceId) -> bool {
        let mut random = [0; 8];
        random[1..].copy_from_slice(&trace.0[9..]);
        u64::from_be_bytes(random) >= self.threshold
    }

    /// Whether a reconcile that took this time is exported in any case.
    pub(crate) fn is_slow(&self, time: Duration) -> bool {
        time >= self.slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of 1,000 evenly distributed traces are selected.
    fn selected(ratio: f64) -> usize {
        let sampling = Sampling::new(ratio, Duration::MAX);
        let trace = |number: u64| {
            let mut bytes = [7; 16];
            let random = number * ((1 << RANDOM_BITS) / 1000);
            bytes[9..].copy_from_slice(&random.to_be_bytes()[1..]);
            TraceId(bytes)
        };
        (0..1000).filter(|number| sampling.selects(trace(*number))).count()
    }

    #[test]
    fn the_share_of_selected_traces_is_the_ratio() {
        assert_eq!([selected(0.0), selected(1.0), selected(-3.0), selected(7.0)], [0, 1000, 0, 1000]);
        assert!(selected(0.01).abs_diff(10) <= 1 && selected(0.5).abs_diff(500) <= 1);
    }

    #[test]
    fn a_reconcile_is_slow_from_the_threshold_on() {
        let sampling = Sampling::new(0.0, Duration::from_secs(1));
        assert!(!sampling.is_slow(Duration::from_millis(999)));
        assert!(sampling.is_slow(Duration::from_secs(1)));
    }
}
