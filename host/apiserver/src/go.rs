//! Values as Go's `fmt` and `encoding/json` print them, which messages of kube-apiserver contain.

use serde_json::{Map, Number, Value};

/// The members of `metadata` in the order of `metav1.ObjectMeta`, in which Go writes them.
const METADATA: [&str; 15] = [
    "name",
    "generateName",
    "selfLink",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];
/// The members of an entry of `managedFields` in the order of `metav1.ManagedFieldsEntry`.
const MANAGED_FIELDS: [&str; 7] =
    ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];
/// The members of an entry of `ownerReferences` in the order of `metav1.OwnerReference`.
const OWNER_REFERENCE: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];

/// Returns the name that errors of `encoding/json` have for the type of a value.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the name that Go's verb `%T` prints for a decoded JSON value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Returns a decoded JSON value as Go's verb `%#v` prints it: `map[string]interface {}{"a":1}`.
pub(crate) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(members) => {
            let members = sorted(members).into_iter();
            let members: Vec<String> =
                members.map(|(name, value)| format!("{}:{}", quoted(name), syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        scalar => scalar.to_string(),
    }
}

/// Returns a value as the `Encoder` of `encoding/json` writes it: with sorted members, without characters that HTML interprets, and with a line
/// break at the end.
pub(crate) fn encoded_json(value: &Value) -> String {
    let mut text = String::new();
    encode(value, &mut text);
    text.push('\n');
    text
}

fn encode(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => out.push_str(&encoded_number(number)),
        Value::String(text) => encode_text(text, out),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                out.push(if index == 0 { '[' } else { ',' });
                encode(item, out);
            }
            out.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        Value::Object(members) => {
            for (index, (name, value)) in sorted(members).into_iter().enumerate() {
                out.push(if index == 0 { '{' } else { ',' });
                encode_text(name, out);
                out.push(':');
                encode(value, out);
            }
            out.push_str(if members.is_empty() { "{}" } else { "}" });
        }
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
    }
}

/// Returns a text as `encoding/json` writes it.
pub(crate) fn json_text(text: &str) -> String {
    let mut out = String::new();
    encode_text(text, &mut out);
    out
}

fn encode_text(text: &str, out: &mut String) {
    // None of these characters is part of an escape sequence.
    for c in Value::from(text).to_string().chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
}

fn encoded_number(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else { return number.to_string() };
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{float:e}");
        return if size < 1.0 { text } else { text.replace('e', "e+") };
    }
    format!("{float}")
}

fn sorted(members: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut members: Vec<(&String, &Value)> = members.iter().collect();
    members.sort_unstable_by_key(|(name, _)| *name);
    members
}

/// Returns a text as Go's verb `%q` prints it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            // Rust escapes what cannot be printed as `\u{200b}`, Go as `\u200b`.
            c if c != '\'' && c.escape_debug().len() > 1 => {
                let code = u32::from(c);
                let escaped = if code > 0xffff { format!("\\U{code:08x}") } else { format!("\\u{code:04x}") };
                out.push_str(&escaped);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns a decoded JSON value as Go's verb `%v` prints it: `map[a:1 b:[x y]]`.
pub(crate) fn printed(value: &Value) -> String {
    let joined = |texts: Vec<String>| texts.join(" ");
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", joined(items.iter().map(printed).collect())),
        Value::Object(members) => {
            let members = sorted(members).into_iter();
            let members = members.map(|(name, value)| format!("{name}:{}", printed(value)));
            format!("map[{}]", joined(members.collect()))
        }
        scalar => scalar.to_string(),
    }
}

