//! A stuck subscriber while very many events pass: its backlog stays within its bound, the other subscribers get every event,
//! and when it continues, its notifications lead from the state that it knew to the present one.
//!
//! `cargo xtask soak` runs these tests at full size; otherwise they run with a tenth of the events.

mod replay;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use pilothouse_informer::{
    ByteStream, Failure, InformerKey, InformerOptions, InformerRegistry, ListParams, ListWatch,
    SubscribeOptions, WatchParams,
};
use pilothouse_model::{Object, ResourceType};
use replay::Replayer;
use tokio::sync::Notify;

const FULL: usize = 1_000_000;
/// How many objects the first list has.
const OBJECTS: usize = 1_000;
/// How many notifications the stuck subscriber takes before it gets stuck.
const TAKEN: usize = 300;
const BACKLOG: usize = 64;
const EVENTS_PER_CHUNK: usize = 40;
const EVENTS_PER_CHECK: usize = 10_000;

/// A sequence of events, starting with the objects of the first list.
#[derive(Clone, Copy, Debug)]
enum Scenario {
    /// Every object is updated in turn.
    Updates,
    /// One name is deleted and recreated again and again.
    OneName,
    /// Distinct names are created and deleted, each of them once.
    DistinctNames,
}

impl Scenario {
    /// Returns the events of one step.
    fn events(self, step: usize) -> Vec<(&'static str, String)> {
        let version = OBJECTS + 2 * step;
        match self {
            Self::Updates => {
                let number = step % OBJECTS;
                vec![("MODIFIED", pod(number, number, version))]
            }
            Self::OneName => {
                let uid = |life: usize| if life == 0 { 0 } else { OBJECTS + life };
                vec![("DELETED", pod(0, uid(step), version)), ("ADDED", pod(0, uid(step + 1), version + 1))]
            }
            Self::DistinctNames => {
                let number = OBJECTS + step;
                vec![("ADDED", pod(number, number, version)), ("DELETED", pod(number, number, version + 1))]
            }
        }
    }

    /// Returns the bound of the backlog: at most two notifications for each object that exists or that the subscriber knows.
    /// Only the names of the first list exist at the end of a step.
    fn bound() -> usize {
        BACKLOG.max(2 * OBJECTS)
    }
}

fn pod(number: usize, uid: usize, version: usize) -> String {
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p{number}","namespace":"ns","uid":"u{uid}","resourceVersion":"{version}"}},"spec":{{}}}}"#
    )
}

/// Serves one list, and one watch whose body is generated as it is read.
struct EventSource {
    scenario: Scenario,
    steps: usize,
    /// The first event is sent after this notification.
    begin: Arc<Notify>,
    events_sent: Arc<Mutex<usize>>,
}

