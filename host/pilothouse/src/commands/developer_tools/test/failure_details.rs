//! What a report shows besides the failure itself: the object, and the plugin with its last errors and its log. Pure.

use pilothouse_controller::{PluginLogLine, PluginStatus};
use serde_json::Value;

/// The maximum number of an object's lines.
const MAX_OBJECT_LINES: usize = 100;
/// The maximum number of log lines.
const MAX_LOG_LINES: usize = 30;

/// Returns an object as YAML, without `managedFields`.
pub(super) fn of_object(mut object: Value) -> Vec<String> {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    // The serializer fails only where its output does, and a string accepts everything.
    let text = serde_saphyr::to_string(&object).unwrap_or_else(|_| object.to_string());
    let count = text.lines().count();
    let mut lines: Vec<_> = text.lines().take(MAX_OBJECT_LINES).map(|line| format!("  {line}")).collect();
    if count > MAX_OBJECT_LINES {
        lines.push(format!("  … and {} more lines", count - MAX_OBJECT_LINES));
    }
    lines
}

/// Returns the plugin's state, its errors and the end of its log.
pub(super) fn of_plugin(status: Option<&PluginStatus>, log: &[PluginLogLine]) -> Vec<String> {
    let Some(status) = status else { return vec!["the host has not found the plugin".to_owned()] };
    let mut lines = vec![format!("the plugin is {}", status.state.as_str())];
    if !status.error.is_empty() {
        lines.push(format!("  {}", status.error));
    }
    if let Some(error) = &status.last_error {
        let object = [error.watch.as_str(), &error.key].join(" ");
        lines.push(format!("its last error, at {}:", object.trim()));
        lines.push(format!("  {}", error.message));
    }
    if log.is_empty() {
        lines.push("its log is empty".to_owned());
        return lines;
    }
    lines.push(match log.len().saturating_sub(MAX_LOG_LINES) {
        0 => "its log:".to_owned(),
        hidden => format!("the end of its log, without {hidden} lines:"),
    });
    let end = &log[log.len().saturating_sub(MAX_LOG_LINES)..];
    lines.extend(end.iter().map(|line| format!("  {}", log_line(line))));
    lines
}

/// Returns a log line with its level and fields.
pub(super) fn log_line(line: &PluginLogLine) -> String {
    let mut text = format!("{} {}", line.level, line.message);
    for (key, value) in &line.fields {
        text.push_str(&format!(" {key}={value:?}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(number: usize) -> PluginLogLine {
        serde_json::from_value(json!({
            "sequence": number, "time": "2030-01-01T00:00:00Z", "plugin": "p", "level": "info",
            "message": format!("line {number}"), "fields": [["key", "default/a"]],
        }))
        .expect("a line")
    }

    fn status(extra: &Value) -> PluginStatus {
        let mut status = json!({
            "name": "p", "version": "1", "state": "running", "generation": 1, "error": "", "digest": "", "queueDepth": 0,
            "counters": {},
        });
        let members = extra.as_object().expect("members").clone();
        status.as_object_mut().expect("an object").extend(members);
        serde_json::from_value(status).expect("a status")
    }

    #[test]
    fn managed_fields_are_not_shown() {
        let object = json!({"kind": "Foo", "metadata": {"managedFields": [{"manager": "p"}], "name": "a"}});
        let lines = of_object(object);
        assert!(
            lines.contains(&"  kind: Foo".to_owned()) && lines.contains(&"    name: a".to_owned()),
            "{lines:?}"
        );
        assert!(!lines.concat().contains("manager"), "{lines:?}");
        let long = of_object(json!((0..2 * MAX_OBJECT_LINES).collect::<Vec<_>>()));
        assert_eq!(long.len(), MAX_OBJECT_LINES + 1);
    }

    #[test]
    fn the_last_errors_and_log_lines_are_shown() {
        assert_eq!(of_plugin(None, &[]), ["the host has not found the plugin"]);
        assert_eq!(of_plugin(Some(&status(&json!({}))), &[]), ["the plugin is running", "its log is empty"]);
        let error = json!({"time": "", "watch": "foos", "key": "default/a", "message": "no"});
        let failing =
            status(&json!({"state": "backing-off", "error": "five calls failed", "lastError": error}));
        assert_eq!(
            of_plugin(Some(&failing), &[line(1)]),
            [
                "the plugin is backing-off",
                "  five calls failed",
                "its last error, at foos default/a:",
                "  no",
                "its log:",
                "  info line 1 key=\"default/a\"",
            ]
        );
        let log: Vec<_> = (0..MAX_LOG_LINES + 3).map(line).collect();
        let lines = of_plugin(Some(&status(&json!({}))), &log);
        assert_eq!(lines[1], "the end of its log, without 3 lines:");
        assert_eq!((lines.len(), lines[2].contains("line 3 ")), (MAX_LOG_LINES + 2, true));
    }
}
