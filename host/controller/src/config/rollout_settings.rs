//! The member `rollout` of a sidecar: how a new version of the plugin replaces the running one.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

pub use crate::config::canary_share::{CanaryError, CanaryMembers, CanaryShare};
use crate::config::limits::{Unit, parse_duration};

/// The shortest probation.
const MIN_PROBATION: Duration = Duration::from_secs(1);
/// The longest probation.
pub(crate) const MAX_PROBATION: Duration = Duration::from_secs(24 * 3600);

/// How a new version of a plugin replaces the running one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RolloutSettings {
    /// For how long a new version is watched. If it fails meanwhile, the version before runs again. By default,
    /// a new version is not watched.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub probation: Option<ProbationPeriod>,
    /// The keys that a new version reconciles at first, beside the running one. It reconciles all keys once it is
    /// promoted. By default, a new version replaces the running one at once.
    #[serde(default)]
    #[schemars(with = "Option<CanaryMembers>")]
    pub canary: Option<CanaryShare>,
}

/// The duration of a probation, written as `5m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ProbationPeriod(Duration);

/// Error for a text that is not the duration of a probation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rollout.probation: {text:?} {problem}; write for example \"5m\"")]
pub struct ProbationError {
    text: String,
    problem: String,
}

impl ProbationPeriod {
    /// Returns the duration.
    #[must_use]
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl TryFrom<String> for ProbationPeriod {
    type Error = ProbationError;

    fn try_from(text: String) -> Result<Self, ProbationError> {
        let problem = match parse_duration(&text) {
            None => "is not a duration",
            Some(duration) if (MIN_PROBATION..=MAX_PROBATION).contains(&duration) => {
                return Ok(Self(duration));
            }
            Some(_) => "is not",
        };
        let [least, most] = [MIN_PROBATION, MAX_PROBATION].map(format_duration);
        let problem = format!("{problem} between {least} and {most}");
        Err(ProbationError { text: text.chars().take(100).collect(), problem })
    }
}

/// Writes a duration as it is written in a sidecar.
pub(crate) fn format_duration(duration: Duration) -> String {
    Unit::Duration.format(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Duration, String> {
        let period = ProbationPeriod::try_from(text.to_owned());
        period.map(ProbationPeriod::duration).map_err(|error| error.to_string())
    }

    #[test]
    fn a_probation_lasts_from_a_second_to_a_day() {
        assert_eq!(parsed("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parsed("1s"), Ok(MIN_PROBATION));
        assert_eq!(parsed("24h"), Ok(MAX_PROBATION));
        for (text, problem) in [
            ("999ms", "\"999ms\" is not between 1s and 24h"),
            ("25h", "\"25h\" is not between 1s and 24h"),
            ("300", "\"300\" is not a duration between 1s and 24h; write for example \"5m\""),
            ("", "\"\" is not a duration"),
            ("999999999999999999999h", "is not"),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.starts_with("rollout.probation: ") && error.contains(problem), "{error}");
        }
    }

    #[test]
    fn an_error_repeats_only_a_part_of_a_long_text() {
        assert!(parsed(&"x".repeat(1 << 20)).expect_err("not a duration").len() < 200);
    }
}
