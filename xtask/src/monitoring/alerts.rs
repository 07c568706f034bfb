//! Reads and checks the alerts of the chart. The file is YAML of a plain form: one member a line, and folded texts below `>-`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Metrics, promql};

/// The values of `severity`.
const SEVERITIES: [&str; 2] = ["critical", "warning"];

/// An alert: its members by name, `labels` and `annotations` among each other.
#[derive(Debug, Default)]
struct Alert {
    name: String,
    members: BTreeMap<String, String>,
}

/// Returns a line for each problem.
pub(super) fn problems(file: &str, runbooks: &str, tests: &str, metrics: &Metrics) -> Vec<String> {
    let mut found = Vec::new();
    let alerts = parse(file);
    if alerts.is_empty() {
        found.push("there are no alerts".to_owned());
    }
    let mut names = BTreeSet::new();
    for alert in &alerts {
        let name = alert.name.as_str();
        if !names.insert(name) {
            found.push(format!("{name}: there are two alerts of this name"));
        }
        found.extend(alert_problems(alert, metrics).iter().map(|problem| format!("{name}: {problem}")));
        if !tests.contains(&format!("alertname: {name},")) && !tests.contains(&format!("alertname: {name}\n"))
        {
            found.push(format!("{name}: no test in {} names it", super::ALERT_TESTS));
        }
    }
    let sections: BTreeSet<&str> = runbooks.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let missing = names.difference(&sections).map(|name| format!("{name}: docs/runbooks.md has no section"));
    found.extend(missing);
    let unused =
        sections.difference(&names).map(|name| format!("docs/runbooks.md: there is no alert {name}"));
    found.extend(unused);
    found.into_iter().map(|problem| format!("{}: {problem}", super::ALERTS)).collect()
}

fn alert_problems(alert: &Alert, metrics: &Metrics) -> Vec<String> {
    let mut found = Vec::new();
    let member = |name: &str| alert.members.get(name).map_or("", String::as_str);
    for name in ["expr", "summary", "description"] {
        if member(name).is_empty() {
            found.push(format!("`{name}` is missing"));
        }
    }
    let severity = member("labels").trim_start_matches("{severity: ").trim_end_matches('}');
    if !SEVERITIES.contains(&severity) {
        found.push(format!("`severity` must be one of {}", SEVERITIES.join(", ")));
    }
    let runbook = format!("docs/runbooks.md#{}", alert.name.to_lowercase());
    if member("runbook_url") != runbook {
        found.push(format!("`runbook_url` must be {runbook}"));
    }
    let expression = member("expr");
    let threshold = expression.rsplit(' ').next().unwrap_or_default();
    if threshold.parse::<f64>().is_err() {
        found.push("`expr` does not end with its threshold".to_owned());
    }
    let selectors = promql::selectors(expression);
    let unknown = selectors.iter().filter(|selector| metrics.kind_of(&selector.metric).is_none());
    found.extend(unknown.map(|selector| format!("docs/metrics.md does not have {}", selector.metric)));
    found
}

fn parse(file: &str) -> Vec<Alert> {
    let mut alerts: Vec<Alert> = Vec::new();
    let mut folded: Option<(String, usize)> = None;
    for line in file.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let indentation = line.len() - line.trim_start().len();
        let content = line.trim();
        if let Some(name) = content.strip_prefix("- alert: ") {
            alerts.push(Alert { name: name.to_owned(), ..Alert::default() });
            folded = None;
            continue;
        }
        let Some(alert) = alerts.last_mut() else { continue };
        if let Some((name, outer)) = &folded
            && indentation > *outer
        {
            let value = alert.members.entry(name.clone()).or_default();
            value.push_str(if value.is_empty() { "" } else { " " });
            value.push_str(content);
            continue;
        }
        folded = None;
        let Some((name, value)) = content.split_once(':') else { continue };
        match value.trim() {
            ">-" => folded = Some((name.to_owned(), indentation)),
            value => drop(alert.members.insert(name.to_owned(), value.to_owned())),
        }
    }
    alerts
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "groups:\n  - name: g\n    rules:\n      - alert: Old\n        expr: >-\n          rate(a_total[5m])\n          > 2\n        for: 5m\n        \
                        labels: {severity: warning}\n        annotations:\n          summary: \"It is: old\"\n          description: Why.\n          \
                        runbook_url: docs/runbooks.md#old\n";
    const TESTS: &str = "      - {eval_time: 9m, alertname: Old, exp_alerts: []}\n";

    fn found(file: &str, runbooks: &str, tests: &str) -> Vec<String> {
        problems(file, runbooks, tests, &Metrics::parse("| `a_total` | counter |  | A |\n"))
    }

    #[test]
    fn each_kind_of_problem_is_found() {
        assert_eq!(found(FILE, "# Runbooks\n\n## Old\n", TESTS), Vec::<String>::new());
        for (from, to, expected) in [
            ("> 2", "> limit", "its threshold"),
            ("a_total", "b_total", "does not have b_total"),
            ("severity: warning", "severity: bad", "`severity`"),
            ("description: Why.", "", "`description` is missing"),
            ("#old", "#new", "`runbook_url` must be docs/runbooks.md#old"),
        ] {
            let problems = found(&FILE.replace(from, to), "## Old\n", TESTS);
            assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
        }
        let problems = found(FILE, "## New\n", "");
        for expected in ["has no section", "there is no alert New", "no test"] {
            assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
        }
    }
}
