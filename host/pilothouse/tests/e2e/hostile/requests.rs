//! Text from a plugin that would become part of a URL.

use serde_json::{Value, json};

use super::{Attack, HostUnderAttack};
use crate::harness::Host;

/// Invalid values for an API version, a kind, a name, a namespace or a subresource.
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

fn step(member: &str, text: &Value) -> Value {
    let mut step = json!({
        "do": "client.get", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "{namespace}", "name": "one"
    });
    step[member] = text.clone();
    step
}

/// Returns how many requests the host has sent to the API server.
async fn sent_requests(host: &Host) -> u64 {
    let (_, scrape) = host.get("/metrics").await;
    let counts = scrape.lines().filter(|line| line.starts_with("rest_client_requests_total{"));
    let counts = counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    counts.sum::<f64>() as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_would_alter_a_url_is_rejected_before_a_request_is_sent() {
    let mut target = HostUnderAttack::start().await;
    for member in ["apiVersion", "kind", "name", "namespace", "subresource"] {
        let long = json!({"repeat": "a", "times": 1 << 20});
        let texts = TEXTS.iter().map(|(_, text)| json!(text)).chain([long]);
        // Each step logs its result on a separate line and does not stop the following steps.
        let steps: Vec<_> = texts.map(|text| step(member, &text)).collect();
        let count = steps.len();
        let attack = Attack::new("requests").script(steps.into()).expect_message("done requests");
        attack.start(&target.host).await;
        attack.wait_for_evidence(&target.host).await;
        let messages = target.host.log_messages("requests").await;
        let is_rejection = |line: &&String| {
            line.starts_with("client.get: invalid") || line.starts_with("client.get: denied")
        };
        assert_eq!(messages.iter().filter(is_rejection).count(), count, "{member}: {messages:#?}");
        target.assert_healthy(member).await;
        attack.remove(&target.host).await;
    }
    let requests = target.host.server.get("/debug/requests").await;
    let is_unexpected = |count: &&Value| {
        let resource = count["resource"].as_str().unwrap_or_default();
        resource.contains("services") || resource.contains("secrets") || resource.contains("..")
    };
    let unexpected: Vec<_> =
        requests["counts"].as_array().expect("counts").iter().filter(is_unexpected).collect();
    assert_eq!(unexpected, Vec::<&Value>::new());
    target.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_without_write_grants_sends_no_requests() {
    let mut target = HostUnderAttack::start().await;
    let kinds = json!({"do": "client.get", "apiVersion": "v1", "kind": "Kind{turn}", "name": "a", "times": 2000, "quiet": true});
    let versions = json!({
        "do": "client.get", "apiVersion": "group{turn}.example.com/v1", "kind": "Foo", "name": "a", "times": 2000,
        "quiet": true
    });
    let before = sent_requests(&target.host).await;
    assert!(before > 0, "the host's lists and watches are counted");
    let attack = Attack::new("nothing")
        .sidecar("grants", json!({"writes": []}))
        .sidecar("limits", json!({"clientQps": 1_000_000}))
        .script(json!([kinds, versions]))
        .expect_message("done nothing");
    target.run_attack(&attack).await;
    // Allows for the healthy plugin's write and renewed watches.
    let additional = sent_requests(&target.host).await - before;
    assert!(additional < 50, "{additional} requests were sent for 4000 calls that are not granted");
    target.stop().await;
}
