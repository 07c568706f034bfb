//! Validates a value against a structural schema, as far as generated objects need it.

use pilothouse_cel::{Budget, Expression, Value as CelValue, from_json, pattern_work};
use regex::RegexBuilder;
use serde_json::Value;

/// The most levels of a schema that are looked at.
const MAX_DEPTH: usize = 30;
/// The most work to compile a pattern, in code points.
const MAX_PATTERN_WORK: u64 = 1 << 21;

/// Checks a value. `old` is the value that it replaces, for rules about transitions.
///
/// # Errors
/// Errors with one line that names the field.
pub(super) fn validate(schema: &Value, value: &Value, old: Option<&Value>) -> Result<(), String> {
    at("", schema, value, old, 0)
}

fn at(path: &str, schema: &Value, value: &Value, old: Option<&Value>, depth: usize) -> Result<(), String> {
    let name = if path.is_empty() { "the object" } else { path };
    let fail = |problem: &str| Err(format!("{name} {problem}"));
    if depth > MAX_DEPTH {
        return fail("is nested too deeply");
    }
    if value.is_null() && schema["nullable"] == true {
        return Ok(());
    }
    if !has_type(schema, value) {
        return fail(&format!("is not of the type {}", schema["type"]));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        return fail("is none of the values of its enum");
    }
    let problem = match value {
        Value::String(text) => text_problem(schema, text),
        Value::Number(number) => number_problem(schema, number.as_f64().unwrap_or(f64::NAN)),
        Value::Array(items) => {
            count_problem(schema, "Items", items.len()).or_else(|| unique_problem(schema, items))
        }
        Value::Object(members) => count_problem(schema, "Properties", members.len()),
        _ => None,
    };
    if let Some(problem) = problem {
        return fail(&problem);
    }
    children(path, schema, value, old, depth)?;
    combinations(name, schema, value, depth)?;
    rules(name, schema, value, old)
}

fn has_type(schema: &Value, value: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == true {
        return value.is_i64() || value.is_string();
    }
    match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    }
}

fn text_problem(schema: &Value, text: &str) -> Option<String> {
    let length = text.chars().count() as u64;
    if schema["minLength"].as_u64().is_some_and(|min| length < min)
        || schema["maxLength"].as_u64().is_some_and(|max| length > max)
    {
        return Some("has a length out of range".to_owned());
    }
    let pattern = schema["pattern"].as_str()?;
    if pattern_work(pattern) > MAX_PATTERN_WORK {
        return Some("has a pattern that is not supported".to_owned());
    }
    let regex = RegexBuilder::new(pattern).size_limit(1 << 20).build();
    match regex {
        Ok(regex) if regex.is_match(text) => None,
        Ok(_) => Some(format!("does not match the pattern {pattern}")),
        Err(_) => Some("has a pattern that is not supported".to_owned()),
    }
}

fn number_problem(schema: &Value, number: f64) -> Option<String> {
    let is_exclusive = |field: &str| schema[field] == true;
    let min = schema["minimum"].as_f64();
    let max = schema["maximum"].as_f64();
    let is_low = min.is_some_and(|min| number < min || is_exclusive("exclusiveMinimum") && number <= min);
    let is_high = max.is_some_and(|max| number > max || is_exclusive("exclusiveMaximum") && number >= max);
    let is_odd =
        schema["multipleOf"].as_f64().is_some_and(|step| step > 0.0 && (number % step).abs() > f64::EPSILON);
    (is_low || is_high || is_odd).then(|| "is a number out of range".to_owned())
}

fn count_problem(schema: &Value, what: &str, count: usize) -> Option<String> {
    let limit =
        |name: &str| schema[format!("{name}{what}")].as_u64().and_then(|limit| usize::try_from(limit).ok());
    let is_wrong = limit("min").is_some_and(|min| count < min) || limit("max").is_some_and(|max| count > max);
    is_wrong.then(|| format!("has {count} {}, which is out of range", what.to_lowercase()))
}

fn unique_problem(schema: &Value, items: &[Value]) -> Option<String> {
    let keys: Vec<&str> = match schema["x-kubernetes-list-type"].as_str() {
        Some("map") => {
            schema["x-kubernetes-list-map-keys"].as_array()?.iter().filter_map(Value::as_str).collect()
        }
        Some("set") => Vec::new(),
        _ => return None,
    };
    let identity = |item: &Value| -> Vec<Value> {
        if keys.is_empty() { vec![item.clone()] } else { keys.iter().map(|key| item[*key].clone()).collect() }
    };
    let identities: Vec<_> = items.iter().map(identity).collect();
    let is_repeated = identities.iter().enumerate().any(|(index, item)| identities[..index].contains(item));
    is_repeated.then(|| "has an element twice".to_owned())
}

