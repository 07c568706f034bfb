//! The example `delete-everything`: deletes every object that it selects.

use kube::api::PostParams;
use serde_json::json;

use crate::harness::{Guest, Host};

#[tokio::test(flavor = "multi_thread")]
async fn all_selected_objects_are_deleted_and_logged() {
    let host = Host::start().await;
    host.install_plugin("delete-everything", &Guest::DeleteEverything.wasm());
    host.wait_for_state("delete-everything", "running").await;
    let config_maps = host.server.config_maps();
    let names = ["a-hello", "b-controller", "c-framework"];
    for name in names {
        let manifest = json!({"metadata": {"name": name, "labels": {"example": "delete-everything"}}});
        let object = serde_json::from_value(manifest).expect("a config map");
        config_maps.create(&PostParams::default(), &object).await.expect("created");
    }
    for name in names {
        host.wait(&format!("{name} to be deleted"), || async {
            config_maps.get_opt(name).await.expect("answered").is_none().then_some(())
        })
        .await;
    }
    host.wait("three deletions in the plugin's log", || async {
        let log = host.pilothouse(&["logs", "delete-everything"]).stdout;
        let log = String::from_utf8(log).expect("text");
        names.iter().all(|name| log.contains(&format!("[{name}] Deleted"))).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_outside_the_selector_are_not_deleted() {
    let host = Host::start().await;
    host.install_plugin("delete-everything", &Guest::DeleteEverything.wasm());
    host.wait_for_state("delete-everything", "running").await;
    host.server.create_script("bystander", "").await;
    let manifest = json!({"metadata": {"name": "doomed", "labels": {"example": "delete-everything"}}});
    let object = serde_json::from_value(manifest).expect("a config map");
    host.server.config_maps().create(&PostParams::default(), &object).await.expect("created");
    host.wait("the selected object to be deleted", || async {
        host.server.config_maps().get_opt("doomed").await.expect("answered").is_none().then_some(())
    })
    .await;
    assert!(host.server.config_maps().get_opt("bystander").await.expect("answered").is_some());
}
