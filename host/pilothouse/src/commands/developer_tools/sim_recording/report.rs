//! The text of a replay. Pure.

use std::path::Path;

use pilothouse_controller::recording::{Difference, RecordedReconcile, RecordingHead, Step};
use serde_json::Value;

/// The number of characters of a digest that are shown.
const DIGEST_LENGTH: usize = 12;
/// The number of characters of a value that are shown.
const MAX_VALUE: usize = 2_000;

/// Returns the line about a file. `digest` is that of the plugin that is run.
pub(super) fn heading(file: &Path, head: &RecordingHead, digest: &str) -> String {
    let RecordingHead { plugin, digest: recorded, .. } = head;
    let version = match recorded == digest {
        true => "the same version".to_owned(),
        false => format!("version {} of it", short(recorded)),
    };
    format!("{}: {plugin}, recorded with {version}", file.display())
}

/// Returns the lines about the first difference.
pub(super) fn lines(place: &str, reconcile: &RecordedReconcile, difference: &Difference) -> Vec<String> {
    let Difference { equal_calls, recorded, replayed, read_hashes, drew_random } = difference;
    let RecordedReconcile { time, watch, reasons, attempt, .. } = reconcile;
    let mut lines = vec![
        format!("DIFFERS {place}: reconcile of {watch} {} at {time}", reconcile.key()),
        format!("  reasons   {}; attempt {attempt}", reasons.join(", ")),
        format!("  before    {equal_calls} equal calls"),
        format!("  recorded  {}", text_of(recorded)),
        format!("  replayed  {}", text_of(replayed)),
    ];
    if let Some(found) = first_difference(recorded, replayed) {
        lines.push(format!("  differ at {found}"));
    }
    if *read_hashes {
        lines.push(
            "note: the plugin read values of Secrets, and the recording has only their hashes: record with secrets=plain to rule them out"
                .to_owned(),
        );
    }
    if *drew_random {
        lines.push(
            "note: the plugin drew random bytes that are not recorded: names and orders may differ for that reason"
                .to_owned(),
        );
    }
    lines
}

fn short(digest: &str) -> &str {
    digest.get(..DIGEST_LENGTH).unwrap_or(digest)
}

fn text_of(step: &Step) -> String {
    match step {
        Step::Call { function, arguments } => format!("{function} {}", shortened(arguments)),
        Step::Result(result) => format!("returns {}", shortened(result)),
    }
}

fn shortened(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > MAX_VALUE {
        text.truncate(text.floor_char_boundary(MAX_VALUE));
        text.push('…');
    }
    text
}

/// Returns the place of the first difference between the arguments of two calls of one function, with both values; `None` if the
/// functions differ.
fn first_difference(recorded: &Step, replayed: &Step) -> Option<String> {
    let (recorded, replayed) = match (recorded, replayed) {
        (Step::Call { function, arguments }, Step::Call { function: other, arguments: others })
            if function == other =>
        {
            (arguments, others)
        }
        _ => return None,
    };
    let mut pointer = String::new();
    let (left, right) = descend(recorded, replayed, &mut pointer)?;
    let text = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), shortened);
    Some(format!("{pointer}: recorded {}, replayed {}", text(left), text(right)))
}

