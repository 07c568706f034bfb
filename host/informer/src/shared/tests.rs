use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_model::{FieldSelector, LabelSelector, Notification, ObjectKey};
use tokio::time::advance;

use super::*;
use crate::failure::Failure;
use crate::key::InformerKey;
use crate::list_watch::ListWatch;
use crate::options::InformerOptions;
use crate::scripted::{Pod, Server, pod, pods_key, scripted};
use crate::store::{IndexError, IndexFn};

/// A registry whose informers each talk to a server of the test.
struct Cluster {
    registry: InformerRegistry,
    servers: Arc<Mutex<Vec<Option<Server>>>>,
}

impl Cluster {
    fn new() -> Self {
        let servers = Arc::new(Mutex::new(Vec::new()));
        let factory = {
            let servers = Arc::clone(&servers);
            move |_: &InformerKey| -> Arc<dyn ListWatch> {
                let (server, list_watch) = scripted();
                servers.lock().push(Some(server));
                list_watch
            }
        };
        let options = InformerOptions { streaming_list: false, seed: Some(1), ..InformerOptions::default() };
        Self { registry: InformerRegistry::new(factory, options), servers }
    }

    fn subscribe(&self, key: InformerKey) -> Subscription {
        self.registry.subscribe(key, SubscribeOptions::default()).expect("the registry is open")
    }

    /// How many informers were ever started.
    fn started(&self) -> usize {
        self.servers.lock().len()
    }

    fn server(&self, position: usize) -> Server {
        self.servers.lock()[position].take().expect("the server is taken once")
    }
}

/// A notification in one word: `+a@1` added, `*` before it when initial, `a@1>2` updated, `-a@2` deleted, `-a@2?` with an
/// unknown final state.
fn word(notification: &Notification) -> String {
    match notification {
        Notification::Added { object, initial } => {
            format!("{}+{}@{}", if *initial { "*" } else { "" }, object.name(), object.resource_version())
        }
        Notification::Updated { old, new } => {
            format!("{}@{}>{}", new.name(), old.resource_version(), new.resource_version())
        }
        Notification::Deleted { last, final_state_unknown } => {
            format!(
                "-{}@{}{}",
                last.name(),
                last.resource_version(),
                if *final_state_unknown { "?" } else { "" }
            )
        }
    }
}

async fn words(subscription: &Subscription, count: usize) -> Vec<String> {
    let mut words = Vec::new();
    while words.len() < count {
        words.extend(subscription.next_batch().await.expect("an open subscription").iter().map(word));
    }
    words
}

/// Lets all tasks run until they wait.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

async fn nothing_more(subscription: &Subscription) -> bool {
    settle().await;
    tokio::time::timeout(Duration::from_millis(1), subscription.next_batch()).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn b30_equal_requests_share_one_reflector_and_the_last_one_leaving_stops_it() {
    let cluster = Cluster::new();
    let first = cluster.subscribe(pods_key());
    let second = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 3)]).await;
    assert_eq!(words(&first, 1).await, ["*+a@3"]);
    assert_eq!(words(&second, 1).await, ["*+a@3"]);
    assert_eq!(cluster.started(), 1);

    drop(first);
    settle().await;
    assert!(!body.is_dropped(), "one subscriber is left");
    body.modified(&pod("a", 6));
    assert_eq!(words(&second, 1).await, ["a@3>6"]);
    drop(second);
    body.dropped().await;
    assert!(cluster.registry.informers().is_empty());

    let _again = cluster.subscribe(pods_key());
    assert_eq!(cluster.started(), 2);
}

