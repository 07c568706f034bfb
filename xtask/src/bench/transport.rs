//! What lies between an API server and the informer, measured by the bench `transport`.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::figures::cargo_bench;
use super::plot::number;
use super::report::machine;

/// What the bench said: what was served, and a row for each case.
pub(super) struct Transport {
    served: Value,
    rows: Vec<Value>,
}

const HTTP_1: &str = "HTTP/1.1, streaming list";
const HTTP_2: &str = "HTTP/2, streaming list";
const LIST: &str = "HTTP/1.1, list";
const GZIP: &str = "HTTP/1.1, list as gzip";

impl Transport {
    pub(super) fn measure(root: &Path, quick: bool) -> Result<Self> {
        let few = ["--rounds", "1", "--objects", "500", "--events", "1000"];
        let text = cargo_bench(root, "transport", if quick { &few } else { &[] })?;
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let (served, rows): (Vec<_>, Vec<_>) = lines.partition(|line| line.get("served").is_some());
        let served = served.into_iter().next().context("the bench did not say what it served")?;
        Ok(Self { served: served["served"].clone(), rows })
    }

    fn row(&self, case: &str) -> Result<&Value> {
        let row = self.rows.iter().find(|row| row["case"] == case);
        row.with_context(|| format!("the bench has no row {case:?}"))
    }

    /// That gzip was asked for and given where it should be, and nowhere else; that HTTP/2 shares its connection.
    pub(super) fn check_direction(&self) -> Result<()> {
        let of = |case: &str, what: &str| Ok::<_, anyhow::Error>(value(self.row(case)?, what));
        ensure!(
            of(GZIP, "listMib")? < of(LIST, "listMib")? / 2.0,
            "gzip saved less than half of the list's bytes"
        );
        ensure!(of(HTTP_2, "connections")? <= 1.0, "HTTP/2 took several connections");
        for row in self.rows.iter().filter(|row| value(row, "watches") > 1.0) {
            let shares = row["case"].as_str().is_some_and(|case| case.starts_with("HTTP/2"));
            let (connections, watches) = (value(row, "connections"), value(row, "watches"));
            ensure!(
                if shares { connections < watches } else { connections >= watches },
                "{}: {connections} connections for {watches} watches",
                row["case"]
            );
        }
        Ok(())
    }

    pub(super) fn section(&self) -> Result<String> {
        let served = |name: &str| number(value(&self.served, name));
        let mut text = format!(
            "## Transport: TLS, HTTP/1.1 or HTTP/2, gzip\n\nOne informer reads {} Pods of 3.5 KB, then {} events, over loopback; the client is that of \
             `pilothouse run`, but for HTTP/2 and \
             the buffer, which kube's client does not have. A plain list is {} MiB, {} MiB as gzip (level 1), compressed \
             beforehand; a streaming list is a watch, which API servers do not compress. CPU is the client's; the server uses the same cores. Medians of \
             3 rounds.\n\n{}\n\n",
            served("objects"),
            served("events"),
            served("listMib"),
            served("packedMib"),
            machine()
        );
        text.push_str("| what | reached |\n|---|---|\n");
        self.summary(&mut text)?;
        text.push_str(
            "\n| one watch | list s | MiB on the wire | list CPU s | events/s | CPU µs/event | bytes/event | private MiB |\n|---|---|---|---|---|---|---|---|\n",
        );
        for row in self.rows.iter().filter(|row| value(row, "watches") == 1.0) {
            let of = |name: &str| number(value(row, name));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                row["case"].as_str().unwrap_or("?"),
                of("listSeconds"),
                of("listMib"),
                of("listCpuSeconds"),
                of("eventsPerSecond"),
                of("eventCpuMicros"),
                of("eventBytes"),
                of("endPrivateMib"),
            );
        }
        let _ = writeln!(
            text,
            "\n20 watches of {} Pods, {} events each:\n\n| 20 watches | connections | list s | events s | CPU µs/event | private MiB behind the lists | at the end |\n|---|---|---|---|---|---|---|",
            served("manyObjects"),
            served("manyEvents")
        );
        for row in self.rows.iter().filter(|row| value(row, "watches") > 1.0) {
            let of = |name: &str| number(value(row, name));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} |",
                row["case"].as_str().unwrap_or("?"),
                of("connections"),
                of("listSeconds"),
                of("eventSeconds"),
                of("eventCpuMicros"),
                of("privateMib"),
                of("endPrivateMib"),
            );
        }
        Ok(text)
    }

    fn summary(&self, text: &mut String) -> Result<()> {
        let ratio = |name: &str, over: &str, under: &str| -> Result<f64> {
            Ok(value(self.row(over)?, name) / value(self.row(under)?, name))
        };
        let (list, gzip) = (self.row(LIST)?, self.row(GZIP)?);
        let saved = value(list, "listMib") - value(gzip, "listMib");
        let spent = value(gzip, "listCpuSeconds") - value(list, "listCpuSeconds");
        let rows = [
            ("events/s with HTTP/2, of those with HTTP/1.1", ratio("eventsPerSecond", HTTP_2, HTTP_1)?),
            ("CPU per event with HTTP/2, of that with HTTP/1.1", ratio("eventCpuMicros", HTTP_2, HTTP_1)?),
            ("a list's bytes as gzip, of those without", ratio("listMib", GZIP, LIST)?),
            ("the client's CPU for a list as gzip, of that without", ratio("listCpuSeconds", GZIP, LIST)?),
            ("gzip is the quicker on links slower than, Mbit/s", saved / spent * 8.388_608),
        ];
        for (what, reached) in rows {
            let _ = writeln!(text, "| {what} | {} |", number(reached));
        }
        Ok(())
    }
}

fn value(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(case: &str, list_mib: f64, watches: u32, connections: u32) -> Value {
        json!({
            "case": case, "watches": watches, "connections": connections, "listMib": list_mib, "listCpuSeconds": 70.0 / list_mib,
            "eventsPerSecond": 1000.0, "eventCpuMicros": 5.0,
        })
    }

    fn measured(of_http_2: u32) -> Transport {
        let rows = vec![
            row(HTTP_1, 70.0, 1, 1),
            row(HTTP_2, 70.0, 1, 1),
            row(LIST, 70.0, 1, 2),
            row(GZIP, 7.0, 1, 2),
            row("HTTP/1.1, many", 1.0, 20, 20),
            row("HTTP/2, many", 1.0, 20, of_http_2),
        ];
        Transport { served: json!({"objects": 10, "listMib": 70.0}), rows }
    }

    #[test]
    fn a_connection_for_each_watch_is_not_http_2() {
        assert!(measured(1).check_direction().is_ok());
        let refused = measured(20).check_direction().expect_err("refused").to_string();
        assert!(refused.contains("20 connections for 20 watches"), "{refused}");
    }

    #[test]
    fn the_section_has_a_row_for_each_case() {
        let section = measured(1).section().expect("a section");
        // 63 MiB less for 9 s more.
        assert!(section.contains("Mbit/s | 58.7 |"), "{section}");
        assert_eq!(section.lines().filter(|line| line.starts_with("| HTTP/")).count(), 6, "{section}");
    }
}
