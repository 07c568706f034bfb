//! The roles that `pilothouse rbac` prints are sufficient to run a plugin.

use super::cluster::Cluster;
use crate::harness::Guest;

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_roles_are_sufficient_and_missing_roles_are_reported() {
    let cluster = Cluster::start(&[]).await;
    let host = &cluster.host;
    host.install_plugin("conformance", &Guest::Conformance.wasm());
    let lacks = ["watch \"", "HTTP 403", "`pilothouse rbac conformance.wasm | kubectl apply -f -`"];
    cluster.expect_waiting("conformance", &lacks).await;

    let Some(()) = cluster.apply_roles(&["conformance"]) else { return };
    host.wait_for_state("conformance", "running").await;
    host.server.create_script("one", "copy:record\nevent:hello").await;
    let recorded = async |name: &str| host.server.data(name).await.contains_key("version").then_some(());
    host.wait("the record", || recorded("record")).await;
    host.wait("the Event", || async { (!host.server.events().await.is_empty()).then_some(()) }).await;

    // Open watches stay open, but the server authorizes each new request.
    host.server.kubectl(&["delete", "clusterrolebinding", "pilothouse"]);
    host.server.create_script("two", "copy:second").await;
    host.wait("the denial", || async {
        let messages = host.log_messages("conformance").await;
        let denial = "system:serviceaccount:pilothouse:pilothouse\\\" cannot";
        let denials = [denial, &denial.replace('\\', "")];
        messages.iter().any(|line| denials.iter().any(|part| line.contains(part))).then_some(())
    })
    .await;
    cluster.apply_roles(&["conformance"]);
    host.wait("the second record", || recorded("second")).await;
}
