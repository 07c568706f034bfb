//! Predicates, JSONPaths and validation rules that are written to be expensive.

use serde_json::{Value, json};

use super::{Attack, withstand};

fn descriptor(name: &str, members: &Value) -> Value {
    let mut descriptor = Attack::usual_descriptor(name, "{namespace}");
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

/// An expression that a repeated call makes ever larger.
fn doubled(start: &str, call: &str, times: usize, end: &str) -> String {
    format!("{start}{}{end}", call.repeat(times))
}

/// What is said of an evaluation that costs too much.
const COST: &str = "it costs more than 1000000 units";

#[tokio::test(flavor = "multi_thread")]
async fn expressions_that_are_too_deep_or_too_long_are_rejected_at_load() {
    withstand([
        predicate("parentheses", &json!({"repeat": "(", "times": 100_000})).says("predicate"),
        predicate("negations", &json!({"repeat": "!!(", "times": 30, "after": "true"})).says("predicate"),
        predicate("members", &json!({"before": "object", "repeat": ".a", "times": 3000})).says("predicate"),
        predicate("sums", &json!({"before": "1", "repeat": "+1", "times": 20_000, "after": ">0"}))
            .says("predicate"),
        predicate("ternaries", &json!({"repeat": "true?", "times": 5000})).says("predicate"),
        predicate("lists", &json!({"repeat": "[", "times": 5000})).says("predicate"),
        predicate("minus", &json!({"repeat": "-", "times": 50_000, "after": "1"})).says("predicate"),
        predicate("strings", &json!({"before": "'", "repeat": "a", "times": 1_000_000, "after": "' == ''"}))
            .says("predicate"),
        indexed_by(
            "filter-parentheses",
            &json!({"before": "{.a[?", "repeat": "(", "times": 1000, "after": "]}"}),
        )
        .says("index"),
        indexed_by("descent", &json!("{..a}")).says("index"),
        indexed_by("nested-filters", &json!("$..[?$..[?$..x]]")).says("index"),
        indexed_by("long-path", &json!({"before": "{", "repeat": ".a", "times": 100_000, "after": "}"}))
            .says("index"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_over_the_cost_limit_are_stopped_and_reported() {
    let lists = doubled("[1]", ".map(x, [x, x])", 28, "");
    let spends = |name: &'static str, text: String| {
        predicate(name, &json!(text)).script(json!([])).changes_its_object()
    };
    withstand([
        spends("nested-all", nested_all(9)).says(COST),
        spends("two-of-them", nested_all(8)).says(COST),
        spends("doubling-map", doubled("['0123456789']", ".map(x, x + x)", 28, " == []")).says(COST),
        spends("doubling-lists", [lists.clone(), lists].join(" == ")).says(COST),
        spends("replacing", doubled("'0123456789'", ".replace('', '0123456789')", 28, " == ''")).says(COST),
        spends("joining", doubled("'a'", ".split('').join('aaaaaaaa')", 14, " == ''")).says(COST),
        predicate("large-regex", &json!("'a'.matches('(a{100}){100}{100}')"))
            .says("the pattern of matches()"),
        predicate("message", &json!("Foo{a: 1} == 1")).says("a message literal"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crd_validation_rules_that_nest_too_deeply_are_rejected() {
    let crd = |rule: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "hostiles.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "hostiles", "kind": "Hostile"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-validations": [{"rule": rule}]
                }}}]
            }
        })
    };
    let brings = |name: &'static str, rule: String| {
        let mut descriptor = descriptor(name, &json!({}));
        descriptor["crds"] = json!([crd(&rule)]);
        Attack::new(name).descriptor(descriptor).says("rule")
    };
    withstand([
        brings("crd-negations", format!("{}true", "!!(".repeat(30))),
        brings("crd-parentheses", "(".repeat(50_000)),
        brings("crd-members", format!("self{}", ".a".repeat(3000))),
    ])
    .await;
}

/// What an expression that fails says must not have what the object has.
#[tokio::test(flavor = "multi_thread")]
async fn expression_errors_do_not_contain_object_values() {
    let mut arena = super::Arena::start().await;
    for (name, text) in [
        ("prints-object", "object"),
        ("prints-data", "object.data"),
        ("prints-text", "object.data.script"),
        ("prints-number", "int(object.data.script) > 3"),
        ("prints-key", "{'a': 1}[object.data.script] > 3"),
    ] {
        let attack = predicate(name, &json!(text)).script(json!([{"do": "log", "message": "open-sesame"}]));
        arena.withstands(&attack.changes_its_object().says("predicate failed")).await;
    }
    let said = arena.host.log();
    let leaks: Vec<_> =
        said.lines().filter(|line| line.contains("sesame") && line.contains("predicate")).collect();
    assert_eq!(leaks, Vec::<&str>::new());
    arena.ends().await;
}