/// Returns the first values that differ, in the order of the recorded members, and adds their place to `pointer` (RFC 6901).
fn descend<'a>(
    left: &'a Value,
    right: &'a Value,
    pointer: &mut String,
) -> Option<(Option<&'a Value>, Option<&'a Value>)> {
    if left == right {
        return None;
    }
    let names: Vec<String> = match (left, right) {
        (Value::Object(left), Value::Object(right)) => left.keys().chain(right.keys()).cloned().collect(),
        (Value::Array(left), Value::Array(right)) => {
            (0..left.len().max(right.len())).map(|index| index.to_string()).collect()
        }
        _ => return Some((Some(left), Some(right))),
    };
    let member = |value: &'a Value, name: &str| match value {
        Value::Array(items) => name.parse().ok().and_then(|index: usize| items.get(index)),
        _ => value.get(name),
    };
    for name in names {
        let (left, right) = (member(left, &name), member(right, &name));
        if left == right {
            continue;
        }
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
        return match (left, right) {
            (Some(left), Some(right)) => descend(left, right, pointer),
            other => Some(other),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(function: &str, arguments: Value) -> Step {
        Step::Call { function: function.to_owned(), arguments }
    }

    fn difference(recorded: Step, replayed: Step) -> Difference {
        Difference { equal_calls: 2, recorded, replayed, read_hashes: false, drew_random: false }
    }

    fn reconcile() -> RecordedReconcile {
        RecordedReconcile {
            time: "2026-01-02T03:04:05Z".to_owned(),
            microseconds: 1,
            watch: "foos".to_owned(),
            namespace: "shop".to_owned(),
            name: "a".to_owned(),
            reasons: vec!["created".to_owned(), "retry".to_owned()],
            attempt: 1,
            extra: Vec::new(),
            calls: Vec::new(),
            result: json!("done"),
        }
    }

    #[test]
    fn both_sides_and_the_place_are_shown() {
        let manifest = |replicas: u32| json!({"manifest": {"spec": {"replicas": replicas, "a/b": [1, 2]}}});
        let found = difference(call("client.update", manifest(3)), call("client.update", manifest(4)));
        let lines = lines("r.jsonl:7", &reconcile(), &found);
        assert_eq!(lines[0], "DIFFERS r.jsonl:7: reconcile of foos shop/a at 2026-01-02T03:04:05Z");
        assert_eq!(lines[1], "  reasons   created, retry; attempt 1");
        assert!(lines[3].starts_with("  recorded  client.update {\"manifest\""), "{lines:?}");
        assert_eq!(lines[5], "  differ at /manifest/spec/replicas: recorded 3, replayed 4");
    }

    #[test]
    fn a_result_and_another_function_are_shown_without_a_place() {
        let found = difference(Step::Result(json!("done")), call("client.get", json!({})));
        let lines = lines("p", &reconcile(), &found);
        assert_eq!(lines[3], "  recorded  returns \"done\"");
        assert_eq!(lines.len(), 5, "{lines:?}");
    }

    #[test]
    fn possible_other_causes_are_named() {
        let mut found = difference(Step::Result(json!("done")), Step::Result(json!({"retry": "a"})));
        (found.read_hashes, found.drew_random) = (true, true);
        let lines = lines("p", &reconcile(), &found);
        assert!(lines[5].contains("secrets=plain") && lines[6].contains("random"), "{lines:?}");
    }

    #[test]
    fn places_are_json_pointers() {
        let place = |left: Value, right: Value| {
            let mut pointer = String::new();
            descend(&left, &right, &mut pointer).map(|_| pointer)
        };
        assert_eq!(place(json!({"a": 1}), json!({"a": 1})), None);
        assert_eq!(place(json!({"a/b": [1, 2]}), json!({"a/b": [1, 3]})).as_deref(), Some("/a~1b/1"));
        assert_eq!(place(json!({"a": 1}), json!({"a": 1, "b": 2})).as_deref(), Some("/b"));
        assert_eq!(place(json!([1]), json!([])).as_deref(), Some("/0"));
        assert_eq!(place(json!(1), json!(2)).as_deref(), Some(""));
    }

    #[test]
    fn the_heading_says_whether_the_version_is_another() {
        let head = RecordingHead {
            format: "f".to_owned(),
            plugin: "p".to_owned(),
            digest: "0123456789abcdef".to_owned(),
            config: json!({}),
            secrets: pilothouse_controller::recording::SecretMode::Hashed,
        };
        let file = Path::new("r.jsonl");
        assert_eq!(heading(file, &head, "0123456789abcdef"), "r.jsonl: p, recorded with the same version");
        assert_eq!(heading(file, &head, "ffff"), "r.jsonl: p, recorded with version 0123456789ab of it");
    }
}
