//! Variables in scripts: `${NAME}`.

use serde_json::{Map, Value};

use crate::case::Variables;

/// The key of an object whose members become members of the object around it.
const SPREAD: &str = "...";

/// Replaces the variables of a text.
pub(crate) fn text(text: &str, variables: &Variables) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').unwrap_or_else(|| panic!("no `}}` in {text}"));
        result.push_str(before);
        match lookup(name, variables) {
            // The value may contain variables, too.
            Value::String(value) => result.push_str(&self::text(value, variables)),
            value => result.push_str(&value.to_string()),
        }
        rest = after;
    }
    result + rest
}

/// Replaces the variables of all strings of a value. A string that consists of one variable becomes its value.
pub(crate) fn value(value: &Value, variables: &Variables) -> Value {
    match value {
        Value::String(string) => {
            let name = string.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
            match name.filter(|name| !name.contains('}')) {
                Some(name) => self::value(lookup(name, variables), variables),
                None => text(string, variables).into(),
            }
        }
        Value::Array(items) => items.iter().map(|item| self::value(item, variables)).collect(),
        Value::Object(members) => {
            let mut result = Map::new();
            for (key, member) in members {
                match (key.as_str(), self::value(member, variables)) {
                    (SPREAD, Value::Object(others)) => result.extend(others),
                    (_, member) => drop(result.insert(text(key, variables), member)),
                }
            }
            result.into()
        }
        other => other.clone(),
    }
}

fn lookup<'a>(name: &str, variables: &'a Variables) -> &'a Value {
    variables.get(name).unwrap_or_else(|| panic!("there is no variable {name}"))
}

#[test]
fn variables_are_replaced_in_texts_keys_and_values() {
    use serde_json::json;

    let variables: Variables = [("a".to_owned(), json!("x")), ("b".to_owned(), json!({"n": "${a}"}))].into();
    assert_eq!(text("${a}-${a}/y", &variables), "x-x/y");
    assert_eq!(
        value(&json!({"${a}": ["${b}", "z${a}", 1], "...": "${b}"}), &variables),
        json!({"x": [{"n": "x"}, "zx", 1], "n": "x"})
    );
}
