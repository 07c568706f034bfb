//! The lines that `pilothouse explain` and the status page show of an explanation.

use std::time::Duration;

use pilothouse_controller::{
    EntryDetail, Explanation, JournalEntry, KeyStateName, PluginOrigin, PredicateValue, QueueSituation,
    ServerObject, Situation, printable,
};

/// One line. `--follow` prints it again when its identity changes: the text without the durations that grow by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) text: String,
    identity: String,
}

impl Line {
    fn new(text: String) -> Self {
        Self { identity: text.clone(), text }
    }

    /// Whether one of these lines says the same.
    pub(crate) fn is_among(&self, lines: &[Self]) -> bool {
        lines.iter().any(|line| line.identity == self.identity)
    }
}

/// A row of what decides about a key now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    /// The identity of the line, if the value has durations.
    identity: Option<String>,
}

impl Row {
    fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, value: value.into(), identity: None }
    }

    fn into_line(self) -> Line {
        let Self { name, value, identity } = self;
        let line = Line::new(format!("  {name:<10} {value}"));
        Line { identity: identity.unwrap_or(line.identity), ..line }
    }
}

/// Returns the verdict, the situation, and what happened to the key.
pub(crate) fn lines(explanation: &Explanation) -> Vec<Line> {
    let Explanation { code, verdict, now, then, .. } = explanation;
    // A verdict may contain a duration, its situation has the rest.
    let mut lines = vec![Line { text: format!("{code}: {verdict}"), identity: code.to_string() }];
    lines.extend(situation(now).into_iter().map(Row::into_line));
    lines.extend(then.iter().map(|entry| Line::new(format!("  {} {}", entry.time, entry_text(entry)))));
    lines
}

/// Returns what decides now.
pub(crate) fn situation(now: &Situation) -> Vec<Row> {
    let plugin = &now.plugin;
    let mut state = plugin.state.as_str().to_owned();
    if plugin.paused {
        state.push_str(", paused");
    }
    if !plugin.error.is_empty() {
        state = format!("{state}: {}", plugin.error);
    }
    let mut rows = vec![Row::new("plugin", state)];
    rows.extend(now.source.as_ref().map(source));
    if let Some(version) = &now.version {
        let digest = version.digest.get(..12).unwrap_or_default();
        let canary = if version.canary { ", the canary" } else { ", not the canary" };
        rows.push(Row::new("version", format!("{} ({digest}){canary}", printable(&version.version))));
    }
    if let Some(watch) = &now.watch {
        let namespaces = match watch.namespaces.as_slice() {
            [] => "all namespaces".to_owned(),
            namespaces => format!("namespaces {}", namespaces.join(", ")),
        };
        let mut text = format!("{}, {namespaces}", watch.resource);
        for (name, selector) in [("labels", &watch.label_selector), ("fields", &watch.field_selector)] {
            if !selector.is_empty() {
                text = format!("{text}, {name} {selector}");
            }
        }
        if let Some(error) = &watch.error {
            text = format!("{text}; it does not work: {error}");
        }
        rows.push(Row::new("watch", text));
        rows.push(Row::new("object", object(now)));
    }
    for trigger in &now.triggers {
        let predicate = match trigger.predicate.as_str() {
            "" => String::new(),
            predicate => format!(", if {}", in_one_line(predicate)),
        };
        rows.push(Row::new("trigger", format!("{} queues {}{predicate}", trigger.watch, trigger.queues)));
    }
    if let Some(predicate) = &now.predicate {
        for part in &predicate.parts {
            let text = format!("{}: {}", in_one_line(&part.text), value(part.value));
            rows.push(Row::new("predicate", text));
        }
    }
    if let Some(hot_loop) = &now.hot_loop {
        rows.push(Row::new("hot loop", hot_loop.text.as_str()));
    }
    rows.push(queue(now.queue.as_ref()));
    rows
}

/// Describes what a plugin from a registry is made of, and when that was checked.
fn source(source: &PluginOrigin) -> Row {
    let checked = match &source.checked_at {
        Some(time) => format!("checked at {time}"),
        None => "not checked since the host started".to_owned(),
    };
    let identity = Some(format!("source {source}"));
    Row { identity, ..Row::new("source", format!("{source}, {checked}")) }
}

