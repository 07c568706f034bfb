//! How old the changes are that the plugin is told of.

use std::cell::RefCell;

use pilothouse_sdk::{Context, Error, clock, info};
use serde::Deserialize;

/// The annotation in which the server says when it sent an object, in nanoseconds since 1970.
pub(crate) const SENT_AT: &str = "bench/sent-at";

/// The member `latency` of the plugin's `config`: which of the changes are measured, by their resource versions.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Measured {
    /// Those up to this one warm everything up.
    after: u64,
    /// The last one there is: when it has been seen, the percentiles are logged.
    until: u64,
}

/// Ages of changes. What a reconcile or a batch asks first is `now`.
#[derive(Default)]
pub(crate) struct Latency(RefCell<State>);

#[derive(Default)]
struct State {
    /// The plugin's config, once it was asked for.
    measured: Option<Option<Measured>>,
    nanos: Vec<i128>,
}

impl Latency {
    /// The time, where anything is measured. The first call reads the config, which is before all changes that are measured.
    pub(crate) fn now(&self, ctx: &Context<'_>) -> Result<Option<i128>, Error> {
        let mut state = self.0.borrow_mut();
        let measured = match state.measured {
            Some(measured) => measured,
            None => *state.measured.insert(ctx.config()?.get::<Measured>("latency")?),
        };
        Ok(measured.map(|_| clock::now().as_nanosecond()))
    }

    /// A change in this version was seen at that time; `sent` is its annotation. The object that a reconcile reads may be newer than the
    /// time, of an event after the one that it was queued for.
    pub(crate) fn note(&self, now: i128, version: &str, sent: Option<String>) {
        let mut state = self.0.borrow_mut();
        let Some(Some(measured)) = state.measured else { return };
        let version: u64 = version.parse().unwrap_or_default();
        if version > measured.after
            && let Some(sent) = sent.and_then(|sent| sent.parse::<i128>().ok())
        {
            state.nanos.push((now - sent).max(0));
        }
        if version == measured.until {
            state.nanos.sort_unstable();
            info!("latency {}", summary(&state.nanos));
        }
    }
}

/// The 50th, 90th, 99th and 100th percentile of sorted values, and how many they are.
fn summary(nanos: &[i128]) -> String {
    let Some(last) = nanos.len().checked_sub(1) else { return "0 0 0 0 0".to_owned() };
    let at = |percent: usize| nanos[last * percent / 100];
    format!("{} {} {} {} {}", at(50), at(90), at(99), at(100), nanos.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_all_that_was_noted() {
        let nanos: Vec<_> = (0..=200).collect();
        assert_eq!(summary(&nanos), "100 180 198 200 201");
        assert_eq!(summary(&[7]), "7 7 7 7 1");
        assert_eq!(summary(&[]), "0 0 0 0 0");
    }
}
