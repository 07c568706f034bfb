//! Calls into the host that are meant to keep it busy.

use serde_json::{Value, json};

use super::{Attack, withstand};

fn script(name: &'static str, step: &Value) -> Attack {
    Attack::new(name)
        .sidecar("limits", json!({"memory": "256Mi", "reconcileTimeout": "5s"}))
        .script(json!([step]))
}

fn selector(times: usize) -> Value {
    json!({"before": "a0", "repeat": ",!k", "times": times})
}

/// Arguments that are large, deep or many.
pub(super) fn attacks() -> Vec<Attack> {
    let patch = |form: &str, body: Value| {
        json!({
            "do": "client.patch", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "{namespace}", "name": "one",
            "form": form, "body": body
        })
    };
    let operations = json!({"before": "[", "repeat": "{\"op\":\"add\",\"path\":\"/data/a\",\"value\":\"b\"},", "times": 50_000, "after": "]"});
    vec![
        script("wide-selector", &json!({"do": "cache.list", "watch": "maps", "selector": selector(3_000_000)}))
            .says("selector"),
        script("set-selector", &json!({"do": "cache.list", "watch": "maps",
                   "selector": {"before": "a in (", "repeat": "b,", "times": 3_000_000, "after": "c)"}}),
        )
        .says("selector"),
        script("live-selector", &json!({"do": "client.list", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "{namespace}",
                   "label_selector": selector(3_000_000)}),
        )
        .says("client.list takes a label selector of at most 16384 bytes"),
        script("long-pointer", &json!({"do": "field", "pointer": {"repeat": "/a", "times": 5_000_000}, "times": 1000, "quiet": true}),
        )
        .says("pointer"),
        script("many-pointers", &json!({"do": "fields", "pointer": "/data", "pointers": 100_000}),
        )
        .says("pointers"),
        script("many-rows", &json!({"do": "cache.list-fields", "watch": "maps", "pointer": {"repeat": "/a", "times": 100_000}, "pointers": 64,
                   "times": 100, "quiet": true}),
        )
        .says("pointer"),
        script("long-cursor", &json!({"do": "cache.list", "watch": "maps", "cursor": {"repeat": "a", "times": 10_000_000}}))
            .says("cursor")
            .says("done long-cursor"),
        script("patch-operations", &patch("json", operations)).says("client.patch: "),
        script("patch-depth", &patch("merge", json!({"repeat": "{\"a\":", "times": 500_000}))).says("client.patch: "),
        script("manifest-depth", &json!({"do": "client.create", "manifest": {"repeat": "[", "times": 1_000_000}}))
            .says("client.create: "),
        script("manifest-name", &json!({"do": "client.create", "manifest": {
                "before": "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"namespace\":\"{namespace}\",\"name\":\"",
                "repeat": "a", "times": 1_000_000, "after": "\"}}"}}),
        )
        .says("client.create: invalid"),
        script("event-text", &json!({"do": "events.publish", "reason": {"repeat": "R", "times": 5_000_000}, "action": "A",
                   "note": {"repeat": "n", "times": 5_000_000}}),
        )
        .says("done event-text"),
        script("unknown-watch", &json!({"do": "cache.get", "watch": {"repeat": "w", "times": 5_000_000}, "name": "a"}))
            .says("unknown watch"),
        script("unknown-index", &json!({"do": "cache.by-index", "watch": "maps", "index": {"repeat": "i", "times": 5_000_000}, "value": ""}))
            .says("unknown index"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_host_calls_are_bounded() {
    withstand(attacks()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_never_returns_is_stopped() {
    let ends = |name: &'static str, step: Value| {
        Attack::new(name)
            .sidecar("limits", json!({"memory": "16Mi", "reconcileTimeout": "300ms"}))
            .script(json!([step]))
    };
    withstand([
        ends("endless", json!({"do": "loop"})).says("limits.reconcileTimeout of 300ms"),
        ends("memory", json!({"do": "allocate", "bytes": 4 << 20, "times": 100}))
            .says("limits.memory of 16 MiB"),
        ends("calls", json!({"do": "cache.list", "watch": "maps", "times": 100_000_000, "quiet": true}))
            .says("limits.reconcileTimeout of 300ms")
            .says("limits.handles"),
        ends("trap", json!({"do": "trap"})).says("reconcile trapped"),
    ])
    .await;
}

/// Keys that come again at once, for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_requeues_itself_endlessly_does_not_starve_others() {
    withstand([
        Attack::new("requeues").script(json!([{"do": "requeue", "milliseconds": 0}])).says("done requeues"),
        Attack::new("adds-itself")
            .script(json!([{"do": "queue.add", "watch": "maps", "namespace": "{namespace}", "name": "adds-itself"}]))
            .says("done adds-itself"),
    ])
    .await;
}
