//! Host calls with expensive arguments, and guests that never return.

use serde_json::{Value, json};

use super::{Attack, run_attacks};

fn script(name: &'static str, step: &Value) -> Attack {
    Attack::new(name)
        .sidecar("limits", json!({"memory": "256Mi", "reconcileTimeout": "5s"}))
        .script(json!([step]))
}

fn selector(times: usize) -> Value {
    json!({"before": "a0", "repeat": ",!k", "times": times})
}

/// Returns attacks with arguments that are large, deeply nested or numerous.
pub(super) fn attacks() -> Vec<Attack> {
    let patch = |form: &str, body: Value| {
        json!({
            "do": "client.patch", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "{namespace}", "name": "one",
            "form": form, "body": body
        })
    };
    let operations = json!({"before": "[", "repeat": "{\"op\":\"add\",\"path\":\"/data/a\",\"value\":\"b\"},", "times": 50_000, "after": "]"});
    // Each operation adds the whole object to one of two members, so the object grows as Fibonacci's numbers do.
    let copies = json!({"before": "[", "repeat": "{\"op\":\"copy\",\"from\":\"\",\"path\":\"/a\"},{\"op\":\"copy\",\"from\":\"\",\"path\":\"/b\"},",
        "times": 40, "after": "{\"op\":\"test\",\"path\":\"/kind\",\"value\":\"ConfigMap\"}]"});
    vec![
        script("wide-selector", &json!({"do": "cache.list", "watch": "maps", "selector": selector(3_000_000)}))
            .expect_message("selector"),
        script("set-selector", &json!({"do": "cache.list", "watch": "maps",
                   "selector": {"before": "a in (", "repeat": "b,", "times": 3_000_000, "after": "c)"}}),
        )
        .expect_message("selector"),
        script("live-selector", &json!({"do": "client.list", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "{namespace}",
                   "label_selector": selector(3_000_000)}),
        )
        .expect_message("client.list takes a label selector of at most 16384 bytes"),
        script("long-pointer", &json!({"do": "field", "pointer": {"repeat": "/a", "times": 5_000_000}, "times": 1000, "quiet": true}),
        )
        .expect_message("pointer"),
        script("many-pointers", &json!({"do": "fields", "pointer": "/data", "pointers": 100_000}),
        )
        .expect_message("pointers"),
        script("many-rows", &json!({"do": "cache.list-fields", "watch": "maps", "pointer": {"repeat": "/a", "times": 100_000}, "pointers": 64,
                   "times": 100, "quiet": true}),
        )
        .expect_message("pointer"),
        script("long-cursor", &json!({"do": "cache.list", "watch": "maps", "cursor": {"repeat": "a", "times": 10_000_000}}))
            .expect_message("cursor")
            .expect_message("done long-cursor"),
        script("patch-operations", &patch("json", operations)).expect_message("client.patch: "),
        script("patch-copies", &patch("json", copies)).expect_message("client.patch: "),
        script("patch-depth", &patch("merge", json!({"repeat": "{\"a\":", "times": 500_000}))).expect_message("client.patch: "),
        script("manifest-depth", &json!({"do": "client.create", "manifest": {"repeat": "[", "times": 1_000_000}}))
            .expect_message("client.create: "),
        script("manifest-name", &json!({"do": "client.create", "manifest": {
                "before": "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"namespace\":\"{namespace}\",\"name\":\"",
                "repeat": "a", "times": 1_000_000, "after": "\"}}"}}),
        )
        .expect_message("client.create: invalid"),
        script("event-text", &json!({"do": "events.publish", "reason": {"repeat": "R", "times": 5_000_000}, "action": "A",
                   "note": {"repeat": "n", "times": 5_000_000}}),
        )
        .expect_message("done event-text"),
        script("unknown-watch", &json!({"do": "cache.get", "watch": {"repeat": "w", "times": 5_000_000}, "name": "a"}))
            .expect_message("unknown watch"),
        script("unknown-index", &json!({"do": "cache.by-index", "watch": "maps", "index": {"repeat": "i", "times": 5_000_000}, "value": ""}))
            .expect_message("unknown index"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_host_calls_are_bounded() {
    run_attacks(attacks()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_never_returns_is_stopped() {
    let endless = |name: &'static str, step: Value| {
        Attack::new(name)
            .sidecar("limits", json!({"memory": "16Mi", "reconcileTimeout": "300ms"}))
            .script(json!([step]))
    };
    run_attacks([
        endless("endless", json!({"do": "loop"})).expect_message("limits.reconcileTimeout of 300ms"),
        endless("memory", json!({"do": "allocate", "bytes": 4 << 20, "times": 100}))
            .expect_message("limits.memory of 16 MiB"),
        endless("calls", json!({"do": "cache.list", "watch": "maps", "times": 100_000_000, "quiet": true}))
            .expect_message("limits.reconcileTimeout of 300ms")
            .expect_message("limits.handles"),
        endless("trap", json!({"do": "trap"})).expect_message("reconcile trapped"),
    ])
    .await;
}

/// Keys that are requeued immediately and forever.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_requeues_itself_endlessly_does_not_starve_others() {
    run_attacks([
        Attack::new("requeues").script(json!([{"do": "requeue", "milliseconds": 0}])).expect_message("done requeues"),
        Attack::new("adds-itself")
            .script(json!([{"do": "queue.add", "watch": "maps", "namespace": "{namespace}", "name": "adds-itself"}]))
            .expect_message("done adds-itself"),
    ])
    .await;
}
