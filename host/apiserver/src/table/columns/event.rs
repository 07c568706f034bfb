//! Events. Each column reads the fields of both `v1` and `events.k8s.io/v1`.

use serde_json::Value;

use super::{Column, NAME, Row};

pub(super) const EVENT: &[Column] = &[
    Column::text("Last Seen", |row| last_seen(row).into()),
    Column::text("Type", |row| row.text("/type").into()),
    Column::text("Reason", |row| row.text("/reason").into()),
    Column::text("Object", |row| {
        let kind = either(row, "/involvedObject/kind", "/regarding/kind").to_lowercase();
        match either(row, "/involvedObject/name", "/regarding/name") {
            "" => kind.into(),
            name => format!("{kind}/{name}").into(),
        }
    }),
    Column::wide("Subobject", |row| either(row, "/involvedObject/fieldPath", "/regarding/fieldPath").into()),
    Column::wide("Source", source),
    Column::text("Message", |row| either(row, "/message", "/note").trim().into()),
    Column::wide("First Seen", |row| first_seen(row).into()),
    Column::wide("Count", |row| {
        let counts = ["/series/count", "/count", "/deprecatedCount"].map(|pointer| row.number(pointer));
        counts.into_iter().find(|count| *count > 0).unwrap_or(1).into()
    }),
    Column { wide: true, ..NAME },
];

/// Returns the string at the pointer of `v1`, or else at that of `events.k8s.io/v1`.
fn either<'a>(row: &Row<'a>, core: &str, events: &str) -> &'a str {
    match row.text(core) {
        "" => row.text(events),
        text => text,
    }
}

fn first_seen(row: &Row<'_>) -> String {
    let time = match either(row, "/firstTimestamp", "/deprecatedFirstTimestamp") {
        "" => "/eventTime",
        _ if row.text("/firstTimestamp").is_empty() => "/deprecatedFirstTimestamp",
        _ => "/firstTimestamp",
    };
    row.since(time)
}

fn last_seen(row: &Row<'_>) -> String {
    let times = ["/series/lastObservedTime", "/lastTimestamp", "/deprecatedLastTimestamp"];
    match times.into_iter().find(|pointer| !row.text(pointer).is_empty()) {
        Some(pointer) => row.since(pointer),
        None => first_seen(row),
    }
}

fn source(row: &Row<'_>) -> Value {
    let first_non_empty = |pointers: [&str; 4]| {
        pointers
            .into_iter()
            .map(|pointer| row.text(pointer))
            .find(|text| !text.is_empty())
            .unwrap_or_default()
    };
    let component = first_non_empty([
        "/source/component",
        "/deprecatedSource/component",
        "/reportingComponent",
        "/reportingController",
    ]);
    let instance = first_non_empty([
        "/source/host",
        "/deprecatedSource/host",
        "/reportingInstance",
        "/reportingInstance",
    ]);
    match instance {
        "" => component.into(),
        instance => format!("{component}, {instance}").into(),
    }
}
