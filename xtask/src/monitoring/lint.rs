//! Checks of a dashboard's JSON.

use std::collections::BTreeSet;

use serde_json::Value;

use super::render::COLUMNS;
use super::{Metrics, items, promql, text};

/// Functions that make a rate or a difference of a counter.
const RATES: [&str; 3] = ["rate", "irate", "increase"];

/// Returns a line for each problem.
pub(super) fn problems(dashboard: &Value, metrics: &Metrics) -> Vec<String> {
    let mut found = Vec::new();
    if text(&dashboard["title"]).is_empty() || text(&dashboard["uid"]).is_empty() {
        found.push("the dashboard has no title or no uid".to_owned());
    }
    if dashboard["editable"] != false {
        found.push(
            "the dashboard is editable: Grafana would let readers change what the chart overwrites"
                .to_owned(),
        );
    }
    found.extend(variable_problems(dashboard));
    let mut ids = BTreeSet::new();
    let mut occupied = BTreeSet::new();
    for panel in items(&dashboard["panels"]) {
        let title = text(&panel["title"]);
        let mut report = |problem: &str| found.push(format!("panel {title:?}: {problem}"));
        if title.is_empty() {
            report("it has no title");
        }
        if !ids.insert(panel["id"].as_u64()) {
            report("another panel has its id");
        }
        match cells(&panel["gridPos"]) {
            Some(cells) if cells.iter().all(|cell| occupied.insert(*cell)) => {}
            Some(_) => report("it covers another panel"),
            None => report("it has no place, or one beyond the right edge"),
        }
        if panel["type"] != "row" {
            found
                .extend(panel_problems(panel, metrics).iter().map(|text| format!("panel {title:?}: {text}")));
        }
    }
    found
}

fn variable_problems(dashboard: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let variables = items(&dashboard["templating"]["list"]);
    let find = |name: &str| variables.iter().find(|variable| variable["name"] == name);
    match find("datasource") {
        Some(variable) if variable["type"] == "datasource" && variable["query"] == "prometheus" => {}
        _ => found.push("it needs a variable `datasource` of type `datasource` for Prometheus".to_owned()),
    }
    for name in ["job", "instance"] {
        let is_complete = find(name).is_some_and(|variable| {
            variable["multi"] == true && variable["includeAll"] == true && variable["allValue"] == ".+"
        });
        if !is_complete {
            found.push(format!("it needs a variable `{name}` with several values, and all of them as `.+`"));
        }
    }
    found
}

/// Returns the cells of the grid that a panel covers.
fn cells(position: &Value) -> Option<Vec<(u64, u64)>> {
    let number = |name: &str| position[name].as_u64();
    let (x, y, w, h) = (number("x")?, number("y")?, number("w")?, number("h")?);
    let cells = (x..x + w).flat_map(|column| (y..y + h).map(move |line| (column, line)));
    (w > 0 && h > 0 && x + w <= COLUMNS).then(|| cells.collect())
}

fn panel_problems(panel: &Value, metrics: &Metrics) -> Vec<String> {
    let mut found = Vec::new();
    if text(&panel["description"]).is_empty() {
        found.push("it has no description".to_owned());
    }
    if text(&panel["fieldConfig"]["defaults"]["unit"]).is_empty() {
        found.push("it has no unit".to_owned());
    }
    let targets = items(&panel["targets"]);
    if targets.is_empty() {
        found.push("it has no query".to_owned());
    }
    let mut ids = BTreeSet::new();
    for target in targets {
        if !ids.insert(text(&target["refId"])) {
            found.push("two queries have one refId".to_owned());
        }
        for part in [panel, target] {
            if part["datasource"]["uid"] != "${datasource}" {
                found.push("its data source is not the variable `datasource`".to_owned());
            }
        }
        if text(&target["legendFormat"]).is_empty() {
            found.push("a query has no legend".to_owned());
        }
        found.extend(query_problems(text(&target["expr"]), metrics));
    }
    found
}

fn query_problems(query: &str, metrics: &Metrics) -> Vec<String> {
    let mut found = Vec::new();
    let opened = |open: char, close: char| query.matches(open).count() == query.matches(close).count();
    if !(opened('(', ')') && opened('{', '}') && opened('[', ']')) {
        found.push(format!("{query}: a bracket is missing"));
    }
    let selectors = promql::selectors(query);
    if selectors.is_empty() {
        found.push(format!("{query:?}: it has no metric"));
    }
    for selector in selectors {
        let metric = &selector.metric;
        for matcher in [r#"job=~"$job""#, r#"instance=~"$instance""#] {
            if !selector.matchers.contains(matcher) {
                found.push(format!("{metric}: the selector {matcher} is missing"));
            }
        }
        let is_rate = RATES.contains(&selector.function.as_str());
        match metrics.kind_of(metric) {
            None => found.push(format!("{metric}: docs/metrics.md does not have it")),
            Some("gauge") if is_rate => found.push(format!("{metric}: it is a gauge, and has no rate")),
            Some("counter" | "histogram") if !is_rate => {
                found.push(format!("{metric}: it only grows: show its rate or increase"));
            }
            Some(_) => {}
        }
        let has_range = ["$__rate_interval", "$__range"].contains(&selector.range.as_str());
        if is_rate && !has_range {
            found.push(format!(
                "{metric}: its range is {:?}, not $__rate_interval or $__range",
                selector.range
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::render::render;
    use super::super::source::DASHBOARDS;
    use super::*;

    fn metrics() -> Metrics {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
        Metrics::parse(&std::fs::read_to_string(path).expect(path))
    }

    #[test]
    fn each_kind_of_problem_is_found() {
        let metrics = metrics();
        let dashboard = render(&DASHBOARDS[0]);
        assert_eq!(problems(&dashboard, &metrics), Vec::<String>::new());
        // The first panel is a heading.
        let query = "/panels/1/targets/0/expr";
        for (pointer, value, expected) in [
            ("/title", json!(""), "no title"),
            ("/editable", json!(true), "editable"),
            ("/templating/list/0/query", json!("loki"), "`datasource`"),
            ("/templating/list/1/multi", json!(false), "`job`"),
            ("/panels/1/title", json!(""), "no title"),
            ("/panels/1/id", json!(1), "has its id"),
            ("/panels/1/gridPos/x", json!(4), "covers another"),
            ("/panels/1/gridPos/x", json!(23), "right edge"),
            ("/panels/1/description", json!(""), "no description"),
            ("/panels/1/fieldConfig/defaults/unit", json!(""), "no unit"),
            ("/panels/1/targets", json!([]), "no query"),
            ("/panels/1/targets/0/datasource/uid", json!("prometheus"), "data source"),
            ("/panels/1/targets/0/legendFormat", json!(""), "no legend"),
            (query, json!("sum(pilothouse_ready{job=~\"$job\"})"), "instance=~"),
            (query, json!("sum(pilothouse_ready"), "bracket"),
            (query, json!("1 + 1"), "no metric"),
            (query, json!("pilothouse_unknown{}"), "does not have it"),
            (query, json!("rate(pilothouse_ready[$__rate_interval])"), "no rate"),
            (query, json!("process_cpu_seconds_total"), "only grows"),
            (query, json!("rate(process_cpu_seconds_total[5m])"), "$__rate_interval"),
        ] {
            let mut broken = dashboard.clone();
            *broken.pointer_mut(pointer).expect(pointer) = value;
            let found = problems(&broken, &metrics);
            assert!(
                found.iter().any(|problem| problem.contains(expected)),
                "{pointer}: {expected}: {found:?}"
            );
        }
    }
}