#[tokio::test(start_paused = true)]
async fn b30_a_narrower_request_is_served_from_a_wider_informer() {
    let cluster = Cluster::new();
    let wide = cluster.subscribe(pods_key());
    let labelled = cluster.subscribe(pods_key().with_labels(LabelSelector::parse("app=db").expect("labels")));
    let spaced = cluster.subscribe(pods_key().in_namespace("other"));
    let named =
        cluster.subscribe(pods_key().with_fields(FieldSelector::parse("metadata.name=b").expect("fields")));
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1), pod("b", 2).app("db"), pod("c", 3).namespace("other")]).await;
    assert_eq!(words(&wide, 3).await, ["*+a@1", "*+b@2", "*+c@3"]);
    assert_eq!(words(&labelled, 1).await, ["*+b@2"]);
    assert_eq!(words(&spaced, 1).await, ["*+c@3"]);
    assert_eq!(words(&named, 1).await, ["*+b@2"]);
    assert!(labelled.has_synced() && spaced.has_synced() && named.has_synced());
    assert_eq!(cluster.started(), 1, "one reflector serves all four");

    body.modified(&pod("b", 6));
    body.modified(&pod("a", 7).app("db"));
    body.modified(&pod("a", 8).app("db"));
    body.deleted(&pod("a", 9).app("db"));
    assert_eq!(words(&labelled, 4).await, ["-b@2", "+a@7", "a@7>8", "-a@9"]);
    assert_eq!(words(&named, 1).await, ["b@2>6"]);
    assert!(nothing_more(&spaced).await && nothing_more(&named).await);

    let store = labelled.store();
    assert!(store.is_empty() && store.get(&ObjectKey::new("ns", "b")).is_none());
    assert_eq!((spaced.store().len(), spaced.store().list().len()), (1, 1));
    assert!(spaced.store().list_in("ns").is_empty());
    assert_eq!(wide.store().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn b30_what_only_the_server_can_judge_has_its_own_informer() {
    let cluster = Cluster::new();
    let _wide = cluster.subscribe(pods_key());
    let _phase = cluster
        .subscribe(pods_key().with_fields(FieldSelector::parse("status.phase=Running").expect("fields")));
    let _raw = cluster.subscribe(pods_key().with_transform(pilothouse_model::Transform::default()));
    assert_eq!(cluster.started(), 3);
}

#[tokio::test(start_paused = true)]
async fn b30_when_the_wider_watch_is_forbidden_the_narrower_is_watched() {
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
    assert_eq!(words(&narrow, 1).await, ["*+a@1"]);
    body.modified(&pod("a", 6));
    assert_eq!(words(&narrow, 1).await, ["a@1>6"]);
    assert_eq!(narrow.store().index_keys("app", "web").expect("the index came along").len(), 1);
    let error = wide.status().error.expect("the wide one says what it waits for").to_string();
    assert!(
        error.contains("GET /api/v1/pods") && error.contains("grant the verbs list and watch"),
        "{error}"
    );
    assert!(narrow.status().error.is_none());

    // A later narrow request does not go to the informer that is known to be forbidden.
    let later = cluster.subscribe(pods_key().in_namespace("ns"));
    assert_eq!(words(&later, 1).await, ["*+a@6"]);
    assert_eq!(cluster.started(), 2);
}

#[tokio::test(start_paused = true)]
async fn b30_a_right_that_is_lost_later_moves_the_narrowed_with_what_they_know() {
    let cluster = Cluster::new();
    let wide = cluster.subscribe(pods_key());
    let narrow = cluster.subscribe(pods_key().in_namespace("ns"));
    let mut server = cluster.server(0);
    let body = server
        .serve("5", &[pod("gone", 1), pod("same", 2), pod("changed", 3), pod("x", 4).namespace("o")])
        .await;
    assert_eq!(words(&narrow, 3).await, ["*+gone@1", "*+same@2", "*+changed@3"]);
    body.error(410, "Expired");
    server.list().await.1.status(403, "Forbidden");
    settle().await;
    assert_eq!(narrow.store().len(), 3, "the old cache stands in until the new one is synced");
    let mut own = cluster.server(1);
    let _body = own.serve("9", &[pod("same", 2), pod("changed", 7), pod("new", 8)]).await;
    assert_eq!(words(&narrow, 4).await, ["-gone@1?", "same@2>2", "changed@3>7", "+new@8"]);
    assert_eq!(narrow.store().len(), 3);
    assert_eq!(wide.store().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn b31_the_cache_is_at_least_as_fresh_as_any_notification() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("1", &[]).await;
    let store = subscription.store();
    for version in 2..200_u64 {
        body.event(if version == 2 { "ADDED" } else { "MODIFIED" }, &pod("a", version));
        if version % 7 == 0 {
            for notification in subscription.next_batch().await.expect("open") {
                let told: u64 = notification.object().resource_version().parse().expect("a number");
                let cached = store.get(notification.key()).expect("cached");
                assert!(cached.resource_version().parse::<u64>().expect("a number") >= told);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn b14_a_replacement_swaps_the_store_then_tells_tombstones_first_and_items_in_order() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    subscription.add_index("app", IndexFn::label("app")).expect("new");
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("z", 1), pod("b", 2), pod("a", 3)]).await;
    assert_eq!(words(&subscription, 3).await, ["*+z@1", "*+b@2", "*+a@3"], "list order, not key order");
    // One more object is known to the queue alone when the list arrives.
    body.raw(
        &[
            format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", pod("q", 6).json()),
            "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n".to_owned(),
        ]
        .concat(),
    );
    server.list().await.1.items("9", &[pod("z", 8).app("db"), pod("n", 7)]);
    settle().await;
    let store = subscription.store();
    assert_eq!(store.index_values("app").expect("known"), ["db", "web"]);
    assert_eq!(store.list_keys(), [ObjectKey::new("ns", "n"), ObjectKey::new("ns", "z")]);
    assert_eq!(words(&subscription, 6).await, ["+q@6", "-a@3?", "-b@2?", "-q@6?", "z@1>8", "+n@7"]);
}

#[tokio::test(start_paused = true)]
async fn b32_notifications_of_a_relist_follow_uid_and_version() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body =
        server.serve("5", &[pod("same", 1), pod("changed", 2), pod("remade", 3), pod("gone", 4)]).await;
    words(&subscription, 4).await;
    body.error(410, "Expired");
    let pods = [pod("same", 1), pod("changed", 7), pod("remade", 8).uid("other"), pod("new", 9)];
    let body = server.serve("9", &pods).await;
    assert_eq!(
        words(&subscription, 6).await,
        ["-gone@4?", "same@1>1", "changed@2>7", "-remade@3?", "+remade@8", "+new@9"]
    );
    body.deleted(&pod("same", 10));
    body.added(&pod("same", 11).uid("second"));
    assert_eq!(words(&subscription, 2).await, ["-same@10", "+same@11"]);
}

#[tokio::test(start_paused = true)]
async fn b32_the_end_of_an_earlier_object_of_that_name_is_not_told_twice() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1).uid("first")]).await;
    body.deleted(&pod("a", 6).uid("first"));
    body.added(&pod("a", 7).uid("second"));
    body.deleted(&pod("a", 6).uid("first"));
    body.modified(&pod("a", 8).uid("second"));
    body.modified(&pod("a", 7).uid("second"));
    assert_eq!(words(&subscription, 4).await, ["*+a@1", "-a@6", "+a@7", "a@7>8"]);
    assert!(nothing_more(&subscription).await, "repeated events are passed over");
}

