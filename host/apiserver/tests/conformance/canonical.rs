//! The comparable form of answers: what differs between two runs of one server is replaced.

use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

use crate::target::Response;

/// What was replaced in the answers of one case. Equal values get equal replacements.
pub(crate) struct Canonical {
    uids: Vec<String>,
    versions: Vec<String>,
    generated_names: Vec<String>,
    patterns: Patterns,
}

struct Patterns {
    uid: Regex,
    time: Regex,
    address: Regex,
    version_in_text: Regex,
    port_in_text: Regex,
}

impl Canonical {
    pub(crate) fn new() -> Self {
        let pattern = |pattern: &str| Regex::new(pattern).expect("a pattern");
        let patterns = Patterns {
            uid: pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
            time: pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"),
            address: pattern(r"\b10\.(9[6-9]|1[01]\d)\.\d{1,3}\.\d{1,3}\b"),
            version_in_text: pattern(r"(?i)(resource ?version[^0-9\n]{0,40})(\d{2,})"),
            port_in_text: pattern(r"\b3[0-2]\d{3}\b"),
        };
        Self { uids: Vec::new(), versions: Vec::new(), generated_names: Vec::new(), patterns }
    }

    /// Returns the comparable form of a response.
    pub(crate) fn response(&mut self, response: &Response) -> Value {
        let mut body = response.value();
        sort_unordered(&mut body);
        self.collect_generated_names(&body);
        self.replace(&mut body);
        let mut answer = json!({"code": response.code, "type": response.content_type, "body": body});
        if !response.warnings.is_empty() {
            let warnings = response.warnings.iter().map(|warning| self.text(warning));
            answer["warnings"] = warnings.collect();
        }
        answer
    }

    fn collect_generated_names(&mut self, value: &Value) {
        let metadata = &value["metadata"];
        if let (Some(prefix), Some(name)) = (metadata["generateName"].as_str(), metadata["name"].as_str())
            && name.len() == prefix.len() + 5
            && name.starts_with(prefix)
            && !self.generated_names.iter().any(|known| known == name)
        {
            self.generated_names.push(name.to_owned());
        }
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.collect_generated_names(item)),
            Value::Object(members) => {
                members.values().for_each(|member| self.collect_generated_names(member));
            }
            _ => {}
        }
    }

    fn replace(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item)),
            Value::Object(members) => self.replace_members(members),
            _ => {}
        }
    }

    fn replace_members(&mut self, members: &mut Map<String, Value>) {
        let is_list = members.contains_key("items") || members.contains_key("rows");
        if (is_list || members.get("type").is_some_and(|kind| kind == "BOOKMARK"))
            && let Some(version) = list_version(members)
        {
            *version = "of the list".into();
        }
        for (key, member) in members.iter_mut() {
            match (key.as_str(), &*member) {
                ("resourceVersion", Value::String(version)) if is_number(version) => {
                    *member = number("version", &mut self.versions, version).into();
                }
                ("cells", Value::Array(_)) => self.replace_cells(member),
                ("continue", Value::String(token)) if !token.is_empty() => *member = "token".into(),
                ("nodePort" | "healthCheckNodePort", Value::Number(_)) => *member = "a port".into(),
                _ => self.replace(member),
            }
        }
    }

    /// Replaces the ages among the cells of a table's row.
    fn replace_cells(&mut self, cells: &mut Value) {
        for cell in cells.as_array_mut().into_iter().flatten() {
            match cell.as_str().and_then(|text| text.strip_suffix('s')) {
                Some(seconds) if seconds.parse::<u32>().is_ok() => *cell = "AGE".into(),
                _ => self.replace(cell),
            }
        }
    }

    /// Returns the comparable form of a text.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let Self { uids, versions, generated_names, patterns } = self;
        let mut text = patterns
            .uid
            .replace_all(text, |found: &Captures<'_>| number("uid", uids, &found[0]))
            .into_owned();
        text = patterns.time.replace_all(&text, "TIME").into_owned();
        text = patterns.address.replace_all(&text, "ADDRESS").into_owned();
        text = patterns
            .version_in_text
            .replace_all(&text, |found: &Captures<'_>| {
                format!("{}{}", &found[1], number("version", versions, &found[2]))
            })
            .into_owned();
        text = sort_quoted_managed_fields(&text);
        for name in generated_names.iter() {
            text = text.replace(name, &format!("{}xxxxx", &name[..name.len() - 5]));
        }
        text
    }

    /// Returns the comparable form of what kubectl printed.
    pub(crate) fn output(&mut self, text: &str) -> String {
        let text = self.text(text);
        let text = self.patterns.port_in_text.replace_all(&text, "PORT").into_owned();
        let age = Regex::new(r"(?m)\b\d+(s|ms|m\d*s?)\b").expect("a pattern");
        let text = age.replace_all(&text, "AGE").into_owned();
        let file = Regex::new(r"/tmp/(LIVE|MERGED)-\d+").expect("a pattern");
        let text = file.replace_all(&text, "/tmp/$1");
        let local_time = Regex::new(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}").expect("a pattern");
        let text = local_time.replace_all(&text, "TIME");
        // The width of a column depends on what was replaced.
        let blanks = Regex::new(r"(?m)[ \t]+").expect("a pattern");
        blanks.replace_all(&text, " ").replace(" \n", "\n")
    }
}

