//! The example `ingress-tls`: an `index` trigger from a Secret to the Ingresses that use it.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use crate::harness::{Guest, Host};

#[tokio::test(flavor = "multi_thread")]
async fn an_ingress_reports_missing_or_wrong_secrets() {
    let host = Host::start().await;
    host.install_plugin("ingress-tls", &Guest::IngressTls.wasm());
    host.wait_for_state("ingress-tls", "running").await;
    let ingresses = Api::<Ingress>::namespaced(host.server.client.clone(), &host.server.namespace);
    let secrets = Api::<Secret>::namespaced(host.server.client.clone(), &host.server.namespace);
    let service = json!({"name": "web", "port": {"number": 80}});
    let manifest = json!({
        "metadata": {"name": "web"},
        "spec": {"tls": [{"secretName": "web-tls"}], "defaultBackend": {"service": service}},
    });
    let ingress: Ingress = serde_json::from_value(manifest).expect("an ingress");
    ingresses.create(&PostParams::default(), &ingress).await.expect("created");
    let wait_for = async |state: &str| {
        host.wait(state, || async {
            let annotations = ingresses.get("web").await.expect("the ingress").metadata.annotations?;
            (annotations.get("ingress-tls.example.com/state").map(String::as_str) == Some(state))
                .then_some(())
        })
        .await;
    };
    wait_for("Secret web-tls is missing").await;
    let make = async |kind: &str, data: serde_json::Value| {
        let manifest = json!({"metadata": {"name": "web-tls"}, "type": kind, "stringData": data});
        let secret: Secret = serde_json::from_value(manifest).expect("a secret");
        secrets.create(&PostParams::default(), &secret).await.expect("created");
    };
    make("Opaque", json!({"tls.crt": "c", "tls.key": "k"})).await;
    wait_for("Secret web-tls is of type \"Opaque\", not kubernetes.io/tls").await;
    secrets.delete("web-tls", &DeleteParams::default()).await.expect("deleted");
    wait_for("Secret web-tls is missing").await;
    make("kubernetes.io/tls", json!({"tls.crt": "c", "tls.key": "k"})).await;
    wait_for("ok").await;
}
