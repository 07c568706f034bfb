//! The latency of events: from sending to the handler.

use pilothouse_model::Object;

use crate::consumer::now;

/// The times from the annotation `bench/sent-at` of each object to its handler.
pub(crate) struct Latencies {
    /// The number of events that are still skipped, as a warm-up.
    skip: usize,
    nanos: Vec<u64>,
}

impl Latencies {
    /// Creates an empty list that skips the first `skip` events.
    pub(crate) fn after(skip: usize) -> Self {
        Self { skip, nanos: Vec::new() }
    }

    /// Records the latency of the event with this object, which is being handled now.
    pub(crate) fn record(&mut self, object: &Object) {
        let sent = object.annotation("bench/sent-at").and_then(|text| text.parse::<u128>().ok());
        if self.skip > 0 {
            self.skip -= 1;
        } else if let Some(sent) = sent {
            self.nanos.push(u64::try_from(now().saturating_sub(sent)).unwrap_or(u64::MAX));
        }
    }

    /// Returns percentiles as JSON; `None` if nothing was recorded.
    pub(crate) fn summary(mut self) -> Option<String> {
        self.nanos.sort_unstable();
        let max = *self.nanos.last()?;
        let at = |percent: usize| self.nanos[(self.nanos.len() * percent / 100).min(self.nanos.len() - 1)];
        Some(format!(r#"{{"p50":{},"p90":{},"p99":{},"max":{max}}}"#, at(50), at(90), at(99)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_the_percentiles() {
        let mut latencies = Latencies::after(0);
        assert_eq!(Latencies::after(0).summary(), None);
        latencies.nanos = (1..=200).rev().collect();
        assert_eq!(latencies.summary().as_deref(), Some(r#"{"p50":101,"p90":181,"p99":199,"max":200}"#));
    }
}
