//! What the status page and `pilothouse status` show of a plugin.

use pilothouse_controller::{CanaryStatus, PluginStatus};

/// The counters of failed calls of a plugin's guests.
const ERROR_COUNTERS: [&str; 3] = ["errors", "observeErrors", "indexErrors"];

/// Returns the plugin's state in one word: the public state, unless something else about the plugin matters more.
pub(crate) fn state(plugin: &PluginStatus) -> &'static str {
    match plugin {
        PluginStatus { removed: true, .. } => "removed",
        PluginStatus { paused: true, .. } => "paused",
        PluginStatus { compiling_since: Some(_), .. } => "compiling",
        PluginStatus { failing: true, .. } => "failing",
        _ => plugin.state.as_str(),
    }
}

/// Returns the number of failed calls since the host started.
pub(crate) fn errors(plugin: &PluginStatus) -> u64 {
    // A status may come from the bundle of somebody else, with any numbers.
    let counts = ERROR_COUNTERS.iter().filter_map(|name| plugin.counters.get(*name));
    counts.fold(0_u64, |sum, count| sum.saturating_add(*count))
}

/// Returns the plugin's problems, one per line: what it reports, and the last error while calls fail. A removed plugin has none.
pub(crate) fn problems(plugin: &PluginStatus) -> Vec<String> {
    if plugin.removed {
        return Vec::new();
    }
    let mut problems = Vec::new();
    if !plugin.error.is_empty() {
        let since = match plugin.since.as_str() {
            "" => String::new(),
            since => format!(" ({} since {since})", plugin.state.as_str()),
        };
        problems.push(format!("{}{since}", plugin.error));
    }
    problems.extend(last_error(plugin));
    problems
}

/// Returns the keys that a canary reconciles, as in `10 % of the namespaces`. The names are not made printable.
pub(crate) fn canary_keys(canary: &CanaryStatus) -> String {
    match canary.percent {
        Some(percent) => format!("{percent} % of the namespaces"),
        None => format!("the namespaces {}", canary.namespaces.join(", ")),
    }
}

/// Describes the last error, while keys wait for a retry or calls fail.
fn last_error(plugin: &PluginStatus) -> Option<String> {
    let last = plugin.last_error.as_ref()?;
    if plugin.consecutive_errors == 0 && plugin.keys_in_backoff == 0 {
        return None;
    }
    let counted =
        |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let keys = u64::try_from(plugin.keys_in_backoff).unwrap_or(u64::MAX);
    let object = [last.watch.as_str(), &last.key].join(" ");
    let object = match object.trim() {
        "" => String::new(),
        object => format!(" at {object}"),
    };
    Some(format!(
        "{} in a row, {} in backoff; the last error{object}, {}: {}",
        counted(plugin.consecutive_errors, "error", "errors"),
        counted(keys, "key", "keys"),
        last.time,
        last.message
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plugin(members: &Value) -> PluginStatus {
        let mut plugin = json!({
            "name": "p", "version": "1", "state": "running", "generation": 1, "error": "", "digest": "", "queueDepth": 0,
            "counters": {},
        });
        plugin.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
        serde_json::from_value(plugin).expect("a status")
    }

    #[test]
    fn the_state_says_what_matters_most() {
        let state = |members: &Value| state(&plugin(members));
        assert_eq!(state(&json!({})), "running");
        assert_eq!(state(&json!({"failing": true})), "failing");
        assert_eq!(state(&json!({"failing": true, "paused": true})), "paused");
        assert_eq!(state(&json!({"state": "stopped", "removed": true})), "removed");
        let compiling = json!({"failing": true, "compilingSince": "2026-01-02T03:04:05Z"});
        assert_eq!(state(&compiling), "compiling");
        assert_eq!(state(&json!({"state": "backing-off"})), "backing-off");
    }

    #[test]
    fn the_sum_of_the_errors_is_bounded() {
        assert_eq!(
            errors(&plugin(&json!({"counters": {"errors": 2, "indexErrors": 3, "reconciles": 9}}))),
            5
        );
        let large = json!({"counters": {"errors": u64::MAX, "observeErrors": 1}});
        assert_eq!(errors(&plugin(&large)), u64::MAX);
    }

    #[test]
    fn the_last_error_is_shown_while_calls_fail() {
        let last =
            json!({"time": "2026-01-02T03:04:05Z", "watch": "foos", "key": "shop/a", "message": "401"});
        let failing = json!({"consecutiveErrors": 4, "keysInBackoff": 1, "lastError": last});
        let expected =
            "4 errors in a row, 1 key in backoff; the last error at foos shop/a, 2026-01-02T03:04:05Z: 401";
        assert_eq!(problems(&plugin(&failing)), [expected]);
        assert_eq!(problems(&plugin(&json!({"lastError": last}))), Vec::<String>::new(), "it is over");
        assert_eq!(problems(&plugin(&json!({}))), Vec::<String>::new());
        let removed =
            json!({"removed": true, "error": "its file was removed", "lastError": last, "keysInBackoff": 1});
        assert_eq!(problems(&plugin(&removed)), Vec::<String>::new());
    }

    #[test]
    fn the_problem_has_the_time_since_when_the_plugin_is_in_its_state() {
        let failed = json!({"state": "failed", "error": "torn", "since": "2026-01-02T03:04:05Z"});
        assert_eq!(problems(&plugin(&failed)), ["torn (failed since 2026-01-02T03:04:05Z)"]);
    }
}
