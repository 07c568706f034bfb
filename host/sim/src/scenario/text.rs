//! Texts of a scenario: durations, and quotes in messages. Pure.

use std::fmt::Write as _;

/// The longest duration in milliseconds: a week of virtual time.
pub(super) const MAX_DURATION_MS: u64 = 7 * 24 * 3600 * 1000;
/// The longest text of a user in an error message, in characters.
const MAX_QUOTED: usize = 100;

/// Returns a text between quotes, with characters escaped that are not printable, and cut off if it is long.
pub(super) fn quoted(text: &str) -> String {
    let mut result = String::from('"');
    for (position, character) in text.chars().enumerate() {
        if position == MAX_QUOTED {
            result.push('…');
            break;
        }
        if character == '\'' {
            result.push(character);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(result, "{}", character.escape_debug());
        }
    }
    result.push('"');
    result
}

/// Returns the text with a space in place of each line break and of each character that controls a terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// Parses a number with the unit `ms`, `s`, `m` or `h` to milliseconds.
///
/// # Errors
/// Errors with one line if the text has another form, or is longer than a week.
pub(super) fn duration_ms(text: &str) -> Result<u64, String> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let milliseconds = factor.and_then(|factor| number.parse::<u64>().ok()?.checked_mul(factor));
    milliseconds.filter(|duration| *duration <= MAX_DURATION_MS).ok_or_else(|| {
        format!(
            "{} is not a duration of at most a week; write one such as 500ms, 30s, 10m or 2h",
            quoted(text)
        )
    })
}

/// A range of durations in milliseconds, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurationRange {
    /// The shortest.
    pub min_ms: u64,
    /// The longest.
    pub max_ms: u64,
}

impl DurationRange {
    /// Parses `2s..30s`, or one duration.
    ///
    /// # Errors
    /// Errors with one line if the text has another form, or the second duration is the shorter one.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let Some((min, max)) = text.split_once("..") else {
            let duration = duration_ms(text)?;
            return Ok(Self { min_ms: duration, max_ms: duration });
        };
        let range = Self { min_ms: duration_ms(min.trim())?, max_ms: duration_ms(max.trim())? };
        if range.min_ms > range.max_ms {
            return Err(format!("{} ends before it begins; write the shorter duration first", quoted(text)));
        }
        Ok(range)
    }

    /// Returns the duration in the range that a random number selects.
    #[must_use]
    pub fn select(self, random: u64) -> u64 {
        self.min_ms + random % (self.max_ms - self.min_ms + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_and_a_bound() {
        for (text, expected) in [("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("168h", MAX_DURATION_MS)]
        {
            assert_eq!(duration_ms(text), Ok(expected));
        }
        for text in ["", "5", "s", "-1s", "1.5s", "169h", "99999999999999999999s", "5 s"] {
            let error = duration_ms(text).expect_err(text);
            assert!(error.contains("500ms"), "{error}");
        }
    }

    #[test]
    fn ranges_select_durations_between_their_ends() {
        let range = DurationRange::parse("2s..30s").expect("a range");
        assert_eq!(range, DurationRange { min_ms: 2000, max_ms: 30_000 });
        assert_eq!((range.select(0), range.select(28_000), range.select(28_001)), (2000, 30_000, 2000));
        assert_eq!(DurationRange::parse("1s").expect("one").select(u64::MAX), 1000);
        assert!(DurationRange::parse("30s..2s").expect_err("reversed").contains("shorter duration first"));
        assert!(DurationRange::parse("2s..").is_err());
    }

    #[test]
    fn messages_quote_texts_in_one_line() {
        assert_eq!(quoted("it's\n\u{1b}"), "\"it's\\n\\u{1b}\"");
        assert!(quoted(&"a".repeat(1000)).chars().count() < 110);
    }
}
