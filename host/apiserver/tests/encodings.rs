//! CBOR and protobuf in requests and responses.

mod api;

use api::{Api, core};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use k8s_openapi::ByteString;
use pilothouse_apiserver::ResponseBody;
use pilothouse_apiserver::schema::{ProtobufError, decode_protobuf, encode_protobuf};
use serde_json::{Value, json};
use tower::ServiceExt;

const CBOR: &str = "application/cbor";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The tag for self-described CBOR.
const TAG: &[u8] = b"\xd9\xd9\xf7";

/// Sends a request with a body of the media type `encoding`, which the response should have, too. Returns the code, the content type and
/// the body.
async fn send(
    api: &Api,
    method: Method,
    path: &str,
    encoding: &str,
    body: Vec<u8>,
) -> (u16, String, ResponseBody) {
    let request = Request::builder().method(method).uri(path).header("accept", encoding);
    let request = request.header("content-type", encoding).header("user-agent", "tester/1");
    let request = request.body(Full::new(Bytes::from(body))).expect("a request");
    let Ok(response) = api.server.service().oneshot(request).await;
    let content_type = response.headers()["content-type"].to_str().expect("text").to_owned();
    (response.status().as_u16(), content_type, response.into_body())
}

/// Sends a request as [`send`] does, and reads the response whole.
async fn exchange(
    api: &Api,
    method: Method,
    path: &str,
    encoding: &str,
    body: Vec<u8>,
) -> (u16, String, Bytes) {
    let (code, content_type, body) = send(api, method, path, encoding, body).await;
    let Ok(collected) = body.collect().await;
    (code, content_type, collected.to_bytes())
}

async fn get(api: &Api, path: &str, encoding: &str) -> (u16, String, Bytes) {
    exchange(api, Method::GET, path, encoding, Vec::new()).await
}

async fn first_frame(mut body: ResponseBody) -> Bytes {
    let frame = body.frame().await.expect("an event");
    let Ok(frame) = frame;
    frame.into_data().expect("data")
}

fn to_cbor(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).expect("a value");
    bytes
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn config_map(data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": data}})
}

#[tokio::test]
async fn objects_are_created_and_replaced_in_cbor() {
    let api = Api::new();
    let body = to_cbor(&config_map("one"));
    let (code, content_type, created) = exchange(&api, Method::POST, &core("configmaps"), CBOR, body).await;
    assert_eq!((code, content_type.as_str()), (201, CBOR));
    assert!(created.starts_with(TAG), "{created:?}");
    // What the server sends, it also reads.
    let (code, _, _) = exchange(&api, Method::PUT, &core("configmaps/a"), CBOR, created.to_vec()).await;
    assert_eq!(code, 200);
    let apply = "application/apply-patch+cbor";
    let applied = api
        .send(
            Method::PATCH,
            &core("configmaps/a?fieldManager=t&force=true"),
            apply,
            to_cbor(&config_map("two")).into(),
        )
        .await;
    assert_eq!(applied.ok()["data"]["k"], "two");
    let (code, content_type, status) = get(&api, &core("configmaps/none"), CBOR).await;
    assert_eq!((code, content_type.as_str()), (404, CBOR));
    assert!(status.starts_with(TAG) && contains(&status, "NotFound"), "{status:?}");
    let malformed = exchange(&api, Method::POST, &core("configmaps"), CBOR, vec![0xff]).await;
    assert_eq!(malformed.0, 400);
}

#[tokio::test]
async fn watch_in_cbor_is_a_sequence_of_events() {
    let api = Api::new();
    api.post(&core("configmaps"), &config_map("one")).await.ok();
    for accept in [CBOR, "application/cbor-seq"] {
        let (code, content_type, body) =
            send(&api, Method::GET, &core("configmaps?watch=true"), accept, Vec::new()).await;
        assert_eq!((code, content_type.as_str()), (200, "application/cbor-seq"));
        let event = first_frame(body).await;
        assert!(event.starts_with(TAG) && contains(&event, "ADDED"), "{event:?}");
    }
    assert_eq!(get(&api, &core("configmaps"), "application/cbor-seq").await.0, 406);
}

