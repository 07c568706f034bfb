//! The levels that the labels of a namespace demand, after `k8s.io/pod-security-admission/api`.

use std::fmt;

use crate::schema::field;
use crate::status::Cause;

/// The prefix of the labels.
const PREFIX: &str = "pod-security.kubernetes.io/";

/// What the Pods of a namespace may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

/// The version of Kubernetes whose checks a level has: the minor version, or `None` for the latest one.
type Version = Option<u32>;

/// A level with its version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub level: Level,
    version: Version,
}

/// What a namespace demands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    pub enforce: LevelVersion,
    pub audit: LevelVersion,
    pub warn: LevelVersion,
}

impl LevelVersion {
    /// Whether the checks of this version include one that began with 1.`minor`.
    pub(super) fn has(self, minor: u32) -> bool {
        self.version.is_none_or(|version| version >= minor)
    }

    /// Whether this one may forbid what `other` allows.
    pub(super) fn is_stricter_than(self, other: Self) -> bool {
        self.level != Level::Privileged
            && self != other
            && !(self.version == other.version && self.level <= other.level)
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        })?;
        match self.version {
            None => f.write_str(":latest"),
            Some(minor) => write!(f, ":v1.{minor}"),
        }
    }
}

impl Policy {
    /// Reads the labels of a namespace by their names. Also returns what is invalid in them; an invalid level to enforce is the
    /// strictest one, one to audit or to warn about the least strict one, an invalid version the latest.
    pub(super) fn of(label_of: impl Fn(&str) -> Option<String>) -> (Self, Vec<Cause>) {
        let mut causes = Vec::new();
        let mut read = |mode: &str| {
            let mut found = LevelVersion::default();
            let level = [PREFIX, mode].concat();
            if let Some(text) = label_of(&level) {
                found.level = parse_level(&text).unwrap_or_else(|| {
                    let detail = "must be one of privileged, baseline, restricted";
                    causes.push(invalid(&level, &text, detail));
                    Level::Restricted
                });
            }
            let version = [level.as_str(), "-version"].concat();
            if let Some(text) = label_of(&version) {
                found.version = parse_version(&text).unwrap_or_else(|| {
                    causes.push(invalid(&version, &text, "must be \"latest\" or \"v1.x\""));
                    None
                });
            }
            found
        };
        let enforce = read("enforce");
        let (mut audit, mut warn) = (read("audit"), read("warn"));
        let is_given = |name: &str| label_of(&format!("{PREFIX}{name}")).is_some();
        for (mode, found) in [("audit", &mut audit), ("warn", &mut warn)] {
            if label_of(&format!("{PREFIX}{mode}")).is_some_and(|level| parse_level(&level).is_none()) {
                found.level = Level::Privileged;
            }
        }
        // As in Kubernetes, what is enforced is also warned about in objects that create Pods.
        if !is_given("warn") && enforce.level > warn.level {
            warn.level = enforce.level;
            if !is_given("warn-version") {
                warn.version = enforce.version;
            }
        }
        (Self { enforce, audit, warn }, causes)
    }
}

fn invalid(label: &str, value: &str, detail: &str) -> Cause {
    field::invalid(&field::key("metadata.labels", label), &value.into(), detail)
}

fn parse_level(text: &str) -> Option<Level> {
    match text {
        "privileged" => Some(Level::Privileged),
        "baseline" => Some(Level::Baseline),
        "restricted" => Some(Level::Restricted),
        _ => None,
    }
}

/// Returns the version that a text names.
fn parse_version(text: &str) -> Option<Version> {
    if text == "latest" {
        return Some(None);
    }
    let minor = text.strip_prefix("v1.")?;
    let is_number =
        minor == "0" || (!minor.starts_with('0') && minor.bytes().all(|byte| byte.is_ascii_digit()));
    if is_number { minor.parse().ok().map(Some) } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_name_levels_and_versions() {
        let namespace = json!({"metadata": {"labels": {
            "pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": "v1.24",
            "pod-security.kubernetes.io/warn": "restricted", "pod-security.kubernetes.io/audit": "none",
        }}});
        let label_of = |label: &str| namespace["metadata"]["labels"][label].as_str().map(str::to_owned);
        let (policy, causes) = Policy::of(label_of);
        assert_eq!(policy.enforce.to_string(), "baseline:v1.24");
        assert_eq!(policy.warn.to_string(), "restricted:latest");
        assert!(policy.enforce.has(24) && !policy.enforce.has(25) && policy.warn.has(99));
        assert_eq!(policy.audit.to_string(), "privileged:latest");
        assert_eq!(causes.len(), 1);
        assert_eq!(causes[0].field, "metadata.labels[pod-security.kubernetes.io/audit]");
        assert_eq!(Policy::of(|_| None).0, Policy::default());
        assert_eq!(parse_version("v1.07"), None);
    }
}
