//! The roles that `pilothouse rbac` prints are what a host needs, and no less.

use super::cluster::Cluster;
use crate::harness::Guest;

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_roles_are_enough_and_their_lack_is_told() {
    let cluster = Cluster::start(&[]).await;
    let host = &cluster.host;
    host.drop_in("conformance", &Guest::Conformance.wasm());
    let lacks = ["watch \"", "HTTP 403", "`pilothouse rbac conformance.wasm | kubectl apply -f -`"];
    cluster.waiting("conformance", &lacks).await;

    let Some(()) = cluster.apply_roles(&["conformance"]) else { return };
    host.wait_for_state("conformance", "running").await;
    host.server.script("one", "copy:record\nevent:hello").await;
    let recorded = async |name: &str| host.server.data(name).await.contains_key("version").then_some(());
    host.wait("the record", || recorded("record")).await;
    host.wait("the Event", || async { (!host.server.events().await.is_empty()).then_some(()) }).await;

    // A watch that is open stays open; what is sent from now on is judged anew.
    host.server.kubectl(&["delete", "clusterrolebinding", "pilothouse"]);
    host.server.script("two", "copy:second").await;
    host.wait("the refusal", || async {
        let said = host.said("conformance").await;
        let refused = "system:serviceaccount:pilothouse:pilothouse\\\" cannot";
        let refused = [refused, &refused.replace('\\', "")];
        said.iter().any(|line| refused.iter().any(|part| line.contains(part))).then_some(())
    })
    .await;
    cluster.apply_roles(&["conformance"]);
    host.wait("the second record", || recorded("second")).await;
}
