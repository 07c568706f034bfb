//! A plugin that acts as a service account next to one that acts as the host: they share the cache but not the rights.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::json;

use super::cluster::{Cluster, create_namespace};
use crate::harness::Guest;

/// Returns a sidecar that grants reading and writing the ConfigMaps of one namespace.
fn sidecar(namespace: &str, account: Option<&str>) -> String {
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "namespaces": [namespace]});
    let mut writes = rule.clone();
    writes["verbs"] = json!(["*"]);
    let mut sidecar = json!({"grants": {"watches": [rule], "writes": [writes]}});
    if let Some(account) = account {
        sidecar["serviceAccount"] = json!(account);
    }
    sidecar.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_a_permission_of_the_service_account_suspends_only_its_plugin() {
    let cluster = Cluster::start(&["--test-review-every", "200"]).await;
    let host = &cluster.host;
    let namespace = host.server.namespace.as_str();
    create_namespace(&host.server.client, "elsewhere").await;
    let account = format!("{namespace}/robot");
    host.write_sidecar("robot", &sidecar(namespace, Some(&account)));
    host.write_sidecar("free", &sidecar("elsewhere", None));
    for plugin in ["robot", "free"] {
        host.install_plugin(plugin, &Guest::Conformance.wasm());
    }
    cluster
        .expect_waiting(
            "robot",
            &["may not ask what the service account", "403", "pilothouse rbac robot.wasm"],
        )
        .await;
    let Some(()) = cluster.apply_roles(&["robot", "free"]) else { return };
    for plugin in ["robot", "free"] {
        host.wait_for_state(plugin, "running").await;
    }
    let elsewhere = Api::<ConfigMap>::namespaced(host.server.client.clone(), "elsewhere");
    let script_elsewhere = async |name: &str, action: &str| {
        let script = json!({
            "metadata": {"name": name, "labels": {"test": "conformance"}}, "data": {"action": action}
        });
        let script = serde_json::from_value(script).expect("a config map");
        elsewhere.create(&PostParams::default(), &script).await.expect("created");
    };
    let recorded = async |name: &str| host.server.data(name).await.contains_key("version").then_some(());
    let recorded_elsewhere = async |name: &str| elsewhere.get_opt(name).await.expect("answered").map(|_| ());
    host.server.create_script("one", "copy:first").await;
    script_elsewhere("one", "copy:first").await;
    host.wait("the account's record", || recorded("first")).await;
    host.wait("the host's record", || recorded_elsewhere("first")).await;

    // Reads: the shared cache does not bypass the account's permissions.
    let role = format!("pilothouse:{namespace}:robot");
    host.server.kubectl(&["delete", "rolebinding", &role]);
    let lacks =
        format!("the service account {account} may not list, watch configmaps in namespace {namespace}");
    cluster.expect_waiting("robot", &[&lacks, "watch \"scripts\""]).await;
    host.server.create_script("two", "copy:second").await;
    script_elsewhere("two", "copy:second").await;
    host.wait("the other plugin's work", || recorded_elsewhere("second")).await;
    assert_eq!(host.plugin("free").await["state"], "running");
    assert_eq!(recorded("second").await, None, "nothing is reconciled without the permission");
    cluster.apply_roles(&["robot", "free"]);
    host.wait_for_state("robot", "running").await;
    host.wait("the pending object to be reconciled", || recorded("second")).await;

    // Writes: the server authorizes the account, not the host.
    let reading = json!([{"op": "replace", "path": "/rules", "value": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
    ]}]);
    host.server.kubectl(&["patch", "role", &role, "--type=json", "--patch", &reading.to_string()]);
    host.server.create_script("three", "copy:third").await;
    host.wait("the denial", || async {
        let user = format!("system:serviceaccount:{namespace}:robot");
        let messages = host.log_messages("robot").await;
        messages.iter().any(|line| line.contains(&user) && line.contains("cannot")).then_some(())
    })
    .await;
    assert_eq!(host.plugin("robot").await["state"], "running", "it may still read");
    cluster.apply_roles(&["robot", "free"]);
    host.wait("the third record", || recorded("third")).await;
}
