//! The limits on the rules and patterns of CRDs.

use serde_json::{Value, json};

use crate::api::Api;
use crate::{CRDS, FOOS, crd, foo};

#[tokio::test]
async fn an_object_whose_rules_cost_too_much_is_rejected() {
    let all: String = (0..9).map(|level| format!("[0,1,2,3,4,5,6,7,8,9].all(v{level}, ")).collect();
    let mut costly = crd();
    let spec = &mut costly["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["x-kubernetes-validations"] = json!([{"rule": format!("{all}true{}", ")".repeat(9))}]);
    let api = Api::new();
    api.post(CRDS, &costly).await.ok();
    let refused = api.post(FOOS, &foo("a", &json!({}))).await.fails(422, "Invalid");
    let message = refused["message"].as_str().expect("a message");
    assert!(message.contains("cost limit exceeded"), "{message}");
}

#[tokio::test]
async fn rules_and_patterns_of_a_crd_are_bounded_together() {
    let api = Api::new();
    let with_properties = |properties: serde_json::Map<String, Value>| {
        let mut crd = crd();
        let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"] = json!({"type": "object", "properties": properties});
        crd
    };
    let name = |number: usize| format!("p{number}");
    let rule = format!("self != '{}'", "a".repeat(8000));
    let ruled = (0..40).map(|number| {
        (name(number), json!({"type": "string", "x-kubernetes-validations": [{"rule": rule}]}))
    });
    let refused = api.post(CRDS, &with_properties(ruled.collect())).await.fails(422, "Invalid");
    let message = refused["message"].as_str().expect("a message");
    assert!(message.contains("x-kubernetes-validations have") && message.contains("262144"), "{message}");

    let patterned = |count: usize, pattern: &dyn Fn(usize) -> String| {
        let properties =
            (0..count).map(|number| (name(number), json!({"type": "string", "pattern": pattern(number)})));
        with_properties(properties.collect())
    };
    let many = patterned(1025, &|number| format!("^a{number}$"));
    let refused = api.post(CRDS, &many).await.fails(422, "Invalid");
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("too large together")));
    api.post(CRDS, &patterned(2000, &|_| "^a$".to_owned())).await.ok();
}

/// With the flag `i`, every code point of a class is visited before any limit of the compiled size counts.
#[tokio::test]
async fn the_work_to_compile_the_patterns_of_a_crd_is_bounded() {
    let api = Api::new();
    let with_fields = |fields: Vec<Value>| {
        let mut crd = crd();
        let fields: serde_json::Map<_, _> =
            fields.into_iter().enumerate().map(|(number, field)| (format!("p{number}"), field)).collect();
        let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"] = json!({"type": "object", "properties": fields});
        crd
    };
    let wide = r"[\x01-\u{10ffff}]";
    let patterned = |count: usize, pattern: &str| -> Vec<_> {
        (0..count)
            .map(|number| json!({"type": "string", "pattern": format!("{number}(?i){pattern}")}))
            .collect()
    };
    api.post(CRDS, &with_fields(patterned(5, wide))).await.ok();
    for fields in [
        patterned(40, wide),
        // One pattern, too much work by itself.
        patterned(1, &wide.repeat(40)),
        (0..40)
            .map(|number| {
                let rule = format!(r"self.matches('{number}(?i)[\\x01-\\u{{10ffff}}]')");
                json!({"type": "string", "maxLength": 10, "x-kubernetes-validations": [{"rule": rule}]})
            })
            .collect(),
    ] {
        let refused = api.post(CRDS, &with_fields(fields)).await.fails(422, "Invalid");
        let message = refused["message"].as_str().expect("a message");
        assert!(message.contains("too large together"), "{message}");
    }
    let long = "a".repeat((16 << 10) + 1);
    let refused = api.post(CRDS, &with_fields(patterned(1, &long))).await.fails(422, "Invalid");
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("at most 16384 bytes")));
}
