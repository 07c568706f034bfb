//! The canonical form of quantities (`k8s.io/apimachinery/pkg/api/resource`): no fraction, and the largest suffix with
//! which that is possible.

use serde_json::Value;

const DECIMAL: [(&str, i64); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

const SYNTAX_ERROR: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX_ERROR: &str = "unable to parse quantity's suffix";

/// The greatest exponent after `e`. Larger ones are treated as this one: all are far beyond what an amount can be.
const MAX_EXPONENT: i64 = 1 << 30;
/// The exponent of the smallest unit. Smaller parts are rounded up.
const NANO: i64 = -9;
/// Digits after the point of an amount with a binary suffix. Of the rest, it only counts whether there is any.
const FRACTION_DIGITS: usize = 18;
const ONE: u128 = 1_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

/// Returns the canonical form of a quantity, which may be a string or a number; `None` if the value is not a quantity.
pub(crate) fn canonical(value: &Value) -> Option<String> {
    canonical_or_error(value).ok()
}

/// Returns the message of Kubernetes if a value is not a quantity.
pub(super) fn error(value: &Value) -> Option<&'static str> {
    canonical_or_error(value).err()
}

fn canonical_or_error(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::String(text) => parse(text.trim()),
        Value::Number(number) => parse(&number.to_string()),
        _ => Err(SYNTAX_ERROR),
    }
}

/// Returns a quantity in units of 10⁻⁹, to compare it; the closest number that fits if it is too large. `None` if the value is not a quantity.
pub(crate) fn nanos(value: &Value) -> Option<i128> {
    let text = canonical(value)?;
    let (negative, unsigned) = text.strip_prefix('-').map_or((false, &*text), |rest| (true, rest));
    let end = unsigned.find(|c: char| !c.is_ascii_digit()).unwrap_or(unsigned.len());
    let (format, power) = suffix_of(&unsigned[end..])?;
    let (base, power) = if format == Format::Binary { (1024_i128, power) } else { (10, power - NANO) };
    // A number with too many digits does not fit, nor does a power that is too large.
    let number: i128 = unsigned[..end].parse().unwrap_or(i128::MAX);
    let scale = u32::try_from(power).ok().and_then(|power| base.checked_pow(power)).unwrap_or(i128::MAX);
    let unit = if format == Format::Binary { ONE.cast_signed() } else { 1 };
    let nanos = number.saturating_mul(scale).saturating_mul(unit);
    Some(if negative { -nanos } else { nanos })
}

fn parse(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err(SYNTAX_ERROR);
    }
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, rest) = split_digits(unsigned);
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    let (format, power) =
        suffix_of(suffix).ok_or_else(|| if is_suffix(suffix) { SUFFIX_ERROR } else { SYNTAX_ERROR })?;
    let digits = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        // As in Kubernetes, no digits are 0, too.
        return Ok("0".to_owned());
    }
    let amount = if format == Format::Binary {
        bytes(whole, fraction, power)
    } else {
        decimal(digits, power - i64::try_from(fraction.len()).unwrap_or(i64::MAX), format)
    };
    Ok(if negative { format!("-{amount}") } else { amount })
}

/// Splits a text after its first digits.
fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Whether a text has the syntax of suffixes, which only some of them have a meaning of.
fn is_suffix(text: &str) -> bool {
    let exponent = text.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn suffix_of(suffix: &str) -> Option<(Format, i64)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((Format::Decimal, *power));
    }
    if let Some(power) = BINARY.iter().position(|known| *known == suffix) {
        return Some((Format::Binary, i64::try_from(power).ok()?));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i64>().ok()?;
    Some((Format::Exponent, exponent.clamp(-MAX_EXPONENT, MAX_EXPONENT)))
}

/// Returns the canonical form of an amount with a binary suffix: `whole.fraction` × 1024^`power`, at most 2⁶³ - 1.
fn bytes(whole: &str, fraction: &str, power: i64) -> String {
    let max = u128::from(i64::MAX.unsigned_abs());
    let factor = 1024_u128.pow(u32::try_from(power).unwrap_or_default());
    // A number with too many digits is capped, too. The products are less than 2¹²⁷.
    let whole = match whole.trim_start_matches('0') {
        "" => 0,
        digits => digits.parse().map_or(max, |number: u128| number.min(max)),
    };
    let (kept, rest) = fraction.split_at(fraction.len().min(FRACTION_DIGITS));
    let scale = 10_u128.pow(u32::try_from(kept.len()).unwrap_or_default());
    let part = kept.parse::<u128>().unwrap_or(0) * factor;
    let (part_bytes, remainder) = (part / scale, part % scale * ONE);
    let is_inexact = remainder % scale != 0 || rest.bytes().any(|digit| digit != b'0');
    let part_nanos = part_bytes * ONE + remainder / scale + u128::from(is_inexact);
    let (bytes, nanos) = (whole * factor + part_nanos / ONE, part_nanos % ONE);
    let (bytes, nanos) = if bytes >= max { (max, 0) } else { (bytes, nanos) };
    if bytes >= 1024 && nanos == 0 {
        return binary(bytes.cast_signed());
    }
    // As in Kubernetes, amounts below 1024 and those with a fraction are written with a decimal suffix.
    decimal(&(bytes * ONE + nanos).to_string(), NANO, Format::Decimal)
}

