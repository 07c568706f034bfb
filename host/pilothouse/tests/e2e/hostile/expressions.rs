//! Predicates, JSONPaths and validation rules that are expensive to parse or evaluate.

use serde_json::{Value, json};

use super::{Attack, run_attacks};

fn descriptor(name: &str, members: &Value) -> Value {
    let mut descriptor = Attack::default_descriptor(name, "{namespace}");
    let watch = descriptor["watches"][0].as_object_mut().expect("a watch");
    watch.extend(members.as_object().expect("members").clone());
    descriptor
}

fn with_watch(name: &'static str, members: &Value) -> Attack {
    Attack::new(name).descriptor(descriptor(name, members))
}

fn predicate(name: &'static str, text: &Value) -> Attack {
    with_watch(name, &json!({"predicate": "{predicate}"})).setup("texts", json!({"predicate": text}))
}

fn indexed_by(name: &'static str, path: &Value) -> Attack {
    with_watch(name, &json!({"indexes": [{"name": "index", "field": "{path}"}]}))
        .setup("texts", json!({"path": path}))
}

fn nested_all(depth: usize) -> String {
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let opening: String = (0..depth).map(|level| format!("{list}.all(v{level}, ")).collect();
    format!("{opening}true{}", ")".repeat(depth))
}

/// Returns an expression whose value grows with each repeated call.
fn repeated_call(start: &str, call: &str, times: usize, end: &str) -> String {
    format!("{start}{}{end}", call.repeat(times))
}

/// The error of an evaluation over the cost limit.
const COST_ERROR: &str = "it costs more than 1000000 units";

#[tokio::test(flavor = "multi_thread")]
async fn expressions_that_are_too_deep_or_too_long_are_rejected_at_load() {
    run_attacks([
        predicate("parentheses", &json!({"repeat": "(", "times": 100_000})).expect_message("predicate"),
        predicate("negations", &json!({"repeat": "!!(", "times": 30, "after": "true"}))
            .expect_message("predicate"),
        predicate("members", &json!({"before": "object", "repeat": ".a", "times": 3000}))
            .expect_message("predicate"),
        predicate("sums", &json!({"before": "1", "repeat": "+1", "times": 20_000, "after": ">0"}))
            .expect_message("predicate"),
        predicate("ternaries", &json!({"repeat": "true?", "times": 5000})).expect_message("predicate"),
        predicate("lists", &json!({"repeat": "[", "times": 5000})).expect_message("predicate"),
        predicate("minus", &json!({"repeat": "-", "times": 50_000, "after": "1"}))
            .expect_message("predicate"),
        predicate("strings", &json!({"before": "'", "repeat": "a", "times": 1_000_000, "after": "' == ''"}))
            .expect_message("predicate"),
        indexed_by(
            "filter-parentheses",
            &json!({"before": "{.a[?", "repeat": "(", "times": 1000, "after": "]}"}),
        )
        .expect_message("index"),
        indexed_by("descent", &json!("{..a}")).expect_message("index"),
        indexed_by("nested-filters", &json!("$..[?$..[?$..x]]")).expect_message("index"),
        indexed_by("long-path", &json!({"before": "{", "repeat": ".a", "times": 100_000, "after": "}"}))
            .expect_message("index"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_over_the_cost_limit_are_stopped_and_reported() {
    let lists = repeated_call("[1]", ".map(x, [x, x])", 28, "");
    let costly = |name: &'static str, text: String| {
        predicate(name, &json!(text)).script(json!([])).with_object_change()
    };
    run_attacks([
        costly("nested-all", nested_all(9)).expect_message(COST_ERROR),
        costly("two-of-them", nested_all(8)).expect_message(COST_ERROR),
        costly("doubling-map", repeated_call("['0123456789']", ".map(x, x + x)", 28, " == []"))
            .expect_message(COST_ERROR),
        costly("doubling-lists", [lists.clone(), lists].join(" == ")).expect_message(COST_ERROR),
        costly("replacing", repeated_call("'0123456789'", ".replace('', '0123456789')", 28, " == ''"))
            .expect_message(COST_ERROR),
        costly("joining", repeated_call("'a'", ".split('').join('aaaaaaaa')", 14, " == ''"))
            .expect_message(COST_ERROR),
        predicate("large-regex", &json!("'a'.matches('(a{100}){100}{100}')"))
            .expect_message("the pattern of matches()"),
        predicate("message", &json!("Foo{a: 1} == 1")).expect_message("a message literal"),
    ])
    .await;
}

/// Returns an attack by a plugin that brings a CRD of the kind `Hostile` with this schema, in a group of its own.
fn with_crd(name: &'static str, schema: &Value) -> Attack {
    let group = format!("{name}.example.com");
    let mut descriptor = descriptor(name, &json!({}));
    descriptor["crds"] = json!([{
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("hostiles.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "hostiles", "kind": "Hostile"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]
        }
    }]);
    Attack::new(name).sidecar("grants", json!({"crds": true})).descriptor(descriptor)
}

fn with_rule(name: &'static str, rule: &str) -> Attack {
    with_crd(name, &json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]}))
}

