//! The canonical form of quantities (`k8s.io/apimachinery/pkg/api/resource`): no fraction, and the largest suffix with
//! which that is possible.

use serde_json::Value;

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

/// Returns the canonical form of a quantity, which may be a string or a number; `None` if the value is not a quantity.
pub(crate) fn canonical(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => parse(text.trim()),
        Value::Number(number) => parse(&number.to_string()),
        _ => None,
    }
}

/// Returns a quantity in units of 10⁻⁹, to compare it; the closest number that fits if it is too large. `None` if the value is not a quantity.
pub(crate) fn nanos(value: &Value) -> Option<i128> {
    let text = canonical(value)?;
    let (negative, unsigned) = text.strip_prefix('-').map_or((false, &*text), |rest| (true, rest));
    let end = unsigned.find(|c: char| !c.is_ascii_digit()).unwrap_or(unsigned.len());
    let number: i128 = unsigned[..end].parse().ok()?;
    let (format, power) = suffix_of(&unsigned[end..])?;
    let scale = match format {
        Format::Binary => 1024_i128.checked_pow(power.cast_unsigned())?.checked_mul(1_000_000_000)?,
        Format::Decimal | Format::Exponent => 10_i128.checked_pow(u32::try_from(power + 9).ok()?)?,
    };
    let nanos = number.saturating_mul(scale);
    Some(if negative { -nanos } else { nanos })
}

fn parse(text: &str) -> Option<String> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let mut exponent = -i32::try_from(fraction.len()).ok()?;
    let sign = if negative && mantissa != 0 { "-" } else { "" };
    let (format, power) = suffix_of(suffix)?;
    if format == Format::Binary {
        let scaled = mantissa.checked_mul(1024_i128.checked_pow(power.cast_unsigned())?)?;
        let divisor = 10_i128.checked_pow(exponent.unsigned_abs())?;
        let bytes = scaled / divisor + i128::from(scaled % divisor != 0);
        if bytes >= 1024 {
            return Some(format!("{sign}{}", binary(bytes)));
        }
        // As in Kubernetes, amounts below 1024 are written with a decimal suffix.
        return Some(format!("{sign}{}", decimal(scaled, exponent, Format::Decimal)));
    }
    exponent += power;
    Some(format!("{sign}{}", decimal(mantissa, exponent, format)))
}

fn suffix_of(suffix: &str) -> Option<(Format, i32)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((Format::Decimal, *power));
    }
    if let Some(power) = BINARY.iter().position(|known| *known == suffix) {
        return Some((Format::Binary, i32::try_from(power).ok()?));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
    (exponent.abs() <= 18).then_some((Format::Exponent, exponent))
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

fn decimal(mut mantissa: i128, mut exponent: i32, format: Format) -> String {
    if mantissa == 0 {
        return "0".into();
    }
    // Nano is the smallest unit; the rest is rounded up.
    while exponent < -9 {
        mantissa = mantissa / 10 + i128::from(mantissa % 10 != 0);
        exponent += 1;
    }
    while mantissa % 10 == 0 && exponent < 18 {
        mantissa /= 10;
        exponent += 1;
    }
    while exponent % 3 != 0 || exponent > 18 {
        mantissa = mantissa.saturating_mul(10);
        exponent -= 1;
    }
    match format {
        Format::Exponent if exponent != 0 => format!("{mantissa}e{exponent}"),
        _ => {
            let suffix =
                DECIMAL.iter().find(|(_, power)| *power == exponent).map_or("", |(suffix, _)| suffix);
            format!("{mantissa}{suffix}")
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
        for text in ["", "x", "1x", "1.2.3", "Gi", "1 Gi", "--1"] {
            assert_eq!(canonical(&json!(text)), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn canonical_form_is_stable(number in -100_000_i64..100_000, suffix in "|m|k|M|Ki|Mi|e3|u") {
            let once = canonical(&json!(format!("{number}{suffix}"))).expect("a quantity");
            prop_assert_eq!(canonical(&json!(once.clone())), Some(once));
        }
    }
}