/// Sorts what has no fixed order: managed fields, whose order depends on the second of the write, and conflicts between managers.
fn sort_unordered(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(sort_unordered),
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                match (key.as_str(), &mut *member) {
                    ("managedFields", Value::Array(entries)) => {
                        entries.sort_by_key(|entry| {
                            ["manager", "operation", "subresource", "apiVersion"]
                                .map(|name| entry[name].to_string())
                        });
                    }
                    ("causes", Value::Array(causes))
                        if causes.iter().all(|cause| cause["reason"] == "FieldManagerConflict") =>
                    {
                        causes
                            .sort_by_key(|cause| (cause["message"].to_string(), cause["field"].to_string()));
                    }
                    _ => sort_unordered(member),
                }
            }
        }
        _ => {}
    }
}

/// Sorts the managed fields of objects that a message quotes, whose order depends on the second of the write, too.
fn sort_quoted_managed_fields(text: &str) -> String {
    const START: &str = r#"\"managedFields\":["#;
    const ENTRY: &str = r#"{\"manager\":"#;
    let mut sorted = String::new();
    let mut rest = text;
    while let Some((before, found)) = rest.split_once(START) {
        sorted.push_str(before);
        sorted.push_str(START);
        rest = found;
        // No entry has a list.
        let Some((entries, after)) = found.strip_prefix(ENTRY).and_then(|list| list.split_once("}]")) else {
            continue;
        };
        let separator = format!("}},{ENTRY}");
        let mut bodies: Vec<_> = entries.split(&separator).collect();
        bodies.sort_unstable();
        sorted.push_str(&format!("{ENTRY}{}}}]", bodies.join(&separator)));
        rest = after;
    }
    sorted + rest
}

fn list_version(members: &mut Map<String, Value>) -> Option<&mut Value> {
    let object = if members.contains_key("object") {
        members.get_mut("object")?
    } else {
        return members.get_mut("metadata")?.get_mut("resourceVersion");
    };
    object.get_mut("metadata")?.get_mut("resourceVersion")
}

fn is_number(text: &str) -> bool {
    text.len() > 1 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a name for the value that is the same for equal values.
fn number(kind: &str, known: &mut Vec<String>, value: &str) -> String {
    let position = known.iter().position(|other| other == value).unwrap_or_else(|| {
        known.push(value.to_owned());
        known.len() - 1
    });
    format!("{kind} {}", position + 1)
}

#[test]
fn what_differs_between_runs_is_replaced() {
    let mut canonical = Canonical::new();
    let mut value = json!({"metadata": {
        "name": "a-12345", "generateName": "a-", "resourceVersion": "17", "uid": "6a0e2d6c-0b9c-4f4e-9a0e-0123456789ab",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }});
    canonical.collect_generated_names(&value);
    canonical.replace(&mut value);
    let expected = json!({"metadata": {
        "name": "a-xxxxx", "generateName": "a-", "resourceVersion": "version 1", "uid": "uid 1", "creationTimestamp": "TIME",
    }});
    assert_eq!(value, expected);
    assert_eq!(
        canonical.text("resourceVersion: 17, 18 of a-12345"),
        "resourceVersion: version 1, 18 of a-xxxxx"
    );
    let mut list =
        json!({"metadata": {"resourceVersion": "99"}, "items": [{"metadata": {"resourceVersion": "99"}}]});
    canonical.replace(&mut list);
    assert_eq!(list["metadata"]["resourceVersion"], "of the list");
    assert_eq!(list["items"][0]["metadata"]["resourceVersion"], "version 2");
}

#[test]
fn the_managed_fields_of_a_quoted_object_are_sorted() {
    let message = |first: &str, second: &str| {
        format!(
            r#"patch: Invalid value: "{{\"metadata\":{{\"managedFields\":[{{\"manager\":\"{first}\",\"f\":{{}}}},{{\"manager\":\"{second}\",\"f\":{{}}}}]}}}}": json"#
        )
    };
    let mut canonical = Canonical::new();
    assert_eq!(canonical.text(&message("b", "a")), message("a", "b"));
    assert_eq!(canonical.text(&message("a", "b")), message("a", "b"));
    for unchanged in ["no object", r#"\"managedFields\":["#] {
        assert_eq!(canonical.text(unchanged), unchanged);
    }
}