/// Returns an object as JSON with sorted members, and its metadata in the order of Go's types, as the result of a patch of it is written.
pub(crate) fn patched_json(object: &Value) -> String {
    let Value::Object(members) = object else { return object.to_string() };
    let mut names: Vec<&String> = members.keys().collect();
    names.sort_unstable();
    let members = names.into_iter().map(|name| {
        let value = &members[name];
        let text = if name == "metadata" { metadata_json(value) } else { value.to_string() };
        format!("{}:{text}", Value::from(name.as_str()))
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// Returns the metadata of an object as JSON in the order of Go's types.
pub(crate) fn metadata_json(metadata: &Value) -> String {
    let Value::Object(members) = metadata else { return metadata.to_string() };
    ordered(members, &METADATA, |name, value| match name {
        "managedFields" => list(value, &MANAGED_FIELDS),
        "ownerReferences" => list(value, &OWNER_REFERENCE),
        _ => value.to_string(),
    })
}

/// Returns a list of objects as JSON, with their members in the given order.
fn list(value: &Value, order: &[&str]) -> String {
    let Value::Array(items) = value else { return value.to_string() };
    let items = items.iter().map(|item| match item {
        Value::Object(members) => ordered(members, order, |_, value| value.to_string()),
        other => other.to_string(),
    });
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// Returns the owner references of an object as JSON in the order of Go's types.
pub(crate) fn owner_references(references: &Value) -> String {
    list(references, &OWNER_REFERENCE)
}

/// Returns an owner reference as JSON in the order of Go's type.
pub(crate) fn owner_reference(reference: &Value) -> String {
    match reference {
        Value::Object(members) => ordered(members, &OWNER_REFERENCE, |_, value| value.to_string()),
        other => other.to_string(),
    }
}

/// Returns an object as JSON. The members in `order` come first.
fn ordered(members: &Map<String, Value>, order: &[&str], text: impl Fn(&str, &Value) -> String) -> String {
    let known = order.iter().filter_map(|name| members.get_key_value(*name));
    let others = members.iter().filter(|(name, _)| !order.contains(&name.as_str()));
    let members = known
        .chain(others)
        .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), text(name, value)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// Checks a duration such as `1h30m`.
///
/// # Errors
/// The message of Go's `time.ParseDuration`, which does not accept the text.
pub(crate) fn check_duration(text: &str) -> Result<(), String> {
    let shown = quoted(text);
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    let invalid = || Err(format!("time: invalid duration {shown}"));
    if rest.is_empty() {
        return invalid();
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let whole = digits(rest);
        let fraction = rest[whole..].strip_prefix('.').map(digits);
        if whole == 0 && fraction.unwrap_or(0) == 0 {
            return invalid();
        }
        let number = &rest[..whole];
        let unit_and_rest = &rest[whole + fraction.map_or(0, |length| length + 1)..];
        rest = unit_and_rest.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '.');
        let nanos = match &unit_and_rest[..unit_and_rest.len() - rest.len()] {
            "" => return Err(format!("time: missing unit in duration {shown}")),
            "ns" => 1,
            "us" | "µs" | "μs" => 1000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            unit => return Err(format!("time: unknown unit {} in duration {shown}", quoted(unit))),
        };
        let number = if number.is_empty() { Some(0) } else { number.parse::<u64>().ok() };
        let part = number.and_then(|number| number.checked_mul(nanos));
        let Some(sum) = part.and_then(|part| total.checked_add(part)) else { return invalid() };
        total = sum;
    }
    // The fractions are less than one unit each, which does not matter for the limit of 2⁶³ nanoseconds.
    if i64::try_from(total).is_err() { invalid() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_quoted_as_in_go() {
        assert_eq!(quoted("a \"b\" \\ 'c' ä"), r#""a \"b\" \\ 'c' ä""#);
        assert_eq!(quoted("\u{7}\u{1}\n\u{200b}"), r#""\a\x01\n\u200b""#);
    }

    #[test]
    fn durations_are_checked_as_in_go() {
        for text in ["0", "-1.5h", "1h30m", "+2µs", ".5s"] {
            assert_eq!(check_duration(text), Ok(()), "{text}");
        }
        let problems = [
            ("", "time: invalid duration \"\""),
            ("h", "time: invalid duration \"h\""),
            ("5", "time: missing unit in duration \"5\""),
            ("5x", "time: unknown unit \"x\" in duration \"5x\""),
            ("9223372036855s", "time: invalid duration \"9223372036855s\""),
            ("1.2.3s", "time: missing unit in duration \"1.2.3s\""),
        ];
        for (text, problem) in problems {
            assert_eq!(check_duration(text), Err(problem.to_owned()));
        }
    }

    #[test]
    fn maps_are_printed_as_in_go() {
        let value = json!({"b": ["x", 1, null], "a": {"c": true}});
        assert_eq!(printed(&value), "map[a:map[c:true] b:[x 1 <nil>]]");
    }

    #[test]
    fn values_are_printed_in_the_syntax_of_go() {
        let value = json!({"b": [true, 1.5], "a": "x\"", "c": null});
        assert_eq!(
            syntax(&value),
            r#"map[string]interface {}{"a":"x\"", "b":[]interface {}{true, 1.5}, "c":interface {}(nil)}"#
        );
        assert_eq!(
            [&value, &value["b"][1], &value["c"]].map(type_name),
            ["map[string]interface {}", "float64", "<nil>"]
        );
    }

    #[test]
    fn json_is_encoded_as_in_go() {
        let value = json!({"b": "<a&b>\u{2028}\u{1}", "a": [1.0, 1e21, 1e-7, -2, 0.0, {}, [], null]});
        assert_eq!(
            encoded_json(&value),
            "{\"a\":[1,1e+21,1e-7,-2,0,{},[],null],\"b\":\"\\u003ca\\u0026b\\u003e\\u2028\\u0001\"}\n"
        );
    }

    #[test]
    fn metadata_has_the_order_of_the_go_type() {
        let object = json!({
            "metadata": {"uid": "u", "name": "a", "managedFields": [{"time": "t", "manager": "m"}], "other": 1},
            "data": 7,
        });
        assert_eq!(
            patched_json(&object),
            r#"{"data":7,"metadata":{"name":"a","uid":"u","managedFields":[{"manager":"m","time":"t"}],"other":1}}"#
        );
        let reference = json!({"uid": "u", "kind": "K", "apiVersion": "v1"});
        assert_eq!(owner_reference(&reference), r#"{"apiVersion":"v1","kind":"K","uid":"u"}"#);
        assert_eq!(owner_references(&json!([reference])), r#"[{"apiVersion":"v1","kind":"K","uid":"u"}]"#);
    }
}