/// Describes the object in the cache or on the server.
fn object(now: &Situation) -> String {
    if let Some(cached) = &now.cached {
        let version = &cached.resource_version;
        let seen = cached.seen.as_ref().map(|time| format!(", seen at {time}")).unwrap_or_default();
        let author = if cached.own_write { ", written by the plugin" } else { "" };
        return format!("rv {version}{seen}{author}");
    }
    match &now.on_server {
        Some(ServerObject::Exists { resource_version, .. }) => {
            format!("not in the cache; the API server has rv {resource_version}")
        }
        Some(ServerObject::Absent) => "neither in the cache nor on the API server".to_owned(),
        Some(ServerObject::Unknown { .. }) | None => "not in the cache".to_owned(),
    }
}

fn queue(queue: Option<&QueueSituation>) -> Row {
    let Some(queue) = queue else { return Row::new("queue", "not pending") };
    let time = Duration::from_millis(queue.milliseconds);
    let (state, time) = match queue.state {
        KeyStateName::Processing => ("processing", format!("for {time:.1?}")),
        KeyStateName::Ready => ("ready", format!("for {time:.1?}")),
        KeyStateName::Delayed => ("delayed", format!("for another {time:.1?}")),
    };
    let rest = format!("{} failed attempts, {} open writes", queue.attempts, queue.open_writes);
    let identity = Some(format!("queue {state} {rest}"));
    Row { identity, ..Row::new("queue", format!("{state} {time}, {rest}")) }
}

fn value(value: PredicateValue) -> &'static str {
    match value {
        PredicateValue::True => "true",
        PredicateValue::False => "false",
        PredicateValue::Fails => "fails, which admits changes",
        PredicateValue::DependsOnChange => "depends on the change",
    }
}

/// Describes what happened, without its time.
pub(crate) fn entry_text(entry: &JournalEntry) -> String {
    match &entry.what {
        EntryDetail::Event { watch, change, resource_version, queued, .. } => {
            let watch = if watch.is_empty() { "an earlier watch" } else { watch.as_str() };
            let version = version(*resource_version);
            let outcome = if *queued { "queued the key" } else { "refused by the predicate" };
            format!("{change} in {watch}{version}: {outcome}")
        }
        EntryDetail::Reconcile { reasons, attempt, microseconds, outcome, trace_id } => {
            let reasons = reasons.join(", ");
            let time = Duration::from_micros(u64::from(*microseconds));
            let failed = match attempt {
                0 => String::new(),
                1 => " after 1 failed attempt".to_owned(),
                attempt => format!(" after {attempt} failed attempts"),
            };
            let trace = trace_id.as_ref().map(|id| format!(", trace {id}")).unwrap_or_default();
            format!("reconciled ({reasons}){failed} in {time:.1?}: {outcome}{trace}")
        }
        EntryDetail::Write { verb, code, resource_version, same_key } => {
            let object = if *same_key { "" } else { " of another object" };
            let code = match code {
                0 => "no response".to_owned(),
                code => format!("HTTP {code}"),
            };
            format!("{verb}{object}{}: {code}", version(*resource_version))
        }
    }
}

