use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::fence::Fence;
use crate::guest_host::GuestServices;

/// A client that may write everything, and the requests that its server gets.
fn stage() -> (LiveClient, Arc<Mutex<Vec<String>>>) {
    let got = Arc::<Mutex<Vec<String>>>::default();
    let told = Arc::clone(&got);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        if method != Method::GET {
            told.lock().push(format!("{method} {path}"));
        }
        let body = if method == Method::GET {
            json!({"resources": [
                {"name": "configmaps", "kind": "ConfigMap", "namespaced": true},
                {"name": "nodes", "kind": "Node", "namespaced": false},
            ]})
        } else {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}})
        };
        let response = http::Response::builder().body(Body::from(body.to_string().into_bytes()));
        async move { Ok::<_, std::convert::Infallible>(response.expect("a response")) }
    });
    let client = kube::Client::new(service, "default");
    let (server, guest) = (Server::new(client.clone()), GuestServices::for_test("live", client));
    let everything = crate::descriptor::Rule {
        api_groups: vec!["*".into()],
        resources: vec!["*".into()],
        verbs: vec!["*".into()],
        namespaces: Vec::new(),
    };
    let grants = Grants::new(vec![everything], None);
    let writer = Writer::new(server.clone(), Fence::default(), guest);
    let client = LiveClient::new(server.clone(), Discovery::new(server), grants, writer, "live".into());
    (client, got)
}

fn manifest(kind: &str, metadata: &serde_json::Value) -> String {
    json!({"apiVersion": "v1", "kind": kind, "metadata": metadata}).to_string()
}

#[tokio::test]
async fn an_object_of_a_namespaced_kind_goes_to_its_own_namespace_or_nowhere() {
    let (client, got) = stage();
    for metadata in
        [json!({"name": "a"}), json!({"generateName": "a-"}), json!({"name": "a", "namespace": ""})]
    {
        for is_update in [false, true] {
            let manifest = manifest("ConfigMap", &metadata);
            let answer = match is_update {
                false => client.create(None, manifest, "").await,
                true => client.update(None, manifest, "").await,
            };
            let Err(ApiError::Invalid(causes)) = answer else { panic!("{metadata}: {:?}", answer.err()) };
            assert_eq!((causes.len(), causes[0].field.as_str()), (1, "metadata.namespace"));
            assert!(causes[0].message.contains("configmaps"), "{}", causes[0].message);
        }
    }
    assert!(got.lock().is_empty(), "nothing was sent");

    let create = async |kind, metadata: serde_json::Value| {
        drop(client.create(None, manifest(kind, &metadata), "").await);
    };
    create("ConfigMap", json!({"name": "a", "namespace": "n"})).await;
    create("ConfigMap", json!({"generateName": "a-", "namespace": "n"})).await;
    create("Node", json!({"name": "a"})).await;
    let sent = [
        "POST /api/v1/namespaces/n/configmaps",
        "POST /api/v1/namespaces/n/configmaps",
        "POST /api/v1/nodes",
    ];
    assert_eq!(*got.lock(), sent);
}

#[test]
fn a_list_whose_items_are_null_is_empty_and_one_without_items_is_no_list() {
    let null: List<'_> = serde_json::from_str(r#"{"items":null}"#).expect("a list");
    assert!(null.items.is_empty());
    assert!(serde_json::from_str::<List<'_>>(r#"{"metadata":{}}"#).is_err());
}
