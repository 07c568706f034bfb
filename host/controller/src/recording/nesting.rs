//! How deeply recorded values nest. An object of the API may nest more deeply than a recording can be read. Pure.

use pilothouse_plugin::HostAnswer;
use serde_json::Value;

/// The most levels of a recorded line. `serde_json` reads 127.
pub(super) const MAX_NESTING: usize = 120;

/// Returns how many levels a JSON text nests.
pub(super) fn nesting(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut is_in_string, mut is_escaped) = (false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_string => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            b'{' | b'[' if !is_in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Whether an answer has an object that nests so deeply that its JSON form is `null`.
pub(super) fn has_lost_object(answer: &HostAnswer, json: &Value) -> bool {
    let has_null = |list: &Value| list.as_array().is_some_and(|items| items.iter().any(Value::is_null));
    match answer {
        HostAnswer::Object(Some(_)) => json["object"].is_null(),
        HostAnswer::CachePage(_) => has_null(&json["cachePage"]["items"]),
        HostAnswer::LivePage(_) => has_null(&json["livePage"]["items"]),
        HostAnswer::Objects(_) => has_null(&json["objects"]["found"]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_strings_do_not_count() {
        for (text, expected) in
            [("1", 0), ("{}", 1), (r#"{"a":[1,{"b":2}],"c":{}}"#, 3), (r#"["{[\"{",{"}":"\\"}]"#, 2)]
        {
            assert_eq!(nesting(text.as_bytes()), expected, "{text}");
        }
    }
}
