//! Upper bounds of the faults in one run.

use super::document::{DelayDocument, FaultsDocument};
use super::text::duration_ms;
use crate::plan::{Deviation, Fault};
use crate::search::MAX_REQUEST_DELAY;

/// The largest number that a bound may have.
const MAX_COUNT: u32 = 1000;

/// How many faults of each kind one run may have, and how strong they may be. Kinds that a scenario does not name do not
/// occur.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultBounds {
    /// Ends of the host's process before or after a write.
    pub crash: u32,
    /// Restarts of the host.
    pub restart: u32,
    /// How many changes of a resource the first list after a restart may lack.
    pub past: u32,
    /// Watches that end and list again.
    pub relist: u32,
    /// Writes of another client just before a request.
    pub conflict: u32,
    /// Lost answers.
    pub unknown: u32,
    /// Reloads of the plugin.
    pub reload: u32,
    /// Watches that deliver late.
    pub stale: DelayBounds,
    /// Requests that take long.
    pub delay: DelayBounds,
    /// Times at which the built-in controllers do nothing.
    pub controllers: DelayBounds,
    /// How many requests may be refused.
    pub errors: u32,
    /// The statuses with which they may be refused.
    pub codes: Vec<u16>,
}

/// How many delays there may be, and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayBounds {
    /// How many.
    pub count: u32,
    /// The longest in virtual milliseconds.
    pub max_ms: u64,
}

impl FaultBounds {
    /// Validates the bounds of a scenario.
    ///
    /// # Errors
    /// Errors with one line if a number or a duration is out of range.
    pub(super) fn new(document: FaultsDocument) -> Result<Self, String> {
        let count = |name: &str, count: Option<u32>| match count {
            Some(count) if count > MAX_COUNT => {
                Err(format!("faults.{name} is {count}; write at most {MAX_COUNT}"))
            }
            count => Ok(count.unwrap_or_default()),
        };
        let delays = |name: &str, document: Option<DelayDocument>| -> Result<DelayBounds, String> {
            let Some(document) = document else { return Ok(DelayBounds::default()) };
            let max_ms =
                duration_ms(&document.max).map_err(|problem| format!("faults.{name}.max: {problem}"))?;
            Ok(DelayBounds { count: count(name, document.count.or(Some(1)))?, max_ms })
        };
        let delay = delays("delay", document.delay)?;
        if delay.max_ms > MAX_REQUEST_DELAY {
            return Err(format!(
                "faults.delay.max is {} s; write at most {} s, after which an API server gives a request up",
                delay.max_ms / 1000,
                MAX_REQUEST_DELAY / 1000
            ));
        }
        let (errors, codes) = match document.errors {
            None => (0, Vec::new()),
            Some(errors) => {
                if let Some(code) =
                    errors.codes.iter().find(|code| **code != 429 && !(500..600).contains(*code))
                {
                    return Err(format!(
                        "faults.errors.codes: {code} is no status with which a server refuses any request; write 429 or 500 to 599"
                    ));
                }
                if errors.codes.is_empty() || errors.codes.len() > 100 {
                    return Err(
                        "faults.errors.codes: list between 1 and 100 statuses, such as [429, 500]".to_owned()
                    );
                }
                (count("errors.max", errors.max.or(Some(1)))?, errors.codes)
            }
        };
        Ok(Self {
            crash: count("crash", document.crash)?,
            restart: count("restart", document.restart)?,
            past: count("past", document.past.or(Some(MAX_COUNT)))?,
            relist: count("relist", document.relist)?,
            conflict: count("conflict", document.conflict)?,
            unknown: count("unknown", document.unknown)?,
            reload: count("reload", document.reload)?,
            stale: delays("stale", document.stale)?,
            delay,
            controllers: delays("controllers", document.controllers)?,
            errors,
            codes,
        })
    }

