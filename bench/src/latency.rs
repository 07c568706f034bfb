//! How long events were under way.

use pilothouse_model::Object;

use crate::consumer::now;

/// Times from `bench/sent-at` to the handler.
pub(crate) struct Latencies {
    /// How many of the first are not counted.
    skip: usize,
    nanos: Vec<u64>,
}

impl Latencies {
    pub(crate) fn after(skip: usize) -> Self {
        Self { skip, nanos: Vec::new() }
    }

    pub(crate) fn note(&mut self, object: &Object) {
        let sent = object.annotation("bench/sent-at").and_then(|text| text.parse::<u128>().ok());
        if self.skip > 0 {
            self.skip -= 1;
        } else if let Some(sent) = sent {
            self.nanos.push(u64::try_from(now().saturating_sub(sent)).unwrap_or(u64::MAX));
        }
    }

    /// Percentiles as JSON; `None` when nothing was noted.
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
    fn percentiles_are_of_what_was_noted_after_the_first() {
        let mut latencies = Latencies::after(0);
        assert_eq!(Latencies::after(0).summary(), None);
        latencies.nanos = (1..=200).rev().collect();
        assert_eq!(latencies.summary().as_deref(), Some(r#"{"p50":101,"p90":181,"p99":199,"max":200}"#));
    }
}
