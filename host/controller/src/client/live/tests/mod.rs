//! Live requests: to a server that records them, and to the embedded API server.

mod creation;
mod grants;
mod targets;

use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::client::fence::Fence;
use crate::config::current_grants::CurrentGrants;
use crate::guest_host::PluginServices;

/// A client that may write everything, and the requests that its server receives.
fn fixture() -> (LiveClient, Arc<Mutex<Vec<String>>>) {
    let got = Arc::<Mutex<Vec<String>>>::default();
    let recorded = Arc::clone(&got);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        recorded.lock().push(format!("{method} {path}"));
        let body = if method == Method::GET && path != "/api/v1" {
            json!({"resources": []})
        } else if method == Method::GET {
            json!({"resources": [
                {"name": "configmaps", "kind": "ConfigMap", "namespaced": true},
                {"name": "nodes", "kind": "Node", "namespaced": false},
                {"name": "pods", "kind": "Pod", "namespaced": true},
                {"name": "pods/eviction", "kind": "Eviction", "group": "policy", "version": "v1", "namespaced": true},
            ]})
        } else {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}})
        };
        let response = http::Response::builder().body(Body::from(body.to_string().into_bytes()));
        async move { Ok::<_, std::convert::Infallible>(response.expect("a response")) }
    });
    let client = kube::Client::new(service, "default");
    (client_with_rules(client, vec![rule("*", &["*"], &["*"], &[])]).0, got)
}

/// A client with these rules, and the services of its plugin.
fn client_with_rules(client: kube::Client, rules: Vec<Rule>) -> (LiveClient, PluginServices) {
    let (server, plugin) = (ApiClient::new(client.clone()), PluginServices::for_test("live", client));
    let grants = WriteGrants::new(rules, CurrentGrants::granting_writes(None));
    let discovery = Discovery::new(server.clone());
    let writer = Writer::new(server.clone(), discovery.clone(), Fence::default(), plugin.clone());
    (LiveClient::new(server, discovery, grants, writer, "live".into()), plugin)
}

fn rule(group: &str, resources: &[&str], verbs: &[&str], namespaces: &[&str]) -> Rule {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    Rule {
        api_groups: vec![group.to_owned()],
        resources: owned(resources),
        verbs: owned(verbs),
        namespaces: owned(namespaces),
    }
}

fn manifest(kind: &str, metadata: &serde_json::Value) -> String {
    json!({"apiVersion": "v1", "kind": kind, "metadata": metadata}).to_string()
}

#[test]
fn a_list_with_null_items_is_empty_and_one_without_items_is_invalid() {
    let null: List<'_> = serde_json::from_str(r#"{"items":null}"#).expect("a list");
    assert!(null.items.is_empty());
    assert!(serde_json::from_str::<List<'_>>(r#"{"metadata":{}}"#).is_err());
}
