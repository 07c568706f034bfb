//! A scrape, and the tables of docs/metrics.md.

use std::collections::BTreeMap;
use std::path::Path;

use pilothouse_informer::{
    InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions,
};
use pilothouse_model::ResourceType;
use prometheus_client::encoding::text::encode;

use super::*;
use crate::metrics::compile::CompileCollector;
use crate::metrics::informers::InformerCollector;
use crate::metrics::process::ProcessCollector;

/// Rows of the tables in docs/metrics.md, by the name of the metric.
type Rows = BTreeMap<String, String>;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");

fn name_in(row: &str) -> Option<&str> {
    row.strip_prefix("| `")?.split_once("` |").map(|(name, _)| name)
}

/// The rows that describe a scrape: name, kind, labels and help text.
fn rows_of(scrape: &str) -> Rows {
    let mut rows = Rows::new();
    let mut help = "";
    for line in scrape.lines() {
        if let Some((_, text)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            // The encoder ends the text with a full stop.
            help = text.trim_end_matches('.');
        }
        let Some((family, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let (suffix, series) = match kind {
            "counter" => ("_total", "_total"),
            "histogram" => ("", "_count"),
            _ => ("", ""),
        };
        let start = format!("{family}{series}{{");
        let series = scrape.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default();
        let labels: Vec<_> = series
            .split("\",")
            .filter_map(|pair| pair.split_once('='))
            .map(|(label, _)| format!("`{label}`"))
            .collect();
        let name = format!("{family}{suffix}");
        let row = format!("| `{name}` | {kind} | {} | {help} |", labels.join(", "));
        rows.insert(name, row);
    }
    rows
}

/// A scrape of a host with one plugin and one informer that got its first list.
async fn scrape() -> String {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let plugin = metrics.for_plugin(&PluginName::of_file(Path::new("p.wasm")).expect("a name"));
    let server = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        let list = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#;
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(
            list.as_bytes().to_vec(),
        )))
    });
    let client = metrics.rest.measure(kube::Client::new(server, "default"), "cluster:6443");
    let options = InformerOptions::default().with_streaming_list(false);
    let informers = InformerRegistry::new(KubeListWatches::new(client), options);
    registry.register_collector(Box::new(InformerCollector(informers.clone())));
    let engine = pilothouse_plugin::Engine::new(Default::default()).expect("an engine");
    registry.register_collector(Box::new(CompileCollector(engine)));
    registry.register_collector(Box::new(ProcessCollector::of_sample()));
    let pods = ResourceType {
        group: String::new(),
        version: "v1".into(),
        kind: "Pod".into(),
        plural: "pods".into(),
        namespaced: true,
    };
    let subscription =
        informers.subscribe(InformerKey::new(pods), SubscribeOptions::default()).expect("open");
    assert!(subscription.synced().await);
    let mut text = String::new();
    encode(&mut text, &registry).expect("text");
    drop((plugin, subscription));
    text
}

/// Returns the name of a metric of this crate. The program registers those of plugins from registries and of its allocator.
fn own_name_in(row: &str) -> Option<&str> {
    let of_the_program = ["pilothouse_oci_", "pilothouse_allocator_"];
    name_in(row).filter(|name| !of_the_program.iter().any(|prefix| name.starts_with(prefix)))
}

/// With `PILOTHOUSE_UPDATE_DOCS=1` the rows are written instead of compared. A row for a new metric is added by hand, with its name only, in
/// the section where it belongs.
#[tokio::test]
async fn the_documentation_has_every_metric_with_its_kind_labels_and_help() {
    let page = std::fs::read_to_string(PAGE).expect("docs/metrics.md is there");
    let rows = rows_of(&scrape().await);
    let documented: Rows =
        page.lines().filter_map(|row| Some((own_name_in(row)?.to_owned(), row.to_owned()))).collect();
    let names = |rows: &Rows| rows.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&documented), names(&rows), "docs/metrics.md on the left, a scrape on the right");
    if std::env::var_os("PILOTHOUSE_UPDATE_DOCS").is_some() {
        let lines = page.lines().map(|line| own_name_in(line).map_or(line, |name| &rows[name]));
        let page: String = lines.flat_map(|line| [line, "\n"]).collect();
        std::fs::write(PAGE, page).expect("written");
        return;
    }
    assert_eq!(
        documented, rows,
        "docs/metrics.md (left) is not up to date: run PILOTHOUSE_UPDATE_DOCS=1 cargo test -p pilothouse-controller metrics"
    );
}

#[test]
fn an_exemplar_names_the_trace_of_an_observation() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry)
        .for_plugin(&PluginName::of_file(Path::new("p.wasm")).expect("a name"));
    metrics.event_to_write.observe(0.003, Some([("trace_id", "4bf92f3577b34da6".to_owned())]), None);
    metrics.event_to_write.observe(0.003, None, None);
    let mut text = String::new();
    encode(&mut text, &registry).expect("text");
    let bucket = text.lines().find(|line| {
        line.starts_with("pilothouse_event_to_write_seconds_bucket") && line.contains(r#"le="0.004""#)
    });
    let bucket = bucket.expect("a bucket");
    assert!(bucket.contains(r#" 2 # {trace_id="4bf92f3577b34da6"} 0.003"#), "{bucket}");
}

#[tokio::test]
async fn an_informers_metrics_are_in_the_scrape() {
    let text = scrape().await;
    let labels = r#"{resource="v1/pods",name="all"}"#;
    for line in [
        format!("reflector_lists_total{labels} 1\n"),
        format!("reflector_list_duration_seconds_count{labels} 1\n"),
        r#"reflector_items_per_list_bucket{le="+Inf",resource="v1/pods",name="all"} 1"#.to_owned(),
        format!("reflector_last_resource_version{labels} 7\n"),
        format!("pilothouse_informer_synced{labels} 1\n"),
        format!("pilothouse_informer_subscribers{labels} 1\n"),
        r#"rest_client_requests_total{code="200",method="GET",host="cluster:6443"}"#.to_owned(),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
}
