//! Decides whether a new version that is in probation stays, or the version before runs again. Pure: all that the decision depends on is
//! passed in.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The number of reconciles from which on the ratio of errors counts. Also the number of errors in a row that is too many.
pub(crate) const MIN_RECONCILES: u64 = 20;
/// By how many percentage points the new version's ratio of errors may exceed that of the version before. A conflict now and then must not
/// decide.
pub(crate) const MARGIN_PERCENT: u64 = 5;
/// How often the host may end without a shutdown while a version is in probation.
pub(crate) const MAX_ABRUPT_ENDS: u32 = 3;

/// How many reconciles a version has made, and how many of them failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    pub(crate) reconciles: u64,
    pub(crate) errors: u64,
}

impl Counts {
    /// Returns what was counted since `start`.
    pub(crate) fn since(self, start: Self) -> Self {
        Self {
            reconciles: self.reconciles.saturating_sub(start.reconciles),
            errors: self.errors.saturating_sub(start.errors),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            reconciles: self.reconciles.saturating_add(other.reconciles),
            errors: self.errors.saturating_add(other.errors),
        }
    }

    /// Whether the ratio of errors exceeds that of `other` by more than [`MARGIN_PERCENT`]. A version without reconciles has no errors.
    fn is_worse_than(self, other: Self) -> bool {
        let [new_errors, new, old_errors, old] =
            [self.errors, self.reconciles, other.errors, other.reconciles.max(1)].map(u128::from);
        // new_errors / new > old_errors / old + margin / 100, without a division.
        let allowed = (old_errors * 100 + u128::from(MARGIN_PERCENT) * old).saturating_mul(new);
        new_errors.saturating_mul(old).saturating_mul(100) > allowed
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} reconciles", self.errors, self.reconciles)
    }
}

/// What is known of a version in probation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observation {
    /// For how long the version could work: the time during which it was paused or suspended does not count.
    pub(crate) worked: Duration,
    /// How long the probation lasts.
    pub(crate) period: Duration,
    /// Whether the version is paused or suspended now.
    pub(crate) is_blocked: bool,
    /// Whether the version backs off after faults.
    pub(crate) is_backing_off: bool,
    /// Calls that failed since the last one that succeeded.
    pub(crate) errors_in_a_row: u64,
    /// How often the host has ended without a shutdown.
    pub(crate) abrupt_ends: u32,
    /// The reconciles of this version.
    pub(crate) new: Counts,
    /// The reconciles of the version before.
    pub(crate) old: Counts,
}

/// What to do with the version in probation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Observe it further.
    Wait,
    /// It stays.
    Pass,
    /// The version before is to run again.
    RollBack(Cause),
}

/// Why a version is rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    BackingOff,
    AbruptEnds(u32),
    ErrorsInARow(u64),
    ErrorRatio { new: Counts, old: Counts },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BackingOff => f.write_str("it backs off after faults"),
            Self::AbruptEnds(times) => {
                write!(
                    f,
                    "the host ended without a shutdown {times} times while the version was in probation"
                )
            }
            Self::ErrorsInARow(errors) => write!(f, "its last {errors} calls failed"),
            Self::ErrorRatio { new, old } => {
                write!(f, "{new} failed, and {old} of the version before")
            }
        }
    }
}

