//! Traces reach an OpenTelemetry collector, and one that does not answer delays nothing.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use pilothouse_otlp::message::Span;
use serde_json::{Value, json};

use crate::harness::collector::{Collector, CollectorBehaviour, text};
use crate::harness::{Guest, Host, Options, wait, wat};

/// Creates a ConfigMap for which the plugin `webhook-notifier` sends a request to the collector, and which it then patches.
async fn create_notification(host: &Host, name: &str, url: &str) {
    let manifest = json!({
        "metadata": {
            "name": name,
            "labels": {"webhook.example.com/notify": "true"},
            "annotations": {"webhook.example.com/url": format!("{url}/hook?key=secret")},
        },
        "data": {"name": "content-of-the-object"},
    });
    let map: ConfigMap = serde_json::from_value(manifest).expect("a ConfigMap");
    let all = Api::<ConfigMap>::namespaced(host.server.client.clone(), &host.server.namespace);
    all.create(&PostParams::default(), &map).await.expect("created");
}

/// Installs `webhook-notifier`, and a plugin `reader` that reconciles the same ConfigMaps and does nothing.
async fn install(host: &Host, url: &str) {
    let grants = json!({"grants": {"http": [url]}});
    host.write_sidecar("webhook-notifier", &grants.to_string());
    host.install_plugin("webhook-notifier", &Guest::WebhookNotifier.wasm());
    let watch = json!({
        "name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self",
        "namespaces": [host.server.namespace], "labelSelector": "webhook.example.com/notify",
    });
    let descriptor = json!({"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "watches": [watch]});
    host.write_sidecar("reader", &json!({"config": descriptor}).to_string());
    host.install_plugin("reader", &wat("echo"));
    for name in ["webhook-notifier", "reader"] {
        host.wait_for_state(name, "running").await;
    }
}

fn parent_of<'a>(spans: &'a [Span], child: &Span) -> Option<&'a Span> {
    spans.iter().find(|span| span.trace_id == child.trace_id && span.span_id == child.parent_span_id)
}

fn plugin(span: &Span) -> Option<&str> {
    text(&span.attributes, "pilothouse.plugin")
}