fn children(
    path: &str,
    schema: &Value,
    value: &Value,
    old: Option<&Value>,
    depth: usize,
) -> Result<(), String> {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                // A rule about transitions does not apply to elements whose identity is unknown.
                at(&format!("{path}[{index}]"), &schema["items"], item, None, depth + 1)?;
            }
        }
        Value::Object(members) => {
            if let Some(missing) = missing(schema, value) {
                return Err(format!("{path}.{missing} is missing"));
            }
            for (name, member) in members {
                let own = schema["properties"].get(name);
                let schema =
                    own.or_else(|| schema.get("additionalProperties").filter(|other| other.is_object()));
                let Some(schema) = schema else { continue };
                let old = old.and_then(|old| old.get(name));
                at(&format!("{path}.{name}"), schema, member, old, depth + 1)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Returns the first required member that is missing.
fn missing<'s>(schema: &'s Value, value: &Value) -> Option<&'s str> {
    let required = schema["required"].as_array()?;
    required.iter().filter_map(Value::as_str).find(|name| value.get(name).is_none())
}

fn combinations(name: &str, schema: &Value, value: &Value, depth: usize) -> Result<(), String> {
    let matching = |list: &Vec<Value>| {
        list.iter().filter(|option| at(name, option, value, None, depth + 1).is_ok()).count()
    };
    let all = schema["allOf"].as_array().is_none_or(|list| matching(list) == list.len());
    let any = schema["anyOf"].as_array().is_none_or(|list| matching(list) > 0);
    let one = schema["oneOf"].as_array().is_none_or(|list| matching(list) == 1);
    let not = schema.get("not").is_none_or(|other| at(name, other, value, None, depth + 1).is_err());
    if all && any && one && not { Ok(()) } else { Err(format!("{name} violates allOf, anyOf, oneOf or not")) }
}

/// Evaluates the rules of `x-kubernetes-validations`. One that cannot be evaluated here is left to the server.
fn rules(name: &str, schema: &Value, value: &Value, old: Option<&Value>) -> Result<(), String> {
    let Some(rules) = schema["x-kubernetes-validations"].as_array() else { return Ok(()) };
    for text in rules.iter().filter_map(|rule| rule["rule"].as_str()) {
        let Ok(expression) = Expression::compile(text) else { continue };
        let mut variables = vec![("self", from_json(value.clone()))];
        match old {
            Some(old) => variables.push(("oldSelf", from_json(old.clone()))),
            None if expression.uses_variable("oldSelf") => continue,
            None => {}
        }
        if expression.evaluate(variables, &mut Budget::full()) == Ok(CelValue::Bool(false)) {
            return Err(format!("{name} violates the rule {text}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_checked() {
        let schema = json!({
            "type": "object", "required": ["size"], "maxProperties": 6,
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 5, "exclusiveMaximum": true, "multipleOf": 2},
                "name": {"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-z]+$"},
                "mode": {"type": "string", "enum": ["a", "b"], "nullable": true},
                "list": {"type": "array", "minItems": 1, "items": {"type": "boolean"}, "x-kubernetes-list-type": "set"},
                "port": {"x-kubernetes-int-or-string": true},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
            },
            "x-kubernetes-validations": [{"rule": "!has(self.name) || self.name != 'no'"}],
            "oneOf": [{"required": ["name"]}, {"required": ["mode"]}],
        });
        let check = |value: Value| validate(&schema, &value, None);
        assert_eq!(
            check(json!({"size": 2, "name": "ab", "list": [true], "port": "x", "map": {"a": "b"}})),
            Ok(())
        );
        assert_eq!(check(json!({"size": 2, "mode": null})), Ok(()));
        for (value, expected) in [
            (json!([]), "the object is not of the type"),
            (json!({"name": "ab"}), ".size is missing"),
            (json!({"size": 5, "name": "ab"}), ".size is a number out of range"),
            (json!({"size": 3, "name": "ab"}), ".size is a number out of range"),
            (json!({"size": 2, "name": "a"}), ".name has a length"),
            (json!({"size": 2, "name": "A1"}), ".name does not match"),
            (json!({"size": 2, "name": "no"}), "violates the rule"),
            (json!({"size": 2, "mode": "c"}), ".mode is none of"),
            (json!({"size": 2, "name": "ab", "list": []}), ".list has 0 items"),
            (json!({"size": 2, "name": "ab", "list": [true, true]}), "an element twice"),
            (json!({"size": 2, "name": "ab", "list": [1]}), ".list[0] is not of the type"),
            (json!({"size": 2, "name": "ab", "map": {"a": 1}}), ".map.a is not of the type"),
            (json!({"size": 2, "name": "ab", "port": 1.5}), ".port is not of the type"),
            (json!({"size": 2, "name": "ab", "mode": "a"}), "oneOf"),
        ] {
            let error = check(value).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
        let (old, new) =
            (json!({"size": 2, "name": "ab", "fixed": "a"}), json!({"size": 2, "name": "ab", "fixed": "b"}));
        assert!(validate(&schema, &new, Some(&old)).is_err() && validate(&schema, &new, None).is_ok());
    }
}