#[async_trait]
impl ListWatch for EventSource {
    async fn list(&self, _: &ListParams) -> Result<ByteStream, Failure> {
        let items: Vec<_> = (0..OBJECTS).map(|number| pod(number, number, 1)).collect();
        let list = format!(r#"{{"metadata":{{"resourceVersion":"1"}},"items":[{}]}}"#, items.join(","));
        Ok(futures::stream::iter([Ok(Bytes::from(list))]).boxed())
    }

    async fn watch(&self, _: &WatchParams) -> Result<ByteStream, Failure> {
        let (scenario, steps, events_sent) = (self.scenario, self.steps, Arc::clone(&self.events_sent));
        let chunks = (0..steps).step_by(EVENTS_PER_CHUNK).map(move |first| {
            let events = (first..steps.min(first + EVENTS_PER_CHUNK)).flat_map(|step| scenario.events(step));
            let lines = events.map(|(kind, object)| {
                *events_sent.lock() += 1;
                format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
            });
            Ok(Bytes::from(lines.collect::<String>()))
        });
        let begin = Arc::clone(&self.begin);
        let beginning = futures::stream::once(async move {
            begin.notified().await;
            Ok(Bytes::new())
        });
        Ok(beginning.chain(futures::stream::iter(chunks)).chain(futures::stream::pending()).boxed())
    }
}

async fn run_scenario(scenario: Scenario, steps: usize) {
    let (begin, events_sent) = (Arc::new(Notify::new()), Arc::new(Mutex::new(0)));
    let factory = {
        let (begin, events_sent) = (Arc::clone(&begin), Arc::clone(&events_sent));
        move |_: &InformerKey| -> Arc<dyn ListWatch> {
            Arc::new(EventSource {
                scenario,
                steps,
                begin: Arc::clone(&begin),
                events_sent: Arc::clone(&events_sent),
            })
        }
    };
    // No idle timeout during the test.
    let idle_timeout = Duration::from_secs(1_000_000);
    let options =
        InformerOptions::default().with_streaming_list(false).with_seed(1).with_idle_timeout(idle_timeout);
    let registry = InformerRegistry::new(factory, options);
    let pods = InformerKey::new(ResourceType {
        group: String::new(),
        version: "v1".into(),
        kind: "Pod".into(),
        plural: "pods".into(),
        namespaced: true,
    });
    let subscribe = |options| Replayer::new(registry.subscribe(pods.clone(), options).expect("open"));
    let mut stuck = subscribe(SubscribeOptions::default().with_backlog(BACKLOG).with_batch(TAKEN));
    // Room for the first list and the events of the same turn, which it cannot have taken yet.
    let mut lively = subscribe(SubscribeOptions::default().with_backlog(2 * OBJECTS));

    // It takes some of the objects, then gets stuck.
    let first = stuck.subscription.next_batch().await.expect("the informer runs");
    assert_eq!(first.len(), TAKEN);
    first.into_iter().for_each(|notification| stuck.replay(notification));
    begin.notify_one();

    let events = scenario.events(0).len() * steps;
    let (mut delivered, mut next_check, mut deepest) = (0, EVENTS_PER_CHECK, 0);
    while delivered < OBJECTS + events {
        let batch = tokio::time::timeout(Duration::from_secs(60), lively.subscription.next_batch()).await;
        let batch =
            batch.unwrap_or_else(|_| panic!("{delivered} of {events} events: {:?}", registry.informers()));
        let batch = batch.expect("the informer runs");
        delivered += batch.len();
        batch.into_iter().for_each(|notification| lively.replay(notification));
        if delivered >= next_check {
            next_check += EVENTS_PER_CHECK;
            let backlog = registry.informers()[0].subscribers[0].backlog;
            assert!(backlog <= Scenario::bound(), "{backlog} pending after {delivered} events");
            deepest = deepest.max(backlog);
        }
    }
    assert!(deepest >= OBJECTS - TAKEN, "the subscriber was stuck: {deepest}");
    assert_eq!(
        (delivered, *events_sent.lock()),
        (OBJECTS + events, events),
        "the other subscriber gets each event"
    );
    assert!(lively.take_one_batch().is_none(), "and nothing else");

    let pending = registry.informers()[0].subscribers[0].backlog;
    let mut caught_up = 0;
    while let Some(count) = stuck.take_one_batch() {
        caught_up += count;
    }
    assert_eq!(caught_up, pending, "it gets its backlog when it continues");
    let cached: Vec<Object> = stuck.subscription.store().list();
    assert_eq!(
        stuck.view.into_values().collect::<Vec<_>>(),
        cached,
        "its notifications lead to the present state"
    );
    assert_eq!(lively.view.into_values().collect::<Vec<_>>(), cached);
    println!("{scenario:?}: {events} events, at most {deepest} pending, {caught_up} at the end");
    registry.stop().await;
}

/// Runs in a task, as subscribers do: the future that a runtime blocks on is polled only once for many polls of a task.
async fn run(scenario: Scenario, steps: usize) {
    tokio::spawn(run_scenario(scenario, steps)).await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn a_stuck_subscriber_is_bounded_while_objects_are_updated() {
    run(Scenario::Updates, FULL / 10).await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_subscriber_is_bounded_while_one_name_is_recreated() {
    run(Scenario::OneName, FULL / 10).await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_subscriber_is_bounded_while_names_come_and_go() {
    run(Scenario::DistinctNames, FULL / 10).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a million of each: `cargo xtask soak` runs it in release mode"]
async fn a_stuck_subscriber_is_bounded_over_a_million_events_of_each_kind() {
    for scenario in [Scenario::Updates, Scenario::OneName, Scenario::DistinctNames] {
        run(scenario, FULL).await;
    }
}