/// Returns a number without its last `cut` digits, rounded up.
fn rounded_up(digits: &str, cut: usize) -> String {
    let (kept, rest) = digits.split_at(digits.len().saturating_sub(cut));
    if rest.bytes().all(|digit| digit == b'0') {
        return kept.to_owned();
    }
    // The digits before the nines at the end, of which the last one becomes greater by one.
    let changed = kept.trim_end_matches('9');
    let zeros = "0".repeat(kept.len() - changed.len());
    let (unchanged, last) = changed.split_at(changed.len().saturating_sub(1));
    let next = last.parse::<u8>().unwrap_or(0) + 1;
    format!("{unchanged}{next}{zeros}")
}

/// Returns a number of bytes with the largest suffix of a power of 1024.
pub(crate) fn binary(mut bytes: i128) -> String {
    let mut power = 0;
    while bytes % 1024 == 0 && power + 1 < BINARY.len() {
        bytes /= 1024;
        power += 1;
    }
    format!("{bytes}{}", BINARY[power])
}

/// Returns the canonical form of `digits` × 10^`exponent`. The digits do not begin with a zero.
fn decimal(digits: &str, exponent: i64, format: Format) -> String {
    let cut = usize::try_from(NANO - exponent).unwrap_or(0);
    let digits = rounded_up(digits, cut);
    let significant = digits.trim_end_matches('0');
    let zeros = digits.len() - significant.len();
    let mut exponent = exponent.max(NANO) + i64::try_from(zeros).unwrap_or(i64::MAX);
    let largest = if format == Format::Exponent { i64::MAX } else { 18 };
    let moved = if exponent > largest { exponent - largest } else { exponent.rem_euclid(3) };
    exponent -= moved;
    let number = format!("{significant}{}", "0".repeat(usize::try_from(moved).unwrap_or_default()));
    match format {
        Format::Exponent if exponent != 0 => format!("{number}e{exponent}"),
        _ => {
            let suffix =
                DECIMAL.iter().find(|(_, power)| *power == exponent).map_or("", |(suffix, _)| suffix);
            format!("{number}{suffix}")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_have_a_canonical_form() {
        for (input, expected) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1", "1"),
            ("0", "0"),
            ("0Gi", "0"),
            ("-5m", "-5m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("100Ki", "100Ki"),
            ("0.5Ki", "512"),
            ("1000Ki", "1000Ki"),
            ("1000k", "1M"),
            ("1500M", "1500M"),
            ("12e6", "12e6"),
            ("1000e3", "1e6"),
            ("0.1n", "1n"),
            (".5", "500m"),
            ("1.1Ki", "1126400m"),
            ("e3", "0"),
            ("-0", "0"),
            ("1e1000", "10e999"),
            ("1e-20", "1e-9"),
            ("-1e20", "-100e18"),
            ("99.9999999999", "100"),
            ("0.00000000000000000000000000000000000000000001Gi", "1n"),
            ("170141183460469231731687303715884105727Ki", "9223372036854775807"),
            ("123456789012345678901234567890123456789012", "123456789012345678901234567890123456789012"),
        ] {
            assert_eq!(canonical(&json!(input)).as_deref(), Some(expected), "{input}");
        }
        assert_eq!(canonical(&json!(2)).as_deref(), Some("2"));
        assert_eq!(canonical(&json!(0.25)).as_deref(), Some("250m"));
    }

    #[test]
    fn quantities_are_compared_across_suffixes() {
        let order = ["-1", "0", "1n", "500m", "1", "1k", "1Ki", "1e6", "1Gi", "8E"];
        for pair in order.windows(2) {
            assert!(nanos(&json!(pair[0])) < nanos(&json!(pair[1])), "{pair:?}");
        }
        assert_eq!(nanos(&json!("1000m")), nanos(&json!(1)));
        assert_eq!(nanos(&json!("x")), None);
    }

    #[test]
    fn strings_that_are_no_quantities_have_no_canonical_form() {
        for text in ["", "x", "1x", "1.2.3", "1 Gi", "1e", "1m1", "--1"] {
            assert_eq!(canonical(&json!(text)), None, "{text}");
        }
    }

    #[test]
    fn extreme_exponents_are_neither_counted_nor_overflow() {
        for (text, form, expected) in [
            ("1e-2147483648", "1e-9", 1),
            ("1e-9223372036854775808", "1e-9", 1),
            ("-1e-2147483648", "-1e-9", -1),
            ("1e2147483647", "10e1073741823", i128::MAX),
            ("999999999999999999E", "999999999999999999E", i128::MAX),
        ] {
            assert_eq!(canonical(&json!(text)).as_deref(), Some(form), "{text}");
            assert_eq!(nanos(&json!(text)), Some(expected), "{text}");
        }
        let long = format!("1.{}", "1".repeat(1 << 20));
        assert_eq!(canonical(&json!(long)).as_deref(), Some("1111111112n"));
        assert_eq!(nanos(&json!("9".repeat(1 << 20))), Some(i128::MAX));
    }

    #[test]
    fn errors_are_those_of_kubernetes() {
        assert_eq!(error(&json!("1m1")), Some(SUFFIX_ERROR));
        assert_eq!(error(&json!("1e")), Some(SUFFIX_ERROR));
        assert_eq!(error(&json!("1 Gi")), Some(SYNTAX_ERROR));
        assert_eq!(error(&json!("")), Some(SYNTAX_ERROR));
        assert_eq!(error(&json!("1Gi")), None);
    }

    proptest! {
        #[test]
        fn canonical_form_is_stable(number in -100_000_i64..100_000, suffix in "|m|k|M|Ki|Mi|e3|u") {
            let once = canonical(&json!(format!("{number}{suffix}"))).expect("a quantity");
            prop_assert_eq!(canonical(&json!(once.clone())), Some(once));
        }
    }
}
