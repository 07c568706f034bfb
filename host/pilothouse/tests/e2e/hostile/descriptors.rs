//! Descriptors that ask for too much of everything.

use serde_json::{Value, json};

use super::{Attack, withstand};

fn many(name: &'static str, member: &str, element: &Value, times: usize) -> Attack {
    let mut descriptor = Attack::usual_descriptor(name, "{namespace}");
    let elements: Vec<_> =
        (0..times).map(|number| element.to_string().replace("{n}", &number.to_string())).collect();
    descriptor[member] = json!("{elements}");
    // Written by repetition in the guest would be shorter, but each needs a name of its own.
    let text = descriptor.to_string().replace("\"{elements}\"", &format!("[{}]", elements.join(",")));
    Attack::new(name).setup("descriptorText", json!(text)).says(member)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_parts_of_a_descriptor_is_bounded() {
    let watch = json!({"name": "w{n}", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self"});
    let rule = json!({"apiGroups": [""], "resources": ["r{n}"], "verbs": ["get"]});
    let crd = json!({"metadata": {"name": "a{n}.example.com"}});
    let indexes: Vec<_> =
        (0..2000).map(|number| json!({"name": format!("i{number}"), "label": "a"})).collect();
    let mut indexed = Attack::usual_descriptor("indexes", "{namespace}");
    indexed["watches"][0]["indexes"] = indexes.into();
    let mut spread = Attack::usual_descriptor("namespaces", "{namespace}");
    spread["watches"][0]["namespaces"] = (0..20_000).map(|number| json!(format!("n{number}"))).collect();
    withstand([
        many("watches", "watches", &watch, 3000),
        many("writes", "writes", &rule, 5000),
        many("crds", "crds", &crd, 3000),
        many("http", "http", &json!("h{n}.example.com"), 5000),
        Attack::new("indexes").descriptor(indexed).says("indexes"),
        Attack::new("namespaces").descriptor(spread).says("namespaces"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_descriptor_is_bounded_in_size_and_depth() {
    let text = |name: &'static str, text: Value| Attack::new(name).setup("descriptorText", text);
    withstand([
        text("deep", json!({"before": "{\"watches\":", "repeat": "[", "times": 1_000_000}))
            .says("descriptor"),
        text("long", json!({"before": "{\"name\":\"", "repeat": "a", "times": 15 << 20, "after": "\"}"}))
            .says("descriptor"),
        text("no-json", json!({"repeat": "\u{0}", "times": 100})).says("descriptor"),
        Attack::new("trap").setup("inDescribe", json!([{"do": "trap"}])).says("describe trapped"),
        Attack::new("loop")
            .sidecar("limits", json!({"describeTimeout": "300ms"}))
            .setup("inDescribe", json!([{"do": "loop"}]))
            .says("limits.describeTimeout of 300ms"),
        Attack::new("reads-early")
            .setup("inDescribe", json!([{"do": "cache.get", "watch": "maps", "name": "a"}]))
            .says("cache.get isn't available during describe"),
    ])
    .await;
}
