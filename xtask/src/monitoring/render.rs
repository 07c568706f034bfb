//! The JSON of a dashboard, in the form that Grafana imports.

use serde_json::{Value, json};

use super::source::{Dashboard, Kind, Panel};

/// The columns of a dashboard.
pub(super) const COLUMNS: u64 = 24;

/// Returns the dashboard as JSON.
pub(super) fn render(dashboard: &Dashboard) -> Value {
    json!({
        "uid": format!("pilothouse-{}", dashboard.name),
        "title": dashboard.title,
        "tags": ["pilothouse"],
        "editable": false,
        "schemaVersion": 39,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "annotations": {"list": []},
        "links": [{
            "type": "dashboards", "title": "Pilothouse", "tags": ["pilothouse"], "asDropdown": true, "includeVars": true, "keepTime": true,
        }],
        "templating": {"list": variables(dashboard)},
        "panels": panels(dashboard),
    })
}

fn variables(dashboard: &Dashboard) -> Vec<Value> {
    let mut variables = vec![
        json!({"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}),
        variable("job", "Job", "label_values(pilothouse_build_info, job)"),
        variable("instance", "Instance", r#"label_values(pilothouse_build_info{job=~"$job"}, instance)"#),
    ];
    if dashboard.has_plugins {
        let query =
            r#"label_values(pilothouse_plugin_state{job=~"$job", instance=~"$instance"}, controller)"#;
        variables.push(variable("plugin", "Plugin", query));
    }
    variables
}

/// Returns a variable whose values are those of a label.
fn variable(name: &str, label: &str, query: &str) -> Value {
    json!({
        "name": name, "label": label, "type": "query", "datasource": datasource(), "query": query, "refresh": 2, "sort": 1,
        "multi": true, "includeAll": true, "allValue": ".+", "current": {"text": "All", "value": "$__all"},
    })
}

fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// Returns the headings and panels, placed from left to right.
fn panels(dashboard: &Dashboard) -> Vec<Value> {
    let mut panels = Vec::new();
    let mut y = 0;
    for row in dashboard.rows {
        let position = json!({"x": 0, "y": y, "w": COLUMNS, "h": 1});
        panels.push(json!({
            "id": panels.len() + 1, "type": "row", "title": row.title, "collapsed": false, "gridPos": position, "panels": [],
        }));
        y += 1;
        let (mut x, mut height) = (0, 0);
        for source in row.panels {
            let (w, h) = size(source.kind);
            if x + w > COLUMNS {
                (x, y) = (0, y + height);
            }
            let position = json!({"x": x, "y": y, "w": w, "h": h});
            panels.push(panel(source, panels.len() + 1, &position));
            (x, height) = (x + w, h);
        }
        y += height;
    }
    panels
}

/// Returns the width and the height of a panel.
fn size(kind: Kind) -> (u64, u64) {
    match kind {
        Kind::Number => (4, 4),
        Kind::Graph => (8, 8),
    }
}

fn panel(source: &Panel, id: usize, position: &Value) -> Value {
    let (kind, options) = match source.kind {
        Kind::Number => (
            "stat",
            json!({"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "auto", "colorMode": "none"}),
        ),
        Kind::Graph => {
            let legend = json!({"displayMode": "list", "placement": "bottom", "showLegend": true});
            ("timeseries", json!({"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}))
        }
    };
    let targets: Vec<Value> = source
        .queries
        .iter()
        .zip('A'..='Z')
        .map(|((query, legend), id)| {
            let has_exemplars = query.contains("pilothouse_event_to_");
            json!({
                "refId": id.to_string(), "datasource": datasource(), "expr": expand(query), "legendFormat": legend,
                "exemplar": has_exemplars,
            })
        })
        .collect();
    json!({
        "id": id, "type": kind, "title": source.title, "description": source.description, "datasource": datasource(), "gridPos": position,
        "fieldConfig": {"defaults": {"unit": source.unit}, "overrides": []}, "options": options, "targets": targets,
    })
}

/// Replaces the abbreviations in a query.
fn expand(query: &str) -> String {
    let hosts = r#"{job=~"$job", instance=~"$instance""#;
    query
        .replace("{@plugin", &format!(r#"{hosts}, controller=~"$plugin""#))
        .replace("{@", hosts)
        .replace("[@range]", "[$__range]")
        .replace("[@]", "[$__rate_interval]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_become_selectors_and_ranges() {
        assert_eq!(
            expand(r#"rate(a{@plugin, b="c"}[@])"#),
            r#"rate(a{job=~"$job", instance=~"$instance", controller=~"$plugin", b="c"}[$__rate_interval])"#
        );
        assert_eq!(
            expand("increase(a{@}[@range])"),
            r#"increase(a{job=~"$job", instance=~"$instance"}[$__range])"#
        );
    }
}
