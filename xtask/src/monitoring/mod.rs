//! The alerts and dashboards of the chart: `cargo xtask dashboards` writes the dashboards, and `cargo xtask tidy` checks both.
//!
//! [`source`] has the panels, [`render`] makes JSON of them, [`lint`] checks that JSON, and [`alerts`] reads and checks the alerts. [`promql`]
//! finds the metrics of an expression, so that each can be looked up in docs/metrics.md.

mod alerts;
mod lint;
mod promql;
mod render;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use source::{DASHBOARDS, Dashboard};

/// The alerts, and the files that belong to them.
pub(crate) const ALERTS: &str = "deploy/chart/files/alerts.yaml";
/// The unit tests of the alerts.
pub(crate) const ALERT_TESTS: &str = "deploy/prometheus/alerts_test.yaml";
const RUNBOOKS: &str = "docs/runbooks.md";
const METRICS: &str = "docs/metrics.md";

/// Metrics that Prometheus itself adds.
const METRICS_OF_PROMETHEUS: [&str; 1] = ["up"];

/// The metrics of docs/metrics.md: their kinds by name.
struct Metrics(BTreeMap<String, String>);

/// `cargo xtask dashboards`: writes the dashboards.
pub(crate) fn run(root: &Path) -> Result<()> {
    for dashboard in &DASHBOARDS {
        let path = path_of(dashboard);
        let text = serde_json::to_string_pretty(&render::render(dashboard)).context("a dashboard as JSON")?;
        fs::write(root.join(&path), text + "\n").with_context(|| format!("write {}", path.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// Returns a line for each problem of the alerts and dashboards.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let read = |path: &str| fs::read_to_string(root.join(path)).with_context(|| format!("read {path}"));
    let metrics = Metrics::parse(&read(METRICS)?);
    let mut found = alerts::problems(&read(ALERTS)?, &read(RUNBOOKS)?, &read(ALERT_TESTS)?, &metrics);
    for dashboard in &DASHBOARDS {
        let path = path_of(dashboard);
        let rendered = render::render(dashboard);
        let written = fs::read_to_string(root.join(&path)).ok();
        let written = written.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        if written.as_ref() != Some(&rendered) {
            found.push(format!("{} is not up to date: run `cargo xtask dashboards`", path.display()));
        }
        let problems = lint::problems(&rendered, &metrics);
        found.extend(problems.into_iter().map(|problem| format!("{}: {problem}", path.display())));
    }
    Ok(found)
}

/// Returns the queries of the panels for which any host has data, with the dashboard's and the panel's title.
pub(crate) fn queries() -> Vec<(String, String)> {
    queries_of(|dashboard| dashboard.name != source::DELIVERY)
}

/// Returns the same of the dashboard about the delivery of plugins, for which a host has data whose plugins come from a registry.
pub(crate) fn delivery_queries() -> Vec<(String, String)> {
    queries_of(|dashboard| dashboard.name == source::DELIVERY)
}

/// Returns the series that the dashboard about the delivery of plugins shows. A host whose plugins come from a registry has them.
pub(crate) fn delivery_series() -> BTreeSet<String> {
    let queries = delivery_queries();
    let selectors = queries.iter().flat_map(|(_, query)| promql::selectors(query));
    selectors.map(|selector| selector.metric).collect()
}

fn queries_of(is_selected: impl Fn(&Dashboard) -> bool) -> Vec<(String, String)> {
    let mut queries = Vec::new();
    for dashboard in DASHBOARDS.iter().filter(|dashboard| is_selected(dashboard)) {
        let rendered = render::render(dashboard);
        for panel in items(&rendered["panels"]) {
            for target in items(&panel["targets"]) {
                let place = format!("{} / {}", dashboard.title, text(&panel["title"]));
                queries.push((place, text(&target["expr"]).to_owned()));
            }
        }
    }
    queries
}

fn path_of(dashboard: &Dashboard) -> PathBuf {
    Path::new("deploy/chart/files/dashboards").join(format!("{}.json", dashboard.name))
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

impl Metrics {
    /// Reads the tables of docs/metrics.md.
    fn parse(page: &str) -> Self {
        let row = |line: &str| {
            let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
            Some((name.to_owned(), rest.split(' ').next()?.to_owned()))
        };
        Self(page.lines().filter_map(row).collect())
    }

    /// Returns the kind of the metric that a series belongs to: `counter`, `gauge` or `histogram`.
    fn kind_of(&self, series: &str) -> Option<&str> {
        if METRICS_OF_PROMETHEUS.contains(&series) {
            return Some("gauge");
        }
        if let Some(kind) = self.0.get(series) {
            return Some(kind);
        }
        let histogram =
            ["_bucket", "_sum", "_count"].iter().find_map(|suffix| series.strip_suffix(suffix))?;
        self.0.get(histogram).map(String::as_str).filter(|kind| *kind == "histogram")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dashboard_about_delivery_shows_pulls_verifications_reloads_and_rollbacks() {
        let expected = [
            "pilothouse_oci_pulls_total",
            "pilothouse_oci_verifications_total",
            "pilothouse_plugin_reloads_total",
            "pilothouse_plugin_rollbacks_total",
        ];
        assert_eq!(delivery_series(), expected.map(str::to_owned).into());
        let shown_by_any = queries();
        assert!(!shown_by_any.is_empty() && shown_by_any.iter().all(|(_, query)| !query.contains("_oci_")));
    }

    #[test]
    fn a_series_belongs_to_a_documented_metric() {
        let page = "| name | kind |\n|---|---|\n| `a_total` | counter |  | A |\n| `b_seconds` | histogram | `x` | B |\n";
        let metrics = Metrics::parse(page);
        assert_eq!(metrics.kind_of("a_total"), Some("counter"));
        assert_eq!(metrics.kind_of("b_seconds_bucket"), Some("histogram"));
        assert_eq!(metrics.kind_of("a_total_count"), None);
        assert_eq!(metrics.kind_of("c"), None);
    }
}
