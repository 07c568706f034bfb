//! The panels of the dashboards: each query returns data of a host at work.

use std::cell::{Cell, RefCell};

use anyhow::{Context, Result};
use serde_json::json;

use super::server::Prometheus;
use crate::demo::Api;
use crate::monitoring;

pub(super) const FOO: &str = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos/example-foo";

/// Changes an object of the plugin again and again, until every query has returned data.
pub(super) fn wait_for_data(prometheus: &Prometheus, server: &Api) -> Result<()> {
    let missing = RefCell::new(monitoring::queries());
    let replicas = Cell::new(1);
    let waited = server.wait("data in all panels", |server| {
        replicas.set(replicas.get() % 3 + 1);
        server.merge(FOO, &json!({"spec": {"replicas": replicas.get()}}))?;
        Ok(has_data(prometheus, &missing))
    });
    named(waited, &missing.into_inner(), prometheus)
}

/// Waits until every query of the dashboard about the delivery of plugins has returned data. The host pulls plugins from a registry, and takes
/// versions back.
pub(super) fn wait_for_delivery(prometheus: &Prometheus) -> Result<()> {
    let missing = RefCell::new(monitoring::delivery_queries());
    let waited =
        prometheus.api().wait("data about the delivery of plugins", |_| Ok(has_data(prometheus, &missing)));
    named(waited, &missing.into_inner(), prometheus)
}

/// Forgets the queries that return data. Returns `Some` if none is left.
fn has_data(prometheus: &Prometheus, missing: &RefCell<Vec<(String, String)>>) -> Option<()> {
    missing.borrow_mut().retain(|(_, query)| prometheus.query(&without_variables(query)).is_empty());
    missing.borrow().is_empty().then_some(())
}

/// Adds the queries without data to an error.
fn named(waited: Result<()>, missing: &[(String, String)], prometheus: &Prometheus) -> Result<()> {
    let lines: Vec<_> = missing.iter().map(|(panel, query)| format!("{panel}: {query}")).collect();
    waited.with_context(|| {
        let log = prometheus.log().display();
        format!("these queries return no data (log: {log}):\n  {}", lines.join("\n  "))
    })
}

/// Replaces the variables of a dashboard as Grafana does if everything is selected.
fn without_variables(query: &str) -> String {
    let query = query.replace("$__rate_interval", "10s").replace("$__range", "1m");
    ["$job", "$instance", "$plugin"].iter().fold(query, |query, variable| query.replace(variable, ".+"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_query_select_everything() {
        let query = r#"sum(rate(a_total{job=~"$job", instance=~"$instance", controller=~"$plugin"}[$__rate_interval]))"#;
        let expected = r#"sum(rate(a_total{job=~".+", instance=~".+", controller=~".+"}[10s]))"#;
        assert_eq!(without_variables(query), expected);
        let queries = [monitoring::queries(), monitoring::delivery_queries()].concat();
        assert!(queries.iter().all(|(_, query)| !without_variables(query).contains('$')));
    }
}