#[tokio::test(flavor = "multi_thread")]
async fn crd_validation_rules_that_nest_too_deeply_are_rejected() {
    run_attacks([
        with_rule("crd-negations", &format!("{}true", "!!(".repeat(30))).expect_message("rule"),
        with_rule("crd-parentheses", &"(".repeat(50_000)).expect_message("rule"),
        with_rule("crd-members", &format!("self{}", ".a".repeat(3000))).expect_message("rule"),
    ])
    .await;
}

/// The plugin creates an object of its kind, whose rule must not cost the server more than its limit. kube-apiserver estimates the cost of
/// rules, and accepts large patterns.
#[tokio::test(flavor = "multi_thread")]
async fn crd_validation_rules_over_the_cost_limit_are_stopped() {
    let creates = |name: &'static str, rule: &str| {
        let manifest = json!({
            "apiVersion": format!("{name}.example.com/v1"), "kind": "Hostile",
            "metadata": {"name": "one", "namespace": "{namespace}"}
        });
        with_rule(name, rule)
            .script(json!([{"do": "client.create", "manifest": manifest.to_string()}]))
            .expect_message("call cost exceeds limit for rule")
            .expect_message("estimated")
    };
    let patterns: serde_json::Map<_, _> = (0..2000)
        .map(|number| (format!("p{number}"), json!({"type": "string", "pattern": format!("^a{number}$")})))
        .collect();
    run_attacks([
        creates("crd-nested-all", &nested_all(9)),
        creates("crd-doubling", &repeated_call("['0123456789']", ".map(x, x + x)", 28, " == []")),
        creates("crd-replacing", &repeated_call("'0123456789'", ".replace('', '0123456789')", 28, " == ''")),
        with_crd(
            "crd-patterns",
            &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": patterns}}}),
        )
        .script(json!([]))
        .expect_message("too large together")
        .expect_message("done crd-patterns"),
    ])
    .await;
}

/// Errors are visible in the status and in logs, so they must not reveal the content of objects.
#[tokio::test(flavor = "multi_thread")]
async fn expression_errors_do_not_contain_object_values() {
    let mut target = super::HostUnderAttack::start().await;
    for (name, text) in [
        ("prints-object", "object"),
        ("prints-data", "object.data"),
        ("prints-text", "object.data.script"),
        ("prints-number", "int(object.data.script) > 3"),
        ("prints-key", "{'a': 1}[object.data.script] > 3"),
    ] {
        let attack = predicate(name, &json!(text)).script(json!([{"do": "log", "message": "open-sesame"}]));
        target.run_attack(&attack.with_object_change().expect_message("predicate failed")).await;
    }
    let log = target.host.log();
    let leaks: Vec<_> =
        log.lines().filter(|line| line.contains("sesame") && line.contains("predicate")).collect();
    assert_eq!(leaks, Vec::<&str>::new());
    target.stop().await;
}
