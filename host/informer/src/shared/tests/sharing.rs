//! Sharing: which requests share an informer, fallback from a forbidden watch, and the indexes of each subscriber.

use pilothouse_model::Delta;

use super::*;

#[tokio::test(start_paused = true)]
async fn equal_requests_share_one_reflector_which_the_last_subscriber_stops() {
    let cluster = Cluster::new();
    let first = cluster.subscribe(pods_key());
    let second = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 3)]).await;
    assert_eq!(summaries(&first, 1).await, ["*+a@3"]);
    assert_eq!(summaries(&second, 1).await, ["*+a@3"]);
    assert_eq!(cluster.started(), 1);

    drop(first);
    settle().await;
    assert!(!body.is_dropped(), "one subscriber is left");
    body.modified(&pod("a", 6));
    assert_eq!(summaries(&second, 1).await, ["a@3>6"]);
    drop(second);
    body.dropped().await;
    assert!(cluster.registry.informers().is_empty());

    let _again = cluster.subscribe(pods_key());
    assert_eq!(cluster.started(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_narrower_request_is_served_from_a_wider_informer() {
    let cluster = Cluster::new();
    let wide = cluster.subscribe(pods_key());
    let labelled = cluster.subscribe(pods_key().with_labels(LabelSelector::parse("app=db").expect("labels")));
    let spaced = cluster.subscribe(pods_key().in_namespace("other"));
    let named =
        cluster.subscribe(pods_key().with_fields(FieldSelector::parse("metadata.name=b").expect("fields")));
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1), pod("b", 2).app("db"), pod("c", 3).namespace("other")]).await;
    assert_eq!(summaries(&wide, 3).await, ["*+a@1", "*+b@2", "*+c@3"]);
    assert_eq!(summaries(&labelled, 1).await, ["*+b@2"]);
    assert_eq!(summaries(&spaced, 1).await, ["*+c@3"]);
    assert_eq!(summaries(&named, 1).await, ["*+b@2"]);
    assert!(labelled.has_synced() && spaced.has_synced() && named.has_synced());
    assert_eq!(cluster.started(), 1, "one reflector serves all four");

    body.modified(&pod("b", 6));
    body.modified(&pod("a", 7).app("db"));
    body.modified(&pod("a", 8).app("db"));
    body.deleted(&pod("a", 9).app("db"));
    assert_eq!(summaries(&labelled, 4).await, ["-b@2", "+a@7", "a@7>8", "-a@9"]);
    assert_eq!(summaries(&named, 1).await, ["b@2>6"]);
    assert!(nothing_more(&spaced).await && nothing_more(&named).await);

    let store = labelled.store();
    assert!(store.is_empty() && store.get(&ObjectKey::new("ns", "b")).is_none());
    assert_eq!((spaced.store().len(), spaced.store().list().len()), (1, 1));
    assert!(spaced.store().list_in("ns").is_empty() && !spaced.store().is_empty());
    assert_eq!((spaced.store().list_in("other").len(), wide.store().list_in("other").len()), (1, 1));
    assert_eq!(wide.store().list_keys_in("other"), [ObjectKey::new("other", "c")]);
    assert_eq!(wide.store().list_keys_in("othe"), []);
    assert_eq!((spaced.store().list_keys_in("other").len(), spaced.store().list_keys_in("ns").len()), (1, 0));
    assert_eq!(spaced.store().resource_version(), "9");
    assert_eq!(wide.store().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_selector_only_the_server_can_evaluate_gets_its_own_informer() {
    let cluster = Cluster::new();
    let _wide = cluster.subscribe(pods_key());
    let _phase = cluster
        .subscribe(pods_key().with_fields(FieldSelector::parse("status.phase=Running").expect("fields")));
    let _raw = cluster.subscribe(pods_key().with_transform(pilothouse_model::Transform::default()));
    assert_eq!(cluster.started(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_wider_watch_falls_back_to_the_narrower_one() {
    let cluster = Cluster::new();
    let wide = cluster.subscribe(pods_key());
    let narrow = cluster.subscribe(pods_key().in_namespace("ns"));
    narrow.add_index("app", IndexFn::label("app")).expect("a new index");
    let mut server = cluster.server(0);
    server.list().await.1.status(403, "Forbidden");
    settle().await;
    assert_eq!(cluster.started(), 2);
    let mut own = cluster.server(1);
    let body = own.serve("5", &[pod("a", 1)]).await;
    assert_eq!(summaries(&narrow, 1).await, ["*+a@1"]);
    body.modified(&pod("a", 6));
    assert_eq!(summaries(&narrow, 1).await, ["a@1>6"]);
    assert_eq!(narrow.store().index_keys("app", "web").expect("the index moved along").len(), 1);
    let error = wide.status().error.expect("the wide informer reports its failure").to_string();
    assert!(
        error.contains("GET /api/v1/pods") && error.contains("grant the verbs list and watch"),
        "{error}"
    );
    assert!(narrow.status().error.is_none());

    // A later narrow request is not served from the informer whose watch is forbidden.
    let later = cluster.subscribe(pods_key().in_namespace("ns"));
    assert_eq!(summaries(&later, 1).await, ["*+a@6"]);
    assert_eq!(cluster.started(), 2);
}

#[tokio::test(start_paused = true)]
async fn subscribers_moved_from_a_forbidden_watch_share_the_narrower_one() {
    let cluster = Cluster::new();
    let _wide = cluster.subscribe(pods_key());
    let narrow = [(); 2].map(|()| cluster.subscribe(pods_key().in_namespace("ns")));
    let mut server = cluster.server(0);
    server.list().await.1.status(403, "Forbidden");
    settle().await;
    assert_eq!(cluster.started(), 2);
    let _body = cluster.server(1).serve("5", &[pod("a", 1)]).await;
    for subscription in &narrow {
        assert_eq!(summaries(subscription, 1).await, ["*+a@1"]);
    }
    let _other = cluster.subscribe(pods_key().in_namespace("other"));
    assert_eq!(cluster.started(), 3, "the wide watch is forbidden");
}

#[tokio::test(start_paused = true)]
async fn a_wider_watch_that_fails_for_another_reason_is_still_shared() {
    let cluster = Cluster::new();
    let _wide = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    server.list().await.1.status(500, "InternalError");
    settle().await;
    let narrow = cluster.subscribe(pods_key().in_namespace("ns"));
    let _body = server.serve("5", &[pod("a", 1)]).await;
    assert_eq!(summaries(&narrow, 1).await, ["*+a@1"]);
    assert_eq!(cluster.started(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_permission_revoked_later_moves_restricted_subscribers_with_their_known_objects() {
    let cluster = Cluster::new();
    let wide = cluster.subscribe(pods_key());
    let narrow = cluster.subscribe(pods_key().in_namespace("ns"));
    narrow.add_index("app", IndexFn::label("app")).expect("new");
    let view = narrow.subscriber.source.load_full();
    let old_indexes = || view.store.index_names(view.id).len();
    assert_eq!(old_indexes(), 1);
    let mut server = cluster.server(0);
    let body = server
        .serve("5", &[pod("gone", 1), pod("same", 2), pod("changed", 3), pod("x", 4).namespace("o")])
        .await;
    assert_eq!(summaries(&narrow, 3).await, ["*+gone@1", "*+same@2", "*+changed@3"]);
    body.error(410, "Expired");
    server.list().await.1.status(403, "Forbidden");
    settle().await;
    assert_eq!(narrow.store().len(), 3, "the old cache is used until the new one has synced");
    let mut own = cluster.server(1);
    let _body = own.serve("9", &[pod("same", 2), pod("changed", 7), pod("new", 8)]).await;
    assert_eq!(summaries(&narrow, 4).await, ["-gone@1?", "same@2>2", "changed@3>7", "+new@8"]);
    assert_eq!(narrow.store().len(), 3);
    assert_eq!(wide.store().len(), 4);
    assert_eq!(narrow.store().index_values("app").expect("moved along"), ["web"]);
    assert_eq!(old_indexes(), 0, "and was removed from the old cache");
}

#[tokio::test(start_paused = true)]
async fn indexes_belong_to_their_subscriber() {
    let cluster = Cluster::new();
    let first = cluster.subscribe(pods_key());
    let second = cluster.subscribe(pods_key());
    first.add_index("by", IndexFn::label("app")).expect("new");
    first.add_index("a second", IndexFn::namespace()).expect("new");
    second.add_index("by", IndexFn::field(".spec.nodeName").expect("a path")).expect("new for this one");
    assert_eq!(first.add_index("by", IndexFn::namespace()), Err(IndexError::Exists { name: "by".into() }));
    let _body = cluster.server(0).serve("5", &[pod("a", 1)]).await;
    summaries(&first, 1).await;
    assert_eq!(first.store().index_names(), ["a second", "by"]);
    assert_eq!(first.store().index_values("by").expect("known"), ["web"]);
    assert_eq!(first.store().index("by", &pod("x", 9).object()).expect("known").len(), 1);
    assert!(first.store().index("by", &pod("x", 9).app("db").object()).expect("known").is_empty());
    assert_eq!(second.store().index_values("by").expect("known"), ["n-web"]);
    let unknown = second.store().by_index("app", "web").expect_err("unknown");
    assert_eq!(unknown.to_string(), "there is no index \"app\"; there are: by");
}

#[tokio::test(start_paused = true)]
async fn an_acquired_index_is_dropped_with_its_last_handle() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let other = cluster.subscribe(pods_key());
    let _body = cluster.server(0).serve("5", &[pod("a", 1)]).await;
    summaries(&subscription, 1).await;
    let store = &subscription.subscriber.source.load_full().store;
    let by_app = || IndexFn::label("app");

    // A plugin version acquires two indexes; the next version acquires only one of them.
    let old = [
        subscription.acquire_index("app", by_app()).expect("new"),
        subscription.acquire_index("team", IndexFn::label("team")).expect("new"),
    ];
    let new = subscription.acquire_index("app", by_app()).expect("the same");
    assert_eq!(subscription.store().index_names(), ["app", "team"]);
    let changed = subscription.acquire_index("app", IndexFn::namespace()).expect_err("another function");
    assert_eq!(changed, IndexError::Exists { name: "app".into() });
    drop(old);
    assert_eq!((subscription.store().index_names(), store.index_count()), (vec!["app".to_owned()], 1));
    assert_eq!(subscription.store().index_values("app").expect("it goes on"), ["web"]);

    // Another subscriber's index with the same function shares the index, which outlives this subscriber's name for it.
    let others = other.acquire_index("by-app", by_app()).expect("new");
    drop(new);
    assert!(subscription.store().index_names().is_empty());
    assert_eq!(other.store().index_values("by-app").expect("it goes on"), ["web"]);
    drop(other);
    assert_eq!(store.index_count(), 0, "its subscriber is gone");
    drop(others);

    // An index without a handle stays when handles to it are dropped.
    subscription.add_index("app", by_app()).expect("new");
    drop(subscription.acquire_index("app", by_app()).expect("the same"));
    assert_eq!(subscription.store().index_names(), ["app"]);
}

#[tokio::test(start_paused = true)]
async fn an_acquired_index_moves_to_another_informer_and_is_dropped_there() {
    let cluster = Cluster::new();
    let _wide = cluster.subscribe(pods_key());
    let narrow = cluster.subscribe(pods_key().in_namespace("ns"));
    let handle = narrow.acquire_index("app", IndexFn::label("app")).expect("new");
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1)]).await;
    summaries(&narrow, 1).await;
    body.error(410, "Expired");
    server.list().await.1.status(403, "Forbidden");
    settle().await;
    let _body = cluster.server(1).serve("9", &[pod("a", 2)]).await;
    assert_eq!(summaries(&narrow, 1).await, ["a@1>2"]);
    assert_eq!(narrow.store().index_values("app").expect("it moved along"), ["web"]);
    drop(handle);
    assert!(narrow.store().index_names().is_empty());
    assert_eq!(narrow.subscriber.source.load().store.index_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_moved_to_another_informer_is_woken_for_pending_notifications() {
    let cluster = Cluster::new();
    let _wide = cluster.subscribe(pods_key());
    let narrow = Arc::new(cluster.subscribe(pods_key().in_namespace("ns")));
    let _body = cluster.server(0).serve("5", &[]).await;
    settle().await;
    let waiting = tokio::spawn({
        let narrow = Arc::clone(&narrow);
        async move { narrow.next_batch().await.expect("open").len() }
    });
    settle().await;
    // Applied as in `process`, before it wakes the subscribers.
    let informer = Arc::clone(&narrow.subscriber.informer.lock());
    informer.apply(Delta::Added(pod("a", 6).object()));
    settle().await;
    assert!(!waiting.is_finished());
    assert_eq!(informer.take_restricted().len(), 1);
    assert_eq!(with_timeout(waiting).await.expect("no panic"), 1);
}
