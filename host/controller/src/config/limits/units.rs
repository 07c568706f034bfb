//! How limits are written: bytes as Kubernetes quantities, durations as in Go, counts as numbers.

use std::time::Duration;

pub(super) const KIBI: u64 = 1 << 10;
pub(super) const MEBI: u64 = 1 << 20;
pub(super) const MILLISECOND: u64 = 1_000_000;
pub(super) const MINUTE: u64 = 60_000 * MILLISECOND;
pub(super) const DAY: u64 = 24 * 60 * MINUTE;

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, written as a quantity: `16Mi`.
    Bytes,
    /// Nanoseconds, written as a duration: `30s`.
    Duration,
    /// Things, written as a number.
    Count,
}

impl Unit {
    /// Parses the text of a quantity or duration. Errors with the reason if it is invalid.
    pub(super) fn parse(self, text: &str) -> Result<u64, String> {
        let value = match self {
            Self::Bytes => quantity(text),
            Self::Duration => duration(text).and_then(|duration| u64::try_from(duration.as_nanos()).ok()),
            Self::Count => text.parse().ok(),
        };
        value.ok_or_else(|| format!("{text:?} is not a {}", self.noun()))
    }

    /// Writes a value as it is written in a sidecar, in the largest unit that divides it.
    #[must_use]
    pub fn format(self, value: u64) -> String {
        match self {
            Self::Bytes => format_quantity(value),
            Self::Count => value.to_string(),
            Self::Duration => {
                let units =
                    [(60 * MINUTE, "h"), (MINUTE, "m"), (1000 * MILLISECOND, "s"), (MILLISECOND, "ms")];
                units.iter().find(|(unit, _)| value > 0 && value.is_multiple_of(*unit)).map_or_else(
                    || format!("{:?}", Duration::from_nanos(value)),
                    |(unit, name)| format!("{}{name}", value / unit),
                )
            }
        }
    }

    /// How to correct a value.
    pub(super) const fn remedy(self) -> &'static str {
        match self {
            Self::Bytes => "write bytes as a quantity, such as \"16Mi\"",
            Self::Duration => "write a duration, such as \"30s\" or \"500ms\"",
            Self::Count => "leave it out for the default",
        }
    }

    /// A phrase that shows how a value is written; `None` for counts.
    pub(super) const fn example(self) -> Option<&'static str> {
        match self {
            Self::Bytes => Some("as a quantity such as `16Mi`"),
            Self::Duration => Some("as a duration such as `30s` or `500ms`"),
            Self::Count => None,
        }
    }

    const fn noun(self) -> &'static str {
        match self {
            Self::Bytes => "quantity",
            Self::Duration => "duration",
            Self::Count => "number",
        }
    }
}

/// Writes bytes as the shortest quantity.
pub(crate) fn format_quantity(bytes: u64) -> String {
    [(30, "Gi"), (20, "Mi"), (10, "Ki")]
        .iter()
        .find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift))
        .map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// Parses a whole Kubernetes quantity (`64Mi`, `1G`, `65536`) into bytes.
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

/// Parses a duration as Go writes it: numbers with units, such as `1m30s`.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
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
    fn quantities_and_durations_are_parsed() {
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
    fn formatted_values_are_parsed_back() {
        for (unit, value, text) in [
            (Unit::Bytes, 64 << 10, "64Ki"),
            (Unit::Bytes, 4 << 30, "4Gi"),
            (Unit::Bytes, 1000, "1000"),
            (Unit::Bytes, 0, "0"),
            (Unit::Duration, DAY, "24h"),
            (Unit::Duration, 90 * MINUTE, "90m"),
            (Unit::Duration, 1500 * MILLISECOND, "1500ms"),
            (Unit::Duration, MILLISECOND / 2, "500µs"),
            (Unit::Count, 7, "7"),
        ] {
            assert_eq!(unit.format(value), text);
            if !text.contains('µ') {
                assert_eq!(unit.parse(text), Ok(value), "{text}");
            }
        }
    }
}
