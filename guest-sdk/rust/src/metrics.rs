//! The plugin's own metrics, served by the host with the plugin's name as a label.
//!
//! Labels must have few values: a label per object makes a series per object.

use crate::bindings::pilothouse::controller::metrics as wit;
use crate::bindings::pilothouse::controller::types::Pair;

/// Adds to a counter.
pub fn counter(name: &str, labels: &[(&str, &str)], add: f64) {
    wit::counter(name, &pairs(labels), add);
}

/// Sets a gauge.
pub fn gauge(name: &str, labels: &[(&str, &str)], value: f64) {
    wit::gauge(name, &pairs(labels), value);
}

/// Observes a value in a histogram.
pub fn histogram(name: &str, labels: &[(&str, &str)], value: f64) {
    wit::histogram(name, &pairs(labels), value);
}

fn pairs(labels: &[(&str, &str)]) -> Vec<Pair> {
    labels.iter().map(|(key, value)| Pair { key: (*key).to_owned(), value: (*value).to_owned() }).collect()
}
