//! The options of a work queue.

use std::sync::Arc;

use super::{NoMetrics, QueueMetrics, RateLimit};

/// Options of a work queue.
///
/// ```
/// use std::time::Duration;
/// use pilothouse_informer::{ExponentialBackoff, RateLimit, WorkQueueOptions};
///
/// let backoff = ExponentialBackoff::new(Duration::from_millis(5), Duration::from_secs(60));
/// let options = WorkQueueOptions::default().with_rate_limit(RateLimit::default().with_backoff(backoff));
/// assert_eq!(options.rate_limit.backoff.delay(20), Duration::from_secs(60));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct WorkQueueOptions {
    /// The delays of retries.
    pub rate_limit: RateLimit,
    /// Receives the queue's events; [`NoMetrics`] by default.
    pub metrics: Arc<dyn QueueMetrics>,
}

impl WorkQueueOptions {
    /// Sets [`rate_limit`](Self::rate_limit).
    #[must_use]
    pub fn with_rate_limit(mut self, rate_limit: RateLimit) -> Self {
        self.rate_limit = rate_limit;
        self
    }

    /// Sets [`metrics`](Self::metrics).
    #[must_use]
    pub fn with_metrics(mut self, metrics: Arc<dyn QueueMetrics>) -> Self {
        self.metrics = metrics;
        self
    }
}

impl Default for WorkQueueOptions {
    fn default() -> Self {
        Self { rate_limit: RateLimit::default(), metrics: Arc::new(NoMetrics) }
    }
}
