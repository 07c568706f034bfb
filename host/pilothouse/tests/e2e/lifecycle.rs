//! Adding, removing and swapping plugin files, and stopping the host.

use std::fs;

use crate::harness::{Guest, Host, another_version, wat};

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_file_stops_its_plugin_and_a_new_one_starts_it_again() {
    let host = Host::start().await;
    let wasm = Guest::Conformance.wasm();
    host.install_plugin("conformance", &wasm);
    host.wait_for_state("conformance", "running").await;
    fs::remove_file(host.plugins().join("conformance.wasm")).expect("removed");
    host.wait_for_state("conformance", "stopped").await;
    host.server.create_script("unseen", "copy:unseen-record").await;

    host.install_plugin("conformance", &another_version(&wasm, 2));
    host.wait_for_state("conformance", "running").await;
    host.wait("the object that was created meanwhile", || async {
        host.server.data("unseen-record").await.contains_key("version").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn swapping_a_symlink_reloads_the_plugin() {
    let host = Host::start().await;
    let wasm = Guest::Conformance.wasm();
    // The kubelet updates a ConfigMap volume like this: each file is a link through a directory link, which is swapped.
    let folder = host.plugins();
    for (version, wasm) in [("..one", wasm.clone()), ("..two", another_version(&wasm, 2))] {
        fs::create_dir(folder.join(version)).expect("made");
        fs::write(folder.join(version).join("p.wasm"), wasm).expect("written");
    }
    let current = folder.join("..data");
    std::os::unix::fs::symlink("..one", &current).expect("linked");
    std::os::unix::fs::symlink("..data/p.wasm", folder.join("conformance.wasm")).expect("linked");
    host.wait_for_generation("conformance", 1).await;
    std::os::unix::fs::symlink("..two", folder.join("..next")).expect("linked");
    fs::rename(folder.join("..next"), &current).expect("swapped");
    host.wait_for_generation("conformance", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_stops_the_host_even_while_a_guest_loops() {
    let host = Host::start().await;
    // The time limit is longer than the test waits, so that the guest still loops.
    host.write_sidecar("faulty", "limits: {reconcileTimeout: 30m}\n");
    host.install_plugin("faulty", &wat("loop"));
    host.wait_for_state("faulty", "running").await;
    host.server.create_script("one", "").await;
    host.wait("the guest to run", || async {
        host.get("/metrics")
            .await
            .1
            .contains("controller_runtime_active_workers{controller=\"faulty\"} 1")
            .then_some(())
    })
    .await;
    assert!(host.terminate().await.success());
}