#[tokio::test]
async fn built_in_objects_are_served_and_written_in_protobuf() {
    let api = Api::new();
    let body = encode_protobuf(&config_map("one")).expect("an object");
    let (code, content_type, created) =
        exchange(&api, Method::POST, &core("configmaps"), PROTOBUF, body).await;
    assert_eq!((code, content_type.as_str()), (201, PROTOBUF));
    let json = api.get(&core("configmaps/a")).await.ok();
    assert_eq!(decode_protobuf(&created), Ok(json.clone()));
    let (_, _, read) = get(&api, &core("configmaps/a"), &format!("{PROTOBUF},application/json")).await;
    assert_eq!(read, created);
    let (code, content_type, list) = get(&api, &core("configmaps"), PROTOBUF).await;
    assert_eq!((code, content_type.as_str()), (200, PROTOBUF));
    assert!(list.starts_with(b"k8s\0") && contains(&list, "ConfigMapList"), "{list:?}");
    let (code, _, status) = get(&api, &core("configmaps/none"), PROTOBUF).await;
    assert!(code == 404 && contains(&status, "NotFound"), "{code} {status:?}");
    let (_, content_type, body) =
        send(&api, Method::GET, &core("configmaps?watch=true"), PROTOBUF, Vec::new()).await;
    assert_eq!(content_type, "application/vnd.kubernetes.protobuf;stream=watch");
    let frame = first_frame(body).await;
    let length = frame.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    assert_eq!(length, u32::try_from(frame.len() - 4).ok());
    assert!(frame.ends_with(&created), "{frame:?}");
}

#[tokio::test]
async fn every_initial_object_can_be_served_in_protobuf() {
    let api = Api::new();
    for path in [
        "/api/v1/namespaces",
        "/api/v1/services",
        "/api/v1/componentstatuses",
        "/apis/apiregistration.k8s.io/v1/apiservices",
    ] {
        let (code, content_type, _) = get(&api, path, PROTOBUF).await;
        assert_eq!((code, content_type.as_str()), (200, PROTOBUF), "{path}");
    }
}

#[tokio::test]
async fn custom_resources_have_only_their_metadata_in_protobuf() {
    let api = Api::new();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await.ok();
    let foos = "/apis/example.com/v1/foos";
    let foo = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}});
    api.post(foos, &foo).await.ok();
    assert_eq!(get(&api, foos, PROTOBUF).await.0, 406);
    let (code, content_type, _) = get(&api, foos, &format!("{PROTOBUF},application/json")).await;
    assert_eq!((code, content_type.as_str()), (200, "application/json"));
    let metadata = format!("{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    let (code, content_type, list) = get(&api, foos, &metadata).await;
    assert_eq!((code, content_type.as_str()), (200, PROTOBUF));
    assert!(contains(&list, "PartialObjectMetadataList"), "{list:?}");
}

/// A CRD as `k8s.io/apiextensions-apiserver` 0.37 encodes it.
const CRD: &str = include_str!("encodings/crd.base64");
/// The same CRD in JSON.
const CRD_JSON: &str = include_str!("encodings/crd.json");

#[test]
fn crd_of_a_go_client_has_its_json_form() {
    let json: Value = serde_json::from_str(CRD_JSON).expect("JSON");
    let bytes: ByteString = serde_json::from_value(CRD.trim().into()).expect("base64");
    assert_eq!(decode_protobuf(&bytes.0), Ok(json.clone()));
    assert_eq!(decode_protobuf(&encode_protobuf(&json).expect("an object")), Ok(json));
}

#[test]
fn schema_that_nests_too_deep_is_refused() {
    // `not` of `not` of …, as messages of increasing size.
    let field = |number: u8, content: &[u8]| {
        let mut out = vec![number << 3 | 2];
        let mut length = content.len();
        while length >= 0x80 {
            out.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        [out, content.to_vec()].concat()
    };
    let mut schema = Vec::new();
    for _ in 0..1000 {
        // The number 28 takes two bytes as a tag.
        schema = [vec![0xe2, 0x01], field(0, &schema)[1..].to_vec()].concat();
    }
    let version = field(4, &field(1, &schema));
    let meta = [field(1, b"apiextensions.k8s.io/v1"), field(2, b"CustomResourceDefinition")].concat();
    let raw = field(2, &field(7, &version));
    let body = [b"k8s\0".to_vec(), field(1, &meta), field(2, &raw)].concat();
    assert_eq!(decode_protobuf(&body), Err(ProtobufError::TooDeep));
}

#[tokio::test]
async fn crds_are_created_and_read_in_protobuf() {
    let api = Api::new();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut crd: Value = serde_json::from_str(CRD_JSON).expect("JSON");
    crd["spec"]["conversion"] = json!({"strategy": "None"});
    // Not all that can be encoded is valid in a CRD.
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "default": "x"},
        "b": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0.5, "enum": [1, 2.5]}},
        "c": {"type": "array", "items": {"type": "string"}},
    }});
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = schema.clone();
    let body = encode_protobuf(&crd).expect("an object");
    let (code, content_type, created) = exchange(&api, Method::POST, path, PROTOBUF, body).await;
    assert_eq!((code, content_type.as_str()), (201, PROTOBUF), "{created:?}");
    let json = api.get(&format!("{path}/foos.example.com")).await.ok();
    assert_eq!(json["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"], schema);
    let (_, content_type, read) = get(&api, &format!("{path}/foos.example.com"), PROTOBUF).await;
    assert_eq!(content_type, PROTOBUF);
    assert_eq!(decode_protobuf(&read), Ok(json));
}