fn version(version: u64) -> String {
    if version == 0 { String::new() } else { format!(" rv {version}") }
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns an explanation with these members of `now`.
    pub(crate) fn explanation(now: &Value, then: &Value) -> Explanation {
        let mut members =
            json!({"plugin": {"state": "running", "error": "", "running": true, "paused": false}});
        members.as_object_mut().expect("an object").extend(now.as_object().expect("members").clone());
        let explanation = json!({
            "plugin": "p", "watch": "foos", "key": "shop/a", "code": "PredicateFalse", "verdict": "a < b is false",
            "now": members, "then": then,
        });
        serde_json::from_value(explanation).expect("an explanation")
    }

    fn texts(now: &Value, then: &Value) -> Vec<String> {
        lines(&explanation(now, then)).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn an_explanation_is_shown_with_everything_that_decides() {
        let watch = json!({
            "resource": "foos.v1", "namespaces": ["shop"], "coversNamespace": true, "labelSelector": "app=x",
            "fieldSelector": "", "synced": true,
        });
        let predicate = json!({
            "text": "a && b", "value": "false",
            "parts": [{"text": "a", "value": "dependsOnChange"}, {"text": "b\n > 0", "value": "false"}],
        });
        let queue = json!({
            "state": "delayed", "milliseconds": 1500, "attempts": 2, "openWrites": 0, "heldByWrites": false,
        });
        let now = json!({
            "watch": watch, "cached": {"resourceVersion": "812", "ownWrite": false, "seen": "T1"},
            "predicate": predicate, "queue": queue, "hotLoop": {"text": "hot loop: x", "milliseconds": 0},
            "triggers": [{"watch": "foos", "queues": "the object itself", "predicate": "a && b"}],
        });
        let then = json!([
            {"time": "T1", "type": "event", "watch": "foos", "ofTarget": true, "change": "updated",
             "resourceVersion": 812, "queued": false},
            {"time": "T2", "type": "write", "verb": "patch", "code": 200, "resourceVersion": 813, "sameKey": false},
            {"time": "T3", "type": "reconcile", "reasons": ["created", "retry"], "attempt": 1, "microseconds": 1500,
             "outcome": "done"},
            {"time": "T4", "type": "reconcile", "reasons": ["updated"], "attempt": 0, "microseconds": 2500,
             "outcome": "done", "traceId": "0af7"},
        ]);
        let expected = [
            "PredicateFalse: a < b is false",
            "  plugin     running",
            "  watch      foos.v1, namespaces shop, labels app=x",
            "  object     rv 812, seen at T1",
            "  trigger    foos queues the object itself, if a && b",
            "  predicate  a: depends on the change",
            "  predicate  b > 0: false",
            "  hot loop   hot loop: x",
            "  queue      delayed for another 1.5s, 2 failed attempts, 0 open writes",
            "  T1 updated in foos rv 812: refused by the predicate",
            "  T2 patch of another object rv 813: HTTP 200",
            "  T3 reconciled (created, retry) after 1 failed attempt in 1.5ms: done",
            "  T4 reconciled (updated) in 2.5ms: done, trace 0af7",
        ];
        assert_eq!(texts(&now, &then), expected);
        assert_eq!(texts(&json!({}), &json!([])).len(), 3, "without a running version");
    }

    #[test]
    fn the_version_that_reconciles_the_key_is_shown_beside_a_canary() {
        let version = |canary| json!({"digest": "ab".repeat(32), "version": "2.0", "canary": canary});
        let line = |canary| texts(&json!({"version": version(canary)}), &json!([])).remove(2);
        assert_eq!(line(true), "  version    2.0 (abababababab), the canary");
        assert_eq!(line(false), "  version    2.0 (abababababab), not the canary");
    }

    #[test]
    fn the_source_of_a_plugin_is_shown_with_the_time_of_its_check() {
        let lines = |digest: &str, checked: &Value| {
            let source = json!({"image": "oci://r.example/p:1", "digest": digest, "decision": "signed by ci", "checkedAt": checked});
            lines(&explanation(&json!({"source": source}), &json!([])))
        };
        let checked = lines("sha256:1", &json!("T1"));
        assert_eq!(
            checked[2].text,
            "  source     oci://r.example/p:1 (sha256:1): signed by ci, checked at T1"
        );
        let unchecked = lines("sha256:1", &Value::Null);
        assert!(unchecked[2].text.ends_with(": signed by ci, not checked since the host started"));
        assert!(unchecked.iter().all(|line| line.is_among(&checked)), "a check alone is no news");
        assert!(!lines("sha256:2", &json!("T1"))[2].is_among(&checked));
    }

    #[test]
    fn a_line_is_not_repeated_because_time_passes() {
        let at = |milliseconds: u64, attempts: u32| {
            let queue = json!({
                "state": "delayed", "milliseconds": milliseconds, "attempts": attempts, "openWrites": 0,
                "heldByWrites": false,
            });
            lines(&explanation(&json!({"queue": queue}), &json!([])))
        };
        let first = at(1500, 2);
        assert!(at(500, 2).iter().all(|line| line.is_among(&first)));
        assert_eq!(at(500, 3).iter().filter(|line| !line.is_among(&first)).count(), 1);
    }
}
