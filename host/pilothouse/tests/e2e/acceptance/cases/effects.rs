//! Tests effects other than writing objects: queue, Events, metrics and logs.

use super::super::driver::{Driver, expect};

pub(super) async fn queue(driver: Driver) -> Result<(), String> {
    let (other, from) = driver.start_script("info", &[]).await;
    driver.result(&other, from).await;
    let target = [("a", "scripts"), ("b", driver.namespace()), ("c", other.as_str())];
    let wanted = format!("scripts {} attempt=0 reasons=requeue", driver.key(&other));
    let from = driver.position();
    expect("add", &driver.run("add", &target).await, "added")?;
    expect("the key that was added", &driver.result(&other, from).await, &wanted)?;
    let from = driver.position();
    let later = [target.as_slice(), &[("d", "20")]].concat();
    expect("add-after", &driver.run("add-after", &later).await, "added")?;
    expect("the key that was added for later", &driver.result(&other, from).await, &wanted)
}

pub(super) async fn events(driver: Driver) -> Result<(), String> {
    for (kind, name) in [("normal", "Normal"), ("warning", "Warning")] {
        let reason = format!("Accepted{name}");
        let arguments = [("a", kind), ("b", reason.as_str()), ("c", "Testing"), ("d", "as the case asks")];
        expect("event", &driver.run("event", &arguments).await, "published")?;
        let look = || async {
            let events = driver.host().server.events().await;
            events.into_iter().find(|event| event.reason.as_deref() == Some(&reason))
        };
        let event = driver.host().wait(&format!("the Event {reason}"), look).await;
        expect("type", event.type_.as_deref().unwrap_or_default(), name)?;
        expect("action", event.action.as_deref().unwrap_or_default(), "Testing")?;
        expect("note", event.note.as_deref().unwrap_or_default(), "as the case asks")?;
        let regarding = event.regarding.and_then(|object| object.kind).unwrap_or_default();
        expect("regarding", &regarding, "ConfigMap")?;
    }
    Ok(())
}

pub(super) async fn metrics(driver: Driver) -> Result<(), String> {
    let plugin = driver.plugin();
    for (op, name, line) in [
        (
            "counter",
            "accepted",
            format!("pilothouse_guest_accepted_total{{plugin=\"{plugin}\",case=\"one\"}} 2.5"),
        ),
        ("gauge", "level", format!("pilothouse_guest_level{{plugin=\"{plugin}\",case=\"one\"}} -2.5")),
        (
            "histogram",
            "seconds",
            format!("pilothouse_guest_seconds_sum{{plugin=\"{plugin}\",case=\"one\"}} 2.5"),
        ),
    ] {
        let number = if op == "gauge" { "-2.5" } else { "2.5" };
        let arguments = [("a", name), ("b", "case"), ("c", "one"), ("d", number)];
        expect(op, &driver.run(op, &arguments).await, "recorded")?;
        let text = driver.host().get("/metrics").await.1;
        let same = |found: &str| labels_sorted(found) == labels_sorted(&line);
        if !text.lines().any(same) {
            let near: Vec<_> = text.lines().filter(|found| found.contains(name)).collect();
            return Err(format!("no line {line:?}; near it: {near:?}"));
        }
    }
    Ok(())
}

/// Parses a metric sample into name, sorted labels and value.
fn labels_sorted(line: &str) -> Option<(&str, Vec<&str>, &str)> {
    let (name, rest) = line.split_once('{')?;
    let (labels, value) = rest.rsplit_once("} ")?;
    let mut labels: Vec<_> = labels.split(',').collect();
    labels.sort_unstable();
    Some((name, labels, value))
}

pub(super) async fn log(driver: Driver) -> Result<(), String> {
    for level in ["debug", "info", "warn", "error"] {
        let message = format!("a line at {level}");
        let from = driver.position();
        let arguments = [("a", level), ("b", message.as_str()), ("c", "colour"), ("d", "blue = \"sky\"")];
        expect("log", &driver.run("log", &arguments).await, "logged")?;
        let line = driver.line(from, &message, |line| line.message == message).await;
        expect("level", &line.level, level)?;
        expect("field", line.field("colour").unwrap_or("(none)"), "blue = \"sky\"")?;
    }
    Ok(())
}