    /// Whether a run may have all these deviations together. The order of the actors is always free.
    #[must_use]
    pub fn allow(&self, deviations: &[Deviation]) -> bool {
        let mut left = self.clone();
        deviations.iter().all(|deviation| left.take(&deviation.fault))
    }

    /// Takes one fault from what is left; `false` if none is left.
    fn take(&mut self, fault: &Fault) -> bool {
        let one = |left: &mut u32| match left.checked_sub(1) {
            Some(less) => {
                *left = less;
                true
            }
            None => false,
        };
        let delay = |left: &mut DelayBounds, ms: u64| ms <= left.max_ms && one(&mut left.count);
        match fault {
            Fault::Refuse(status) => self.codes.contains(status) && one(&mut self.errors),
            Fault::Interfere => one(&mut self.conflict),
            Fault::LoseAnswer => one(&mut self.unknown),
            Fault::DelayRequest(ms) => delay(&mut self.delay, *ms),
            Fault::CrashBefore | Fault::CrashAfter => one(&mut self.crash),
            Fault::HoldWatch(ms) => delay(&mut self.stale, *ms),
            Fault::DropWatch(ms) => {
                // The time until the new list makes the view stale.
                *ms <= self.stale.max_ms.max(1000) && one(&mut self.relist)
            }
            Fault::Restart { past } => {
                past.iter().all(|(_, changes)| *changes <= self.past) && one(&mut self.restart)
            }
            Fault::Reload => one(&mut self.reload),
            Fault::TakeStep { .. } | Fault::RequeueAll | Fault::WithholdReasons => true,
            Fault::HoldControllers(ms) => delay(&mut self.controllers, *ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::parse_yaml;
    use super::*;
    use crate::plan::Moment;

    fn bounds(text: &str) -> Result<FaultBounds, String> {
        FaultBounds::new(parse_yaml(text)?)
    }

    fn plan(faults: Vec<Fault>) -> Vec<Deviation> {
        faults.into_iter().map(|fault| Deviation { at: Moment::Time(0), fault }).collect()
    }

    #[test]
    fn a_run_has_at_most_the_faults_of_the_scenario() {
        let bounds = bounds(
            "{crash: 1, restart: 1, past: 2, stale: {max: 10s}, unknown: 1, errors: {codes: [429], max: 2}}",
        )
        .expect("valid");
        for (faults, expected) in [
            (vec![], true),
            (vec![Fault::CrashAfter, Fault::LoseAnswer, Fault::HoldWatch(10_000)], true),
            (vec![Fault::CrashAfter, Fault::CrashBefore], false),
            (vec![Fault::HoldWatch(10_001)], false),
            (vec![Fault::HoldWatch(1), Fault::HoldWatch(1)], false),
            (vec![Fault::Refuse(429), Fault::Refuse(429)], true),
            (vec![Fault::Refuse(500)], false),
            (vec![Fault::Restart { past: vec![("pods".to_owned(), 2)] }], true),
            (vec![Fault::Restart { past: vec![("pods".to_owned(), 3)] }], false),
            (vec![Fault::Reload], false),
            (vec![Fault::Interfere], false),
            (vec![Fault::DropWatch(0)], false),
            (vec![Fault::DelayRequest(1)], false),
            (vec![Fault::HoldControllers(1)], false),
            (vec![Fault::TakeStep { actor: "user".to_owned() }; 5], true),
        ] {
            assert_eq!(bounds.allow(&plan(faults.clone())), expected, "{faults:?}");
        }
    }

    #[test]
    fn bounds_out_of_range_are_refused() {
        for (text, expected) in [
            ("{crash: 1001}", "faults.crash is 1001"),
            ("{stale: {max: long}}", "faults.stale.max"),
            ("{errors: {codes: [404]}}", "429 or 500 to 599"),
            ("{errors: {codes: []}}", "such as [429, 500]"),
            ("{crsh: 1}", "did you mean crash?"),
        ] {
            let error = bounds(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
    }
}
