//! Text of a plugin that would become a part of a URL.

use serde_json::{Value, json};

use super::{Arena, Attack};
use crate::harness::Host;

/// What could stand for an API version, a kind, a name, a namespace or a subresource.
const TEXTS: [(&str, &str); 10] = [
    ("proxy", "v1/namespaces/x/services/y/proxy/admin"),
    ("parent", "../api/v1/secrets"),
    ("query", "apps/v1/deployments?watch=true"),
    ("fragment", "v1#"),
    ("encoded", "v1%2f..%2fsecrets"),
    ("line-end", "v1\r\nX-Remote-User: admin"),
    ("nul", "v1\u{0}"),
    ("dots", ".."),
    ("space", "v1 HTTP/1.1"),
    ("wide", "v1/\u{ff0f}secrets"),
];

fn step(place: &str, text: &Value) -> Value {
    let mut step = json!({
        "do": "client.get", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "{namespace}", "name": "one"
    });
    step[place] = text.clone();
    step
}

/// How many requests the host has sent to the API server.
async fn sent(host: &Host) -> u64 {
    let (_, scrape) = host.get("/metrics").await;
    let counts = scrape.lines().filter(|line| line.starts_with("rest_client_requests_total{"));
    let counts = counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    counts.sum::<f64>() as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_would_alter_a_url_is_rejected_before_a_request_is_sent() {
    let mut arena = Arena::start().await;
    for place in ["apiVersion", "kind", "name", "namespace", "subresource"] {
        let long = json!({"repeat": "a", "times": 1 << 20});
        let texts = TEXTS.iter().map(|(_, text)| json!(text)).chain([long]);
        // Each text on its own line of the log, whatever became of those before.
        let steps: Vec<_> = texts.map(|text| step(place, &text)).collect();
        let count = steps.len();
        let attack = Attack::new("requests").script(steps.into()).says("done requests");
        attack.begin(&arena.host).await;
        attack.is_named(&arena.host).await;
        let said = arena.host.log_messages("requests").await;
        let refused = |line: &&String| {
            line.starts_with("client.get: invalid") || line.starts_with("client.get: denied")
        };
        assert_eq!(said.iter().filter(refused).count(), count, "{place}: {said:#?}");
        arena.goes_on(place).await;
        attack.end(&arena.host).await;
    }
    let requests = arena.host.server.get("/debug/requests").await;
    let odd = |count: &&Value| {
        let resource = count["resource"].as_str().unwrap_or_default();
        resource.contains("services") || resource.contains("secrets") || resource.contains("..")
    };
    let sent: Vec<_> = requests["counts"].as_array().expect("counts").iter().filter(odd).collect();
    assert_eq!(sent, Vec::<&Value>::new());
    arena.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_without_write_grants_sends_no_requests() {
    let mut arena = Arena::start().await;
    let kinds = json!({"do": "client.get", "apiVersion": "v1", "kind": "Kind{turn}", "name": "a", "times": 2000, "quiet": true});
    let versions = json!({
        "do": "client.get", "apiVersion": "group{turn}.example.com/v1", "kind": "Foo", "name": "a", "times": 2000,
        "quiet": true
    });
    let before = sent(&arena.host).await;
    assert!(before > 0, "the host's lists and watches are counted");
    let attack = Attack::new("nothing")
        .sidecar("grants", json!({"writes": []}))
        .sidecar("limits", json!({"clientQps": 1_000_000}))
        .script(json!([kinds, versions]))
        .says("done nothing");
    arena.withstands(&attack).await;
    // The neighbour's write, and what its watches renew.
    let more = sent(&arena.host).await - before;
    assert!(more < 50, "{more} requests were sent for 4000 calls that are not granted");
    arena.ends().await;
}
