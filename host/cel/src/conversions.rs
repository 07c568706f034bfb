//! Conversions between types that the library lacks, or writes in another form than `github.com/google/cel-go/common/types`.

use std::ops::RangeInclusive;
use std::sync::Arc;

use kube_cel::cel::Value;

use crate::error::EvaluationError;
use crate::functions::{duration, timestamp};

/// Returns the type to which the function of this name converts a text; `None` for other functions.
pub(crate) fn target_of_conversion(name: &str) -> Option<&'static str> {
    Some(match name {
        "bool" => "bool",
        "double" => "double",
        "duration" => "google.protobuf.Duration",
        "int" => "int",
        "timestamp" => "google.protobuf.Timestamp",
        "uint" => "uint",
        _ => return None,
    })
}

/// Converts a value by the function of this name; `None` if the library has the conversion, or there is none.
pub(crate) fn convert(name: &str, value: &Value) -> Option<Result<Value, EvaluationError>> {
    let refused = || EvaluationError::Function(name.to_owned());
    Some(match (name, value) {
        ("bool", Value::Bool(_))
        | ("bytes", Value::Bytes(_))
        | ("duration", Value::Duration(_))
        | ("timestamp", Value::Timestamp(_)) => Ok(value.clone()),
        ("bool", Value::String(text)) => {
            boolean(text).map(Value::Bool).ok_or(EvaluationError::Conversion("bool"))
        }
        ("int", Value::Duration(duration)) => {
            duration.num_nanoseconds().map(Value::Int).ok_or(EvaluationError::Arithmetic)
        }
        ("int", Value::Timestamp(time)) => Ok(Value::Int(time.timestamp())),
        ("timestamp", Value::Int(seconds)) => timestamp_of_seconds(*seconds).ok_or_else(refused),
        ("string", _) => text(value)?.map(|text| Value::String(Arc::new(text))).ok_or_else(refused),
        _ => return None,
    })
}

/// Returns the timestamp that is so many seconds after the start of 1970; `None` outside of the years 1 to 9999, which CEL allows.
fn timestamp_of_seconds(seconds: i64) -> Option<Value> {
    const ALLOWED: RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
    const SECONDS_OF_A_DAY: i64 = 24 * 60 * 60;
    let (Value::Timestamp(start), Value::Duration(day), Value::Duration(second)) =
        (timestamp("1970-01-01T00:00:00Z")?, duration("24h")?, duration("1s")?)
    else {
        return None;
    };
    let seconds = ALLOWED.contains(&seconds).then_some(seconds)?;
    let days = i32::try_from(seconds.div_euclid(SECONDS_OF_A_DAY)).ok()?;
    let rest = i32::try_from(seconds.rem_euclid(SECONDS_OF_A_DAY)).ok()?;
    Some(Value::Timestamp(start + day * days + second * rest))
}

/// Returns the boolean that a text stands for, as `strconv.ParseBool` of Go reads it.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Returns the text of a boolean, a double, bytes, a timestamp or a duration. The inner `None` stands for bytes that are no text.
fn text(value: &Value) -> Option<Option<String>> {
    Some(match value {
        Value::Bool(value) => Some(value.to_string()),
        Value::Float(value) => Some(double(*value)),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        Value::Timestamp(time) => {
            let nanos = match time.timestamp_subsec_nanos() {
                0 => String::new(),
                nanos => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
            };
            let zone = match time.offset().local_minus_utc() {
                0 => "Z".to_owned(),
                _ => time.format("%:z").to_string(),
            };
            Some(format!("{}{nanos}{zone}", time.format("%Y-%m-%dT%H:%M:%S")))
        }
        Value::Duration(duration) => {
            let seconds = duration.num_seconds() as f64 + f64::from(duration.subsec_nanos()) / 1e9;
            Some(format!("{seconds}s"))
        }
        _ => return None,
    })
}

/// Returns a double as `%g` of Go prints it.
pub(crate) fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => value.to_string(),
    }
}

/// Returns the arguments of `format` with the texts of those that the format writes with `%s`, where the library has another text for their type.
pub(crate) fn format_arguments(format: &str, arguments: &[Value]) -> Vec<Value> {
    let mut arguments = arguments.to_vec();
    let mut rest = format.chars();
    let mut next = arguments.iter_mut();
    while let Some(character) = rest.next() {
        if character != '%' {
            continue;
        }
        let verb = rest.find(|character| !matches!(character, '.' | '0'..='9'));
        if verb == Some('%') {
            continue;
        }
        if let Some(argument) = next.next()
            && verb == Some('s')
            && !matches!(argument, Value::Bool(_))
            && let Some(Some(text)) = text(argument)
        {
            *argument = Value::String(Arc::new(text));
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_go_writes_them() {
        for (value, expected) in [
            (1.0, "1"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (123_456.5, "123456.5"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-0.0, "-0"),
            (1e21, "1e+21"),
            (1e300, "1e+300"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(double(value), expected);
        }
    }
}
