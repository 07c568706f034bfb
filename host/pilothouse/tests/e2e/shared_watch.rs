//! Plugins that watch the same resources share one watch and one cache.

use crate::harness::{Guest, Host, another_version};

#[tokio::test(flavor = "multi_thread")]
async fn two_plugins_share_one_list_and_one_watch() {
    let host = Host::start().await;
    if host.server.skip_if_external("only the embedded server counts requests") {
        return;
    }
    let wasm = Guest::SampleController.wasm();
    host.install_plugin("first", &wasm);
    host.wait_for_state("first", "running").await;
    host.install_plugin("second", &another_version(&wasm, 2));
    host.wait_for_state("second", "running").await;
    for resource in ["samplecontroller.k8s.io/v1alpha1/foos", "apps/v1/deployments"] {
        assert_eq!(host.server.request_count("watch", resource).await, 1, "watches of {resource}");
    }

    // A reload reuses the subscriptions without another list or watch.
    host.install_plugin("first", &another_version(&wasm, 3));
    host.wait_for_generation("first", 2).await;
    for resource in ["samplecontroller.k8s.io/v1alpha1/foos", "apps/v1/deployments"] {
        assert_eq!(
            host.server.request_count("watch", resource).await,
            1,
            "watches of {resource} after a reload"
        );
    }
}