#[tokio::test(start_paused = true)]
async fn b33_a_stuck_subscriber_costs_the_others_nothing_and_its_backlog_is_bounded() {
    let cluster = Cluster::new();
    let options = SubscribeOptions { backlog: 10, ..SubscribeOptions::default() };
    let stuck = cluster.registry.subscribe(pods_key(), options).expect("open");
    let lively = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let initial: Vec<Pod> = (0..20).map(|i| pod(&format!("p{i}"), 1)).collect();
    let body = server.serve("1", &initial).await;
    assert_eq!(words(&lively, 20).await.len(), 20);
    let mut version = 1;
    for _ in 0..50 {
        for i in 0..20 {
            version += 1;
            body.modified(&pod(&format!("p{i}"), version));
        }
        assert_eq!(words(&lively, 20).await.len(), 20, "who keeps up gets every event");
    }
    let backlog = |position: usize| cluster.registry.informers()[0].subscribers[position].backlog;
    assert_eq!((backlog(0), backlog(1)), (20, 0));
    let caught_up = words(&stuck, 20).await;
    assert_eq!((caught_up[0].as_str(), caught_up[19].as_str()), ("*+p0@982", "*+p19@1001"));
    assert!(nothing_more(&stuck).await);
}

#[tokio::test(start_paused = true)]
async fn b33_who_keeps_up_gets_every_event_of_one_chunk() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("1", &[]).await;
    let line =
        |kind: &str, version| format!("{{\"type\":\"{kind}\",\"object\":{}}}\n", pod("a", version).json());
    body.raw(&[line("ADDED", 2), line("MODIFIED", 3), line("DELETED", 4), line("ADDED", 5)].concat());
    assert_eq!(words(&subscription, 4).await, ["+a@2", "a@2>3", "-a@4", "+a@5"]);
}

