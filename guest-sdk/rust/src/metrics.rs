//! The plugin's own metrics, which the host serves with the label `plugin`.
//!
//! Use labels with few values: a label per object makes a series per object.

use crate::bindings::pilothouse::controller::types::Pair;
use crate::host::metrics as wit;

/// Adds to a counter. `add` must be finite and not negative.
pub fn counter(name: &str, labels: &[(&str, &str)], add: f64) {
    wit::counter(name, &pairs(labels), add);
}

/// Sets a gauge. `value` must be finite.
pub fn gauge(name: &str, labels: &[(&str, &str)], value: f64) {
    wit::gauge(name, &pairs(labels), value);
}

/// Records one observation in a histogram. `value` must be finite; use seconds for durations.
pub fn histogram(name: &str, labels: &[(&str, &str)], value: f64) {
    wit::histogram(name, &pairs(labels), value);
}

fn pairs(labels: &[(&str, &str)]) -> Vec<Pair> {
    labels.iter().map(|(key, value)| Pair { key: (*key).to_owned(), value: (*value).to_owned() }).collect()
}
