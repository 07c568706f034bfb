//! Finds the part of a descriptor that has a wrong structure. The parser names a column of a text that its author never sees.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Index, Rule, Watch};

/// The most members of an object of which each is suspected of the error.
const MAX_SUSPECTS: usize = 32;

/// A path and what is wrong there.
type Finding = (String, String);

/// Returns the first watch, index or rule that has a wrong structure. `None` if the text is no JSON, or something else is wrong.
pub(super) fn find(text: &str) -> Option<Finding> {
    let descriptor: Value = serde_json::from_str(text).ok()?;
    let in_watch = |(position, watch): (usize, &Value)| {
        let path = path_of("watches", position, watch);
        let in_index = |(position, index): (usize, &Value)| {
            find_in::<Index>(&format!("{path}.{}", path_of("indexes", position, index)), index)
        };
        let found = list(watch, "indexes").iter().enumerate().find_map(in_index);
        found.or_else(|| find_in::<Watch>(&path, watch))
    };
    let in_rule =
        |(position, rule): (usize, &Value)| find_in::<Rule>(&path_of("writes", position, rule), rule);
    let found = list(&descriptor, "watches").iter().enumerate().find_map(in_watch);
    found.or_else(|| list(&descriptor, "writes").iter().enumerate().find_map(in_rule))
}

fn list<'v>(value: &'v Value, member: &str) -> &'v [Value] {
    value.get(member).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the path of an element, with its name if it has one.
fn path_of(list: &str, position: usize, value: &Value) -> String {
    match value.get("name").and_then(Value::as_str) {
        Some(name) => format!("{list}[{position}] ({name:?})"),
        None => format!("{list}[{position}]"),
    }
}

fn find_in<T: DeserializeOwned>(path: &str, value: &Value) -> Option<Finding> {
    let problem = serde_json::from_value::<T>(value.clone()).err()?.to_string();
    // A missing member is none of those that are there.
    let is_incomplete = problem.starts_with("missing field `");
    let member = value.as_object().filter(|_| !is_incomplete).and_then(wrong_member::<T>);
    let path = match member {
        Some(member) => format!("{path}.{member}"),
        None => path.to_owned(),
    };
    Some((path, problem))
}

/// Returns the member that is wrong: without it the object is valid, or lacks just this member.
fn wrong_member<T: DeserializeOwned>(members: &Map<String, Value>) -> Option<&str> {
    let is_wrong = |name: &&String| {
        let mut others = members.clone();
        others.remove(name.as_str());
        match serde_json::from_value::<T>(Value::Object(others)) {
            Ok(_) => true,
            Err(error) => error.to_string() == format!("missing field `{name}`"),
        }
    };
    let suspects = Some(members).filter(|members| members.len() <= MAX_SUSPECTS)?;
    suspects.keys().find(is_wrong).map(String::as_str)
}