#[tokio::test(start_paused = true)]
async fn b34_a_late_subscriber_first_gets_what_is_cached_then_what_comes() {
    let cluster = Cluster::new();
    let early = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1), pod("b", 2)]).await;
    body.modified(&pod("b", 6));
    words(&early, 3).await;
    let late = cluster.subscribe(pods_key());
    assert!(!late.has_synced());
    body.modified(&pod("a", 7));
    assert_eq!(words(&late, 3).await, ["*+a@1", "*+b@6", "a@1>7"]);
    assert!(late.has_synced());
    assert!(nothing_more(&late).await);
}

#[tokio::test(start_paused = true)]
async fn b34_after_the_stop_nobody_can_subscribe() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    cluster.registry.stop().await;
    cluster.registry.stop().await;
    let refused = cluster.registry.subscribe(pods_key(), SubscribeOptions::default());
    assert_eq!(refused.err(), Some(SubscribeError::Stopped));
    assert!(subscription.next_batch().await.is_none());
    assert!(!subscription.synced().await);
    drop(subscription);
}

#[tokio::test(start_paused = true)]
async fn b08_a_stop_is_prompt_and_nothing_is_delivered_afterwards() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1)]).await;
    settle().await;
    body.modified(&pod("a", 6));
    cluster.registry.stop().await;
    assert!(body.is_dropped());
    body.modified(&pod("a", 7));
    assert!(subscription.next_batch().await.is_none(), "not even what waited");
}

#[tokio::test(start_paused = true)]
async fn b35_only_those_who_are_due_get_a_resync() {
    let cluster = Cluster::new();
    let with_resync = |seconds: u64| {
        let options =
            SubscribeOptions { resync: Some(Duration::from_secs(seconds)), ..SubscribeOptions::default() };
        cluster.registry.subscribe(pods_key(), options).expect("open")
    };
    let (ten, thirty, never) = (with_resync(10), with_resync(30), cluster.subscribe(pods_key()));
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1)]).await;
    for subscription in [&ten, &thirty, &never] {
        assert_eq!(words(subscription, 1).await, ["*+a@1"]);
    }
    for _ in 0..2 {
        advance(Duration::from_secs(10)).await;
        assert_eq!(words(&ten, 1).await, ["a@1>1"]);
        settle().await;
        assert!(cluster.registry.informers()[0].subscribers[1].backlog == 0);
    }
    advance(Duration::from_secs(10)).await;
    assert_eq!(words(&ten, 1).await, ["a@1>1"]);
    assert_eq!(words(&thirty, 1).await, ["a@1>1"]);
    body.modified(&pod("a", 6));
    assert_eq!(words(&never, 1).await, ["a@1>6"], "no resync before it");
}

