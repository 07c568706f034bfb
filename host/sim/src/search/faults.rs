//! Which faults a search may inject.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use crate::plan::{Deviation, Fault};

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

    /// Returns the class of a fault.
    #[must_use]
    pub fn of(fault: &Fault) -> Self {
        match fault {
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
        }
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

/// The faults that may be injected, and how often in one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSelection {
    classes: BTreeSet<FaultClass>,
    limits: BTreeMap<FaultClass, usize>,
    /// The longest that a watch or a request is late, in virtual milliseconds.
    pub max_delay: u64,
}

/// The longest delay unless a scenario says otherwise: longer than the five minutes after which many controllers forget what
/// they expected.
const DEFAULT_MAX_DELAY: u64 = 6 * 60 * 1000;

impl Default for FaultSelection {
    fn default() -> Self {
        Self {
            classes: FaultClass::ALL.into_iter().collect(),
            limits: BTreeMap::new(),
            max_delay: DEFAULT_MAX_DELAY,
        }
    }
}

impl FaultSelection {
    /// Returns a selection of these classes only.
    #[must_use]
    pub fn of(classes: impl IntoIterator<Item = FaultClass>) -> Self {
        Self { classes: classes.into_iter().collect(), ..Self::default() }
    }

    /// Limits how often a class may occur in one run; 0 excludes it.
    pub fn limit(&mut self, class: FaultClass, count: usize) {
        self.limits.insert(class, count);
    }

    /// Whether the class may occur at all.
    #[must_use]
    pub fn has(&self, class: FaultClass) -> bool {
        self.classes.contains(&class) && self.limits.get(&class) != Some(&0)
    }

    /// Whether a run with these deviations is within the limits.
    #[must_use]
    pub fn allows(&self, deviations: &[Deviation]) -> bool {
        let mut counts: BTreeMap<FaultClass, usize> = BTreeMap::new();
        deviations.iter().all(|deviation| {
            let class = FaultClass::of(&deviation.fault);
            let count = counts.entry(class).or_default();
            *count += 1;
            self.has(class)
                && self.limits.get(&class).is_none_or(|limit| *count <= *limit)
                && delay_of(&deviation.fault).is_none_or(|delay| delay <= self.max_delay)
        })
    }
}

/// Returns the length of a delay. A relist may come at any time, so that its delay has no limit.
fn delay_of(fault: &Fault) -> Option<u64> {
    match fault {
        Fault::HoldWatch(delay) | Fault::DelayRequest(delay) => Some(*delay),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Moment;

    fn deviation(fault: Fault) -> Deviation {
        Deviation { at: Moment::Time(0), fault }
    }

    #[test]
    fn limits_are_per_class_and_run() {
        let mut selection = FaultSelection::of([FaultClass::Crash, FaultClass::Stale]);
        selection.limit(FaultClass::Crash, 1);
        assert!(selection.allows(&[deviation(Fault::CrashAfter), deviation(Fault::HoldWatch(1000))]));
        assert!(!selection.allows(&[deviation(Fault::CrashAfter), deviation(Fault::CrashBefore)]));
        assert!(!selection.allows(&[deviation(Fault::HoldWatch(10_000_000))]));
        assert!(!selection.allows(&[deviation(Fault::Refuse(500))]));
        selection.limit(FaultClass::Crash, 0);
        assert!(!selection.has(FaultClass::Crash));
    }

    #[test]
    fn every_class_has_a_name_that_parses() {
        for class in FaultClass::ALL {
            assert_eq!(class.name().parse(), Ok(class));
        }
        assert!("crush".parse::<FaultClass>().expect_err("unknown").contains("crash"));
    }
}
