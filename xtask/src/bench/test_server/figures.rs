//! The figures that are compared, and their targets.

use super::Comparison;
use super::round::{Round, median};

/// A figure of a round.
pub(super) struct Figure {
    pub(super) title: &'static str,
    pub(super) value: fn(&Round) -> f64,
    /// Whether a larger figure is better.
    pub(super) is_rate: bool,
    pub(super) target: Option<Target>,
}

/// What the embedded server should reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    /// At most this figure.
    AtMost(f64),
    /// At least this many times the figure of kube-apiserver.
    TimesMore(f64),
    /// At most this fraction of the figure of kube-apiserver: one divided by the number.
    Fraction(f64),
}

const fn cost(title: &'static str, value: fn(&Round) -> f64) -> Figure {
    Figure { title, value, is_rate: false, target: None }
}

const fn rate(title: &'static str, value: fn(&Round) -> f64) -> Figure {
    Figure { title, value, is_rate: true, target: None }
}

impl Figure {
    const fn with_target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// Whether this ratio, of the embedded server to kube-apiserver, says that the embedded server is better.
    pub(super) fn is_better(&self, ratio: f64) -> bool {
        if self.is_rate { ratio > 1.0 } else { ratio < 1.0 }
    }

    /// Returns the median of the rounds.
    pub(super) fn median(&self, rounds: &[Round]) -> f64 {
        median(rounds.iter().map(self.value).collect())
    }
}

/// Returns the figure of the embedded server divided by that of kube-apiserver.
pub(super) fn ratio(figure: &Figure, comparison: &Comparison) -> f64 {
    figure.median(&comparison.embedded) / figure.median(&comparison.kubernetes)
}

/// All figures, in the order of the report.
pub(super) const FIGURES: [Figure; 17] = [
    cost("start until `/readyz` answers 200, ms", |round| round.start_millis)
        .with_target(Target::AtMost(30.0)),
    cost("memory after the start, MiB", |round| round.idle_mib).with_target(Target::Fraction(8.0)),
    rate("creates/s", |round| round.creates_per_second).with_target(Target::TimesMore(5.0)),
    cost("time of a create, median, ms", |round| round.create_p50_millis),
    cost("time of a create, 99th percentile, ms", |round| round.create_p99_millis),
    cost("the server's CPU per create, µs", |round| round.create_cpu_micros),
    rate("updates/s", |round| round.updates_per_second).with_target(Target::TimesMore(5.0)),
    cost("time of an update, 99th percentile, ms", |round| round.update_p99_millis),
    cost("the server's CPU per update, µs", |round| round.update_cpu_micros),
    cost("list of all objects at once, s", |round| round.list_seconds),
    cost("size of that list, MiB", |round| round.list_mib),
    cost("list of all objects by pages of 500, s", |round| round.paged_list_seconds),
    cost("memory with all objects, after the lists, MiB", |round| round.loaded_mib)
        .with_target(Target::Fraction(8.0)),
    cost("time to open all watches, s", |round| round.watch_open_seconds),
    rate("delivered events/s", |round| round.events_per_second),
    cost("the server's CPU per delivered event, µs", |round| round.event_cpu_micros),
    cost("peak memory, MiB", |round| round.peak_mib),
];
