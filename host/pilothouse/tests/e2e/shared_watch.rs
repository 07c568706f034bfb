//! Plugins that watch the same share one watch and one cache.

use crate::harness::{Guest, Host, another_version};

#[tokio::test(flavor = "multi_thread")]
async fn b30_two_plugins_cause_one_list_and_one_watch() {
    let host = Host::start().await;
    if host.server.skips("only the embedded server counts requests") {
        return;
    }
    let wasm = Guest::SampleController.wasm();
    host.drop_in("first", &wasm);
    host.wait_for_state("first", "running").await;
    host.drop_in("second", &another_version(&wasm, 2));
    host.wait_for_state("second", "running").await;
    for resource in ["samplecontroller.k8s.io/v1alpha1/foos", "apps/v1/deployments"] {
        assert_eq!(host.server.requests("watch", resource).await, 1, "watches of {resource}");
    }

    // A reload takes the subscriptions over: nothing is listed or watched again.
    host.drop_in("first", &another_version(&wasm, 3));
    host.wait_for_generation("first", 2).await;
    for resource in ["samplecontroller.k8s.io/v1alpha1/foos", "apps/v1/deployments"] {
        assert_eq!(host.server.requests("watch", resource).await, 1, "watches of {resource} after a reload");
    }
}
