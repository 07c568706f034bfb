//! Rights that a sidecar revokes are revoked at once, whatever the plugin does in the load that follows.

use pilothouse_controller::{GrantMode, PluginStatus};

use crate::guest::{self, Kind};
use crate::stage::Stage;

fn count(status: &PluginStatus, counter: &str) -> u64 {
    status.counters.get(counter).copied().expect("a counter")
}

/// Starts a host, and waits until the first version runs and has reconciled one object.
async fn running() -> Stage {
    let stage = Stage::start(|_| {});
    stage.install(&guest::file(0, Kind::Healthy));
    stage.until("the version to run", |status| status.generation == 1).await;
    stage.create("one", "").await;
    stage.wait("the start and the end of a reconcile", || stage.log.len() == 2).await;
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_cannot_keep_a_permission_by_failing_to_load() {
    let stage = running().await;
    stage.install(&guest::file(1, Kind::TrapsInDescribe));
    stage.until("the refusal of the code", |status| count(status, "refusedLoads") == 1).await;
    stage.sidecar("grants: {writes: []}\n");
    stage.until("the refusal under the sidecar", |status| count(status, "refusedLoads") == 2).await;
    stage.create("two", "").await;
    // The guest traps when a record is refused.
    stage.until("the denial", |status| count(status, "traps") >= 1).await;
    assert_eq!(stage.log.len(), 2, "nothing was written");
    stage.sidecar("# all of them again\n");
    stage.wait("the record that was denied", || stage.log.len() == 4).await;
    let status = stage.status().expect("a status");
    assert_eq!(status.generation, 1, "the version that runs was given the permission back");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_cannot_be_understood_grants_nothing_and_says_so() {
    let stage = running().await;
    stage.sidecar("grants: {writes: [\n");
    stage
        .until("the plugin to be held", |status| {
            status.state.as_str() == "waiting" && status.error.contains("recorder.yaml")
        })
        .await;
    stage.create("two", "").await;
    stage.sidecar("grants: {writes: [], watches: []}\n");
    stage
        .until("the other reason", |status| {
            status.state.as_str() == "waiting" && status.error.contains("watch \"maps\" is not granted")
        })
        .await;
    assert_eq!(stage.log.len(), 2, "nothing was reconciled");
    stage.sidecar("");
    stage.wait("what was left meanwhile", || stage.log.len() == 4).await;
    assert_eq!(stage.status().expect("a status").generation, 1);
    stage.put("recorder.yml", b"grants: {writes: []}\n");
    stage
        .until("the file with the other ending", |status| {
            status.state.as_str() == "waiting" && status.error.contains("rename it to recorder.yaml")
        })
        .await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn under_explicit_grants_a_plugin_without_a_sidecar_gets_nothing() {
    let stage = Stage::start(|options| options.grants = GrantMode::Explicit);
    stage.install(&guest::file(0, Kind::Healthy));
    stage
        .until("it to wait", |status| {
            status.state.as_str() == "waiting" && status.error.contains("--grants explicit")
        })
        .await;
    assert_eq!(stage.log.reads(), Vec::<String>::new());
    let watches = "watches: [{apiGroups: [''], resources: [configmaps], namespaces: [default]}]";
    stage.sidecar(&format!("grants: {{{watches}}}\n"));
    stage.until("it to run", |status| status.generation == 1).await;
    stage.create("one", "").await;
    stage.until("the denial", |status| count(status, "traps") >= 1).await;
    assert_eq!(stage.log.len(), 0, "no write is granted");
    let writes = "writes: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}]";
    stage.sidecar(&format!("grants: {{{watches}, {writes}}}\n"));
    stage.wait("the record", || stage.log.len() == 2).await;
    stage.end().await;
}
