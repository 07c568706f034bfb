//! Jobs and cron jobs.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Column, DEFAULT_COLUMNS, NAME, Row, count};
use crate::table::age;

const JOB: &[Column] = &[
    NAME,
    Column::text("Status", status),
    Column::text("Completions", completions),
    Column::text("Duration", duration),
    AGE,
    Column::wide("Containers", |row| row.containers("/spec/template/spec", "name")),
    Column::wide("Images", |row| row.containers("/spec/template/spec", "image")),
    Column::wide("Selector", |row| row.selector("/spec/selector")),
];

const CRON_TEMPLATE: &str = "/spec/jobTemplate/spec/template/spec";
const CRON_JOB: &[Column] = &[
    NAME,
    Column::text("Schedule", |row| row.text("/spec/schedule").into()),
    Column::text("Timezone", |row| row.text_or("/spec/timeZone", "<none>").into()),
    Column::boolean("Suspend", |row| match row.object.pointer("/spec/suspend") {
        Some(Value::Bool(true)) => "True".into(),
        Some(Value::Bool(false)) => "False".into(),
        _ => "<unset>".into(),
    }),
    Column::integer("Active", |row| count(row.list("/status/active").len()).into()),
    Column::text("Last Schedule", |row| match row.text("/status/lastScheduleTime") {
        "" => "<none>".into(),
        time => age::since(time, row.now).into(),
    }),
    AGE,
    Column::wide("Containers", |row| row.containers(CRON_TEMPLATE, "name")),
    Column::wide("Images", |row| row.containers(CRON_TEMPLATE, "image")),
    Column::wide("Selector", |row| row.selector("/spec/jobTemplate/spec/selector")),
];

fn status(row: &Row<'_>) -> Value {
    let is = |ty: &str| row.condition(ty) == "True";
    let status = if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if row.is_terminating() {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    status.into()
}

fn completions(row: &Row<'_>) -> Value {
    let succeeded = row.number("/status/succeeded");
    let text = match row.object.pointer("/spec/completions").and_then(Value::as_i64) {
        Some(completions) => format!("{succeeded}/{completions}"),
        None => match row.number("/spec/parallelism") {
            parallelism @ 2.. => format!("{succeeded}/1 of {parallelism}"),
            _ => format!("{succeeded}/1"),
        },
    };
    text.into()
}

fn duration(row: &Row<'_>) -> Value {
    let Ok(start) = row.text("/status/startTime").parse::<Timestamp>() else { return "".into() };
    let end = row.text("/status/completionTime").parse().unwrap_or(row.now);
    age::human_duration(end.as_second() - start.as_second()).into()
}

pub(super) fn for_kind(kind: &str) -> &'static [Column] {
    match kind {
        "Job" => JOB,
        "CronJob" => CRON_JOB,
        _ => DEFAULT_COLUMNS,
    }
}
