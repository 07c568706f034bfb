//! Measures the age of changes when the plugin receives them.

use std::cell::RefCell;

use pilothouse_sdk::{Context, Error, clock, info};
use serde::Deserialize;

/// The annotation with the time at which the server sent an object, in nanoseconds since the Unix epoch.
pub(crate) const SENT_AT: &str = "bench/sent-at";

/// The member `latency` of the plugin's `config`: the range of resource versions whose changes are measured.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct MeasuredRange {
    /// Changes up to this version are for warm-up.
    after: u64,
    /// The last version; once it was received, the percentiles are logged.
    until: u64,
}

/// The ages of changes. A reconcile or a batch calls `now` first.
#[derive(Default)]
pub(crate) struct Latency(RefCell<State>);

#[derive(Default)]
struct State {
    /// The plugin's config, once it was read.
    measured: Option<Option<MeasuredRange>>,
    nanos: Vec<i128>,
}

impl Latency {
    /// Returns the current time, or `None` when nothing is measured. The first call reads the config; it precedes all measured changes.
    pub(crate) fn now(&self, ctx: &Context<'_>) -> Result<Option<i128>, Error> {
        let mut state = self.0.borrow_mut();
        let measured = match state.measured {
            Some(measured) => measured,
            None => *state.measured.insert(ctx.config()?.get::<MeasuredRange>("latency")?),
        };
        Ok(measured.map(|_| clock::now().as_nanosecond()))
    }

    /// Records that a change with this version was received at `now`; `sent` is its annotation. The object that a reconcile reads may be
    /// newer than `now`, because a later event changed it after it was queued.
    pub(crate) fn record(&self, now: i128, version: &str, sent: Option<String>) {
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

/// Returns the 50th, 90th, 99th and 100th percentile of sorted values, and their number.
fn summary(nanos: &[i128]) -> String {
    let Some(last) = nanos.len().checked_sub(1) else { return "0 0 0 0 0".to_owned() };
    let at = |percent: usize| nanos[last * percent / 100];
    format!("{} {} {} {} {}", at(50), at(90), at(99), at(100), nanos.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_cover_all_recorded_values() {
        let nanos: Vec<_> = (0..=200).collect();
        assert_eq!(summary(&nanos), "100 180 198 200 201");
        assert_eq!(summary(&[7]), "7 7 7 7 1");
        assert_eq!(summary(&[]), "0 0 0 0 0");
    }
}