/// Returns a reconcile of `reader`, the event that it links to, and the reconcile of `webhook-notifier` whose write that event carries.
fn chain(spans: &[Span]) -> Option<[&Span; 3]> {
    let of_reader = spans.iter().filter(|span| span.name == "reconcile" && plugin(span) == Some("reader"));
    let mut links = of_reader.flat_map(|reconcile| reconcile.links.iter().map(move |link| (reconcile, link)));
    links.find_map(|(reconcile, link)| {
        let is_linked = |span: &&Span| span.trace_id == link.trace_id && span.span_id == link.span_id;
        let event = spans.iter().find(is_linked)?;
        let write = parent_of(spans, event).filter(|write| write.name == "k8s.write")?;
        let cause = parent_of(spans, write).filter(|cause| plugin(cause) == Some("webhook-notifier"))?;
        Some([reconcile, event, cause])
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_leads_from_a_write_to_the_reconcile_of_another_plugin() {
    let collector = Collector::start(CollectorBehaviour::Accepts).await;
    let host = Host::start_with(Options { flags: collector.flags(), ..Options::default() }).await;
    install(&host, &collector.url()).await;
    // The event of a write may come before its response. Then the event leads nowhere, and another object shows the chain.
    let (running, traces, mut polls) = (&host, &collector, 0);
    host.wait("a trace from a write to a reconcile", || {
        polls += 1;
        let number = polls;
        async move {
            if number % 50 == 1 {
                create_notification(running, &format!("map-{number}"), &traces.url()).await;
            }
            chain(&traces.spans()).map(|_| ())
        }
    })
    .await;
    // A span may be sent before its parent, which belongs to another reconcile.
    let spans = host
        .wait("the parents of all spans", || async {
            let spans = collector.spans();
            let has_parent =
                |span: &Span| span.parent_span_id.is_empty() || parent_of(&spans, span).is_some();
            spans.iter().all(has_parent).then_some(spans)
        })
        .await;
    let [_, event, cause] = chain(&spans).expect("the chain");
    assert_eq!((event.name.as_str(), plugin(event)), ("watch.event", Some("reader")));
    let children: Vec<_> = spans.iter().filter(|span| span.parent_span_id == cause.span_id).collect();
    let child =
        |name: &str| *children.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name}"));
    for name in ["queue.wait", "guest.call", "http.out", "k8s.write"] {
        let child = child(name);
        assert_eq!(child.trace_id, cause.trace_id);
        assert!(
            child.start_time_unix_nano >= cause.start_time_unix_nano && child.status.is_none(),
            "{child:?}"
        );
    }
    assert!(cause.parent_span_id.is_empty(), "a reconcile is the root of a trace");
    let http = child("http.out");
    let expected = format!("00-{}-{}-01", hex(&http.trace_id), hex(&http.span_id));
    assert!(collector.traceparents().contains(&Some(expected)), "{:?}", collector.traceparents());
    for resource in collector.resources() {
        assert_eq!(text(&resource, "service.name"), Some("pilothouse"));
    }
    let all = format!("{spans:?}");
    assert!(!all.contains("secret") && !all.contains("content-of-the-object"), "{all}");
    shows_the_trace(&host, cause).await;
}

/// Checks that `explain`, the log and the metrics name the trace of a reconcile of `webhook-notifier`.
async fn shows_the_trace(host: &Host, reconcile: &Span) {
    let id = hex(&reconcile.trace_id);
    let key = text(&reconcile.attributes, "pilothouse.key").expect("a key");
    let (_, body) = host.get(&format!("/api/explain?plugin=webhook-notifier&key={key}")).await;
    let explanation: Value = serde_json::from_str(&body).expect("JSON");
    let entries = explanation["then"].as_array().expect("entries");
    assert!(entries.iter().any(|entry| entry["traceId"] == id.as_str()), "{explanation:#}");
    let output = host.pilothouse(&["explain", "webhook-notifier", key]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains(&format!("done, trace {id}")), "{printed}");
    let (_, metrics) = host.get("/metrics").await;
    for name in [
        "controller_runtime_reconcile_time_seconds_bucket{",
        "pilothouse_event_to_reconcile_seconds_bucket{",
        "pilothouse_event_to_write_seconds_bucket{",
        "workqueue_queue_duration_seconds_bucket{",
    ] {
        let has_exemplar = |line: &str| line.starts_with(name) && line.contains("# {trace_id=\"");
        assert!(metrics.lines().any(has_exemplar), "{name}\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_delays_no_reconcile_and_the_spans_are_counted() {
    let collector = Collector::start(CollectorBehaviour::Hangs).await;
    let environment = vec![("OTEL_EXPORTER_OTLP_TIMEOUT", "50".to_owned())];
    let host =
        Host::start_with(Options { flags: collector.flags(), environment, ..Options::default() }).await;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    host.server.create_script("one", "copy:record").await;
    let dropped = wait(|| async {
        let (_, metrics) = host.get("/metrics").await;
        let start = "pilothouse_trace_spans_dropped_total{reason=\"export\"} ";
        let count = metrics.lines().find_map(|line| line.strip_prefix(start)?.parse::<u64>().ok());
        (count.filter(|count| *count > 0), metrics)
    })
    .await;
    dropped.unwrap_or_else(|metrics| panic!("no span was dropped\n{metrics}"));
    host.server.create_script("two", "copy:another").await;
    host.wait("a reconcile after that", || async {
        (!host.server.data("another").await.is_empty()).then_some(())
    })
    .await;
    assert!(host.log().contains("spans are lost: the trace collector"), "{}", host.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_a_collector_sends_no_trace_headers() {
    let webhook = Collector::start(CollectorBehaviour::Accepts).await;
    let host = Host::start().await;
    install(&host, &webhook.url()).await;
    create_notification(&host, "untraced", &webhook.url()).await;
    let received = host
        .wait("a request", || async {
            let received = webhook.traceparents();
            (!received.is_empty()).then_some(received)
        })
        .await;
    assert!(received.iter().all(Option::is_none), "{received:?}");
    assert!(webhook.spans().is_empty());
    let (_, metrics) = host.get("/metrics").await;
    assert!(!metrics.contains("trace_id"), "{metrics}");
}
