//! Shortens the alerts for the chaos run: every `for` and every range is divided, and nothing else changes. Pure.

use anyhow::{Context, Result, bail};

/// By what the durations are divided: a minute becomes a second.
const DIVISOR: u64 = 60;

/// Returns the rules with shorter durations. Thresholds, labels and texts stay as they are.
///
/// # Errors
/// Errors for a duration that is no number with one unit, such as `1h30m`.
pub(super) fn shorten(rules: &str) -> Result<String> {
    let mut shortened = String::new();
    for line in rules.split_inclusive('\n') {
        let content = line.trim_start();
        if content.starts_with('#') {
            shortened.push_str(line);
        } else if let Some(duration) = content.strip_prefix("for: ") {
            let duration = duration.trim_end();
            let divided = divide(duration)?;
            shortened.push_str(&line.replacen(duration, &divided, 1));
        } else {
            shortened.push_str(&shorten_ranges(line)?);
        }
    }
    Ok(shortened)
}

/// Shortens what is in square brackets, as in `increase(a_total[10m])`.
fn shorten_ranges(line: &str) -> Result<String> {
    let mut shortened = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        let (range, after) =
            after.split_once(']').with_context(|| format!("a bracket is not closed: {line}"))?;
        shortened.push_str(&format!("{before}[{}]", divide(range)?));
        rest = after;
    }
    Ok(shortened + rest)
}

fn divide(duration: &str) -> Result<String> {
    let digits = duration.len() - duration.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = duration.split_at(digits);
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => bail!("cannot shorten the duration {duration:?}: write a number with ms, s, m or h"),
    };
    let number: u64 = number.parse().with_context(|| format!("the duration {duration:?} has no number"))?;
    let divided = number.checked_mul(milliseconds).context("a duration is too long")? / DIVISOR;
    Ok(if divided.is_multiple_of(1_000) { format!("{}s", divided / 1_000) } else { format!("{divided}ms") })
}

#[cfg(test)]
mod tests {
    use super::super::super::monitoring;
    use super::*;

    #[test]
    fn ranges_and_for_are_divided_and_thresholds_are_not() {
        let rules = "# for: 5m, [5m]\n- alert: A\n  expr: rate(a_total[5m]) / sum(increase(b[1h])) > 60\n  for: 30s\n  \
                     labels: {severity: a}\n  summary: For 10m, or 5m.\n";
        let expected = "# for: 5m, [5m]\n- alert: A\n  expr: rate(a_total[5s]) / sum(increase(b[60s])) > 60\n  for: 500ms\n  \
                        labels: {severity: a}\n  summary: For 10m, or 5m.\n";
        assert_eq!(shorten(rules).expect("shortened"), expected);
    }

    #[test]
    fn a_duration_of_another_form_is_an_error() {
        for rules in ["for: 1h30m", "for: soon", "for: 5", "expr: rate(a[m]) > 1", "expr: rate(a[5m > 1"] {
            assert!(shorten(rules).is_err(), "{rules}");
        }
    }

    /// Replaces each number that a unit of time follows.
    fn without_durations(rules: &str) -> String {
        let mut text = String::new();
        let mut characters = rules.chars().peekable();
        while let Some(character) = characters.next() {
            if !character.is_ascii_digit() {
                text.push(character);
                continue;
            }
            let mut number = String::from(character);
            while let Some(next) = characters.next_if(|c| c.is_ascii_digit() || *c == '.') {
                number.push(next);
            }
            let is_duration = characters.next_if(|c| ['m', 's'].contains(c)).is_some();
            text.push_str(if is_duration { "DURATION" } else { &number });
        }
        text
    }

    #[test]
    fn the_alerts_of_the_chart_differ_only_in_their_durations() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
        let rules = std::fs::read_to_string(format!("{file}{}", monitoring::ALERTS)).expect("the alerts");
        let shortened = shorten(&rules).expect("shortened");
        assert_ne!(shortened, rules);
        assert_eq!(without_durations(&shortened), without_durations(&rules));
        let in_rules = shortened.lines().filter(|line| !line.trim_start().starts_with('#'));
        let minutes = in_rules.filter(|line| line.contains("m]") || line.trim_end().ends_with("m"));
        let minutes: Vec<_> = minutes.filter(|line| line.contains("for: ") || line.contains('[')).collect();
        assert!(minutes.is_empty(), "{minutes:?}");
    }
}
