//! Which faults a search may inject.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::plan::{Deviation, Fault};
use crate::scenario::FaultBounds;

/// A class of faults, as the flag `--faults` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultClass {
    /// The host's process ends.
    Crash,
    /// Watches are late, and first lists are old.
    Stale,
    /// Watches end, and the host lists again.
    Relist,
    /// Another client writes in between.
    Conflict,
    /// Requests are refused with a 5xx.
    ServerError,
    /// Requests are refused with 429.
    TooManyRequests,
    /// Answers are lost.
    Unknown,
    /// The plugin is reloaded.
    Reload,
    /// Requests and built-in controllers are late.
    Delay,
    /// The actors' steps come at other moments.
    Order,
}

impl FaultClass {
    /// All classes.
    pub const ALL: [Self; 10] = [
        Self::Crash,
        Self::Stale,
        Self::Relist,
        Self::Conflict,
        Self::ServerError,
        Self::TooManyRequests,
        Self::Unknown,
        Self::Reload,
        Self::Delay,
        Self::Order,
    ];

    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Stale => "stale",
            Self::Relist => "relist",
            Self::Conflict => "conflict",
            Self::ServerError => "5xx",
            Self::TooManyRequests => "429",
            Self::Unknown => "unknown",
            Self::Reload => "reload",
            Self::Delay => "delay",
            Self::Order => "order",
        }
    }

    /// Returns the class of a fault. `None` for what tests the plugin without a fault: it is always allowed.
    #[must_use]
    pub fn of(fault: &Fault) -> Option<Self> {
        Some(match fault {
            Fault::Refuse(429) => Self::TooManyRequests,
            Fault::Refuse(_) => Self::ServerError,
            Fault::Interfere => Self::Conflict,
            Fault::LoseAnswer => Self::Unknown,
            Fault::DelayRequest(_) | Fault::HoldControllers(_) => Self::Delay,
            Fault::CrashBefore | Fault::CrashAfter => Self::Crash,
            Fault::Restart { past } if past.is_empty() => Self::Crash,
            Fault::HoldWatch(_) | Fault::Restart { .. } => Self::Stale,
            Fault::DropWatch(_) => Self::Relist,
            Fault::Reload => Self::Reload,
            Fault::TakeStep { .. } => Self::Order,
            Fault::RequeueAll | Fault::WithholdReasons => return None,
        })
    }
}

impl FromStr for FaultClass {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|class| class.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("{name:?} is no class of faults; there are {names}, and all and none for the whole list")
        })
    }
}

/// The faults that may be injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSelection {
    classes: BTreeSet<FaultClass>,
    bounds: Option<FaultBounds>,
}

/// The longest delay unless a scenario says otherwise: longer than the five minutes after which many controllers forget what
/// they expected.
const DEFAULT_MAX_DELAY: u64 = 6 * 60 * 1000;
/// The longest delay of a request: `RequestTimeout`, after which an API server gives up, and after which the host settles a write without an
/// answer (rule W4).
pub(crate) const MAX_REQUEST_DELAY: u64 = 60_000;
/// The statuses of refused requests unless a scenario says otherwise.
const DEFAULT_STATUSES: [u16; 4] = [500, 429, 503, 504];
/// Delays in virtual milliseconds: longer than a retry, longer than a step, longer than five minutes.
const DELAYS: [u64; 3] = [2_000, 60_000, 330_000];

impl Default for FaultSelection {
    fn default() -> Self {
        Self::of(FaultClass::ALL)
    }
}

impl FaultSelection {
    /// Returns a selection of these classes only.
    #[must_use]
    pub fn of(classes: impl IntoIterator<Item = FaultClass>) -> Self {
        Self { classes: classes.into_iter().collect(), bounds: None }
    }

    /// Returns the selection with the upper bounds of a scenario.
    #[must_use]
    pub fn within(self, bounds: Option<FaultBounds>) -> Self {
        Self { bounds, ..self }
    }

    /// Whether the class may occur at all.
    #[must_use]
    pub fn has(&self, class: FaultClass) -> bool {
        self.classes.contains(&class)
    }

    /// Whether a run with these deviations is within the bounds.
    #[must_use]
    pub fn allows(&self, deviations: &[Deviation]) -> bool {
        deviations.iter().all(|deviation| {
            FaultClass::of(&deviation.fault).is_none_or(|class| self.has(class))
                && delay_of(&deviation.fault).is_none_or(|delay| delay <= self.max_delay(&deviation.fault))
        }) && self.bounds.as_ref().is_none_or(|bounds| bounds.allow(deviations))
    }

