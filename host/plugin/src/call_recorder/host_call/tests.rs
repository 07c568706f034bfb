use super::*;
use crate::{Cause, Rule};

fn object(name: &str) -> Object {
    let text = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "n", "resourceVersion": "7"}, "data": {"a": "b"}});
    Object::from_json(text.to_string()).expect("an object")
}

fn errors() -> Vec<ApiError> {
    let text = || "text".to_owned();
    vec![
        ApiError::NotFound(text()),
        ApiError::AlreadyExists(text()),
        ApiError::Conflict { message: text(), resource_version: "3".to_owned() },
        ApiError::Invalid(vec![Cause { field: "spec".to_owned(), ..Cause::default() }]),
        ApiError::Forbidden(text()),
        ApiError::Denied(Rule { verbs: vec!["get".to_owned()], ..Rule::default() }),
        ApiError::TooManyRequests { retry_after_ms: 5 },
        ApiError::Unavailable(text()),
        ApiError::Other { code: 500, reason: text(), message: text() },
    ]
}

#[test]
fn answers_survive_a_round_trip() {
    let cursor = IndexCursor { reader: 1, value: Some("v".to_owned()), key: Some(ObjectKey::new("n", "b")) };
    let answers = [
        HostAnswer::Nothing,
        HostAnswer::Abandoned,
        HostAnswer::Object(None),
        HostAnswer::Object(Some(object("a"))),
        HostAnswer::CachePage(CachePage {
            items: vec![object("a"), object("b")],
            more: true,
            searched_to: None,
        }),
        HostAnswer::CachePage(CachePage {
            items: Vec::new(),
            more: true,
            searched_to: Some(ObjectKey::new("n", "b")),
        }),
        HostAnswer::LivePage(LivePage { items: vec![object("a")], next: "token".to_owned() }),
        HostAnswer::Objects(IndexPage { found: vec![object("a")], next: Some(cursor.clone()) }),
        HostAnswer::Keys(IndexPage { found: vec![ObjectKey::cluster("a")], next: None }),
        HostAnswer::Values(IndexPage { found: vec!["a".to_owned()], next: Some(IndexCursor::default()) }),
        HostAnswer::HasSynced(true),
        HostAnswer::Time(Duration::from_nanos(1_800_000_000_000_000_001)),
        HostAnswer::Random(vec![0, 255]),
        HostAnswer::HttpStatus(404),
        HostAnswer::Misuse(Misuse::Recorded { message: "unknown watch".to_owned() }),
        HostAnswer::HttpError(HttpError::Protocol("reset".to_owned())),
    ];
    for answer in answers.into_iter().chain(errors().into_iter().map(HostAnswer::ApiError)) {
        let value = answer.to_json();
        let read = HostAnswer::from_json(&value).unwrap_or_else(|problem| panic!("{value}: {problem}"));
        assert_eq!(read.to_json(), value);
        assert_eq!(format!("{read:?}"), format!("{answer:?}"));
    }
}

#[test]
fn invalid_answers_are_refused() {
    for value in [
        json!(null),
        json!("something"),
        json!({}),
        json!({"object": 1}),
        json!({"object": null, "keys": null}),
        json!({"cachePage": {"items": []}}),
        json!({"keys": {"found": [1]}}),
        json!({"values": {"found": [], "next": {}}}),
        json!({"httpStatus": 65_536}),
        json!({"random": [256]}),
        json!({"apiError": {"teapot": ""}}),
        json!({"unheard": 1}),
    ] {
        assert!(HostAnswer::from_json(&value).is_err(), "{value}");
    }
}

#[test]
fn the_order_of_members_in_a_manifest_does_not_matter() {
    let create = |manifest: &str| HostRequest::ClientCreate {
        manifest: manifest.to_owned(),
        subresource: String::new(),
    };
    assert_eq!(create(r#"{"a":1,"b":2}"#).arguments(), create(r#"{ "b": 2, "a": 1 }"#).arguments());
    assert_ne!(create(r#"{"a":1}"#).arguments(), create(r#"{"a":2}"#).arguments());
    assert_eq!(create("no JSON").arguments()["manifest"], json!("no JSON"));
    assert!(create("{}").is_write());
}
