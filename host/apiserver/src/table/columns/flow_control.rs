//! Flow control: FlowSchemas and PriorityLevelConfigurations.

use serde_json::Value;

use super::{AGE, Column, NAME, Row};

const SCHEMA: &[Column] = &[
    NAME,
    Column::text("PriorityLevel", |row| row.text("/spec/priorityLevelConfiguration/name").into()),
    Column::text("MatchingPrecedence", |row| row.number("/spec/matchingPrecedence").into()),
    Column::text("DistinguisherMethod", |row| or_none(row, "/spec/distinguisherMethod/type")),
    AGE,
    Column::text("MissingPL", |row| match row.condition("Dangling") {
        "" => "?".into(),
        status => status.into(),
    }),
];

const LEVEL: &[Column] = &[
    NAME,
    Column::text("Type", |row| row.text("/spec/type").into()),
    Column::text("NominalConcurrencyShares", |row| or_none(row, "/spec/limited/nominalConcurrencyShares")),
    Column::text("Queues", |row| or_none(row, "/spec/limited/limitResponse/queuing/queues")),
    Column::text("HandSize", |row| or_none(row, "/spec/limited/limitResponse/queuing/handSize")),
    Column::text("QueueLengthLimit", |row| {
        or_none(row, "/spec/limited/limitResponse/queuing/queueLengthLimit")
    }),
    AGE,
];

pub(super) fn for_kind(kind: &str) -> &'static [Column] {
    if kind == "FlowSchema" { SCHEMA } else { LEVEL }
}

fn or_none(row: &Row<'_>, path: &str) -> Value {
    row.object.pointer(path).cloned().unwrap_or_else(|| "<none>".into())
}
