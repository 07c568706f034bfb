//! The syntax of a CronJob's schedule, with the messages of `github.com/robfig/cron/v3`.

use std::num::IntErrorKind;

use crate::go;

/// The least and the greatest value of a field, and the names of its values from the least on.
struct Bounds {
    min: i64,
    max: i64,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds {
        min: 1,
        max: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

const DESCRIPTORS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Returns what is wrong with a schedule.
pub(super) fn error(schedule: &str) -> Option<String> {
    check(schedule).err()
}

fn check(schedule: &str) -> Result<(), String> {
    if schedule.starts_with('@') {
        return check_descriptor(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly {} fields, found {}: [{}]",
            FIELDS.len(),
            fields.len(),
            fields.join(" ")
        ));
    }
    for (field, bounds) in fields.into_iter().zip(&FIELDS) {
        field.split(',').filter(|part| !part.is_empty()).try_for_each(|part| check_range(part, bounds))?;
    }
    Ok(())
}

fn check_descriptor(text: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    let Some(duration) = text.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {text}"));
    };
    go::check_duration(duration).map_err(|problem| format!("failed to parse duration {text}: {problem}"))
}

/// Checks `*`, `N`, `N-M` and each of them with `/STEP`.
fn check_range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let mut parts = text.split('/');
    let (range, step, more) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let ends: Vec<&str> = range.split('-').collect();
    let (start, mut end) = match ends.as_slice() {
        // As in the library, what follows the star and a hyphen is not looked at.
        ["*" | "?", ..] => (bounds.min, bounds.max),
        [only] => {
            let start = number_or_name(only, bounds)?;
            (start, start)
        }
        [start, end] => (number_or_name(start, bounds)?, number_or_name(end, bounds)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    if more.is_some() {
        return Err(format!("too many slashes: {text}"));
    }
    let step = step.map_or(Ok(1), number)?;
    if ends.len() == 1 && text.contains('/') {
        // "N/STEP" means "N-MAX/STEP".
        end = bounds.max;
    }
    let Bounds { min, max, .. } = bounds;
    if start < *min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {text}"));
    }
    if end > *max {
        return Err(format!("end of range ({end}) above maximum ({max}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<i64, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().position(|name| *name == lower) {
        Some(index) => Ok(bounds.min + i64::try_from(index).unwrap_or_default()),
        None => number(text),
    }
}

fn number(text: &str) -> Result<i64, String> {
    match text.parse::<i64>() {
        Err(error) => {
            let is_too_large = matches!(error.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow);
            let problem = if is_too_large { "value out of range" } else { "invalid syntax" };
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {problem}"))
        }
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_schedules_have_no_error() {
        for schedule in [
            "* * * * *",
            "*/5 0-6/2 1,15 jan-MAR sun",
            "5/10 ? * * 6",
            "@daily",
            "@every 1h30m",
            "@every 1.5s",
            "@every 0",
            "*-5 ?-5 * * *",
            "*/4294967296 * * * *",
        ] {
            assert_eq!(error(schedule), None, "{schedule}");
        }
    }

    #[test]
    fn messages_match_those_of_the_library() {
        for (schedule, message) in [
            ("bad", "expected exactly 5 fields, found 1: [bad]"),
            ("a * * * *", r#"failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax"#),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("@never", "unrecognized descriptor: @never"),
            ("@every 5x", r#"failed to parse duration @every 5x: time: unknown unit "x" in duration "5x""#),
            ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
            ("@every 1d", "failed to parse duration @every 1d: time: unknown unit \"d\" in duration \"1d\""),
            ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
            (
                "@every 9223372036855s",
                "failed to parse duration @every 9223372036855s: time: invalid duration \"9223372036855s\"",
            ),
        ] {
            assert_eq!(error(schedule).as_deref(), Some(message));
        }
    }
}
