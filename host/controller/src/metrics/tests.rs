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

/// Name, then kind and labels.
type Table = BTreeMap<String, (String, Vec<String>)>;

fn documented() -> Table {
    let rows = include_str!("../../../../docs/metrics.md").lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    cells
        .map(|cells| {
            let labels = cells[2].split(", ").map(|label| label.trim_matches('`').to_owned());
            (cells[0].trim_matches('`').to_owned(), (cells[1].to_owned(), labels.collect()))
        })
        .collect()
}

fn scraped(text: &str) -> Table {
    let mut table = Table::new();
    for line in text.lines() {
        let Some((family, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let suffix = match kind {
            "counter" => "_total",
            "histogram" => "_count",
            _ => "",
        };
        let start = format!("{family}{suffix}{{");
        let series = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default();
        let labels = series.split("\",").filter_map(|pair| pair.split_once('=')).map(|(name, _)| name);
        let name = format!("{family}{}", if kind == "counter" { suffix } else { "" });
        table.insert(name, (kind.to_owned(), labels.map(str::to_owned).collect()));
    }
    table
}

/// A scrape of a host with one plugin and one informer that got its first list.
async fn scrape() -> String {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let plugin = metrics.of(&PluginName::of_file(Path::new("p.wasm")).expect("a name"));
    let server = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        let list = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#;
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(
            list.as_bytes().to_vec(),
        )))
    });
    let client = metrics.rest.measure(kube::Client::new(server, "default"), "cluster:6443");
    let options = InformerOptions { streaming_list: false, ..InformerOptions::default() };
    let informers = InformerRegistry::new(KubeListWatches::new(client), options);
    registry.register_collector(Box::new(InformerCollector(informers.clone())));
    let engine = pilothouse_plugin::Engine::new(Default::default()).expect("an engine");
    registry.register_collector(Box::new(CompileCollector(engine)));
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

#[tokio::test]
async fn the_documentation_lists_every_metric_with_its_kind_and_labels() {
    let text = scrape().await;
    assert_eq!(documented(), scraped(&text), "docs/metrics.md on the left\n{text}");
}

#[tokio::test]
async fn an_informers_numbers_are_in_the_scrape() {
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