/// Decides about a version in probation.
pub(crate) fn decide(observed: &Observation) -> Decision {
    // Nothing is learned of a version that may not work, and an operator who has paused it wants to look at it.
    if observed.is_blocked {
        return Decision::Wait;
    }
    let Observation { new, old, errors_in_a_row, abrupt_ends, .. } = *observed;
    if observed.is_backing_off {
        Decision::RollBack(Cause::BackingOff)
    } else if abrupt_ends >= MAX_ABRUPT_ENDS {
        Decision::RollBack(Cause::AbruptEnds(abrupt_ends))
    } else if errors_in_a_row >= MIN_RECONCILES {
        Decision::RollBack(Cause::ErrorsInARow(errors_in_a_row))
    } else if new.reconciles >= MIN_RECONCILES && new.is_worse_than(old) {
        Decision::RollBack(Cause::ErrorRatio { new, old })
    } else if observed.worked >= observed.period {
        Decision::Pass
    } else {
        Decision::Wait
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(errors: u64, reconciles: u64) -> Counts {
        Counts { reconciles, errors }
    }

    /// A version that works well, in the middle of its probation.
    fn healthy() -> Observation {
        Observation {
            worked: Duration::from_secs(60),
            period: Duration::from_secs(300),
            is_blocked: false,
            is_backing_off: false,
            errors_in_a_row: 0,
            abrupt_ends: 0,
            new: counts(0, 100),
            old: counts(0, 1000),
        }
    }

    #[test]
    fn the_table_of_decisions() {
        use Decision::{Pass, RollBack, Wait};
        let over = Duration::from_secs(300);
        let ratio = |new, old| RollBack(Cause::ErrorRatio { new, old });
        let base = healthy();
        for (what, observed, decision) in [
            ("healthy", base, Wait),
            ("healthy to the end", Observation { worked: over, ..base }, Pass),
            ("quiet to the end", Observation { worked: over, new: counts(0, 0), ..base }, Pass),
            ("backs off", Observation { is_backing_off: true, ..base }, RollBack(Cause::BackingOff)),
            (
                "backs off at the end",
                Observation { is_backing_off: true, worked: over, ..base },
                RollBack(Cause::BackingOff),
            ),
            ("backs off while paused", Observation { is_backing_off: true, is_blocked: true, ..base }, Wait),
            ("paused at the end", Observation { is_blocked: true, worked: over, ..base }, Wait),
            ("19 errors in a row", Observation { errors_in_a_row: 19, ..base }, Wait),
            (
                "20 errors in a row",
                Observation { errors_in_a_row: 20, ..base },
                RollBack(Cause::ErrorsInARow(20)),
            ),
            ("the host crashed twice", Observation { abrupt_ends: 2, ..base }, Wait),
            (
                "the host crashed three times",
                Observation { abrupt_ends: 3, ..base },
                RollBack(Cause::AbruptEnds(3)),
            ),
            ("all of 19 failed", Observation { new: counts(19, 19), ..base }, Wait),
            ("2 of 20 failed", Observation { new: counts(2, 20), ..base }, ratio(counts(2, 20), base.old)),
            ("as many as the margin", Observation { new: counts(1, 20), ..base }, Wait),
            ("as bad as before", Observation { new: counts(50, 100), old: counts(500, 1000), ..base }, Wait),
            (
                "worse than before",
                Observation { new: counts(56, 100), old: counts(500, 1000), ..base },
                ratio(counts(56, 100), counts(500, 1000)),
            ),
            (
                "the version before made no reconcile",
                Observation { new: counts(10, 100), old: counts(0, 0), ..base },
                ratio(counts(10, 100), counts(0, 0)),
            ),
        ] {
            assert_eq!(decide(&observed), decision, "{what}");
        }
    }

    #[test]
    fn each_cause_is_a_phrase_with_its_numbers() {
        let cause = Cause::ErrorRatio { new: counts(2, 20), old: counts(0, 7) };
        assert_eq!(
            cause.to_string(),
            "2 of 20 reconciles failed, and 0 of 7 reconciles of the version before"
        );
        assert_eq!(Cause::ErrorsInARow(20).to_string(), "its last 20 calls failed");
    }

    /// At most as many errors as reconciles.
    fn any_counts() -> impl Strategy<Value = Counts> {
        (0..10_000_u64, 0..=100_u64)
            .prop_map(|(reconciles, percent)| counts(reconciles * percent / 100, reconciles))
    }

    prop_compose! {
        fn observations()(
            (worked, period, is_blocked, is_backing_off) in (0..600_u64, 1..600_u64, any::<bool>(), any::<bool>()),
            (errors_in_a_row, abrupt_ends) in (0..40_u64, 0..5_u32),
            (new, old) in (any_counts(), any_counts()),
        ) -> Observation {
            let [worked, period] = [worked, period].map(Duration::from_secs);
            Observation { worked, period, is_blocked, is_backing_off, errors_in_a_row, abrupt_ends, new, old }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_blocked_version_is_never_judged(observed in observations()) {
            prop_assert_eq!(decide(&Observation { is_blocked: true, ..observed }), Decision::Wait);
        }

        #[test]
        fn a_version_passes_only_after_its_period(observed in observations()) {
            if decide(&observed) == Decision::Pass {
                prop_assert!(observed.worked >= observed.period);
            }
        }

        #[test]
        fn no_observation_lasts_longer_than_the_period(observed in observations()) {
            if decide(&observed) == Decision::Wait {
                prop_assert!(observed.is_blocked || observed.worked < observed.period);
            }
        }

        /// With the same errors as before, a version is never rolled back because of its errors.
        #[test]
        fn a_version_with_the_same_ratio_stays(observed in observations(), factor in 1..5_u64) {
            let old = observed.old;
            let new = counts(old.errors * factor, old.reconciles * factor);
            let same = Observation { new, is_backing_off: false, errors_in_a_row: 0, abrupt_ends: 0, ..observed };
            prop_assert!(!matches!(decide(&same), Decision::RollBack(_)));
        }

        #[test]
        fn more_errors_never_help(observed in observations(), more in 0..1000_u64) {
            let errors = (observed.new.errors + more).min(observed.new.reconciles);
            let worse = Observation { new: counts(errors, observed.new.reconciles), ..observed };
            if matches!(decide(&observed), Decision::RollBack(_)) {
                prop_assert!(matches!(decide(&worse), Decision::RollBack(_)));
            }
        }

        /// Numbers from a record on disk can be anything.
        #[test]
        fn no_number_overflows(numbers in any::<[u64; 5]>(), abrupt_ends in any::<u32>()) {
            let observed = Observation {
                new: counts(numbers[0], numbers[1]),
                old: counts(numbers[2], numbers[3]),
                errors_in_a_row: numbers[4],
                abrupt_ends,
                ..healthy()
            };
            decide(&observed);
        }
    }
}
