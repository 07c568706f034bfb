//! The limits that a version's guests share.

use parking_lot::Mutex;
use pilothouse_model::hash::HashSet;

use crate::client::quota::LogThrottle;
use crate::config::limits::PluginLimits;
use crate::metrics::guest::MetricProblem;

/// The limits that a version's guests share, and which of their excesses were logged. The plugin's `RateLimiters` enforce the rates.
pub(crate) struct RateLimits {
    pub(super) plugin_limits: PluginLimits,
    pub(super) requests_waited: LogThrottle,
    pub(super) events_dropped: LogThrottle,
    /// The metrics whose refusal was logged; `None` stands for the limit on the number of series.
    logged_metrics: Mutex<HashSet<Option<String>>>,
}

impl RateLimits {
    /// The number of metrics whose refusal is logged. Further ones are only counted.
    const MAX_LOGGED_METRICS: usize = 20;

    pub(crate) fn new(plugin_limits: &PluginLimits) -> Self {
        Self {
            plugin_limits: *plugin_limits,
            requests_waited: LogThrottle::default(),
            events_dropped: LogThrottle::default(),
            logged_metrics: Mutex::default(),
        }
    }

    /// Whether a problem with a metric is to be logged: each once.
    pub(super) fn should_log(&self, metric: &str, problem: &MetricProblem) -> bool {
        let subject = match problem {
            MetricProblem::TooMany { .. } => None,
            MetricProblem::KindChanged { .. }
            | MetricProblem::KindConflict { .. }
            | MetricProblem::Collides { .. }
            | MetricProblem::Reserved { .. } => Some(metric.to_owned()),
        };
        let mut logged = self.logged_metrics.lock();
        (subject.is_none() || logged.len() < Self::MAX_LOGGED_METRICS) && logged.insert(subject)
    }
}