#[tokio::test(start_paused = true)]
async fn b35_periods_below_a_second_are_raised() {
    let cluster = Cluster::new();
    let options = SubscribeOptions { resync: Some(Duration::from_millis(1)), ..SubscribeOptions::default() };
    let subscription = cluster.registry.subscribe(pods_key(), options).expect("open");
    let mut server = cluster.server(0);
    let _body = server.serve("5", &[pod("a", 1)]).await;
    words(&subscription, 1).await;
    advance(Duration::from_millis(900)).await;
    settle().await;
    assert_eq!(cluster.registry.informers()[0].subscribers[0].backlog, 0);
    advance(Duration::from_millis(200)).await;
    assert_eq!(words(&subscription, 1).await, ["a@1>1"]);
}

#[tokio::test(start_paused = true)]
async fn b36_synced_means_that_this_subscriber_was_given_the_initial_list() {
    let cluster = Cluster::new();
    let options = SubscribeOptions { batch: 2, ..SubscribeOptions::default() };
    let subscription = cluster.registry.subscribe(pods_key(), options).expect("open");
    let mut server = cluster.server(0);
    let body = server.serve("5", &[pod("a", 1), pod("b", 2), pod("c", 3)]).await;
    settle().await;
    assert!(subscription.status().synced && !subscription.has_synced());
    subscription.next_batch().await;
    assert!(!subscription.has_synced());
    body.modified(&pod("c", 6));
    settle().await;
    assert_eq!(
        subscription.next_batch().await.expect("open").len(),
        2,
        "the last initial one and a live one"
    );
    assert!(subscription.has_synced() && subscription.synced().await);
}

#[tokio::test(start_paused = true)]
async fn b17_an_empty_first_list_is_synced_at_once() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    settle().await;
    assert!(!subscription.has_synced());
    let _body = server.serve("5", &[]).await;
    assert!(subscription.synced().await);
}

#[tokio::test(start_paused = true)]
async fn b37_the_first_reconcile_waits_for_all_caches() {
    let cluster = Cluster::new();
    let first = cluster.subscribe(pods_key().in_namespace("one"));
    let second = cluster.subscribe(pods_key().in_namespace("two"));
    let mut waiting = tokio_test::task::spawn(wait_for_cache_sync([&first, &second]));
    assert!(waiting.poll().is_pending());
    let _one = cluster.server(0).serve("5", &[]).await;
    settle().await;
    assert!(waiting.poll().is_pending());
    let _two = cluster.server(1).serve("5", &[pod("a", 1).namespace("two")]).await;
    settle().await;
    assert!(waiting.poll().is_pending(), "the initial list was not taken yet");
    second.next_batch().await;
    assert!(waiting.is_woken());
    assert_eq!(waiting.poll(), std::task::Poll::Ready(true));
}

#[tokio::test(start_paused = true)]
async fn indexes_belong_to_their_subscriber() {
    let cluster = Cluster::new();
    let first = cluster.subscribe(pods_key());
    let second = cluster.subscribe(pods_key());
    first.add_index("by", IndexFn::label("app")).expect("new");
    second.add_index("by", IndexFn::field(".spec.nodeName").expect("a path")).expect("new for this one");
    assert_eq!(first.add_index("by", IndexFn::namespace()), Err(IndexError::Exists { name: "by".into() }));
    let _body = cluster.server(0).serve("5", &[pod("a", 1)]).await;
    words(&first, 1).await;
    assert_eq!(first.store().index_values("by").expect("known"), ["web"]);
    assert_eq!(second.store().index_values("by").expect("known"), ["n-web"]);
    let unknown = second.store().by_index("app", "web").expect_err("unknown");
    assert_eq!(unknown.to_string(), "there is no index \"app\"; there are: by");
}