    /// Returns the longest delay of a fault of this form, in virtual milliseconds.
    #[must_use]
    pub fn max_delay(&self, fault: &Fault) -> u64 {
        let Some(bounds) = &self.bounds else {
            return match fault {
                Fault::DelayRequest(_) => MAX_REQUEST_DELAY,
                _ => DEFAULT_MAX_DELAY,
            };
        };
        match fault {
            Fault::HoldWatch(_) => bounds.stale.max_ms,
            Fault::DropWatch(_) => bounds.stale.max_ms.max(1000),
            Fault::DelayRequest(_) => bounds.delay.max_ms,
            Fault::HoldControllers(_) => bounds.controllers.max_ms,
            _ => 0,
        }
    }

    /// Returns the delays that are worth trying for a fault of this form, the shortest first.
    #[must_use]
    pub fn delays(&self, form: fn(u64) -> Fault) -> Vec<u64> {
        let max = self.max_delay(&form(0));
        let delays: BTreeSet<_> =
            DELAYS.iter().map(|delay| *delay.min(&max)).filter(|delay| *delay > 0).collect();
        delays.into_iter().collect()
    }

    /// Returns the statuses with which requests may be refused.
    #[must_use]
    pub fn statuses(&self) -> Vec<u16> {
        let statuses = self.bounds.as_ref().map_or(DEFAULT_STATUSES.to_vec(), |bounds| bounds.codes.clone());
        let is_selected =
            |status: &u16| FaultClass::of(&Fault::Refuse(*status)).is_some_and(|class| self.has(class));
        statuses.into_iter().filter(is_selected).collect()
    }
}

/// Returns the length of a delay.
fn delay_of(fault: &Fault) -> Option<u64> {
    match fault {
        Fault::HoldWatch(delay)
        | Fault::DropWatch(delay)
        | Fault::DelayRequest(delay)
        | Fault::HoldControllers(delay) => Some(*delay),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Moment;
    use crate::scenario::DelayBounds;

    fn deviation(fault: Fault) -> Deviation {
        Deviation { at: Moment::Time(0), fault }
    }

    #[test]
    fn a_request_is_not_later_than_a_server_allows() {
        let all = FaultSelection::default();
        assert_eq!(all.delays(Fault::DelayRequest), [2_000, MAX_REQUEST_DELAY]);
        assert_eq!(all.delays(Fault::HoldWatch), DELAYS);
        assert!(!all.allows(&[deviation(Fault::DelayRequest(MAX_REQUEST_DELAY + 1))]));
    }

    #[test]
    fn only_selected_classes_within_the_bounds_of_the_scenario_are_allowed() {
        let selection = FaultSelection::of([FaultClass::Crash, FaultClass::Stale]);
        assert!(selection.allows(&[deviation(Fault::CrashAfter), deviation(Fault::CrashBefore)]));
        assert!(!selection.allows(&[deviation(Fault::HoldWatch(10_000_000))]));
        assert!(!selection.allows(&[deviation(Fault::Refuse(500))]));
        let bounds = FaultBounds { crash: 1, ..FaultBounds::default() };
        let bounded = selection.within(Some(bounds));
        assert!(bounded.allows(&[deviation(Fault::CrashAfter)]));
        assert!(!bounded.allows(&[deviation(Fault::CrashAfter), deviation(Fault::CrashBefore)]));
        assert!(!bounded.allows(&[deviation(Fault::HoldWatch(1))]));
    }

    #[test]
    fn delays_and_statuses_keep_to_the_bounds() {
        let all = FaultSelection::default();
        assert_eq!(all.delays(Fault::HoldWatch), DELAYS);
        assert_eq!(all.statuses(), DEFAULT_STATUSES);
        let stale = DelayBounds { count: 1, max_ms: 10_000 };
        let bounds = FaultBounds { stale, codes: vec![500, 429], errors: 1, ..FaultBounds::default() };
        let bounded = FaultSelection::of([FaultClass::Stale, FaultClass::ServerError]).within(Some(bounds));
        assert_eq!(bounded.delays(Fault::HoldWatch), [2_000, 10_000]);
        assert_eq!(bounded.delays(Fault::DropWatch), [2_000, 10_000]);
        assert_eq!(bounded.delays(Fault::HoldControllers), Vec::<u64>::new());
        assert_eq!(bounded.statuses(), [500]);
    }

    #[test]
    fn every_class_has_a_name_that_parses() {
        for class in FaultClass::ALL {
            assert_eq!(class.name().parse(), Ok(class));
        }
        assert!("crush".parse::<FaultClass>().expect_err("unknown").contains("crash"));
    }
}
