//! Descriptors that are too large.

use serde_json::{Value, json};

use super::{Attack, run_attacks};

fn many(name: &'static str, member: &str, element: &Value, times: usize) -> Attack {
    let mut descriptor = Attack::default_descriptor(name, "{namespace}");
    let elements: Vec<_> =
        (0..times).map(|number| element.to_string().replace("{n}", &number.to_string())).collect();
    descriptor[member] = json!("{elements}");
    // The text is written out rather than repeated by the guest, because each element needs a unique name.
    let text = descriptor.to_string().replace("\"{elements}\"", &format!("[{}]", elements.join(",")));
    Attack::new(name).setup("descriptorText", json!(text)).expect_message(member)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_parts_of_a_descriptor_is_bounded() {
    let watch = json!({"name": "w{n}", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self"});
    let rule = json!({"apiGroups": [""], "resources": ["r{n}"], "verbs": ["get"]});
    let crd = json!({"metadata": {"name": "a{n}.example.com"}});
    let indexes: Vec<_> =
        (0..2000).map(|number| json!({"name": format!("i{number}"), "label": "a"})).collect();
    let mut indexed = Attack::default_descriptor("indexes", "{namespace}");
    indexed["watches"][0]["indexes"] = indexes.into();
    let mut spread = Attack::default_descriptor("namespaces", "{namespace}");
    spread["watches"][0]["namespaces"] = (0..20_000).map(|number| json!(format!("n{number}"))).collect();
    run_attacks([
        many("watches", "watches", &watch, 3000),
        many("writes", "writes", &rule, 5000),
        many("crds", "crds", &crd, 3000),
        many("http", "http", &json!("h{n}.example.com"), 5000),
        Attack::new("indexes").descriptor(indexed).expect_message("indexes"),
        Attack::new("namespaces").descriptor(spread).expect_message("namespaces"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_descriptor_is_bounded_in_size_and_depth() {
    let text = |name: &'static str, text: Value| Attack::new(name).setup("descriptorText", text);
    run_attacks([
        text("deep", json!({"before": "{\"watches\":", "repeat": "[", "times": 1_000_000}))
            .expect_message("descriptor"),
        text("long", json!({"before": "{\"name\":\"", "repeat": "a", "times": 15 << 20, "after": "\"}"}))
            .expect_message("descriptor"),
        text("no-json", json!({"repeat": "\u{0}", "times": 100})).expect_message("descriptor"),
        Attack::new("trap").setup("inDescribe", json!([{"do": "trap"}])).expect_message("describe trapped"),
        Attack::new("loop")
            .sidecar("limits", json!({"describeTimeout": "300ms"}))
            .setup("inDescribe", json!([{"do": "loop"}]))
            .expect_message("limits.describeTimeout of 300ms"),
        Attack::new("reads-early")
            .setup("inDescribe", json!([{"do": "cache.get", "watch": "maps", "name": "a"}]))
            .expect_message("cache.get isn't available during describe"),
    ])
    .await;
}
