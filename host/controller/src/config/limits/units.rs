//! How limits are written: Kubernetes quantities and Go durations.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::LimitError;

/// A number of bytes within a range.
pub(super) fn bytes(
    field: &'static str,
    text: Option<&String>,
    range: RangeInclusive<u64>,
) -> Result<Option<usize>, LimitError> {
    let Some(text) = text else { return Ok(None) };
    let error =
        |problem| LimitError { field, problem, remedy: "write bytes as a quantity, such as \"16Mi\"" };
    let bytes = quantity(text).ok_or_else(|| error(format!("{text:?} is not a quantity")))?;
    if range.contains(&bytes) {
        return Ok(usize::try_from(bytes).ok());
    }
    let (least, most) = (written(*range.start()), written(*range.end()));
    Err(error(format!("{text:?} is not between {least} and {most}")))
}

/// A duration of 1 ms to 24 h.
pub(super) fn time(field: &'static str, text: Option<&String>) -> Result<Option<Duration>, LimitError> {
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

/// A number within a range.
pub(super) fn number(
    field: &'static str,
    number: Option<u32>,
    range: RangeInclusive<u32>,
) -> Result<Option<u32>, LimitError> {
    match number {
        Some(number) if !range.contains(&number) => Err(LimitError {
            field,
            problem: format!("{number} is not between {} and {}", range.start(), range.end()),
            remedy: "leave it out for the default",
        }),
        number => Ok(number),
    }
}

/// Bytes as a quantity, the shortest way.
pub(crate) fn written(bytes: u64) -> String {
    [(30, "Gi"), (20, "Mi"), (10, "Ki")]
        .iter()
        .find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift))
        .map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
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
    fn bytes_are_written_as_they_are_read() {
        for (bytes, text) in [(64 << 10, "64Ki"), (4 << 30, "4Gi"), (1000, "1000"), (0, "0")] {
            assert_eq!(written(bytes), text);
            assert_eq!(quantity(text), Some(bytes));
        }
    }
}
