//! Attempts to exhaust the host's memory through data that the host keeps for a plugin.

use serde_json::{Value, json};

use super::{Attack, HostUnderAttack, run_attacks};

const MEBIBYTE: usize = 1 << 20;

fn script(name: &'static str, steps: Value) -> Attack {
    Attack::new(name).sidecar("limits", json!({"memory": "256Mi"})).script(steps)
}

fn long(bytes: usize) -> Value {
    json!({"repeat": "a", "times": bytes, "after": "{turn}"})
}

/// Returns attacks with keys that are long, invalid or numerous.
pub(super) fn attacks() -> Vec<Attack> {
    let add = |members: Value| {
        let mut step = json!({"do": "queue.add", "watch": "maps", "namespace": "{namespace}", "quiet": true});
        step.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
        json!([step])
    };
    // The memory is used up long before the time, on a slow machine, too.
    let many = |name: &'static str, steps: Value| {
        script(name, steps)
            .sidecar("limits", json!({"memory": "256Mi", "hostMemory": "16Mi", "reconcileTimeout": "2m"}))
            .expect_message("with queued keys")
    };
    vec![
        script("long-keys", add(json!({"name": long(15 * MEBIBYTE), "times": 300})))
            .expect_message("queue.add"),
        script("odd-keys", add(json!({"name": "../a b"}))).expect_message("queue.add"),
        script("odd-namespaces", add(json!({"namespace": "A/B", "name": "a"}))).expect_message("queue.add"),
        many("many-keys", add(json!({"name": "a{turn}", "times": 3_000_000}))),
        many(
            "delayed-keys",
            add(
                json!({"do": "queue.add-after", "milliseconds": 2_000_000_000, "name": "a{turn}", "times": 3_000_000}),
            ),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_keys_are_bounded_in_size_and_number() {
    run_attacks(attacks()).await;
}

/// Objects that a plugin holds on to after they were changed or deleted in the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn object_versions_kept_only_by_a_plugin_are_charged_to_it() {
    let mut target = HostUnderAttack::start().await;
    let attack = Attack::new("keeper")
        .sidecar("limits", json!({"memory": "64Mi", "hostMemory": "16Mi"}))
        .script(json!([{"do": "keep"}]))
        .expect_message("limits.hostMemory of");
    attack.start(&target.host).await;
    target.host.wait_for_state("keeper", "running").await;
    let filler = "x".repeat(900 << 10);
    let is_kept = |line: &&String| *line == "keep: ok";
    let is_refused = |line: &String| line.contains("hostMemory");
    for round in 0..60 {
        // Counts before the change, because the plugin may log its result before the next read of the log.
        let log = target.host.log_messages("keeper").await;
        if log.iter().any(is_refused) {
            break;
        }
        let kept = log.iter().filter(is_kept).count();
        target.host.server.set_data("keeper", "filler", &format!("{round}{filler}")).await;
        let answered = || async {
            let log = target.host.log_messages("keeper").await;
            (log.iter().filter(is_kept).count() > kept || log.iter().any(is_refused)).then_some(())
        };
        target.host.wait("keeper to keep one more version or to be refused", answered).await;
    }
    attack.wait_for_evidence(&target.host).await;
    target.assert_healthy("keeper").await;
    target.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn api_responses_are_charged_to_the_plugin_while_it_keeps_them() {
    let mut target = HostUnderAttack::start().await;
    target.host.server.create_labelled("large", "none", json!({"filler": "x".repeat(900 << 10)})).await;
    let get = json!({
        "do": "client.get", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "{namespace}", "name": "large",
        "keep": true, "quiet": true, "times": 500
    });
    let attack = Attack::new("hoarder")
        .sidecar("limits", json!({"hostMemory": "16Mi", "clientQps": 1_000_000, "messageSize": "16Mi"}))
        .script(json!([get]))
        .expect_message("limits.hostMemory of");
    target.run_attack(&attack).await;
    target.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn computed_index_values_are_bounded_in_size_and_number() {
    let computes = |name: &'static str, value: Value, times: u32| {
        let mut descriptor = Attack::default_descriptor(name, "{namespace}");
        descriptor["watches"][0]["indexes"] = json!([{"name": "own", "computed": true}]);
        Attack::new(name)
            .sidecar("limits", json!({"memory": "256Mi", "indexTimeout": "30s"}))
            .descriptor(descriptor)
            .setup("indexValue", value)
            .setup("indexTimes", json!(times))
            .script(json!([]))
            .expect_message("computed too large index values")
    };
    run_attacks([
        computes("long-values", long(15 * MEBIBYTE), 1),
        computes("many-values", json!("v{turn}"), 300_000),
    ])
    .await;
}

/// The host releases all memory of a removed plugin.
#[tokio::test(flavor = "multi_thread")]
async fn removed_plugins_release_their_memory() {
    const NAMES: [&str; 6] = ["gone-a", "gone-b", "gone-c", "gone-d", "gone-e", "gone-f"];
    run_attacks(NAMES.map(|name| {
        script(
            name,
            json!([
                {"do": "queue.add-after", "watch": "maps", "name": "a{turn}", "milliseconds": 2_000_000_000,
                 "times": 9000, "quiet": true},
                {"do": "log", "message": {"repeat": "line", "times": 4000}, "times": 500},
                {"do": "metrics.gauge", "name": "m{turn}", "labels": [], "value": 1.0, "times": 5000}
            ]),
        )
        .expect_message("dropped")
    }))
    .await;
}
