//! `fieldValidation`: what is said about unknown and duplicate fields.

mod api;

use std::fmt::Write as _;

use api::{Api, core};
use http::Method;

#[tokio::test]
async fn duplicate_members_of_json_are_rejected_or_warned_about() {
    let api = Api::new();
    let send = async |name: &str, validation: &str| {
        let body =
            format!(r#"{{"metadata": {{"name": "{name}"}}, "data": {{"a": "1", "a": "2"}}, "other": 1}}"#);
        let path = core(&format!("configmaps?fieldValidation={validation}"));
        api.send(Method::POST, &path, "application/json", body.into()).await
    };
    let refused = send("a", "Strict").await.fails(400, "BadRequest");
    assert_eq!(
        refused["message"],
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate field \
         \"data.a\", unknown field \"other\""
    );
    let warned = send("b", "Warn").await;
    assert_eq!(
        warned.warnings,
        [r#"299 - "duplicate field \"data.a\"""#, r#"299 - "unknown field \"other\"""#]
    );
    assert_eq!(warned.ok()["data"]["a"], "2");
    assert_eq!(send("c", "Ignore").await.warnings, [""; 0]);
    let created_by_put = r#"{"metadata": {"name": "e"}, "subsets": [], "subsets": []}"#;
    let path = core("endpoints/e?fieldValidation=Warn");
    let created = api.send(Method::PUT, &path, "application/json", created_by_put.into()).await;
    assert_eq!(created.code, 201);
    assert!(created.warnings.iter().any(|warning| warning.contains("duplicate field")), "{created:?}");
}

#[tokio::test]
async fn a_wrong_type_is_the_only_error() {
    let api = Api::new();
    for validation in ["Strict", "Warn"] {
        let body = r#"{"metadata": {"name": "a"}, "data": {"a": 1, "a": 2}, "other": 1}"#;
        let path = core(&format!("configmaps?fieldValidation={validation}"));
        let answer = api.send(Method::POST, &path, "application/json", body.into()).await;
        assert_eq!(answer.warnings, [""; 0]);
        assert_eq!(
            answer.fails(400, "BadRequest")["message"],
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
        );
    }
}

#[tokio::test]
async fn at_most_100_fields_of_a_built_in_kind_are_reported() {
    let api = Api::new();
    let mut body = r#"{"metadata": {"name": "a"}"#.to_owned();
    (0..300).for_each(|number| write!(body, r#", "f{number:03}": 1"#).expect("a String takes it"));
    body.push('}');
    let path = core("configmaps?fieldValidation=Strict");
    let refused = api.send(Method::POST, &path, "application/json", body.into()).await;
    let message = refused.fails(400, "BadRequest")["message"].to_string();
    assert_eq!(message.matches("unknown field").count(), 100);
    assert!(message.contains("f099") && !message.contains("f100"), "{message}");
}