#[tokio::test(start_paused = true)]
async fn next_batch_loses_nothing_when_it_is_cancelled() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut server = cluster.server(0);
    let body = server.serve("1", &[]).await;
    let mut seen = BTreeMap::new();
    for version in 2..100_u64 {
        // Polled once and dropped: whether an event is there at that moment or not, none may get lost.
        let mut cancelled = tokio_test::task::spawn(subscription.next_batch());
        if let std::task::Poll::Ready(batch) = cancelled.poll() {
            batch.expect("open").iter().for_each(|n| drop(seen.insert(n.key().to_string(), word(n))));
        }
        drop(cancelled);
        body.added(&pod(&format!("p{version}"), version));
        if version % 3 == 0 {
            settle().await;
        }
    }
    while seen.len() < 98 {
        subscription
            .next_batch()
            .await
            .expect("open")
            .iter()
            .for_each(|n| drop(seen.insert(n.key().to_string(), word(n))));
    }
    assert!(nothing_more(&subscription).await);
}

#[tokio::test(start_paused = true)]
async fn the_status_says_what_a_subscriber_waits_for() {
    let cluster = Cluster::new();
    let subscription = cluster.subscribe(pods_key());
    let mut changes = subscription.status_changes();
    let mut server = cluster.server(0);
    server.list().await.1.fail(Failure::response(404, None, b"404 page not found"));
    let failed = changes.wait_for(|status| status.error.is_some()).await.expect("running").to_string();
    assert!(failed.contains("cannot list pods.v1 (GET /api/v1/pods): HTTP 404"), "{failed}");
    assert!(failed.contains("install the CRD"), "{failed}");
    let _body = server.serve("5", &[]).await;
    let well =
        changes.wait_for(|status| status.synced && status.error.is_none()).await.expect("running").clone();
    assert_eq!((well.list_requests, well.failures), (2, 1));
    let dump = serde_json::to_value(cluster.registry.informers()).expect("JSON");
    assert_eq!(dump[0]["path"], "/api/v1/pods");
}

#[test]
fn without_a_runtime_a_subscription_is_refused() {
    let cluster = Cluster::new();
    let refused = cluster.registry.subscribe(pods_key(), SubscribeOptions::default());
    assert_eq!(refused.err(), Some(SubscribeError::NoRuntime));
}

/// Panics at one object and collects the others.
#[derive(Default)]
struct Panicky {
    handled: Arc<Mutex<Vec<String>>>,
    parked: Arc<Mutex<Vec<String>>>,
}

#[async_trait::async_trait]
impl crate::handler::Handler for Panicky {
    async fn handle(&mut self, batch: &[Notification]) -> Result<(), crate::handler::HandlerFailed> {
        assert!(batch.iter().all(|notification| notification.object().resource_version() != "13"), "unlucky");
        self.handled.lock().extend(batch.iter().map(word));
        Ok(())
    }

    async fn parked(&mut self, notification: &Notification) {
        self.parked.lock().push(word(notification));
    }
}

#[tokio::test(start_paused = true)]
async fn b38_a_handler_that_panics_is_isolated_and_gets_the_rest_of_its_batch() {
    let cluster = Cluster::new();
    let other = cluster.subscribe(pods_key());
    let subscription = cluster.subscribe(pods_key());
    let mut handler = Panicky::default();
    let (handled, parked) = (Arc::clone(&handler.handled), Arc::clone(&handler.parked));
    let running = tokio::spawn(async move { crate::handler::run_handler(&subscription, &mut handler).await });
    let mut server = cluster.server(0);
    let body = server.serve("20", &[pod("a", 12), pod("b", 13), pod("c", 14)]).await;
    assert_eq!(words(&other, 3).await.len(), 3, "others go on");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*handled.lock(), ["*+a@12", "*+c@14"]);
    assert_eq!(*parked.lock(), ["*+b@13"]);
    body.modified(&pod("b", 21));
    words(&other, 1).await;
    settle().await;
    assert_eq!(handled.lock().last().map(String::as_str), Some("b@13>21"), "a change frees it");
    cluster.registry.stop().await;
    running.await.expect("it ends with the informer");
}
