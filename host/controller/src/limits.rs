//! Limits as descriptors and sidecars write them: Kubernetes quantities and Go durations.

use std::time::Duration;

use crate::descriptor::Limits;

/// Which limit could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {problem}; {remedy}")]
pub struct LimitError {
    /// The member of `limits`.
    pub field: &'static str,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub remedy: &'static str,
}

/// Checks that every limit given can be read.
///
/// # Errors
/// Names the first that cannot.
pub fn check(limits: &Limits) -> Result<(), LimitError> {
    memory(limits).and(reconcile_timeout(limits)).and(observe_timeout(limits)).map(drop)
}

/// The memory limit in bytes, where one is given.
///
/// # Errors
/// The text is not a quantity of 64 KiB to 4 GiB.
pub fn memory(limits: &Limits) -> Result<Option<usize>, LimitError> {
    let Some(text) = &limits.memory else { return Ok(None) };
    let error = |problem| LimitError {
        field: "memory",
        problem,
        remedy: "write bytes as a quantity, such as \"16Mi\"",
    };
    let bytes = quantity(text).ok_or_else(|| error(format!("{text:?} is not a quantity")))?;
    if (64 << 10..=4 << 30).contains(&bytes) {
        Ok(usize::try_from(bytes).ok())
    } else {
        Err(error(format!("{text:?} is not between 64Ki and 4Gi")))
    }
}

/// The limit on one reconcile, where one is given.
///
/// # Errors
/// The text is not a duration of 1 ms to 24 h.
pub fn reconcile_timeout(limits: &Limits) -> Result<Option<Duration>, LimitError> {
    timeout("reconcileTimeout", limits.reconcile_timeout.as_deref())
}

/// The limit on one observe, where one is given.
///
/// # Errors
/// The text is not a duration of 1 ms to 24 h.
pub fn observe_timeout(limits: &Limits) -> Result<Option<Duration>, LimitError> {
    timeout("observeTimeout", limits.observe_timeout.as_deref())
}

fn timeout(field: &'static str, text: Option<&str>) -> Result<Option<Duration>, LimitError> {
    let Some(text) = text else { return Ok(None) };
    let error =
        |problem| LimitError { field, problem, remedy: "write a duration, such as \"30s\" or \"500ms\"" };
    let duration = duration(text).ok_or_else(|| error(format!("{text:?} is not a duration")))?;
    if (Duration::from_millis(1)..=Duration::from_hours(24)).contains(&duration) {
        Ok(Some(duration))
    } else {
        Err(error(format!("{text:?} is not between 1ms and 24h")))
    }
}

/// Bytes of a whole Kubernetes quantity (`64Mi`, `1G`, `65536`).
fn quantity(text: &str) -> Option<u64> {
    let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A Go duration: numbers with units, `1m30s`.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|char: char| !char.is_ascii_digit() && char != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|char: char| char.is_ascii_digit() || char == '.').unwrap_or(tail.len());
        let factor = match &tail[..unit] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * factor;
        rest = &tail[unit..];
    }
    (!text.is_empty()).then(|| Duration::try_from_secs_f64(total).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_and_durations_are_read() {
        for (text, bytes) in [
            ("16Mi", Some(16 << 20)),
            ("1G", Some(1_000_000_000)),
            ("7", Some(7)),
            ("Mi", None),
            ("1.5Mi", None),
            ("-1", None),
        ] {
            assert_eq!(quantity(text), bytes, "{text}");
        }
        for (text, millis) in [
            ("500ms", Some(500)),
            ("1m30s", Some(90_000)),
            ("1.5s", Some(1_500)),
            ("30", None),
            ("", None),
            ("s", None),
            ("1y", None),
        ] {
            assert_eq!(duration(text).map(|duration| duration.as_millis()), millis, "{text}");
        }
    }

    #[test]
    fn limits_outside_of_what_can_be_run_are_refused() {
        let limits = |memory: &str| Limits { memory: Some(memory.into()), ..Limits::default() };
        assert!(check(&limits("16Mi")).is_ok());
        assert!(check(&limits("1k")).expect_err("too small").to_string().contains("between 64Ki and 4Gi"));
        let slow = Limits { reconcile_timeout: Some("48h".into()), ..Limits::default() };
        assert!(check(&slow).expect_err("too long").to_string().contains("between 1ms and 24h"));
    }
}
