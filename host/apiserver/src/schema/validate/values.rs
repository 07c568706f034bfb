//! The validations of a value itself: choices, lengths, patterns, formats, bounds and counts.

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::super::node::{SchemaRef, ValueValidations};
use super::super::{field, format};
use super::{Validator, out_of_range};

impl Validator {
    /// Checks the validations of a value, and those of the branches of `allOf`, `anyOf`, `oneOf` and `not`.
    pub(super) fn validations(
        &mut self,
        new: &Value,
        old: Option<&Value>,
        validations: &ValueValidations,
        schema: SchemaRef<'_>,
        path: &str,
    ) {
        if !validations.choices.is_empty() && !validations.choice_set.contains(new) {
            self.not_supported(new, &validations.choices, path);
        }
        match new {
            Value::String(text) => self.string(text, validations, path),
            Value::Number(_) => self.number(new, validations, path),
            Value::Array(items) => self.count(items.len(), validations.items, "items", new, path),
            Value::Object(object) => {
                self.count(object.len(), validations.properties, "properties", new, path);
            }
            _ => {}
        }
        if let Value::Array(items) = new
            && validations.unique_items
            && items.iter().collect::<HashSet<_>>().len() < items.len()
        {
            self.reject(path, new, "shouldn't contain duplicates");
        }
        self.junctors(new, old, validations, schema, path);
    }

    /// Reports a value that is none of `choices`.
    fn not_supported(&mut self, value: &Value, choices: &[Value], path: &str) {
        if self.causes.is_full() {
            // All choices are a part of each cause, and would be copied for nothing.
            self.causes.leave_out();
            return;
        }
        let choices: Vec<_> = choices.iter().map(choice_text).collect();
        self.causes.push(field::not_supported(path, value, &choices));
    }

    /// Checks a text. As in Kubernetes, only the first of length and pattern that is wrong is reported.
    fn string(&mut self, text: &str, validations: &ValueValidations, path: &str) {
        let value = Value::from(text);
        let length = text.chars().count() as u64;
        let (min, max) = validations.length;
        if let Some(max) = max.filter(|max| length > *max) {
            self.causes.push(field::too_long(path, max));
        } else if let Some(min) = min.filter(|min| length < *min) {
            self.reject(path, &value, &format!("should be at least {min} chars long"));
        } else if let Some(pattern) = validations.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            self.reject(path, &value, &format!("should match '{pattern}'"));
        }
        if let Some(format) = &validations.format
            && !format::matches(format, text)
        {
            self.causes.push(field::wrong_type(path, format, text));
        }
    }

    fn number(&mut self, value: &Value, validations: &ValueValidations, path: &str) {
        let Some(number) = value.as_f64() else { return };
        let exceeds_int32 = value.as_i64().is_none_or(|integer| i32::try_from(integer).is_err());
        if validations.format.as_deref() == Some("int32") && exceeds_int32 {
            self.causes.push(out_of_range(validations.format.as_deref(), path));
        }
        if let Some(problem) = validations.multiple_of.and_then(|factor| multiple_problem(value, factor)) {
            match problem {
                Multiple::NotPositive(factor) => {
                    let detail = format!("factor MultipleOf declared for {path} must be positive: {factor}");
                    self.causes.push(field::invalid(path, value, &detail));
                }
                Multiple::Rest(factor) => {
                    self.reject(path, value, &format!("should be a multiple of {factor}"));
                }
            }
        }
        if let Some(bound) = validations.minimum
            && (number < bound.value || (bound.exclusive && number <= bound.value))
        {
            let comparison = if bound.exclusive { "greater than" } else { "greater than or equal to" };
            self.reject(path, value, &format!("should be {comparison} {}", bound.value));
        }
        if let Some(bound) = validations.maximum
            && (number > bound.value || (bound.exclusive && number >= bound.value))
        {
            let comparison = if bound.exclusive { "less than" } else { "less than or equal to" };
            self.reject(path, value, &format!("should be {comparison} {}", bound.value));
        }
    }

    fn count(
        &mut self,
        count: usize,
        (min, max): (Option<u64>, Option<u64>),
        unit: &str,
        value: &Value,
        path: &str,
    ) {
        if let Some(max) = max
            && count as u64 > max
        {
            self.causes.push(field::too_many(path, count, max));
        }
        if let Some(min) = min
            && (count as u64) < min
        {
            self.reject(path, value, &format!("should have at least {min} {unit}"));
        }
    }
}

/// Why a number is not accepted by `multipleOf`, with the factor.
enum Multiple {
    NotPositive(i64),
    Rest(String),
}

/// Checks `multipleOf`. As in Kubernetes, an integer is compared with the integral part of the factor.
fn multiple_problem(value: &Value, factor: f64) -> Option<Multiple> {
    match value.as_i64() {
        #[expect(clippy::cast_possible_truncation, reason = "Go truncates the factor, too")]
        Some(number) => match factor as i64 {
            factor if factor < 1 => Some(Multiple::NotPositive(factor)),
            factor => (number % factor != 0).then(|| Multiple::Rest(factor.to_string())),
        },
        None => {
            let number = value.as_f64()?;
            (factor > 0.0 && (number / factor).fract() != 0.0).then(|| Multiple::Rest(factor.to_string()))
        }
    }
}

/// Returns an allowed value of `enum` as text.
fn choice_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
