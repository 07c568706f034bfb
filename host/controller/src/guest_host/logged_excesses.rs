//! Which excesses of a version's guests were logged.

use parking_lot::Mutex;
use pilothouse_model::hash::HashSet;

use crate::logs::LogThrottle;
use crate::metrics::guest::MetricProblem;

/// Remembers which excesses of limits were logged, so that a guest that goes on does not fill the log. The limits themselves are enforced
/// elsewhere: the rates by the plugin's `RateLimiters`.
#[derive(Default)]
pub(crate) struct LoggedExcesses {
    pub(super) requests_waited: LogThrottle,
    pub(super) events_dropped: LogThrottle,
    /// The metrics whose refusal was logged; `None` stands for the limit on the number of series.
    logged_metrics: Mutex<HashSet<Option<String>>>,
}

impl LoggedExcesses {
    /// The number of metrics whose refusal is logged. Further ones are only counted.
    const MAX_LOGGED_METRICS: usize = 20;

    /// Records a problem with a metric. Returns whether it is to be logged: each is logged once.
    pub(super) fn record_metric_problem(&self, metric: &str, problem: &MetricProblem) -> bool {
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
