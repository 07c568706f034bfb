//! Plugins that trap, loop or exceed a limit affect only themselves.

mod guests;
mod suite;

use crate::harness::{Guest, Host};

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_logged_with_file_and_line() {
    let host = Host::start().await;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    host.server.create_script("one", "panic:the sky is falling").await;
    host.wait("the panic in the plugin's log", || async {
        let log = String::from_utf8(host.pilothouse(&["logs", "conformance"]).stdout).expect("text");
        log.lines()
            .any(|line| line.contains("the sky is falling") && line.contains("src/lib.rs:"))
            .then_some(())
    })
    .await;
    // The next change is reconciled by a new instance.
    host.server.set_data("one", "action", "copy:record").await;
    host.wait("the next reconcile", || async {
        host.server.data("record").await.contains_key("version").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undeclared_write_is_denied_and_the_error_names_the_missing_rule() {
    let host = Host::start().await;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    host.wait_for_state("conformance", "running").await;
    host.server.create_script("one", "denied").await;
    host.wait("the missing rule", || async {
        host.log_messages("conformance")
            .await
            .iter()
            .any(|line| line.contains("need create on secrets"))
            .then_some(())
    })
    .await;
    let plugin = host.plugin("conformance").await;
    assert!(plugin["counters"]["errors"].as_u64() >= Some(1), "{plugin:#}");
    let secrets = host.server.get(&host.server.path("/api/v1", "secrets", "")).await;
    assert_eq!(secrets["items"].as_array().map(Vec::len), Some(0), "{secrets}");
}
