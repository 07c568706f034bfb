//! Conditions of subscriptions: which changes are delivered, and that the others wake nobody.

use super::*;
use crate::condition::{Condition, EventKind, FieldPath};

fn web() -> Condition {
    Condition::field_equals(FieldPath::label("app").expect("a short key"), "web")
}

#[tokio::test(start_paused = true)]
async fn a_refused_change_wakes_nobody_and_an_accepted_one_only_those_that_it_concerns() {
    let cluster = Cluster::new();
    let [plain, conditional] = [(); 2].map(|()| cluster.subscribe(pods_key()));
    conditional.set_condition(web());
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 3).app("db")]).await;
    assert_eq!(summaries(&plain, 1).await, ["*+a@3"]);
    assert_eq!(summaries(&conditional, 1).await, ["*+a@3"], "the initial list is delivered in any case");
    body.modified(&pod("a", 6).app("db"));
    assert_eq!(summaries(&plain, 1).await, ["a@3>6"]);
    assert!(nothing_more(&conditional).await);
    body.modified(&pod("a", 7));
    body.modified(&pod("a", 8).app("db"));
    assert_eq!(summaries(&plain, 2).await, ["a@6>7", "a@7>8"]);
    assert_eq!(summaries(&conditional, 1).await, ["a@6>7"]);
    conditional.set_condition(Condition::constant(true));
    body.deleted(&pod("a", 9).app("db"));
    assert_eq!(summaries(&conditional, 1).await, ["-a@9"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selector_is_a_deletion_for_the_condition() {
    let cluster = Cluster::new();
    let _wide = cluster.subscribe(pods_key());
    let narrow = cluster.subscribe(pods_key().with_labels(LabelSelector::parse("app=web").expect("labels")));
    narrow.set_condition(Condition::event(EventKind::Deleted));
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 3)]).await;
    assert_eq!(summaries(&narrow, 1).await, ["*+a@3"]);
    body.modified(&pod("a", 6));
    body.modified(&pod("a", 7).app("db"));
    body.modified(&pod("a", 8));
    body.deleted(&pod("a", 9));
    assert_eq!(summaries(&narrow, 2).await, ["-a@6", "-a@9"]);
}

#[tokio::test(start_paused = true)]
async fn a_relist_delivers_only_the_differences_that_the_condition_accepts() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    subscription.set_condition(web());
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1), pod("b", 2).app("db"), pod("c", 3)]).await;
    assert_eq!(summaries(&subscription, 3).await, ["*+a@1", "*+b@2", "*+c@3"]);
    body.error(410, "Expired");
    let _body = server.serve("9", &[pod("b", 7).app("db"), pod("c", 8), pod("d", 9).app("db")]).await;
    assert_eq!(summaries(&subscription, 2).await, ["-a@1?", "c@3>8"]);
    assert!(nothing_more(&subscription).await);
}

#[tokio::test(start_paused = true)]
async fn resyncs_are_delivered_regardless_of_the_condition() {
    let cluster = Cluster::new();
    let options = SubscribeOptions::default().with_resync(Duration::from_secs(10));
    let subscription = cluster.registry.subscribe(pods_key(), options).expect("the registry is open");
    subscription.set_condition(Condition::constant(false));
    let mut server = cluster.server(0);
    let _body = server.serve("5", &[pod("a", 1)]).await;
    assert_eq!(summaries(&subscription, 2).await, ["*+a@1", "a@1>1"]);
}

#[tokio::test(start_paused = true)]
async fn a_condition_moves_with_its_subscriber_to_another_informer() {
    let cluster = Cluster::new();
    let _wide = cluster.subscribe(pods_key());
    let narrow = cluster.subscribe(pods_key().in_namespace("ns"));
    narrow.set_condition(web());
    let mut server = cluster.server(0);
    server.list().await.1.status(403, "Forbidden");
    settle().await;
    let mut own = cluster.server(1);
    let body = own.serve("5", &[pod("a", 1).app("db")]).await;
    assert_eq!(summaries(&narrow, 1).await, ["*+a@1"]);
    body.modified(&pod("a", 6).app("db"));
    body.modified(&pod("a", 7));
    assert_eq!(summaries(&narrow, 1).await, ["a@6>7"]);
    narrow.set_condition(Condition::constant(false));
    body.modified(&pod("a", 8));
    assert!(nothing_more(&narrow).await);
}
