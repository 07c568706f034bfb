//! Runs the benchmark `transport`, which measures TLS, HTTP versions and compression between an API server and the informer.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::figures::cargo_bench;
use super::plot::number;
use super::report::machine;

/// The output of the benchmark: a description of what was served, and a row for each case.
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
        let served = served.into_iter().next().context("the benchmark did not report what it served")?;
        Ok(Self { served: served["served"].clone(), rows })
    }

    fn row(&self, case: &str) -> Result<&Value> {
        let row = self.rows.iter().find(|row| row["case"] == case);
        row.with_context(|| format!("the benchmark reported no row {case:?}"))
    }

    /// Checks that gzip is used for plain lists and that HTTP/2 shares connections between watches.
    pub(super) fn check_direction(&self) -> Result<()> {
        let figure = |case: &str, name: &str| Ok::<_, anyhow::Error>(value(self.row(case)?, name));
        ensure!(
            figure(GZIP, "listMib")? < figure(LIST, "listMib")? / 2.0,
            "gzip saved less than half of the list's bytes"
        );
        ensure!(figure(HTTP_2, "connections")? <= 1.0, "HTTP/2 used several connections");
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

    /// Returns the results.
    pub(super) fn results(&self) -> Value {
        json!({"served": self.served, "rows": self.rows})
    }

    pub(super) fn section(&self) -> Result<String> {
        let served = |name: &str| number(value(&self.served, name));
        let mut text = format!(
            "## Transport: TLS, HTTP/1.1 or HTTP/2, gzip\n\nOne informer reads {} Pods of 3.5 KB, then {} events, over loopback. The client is that of \
             `pilothouse run`, except for HTTP/2 and the buffer, which kube's client does not support. A plain list has {} MiB, or {} MiB as gzip (level 1, \
             compressed in advance). A streaming list is a watch, which API servers do not compress. CPU is that of the client; the server uses the same \
             cores. Medians of 3 rounds.\n\n{}\n\n",
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
            "\n20 watches of {} Pods, {} events each:\n\n| 20 watches | connections | list s | events s | CPU µs/event | private MiB after the lists | at the end |\n|---|---|---|---|---|---|---|",
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
            ("events/s with HTTP/2 relative to HTTP/1.1", ratio("eventsPerSecond", HTTP_2, HTTP_1)?),
            ("CPU per event with HTTP/2 relative to HTTP/1.1", ratio("eventCpuMicros", HTTP_2, HTTP_1)?),
            ("bytes of a list with gzip relative to without", ratio("listMib", GZIP, LIST)?),
            (
                "the client's CPU for a list with gzip relative to without",
                ratio("listCpuSeconds", GZIP, LIST)?,
            ),
            ("gzip is faster on links slower than, Mbit/s", saved / spent * 8.388_608),
        ];
        for (title, reached) in rows {
            let _ = writeln!(text, "| {title} | {} |", number(reached));
        }
        Ok(())
    }
}

fn value(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, list_mib: f64, watches: u32, connections: u32) -> Value {
        json!({
            "case": case, "watches": watches, "connections": connections, "listMib": list_mib, "listCpuSeconds": 70.0 / list_mib,
            "eventsPerSecond": 1000.0, "eventCpuMicros": 5.0,
        })
    }

    /// Returns results in which HTTP/2 uses the given number of connections for 20 watches.
    fn results(http_2_connections: u32) -> Transport {
        let rows = vec![
            row(HTTP_1, 70.0, 1, 1),
            row(HTTP_2, 70.0, 1, 1),
            row(LIST, 70.0, 1, 2),
            row(GZIP, 7.0, 1, 2),
            row("HTTP/1.1, many", 1.0, 20, 20),
            row("HTTP/2, many", 1.0, 20, http_2_connections),
        ];
        Transport { served: json!({"objects": 10, "listMib": 70.0}), rows }
    }

    #[test]
    fn one_http_2_connection_per_watch_is_an_error() {
        assert!(results(1).check_direction().is_ok());
        let error = results(20).check_direction().expect_err("an error").to_string();
        assert!(error.contains("20 connections for 20 watches"), "{error}");
    }

    #[test]
    fn the_section_has_a_row_for_each_case() {
        let section = results(1).section().expect("a section");
        // gzip saves 63 MiB and costs 9 s of CPU time.
        assert!(section.contains("Mbit/s | 58.7 |"), "{section}");
        assert_eq!(section.lines().filter(|line| line.starts_with("| HTTP/")).count(), 6, "{section}");
    }
}
