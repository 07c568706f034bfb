//! A subscriber that takes nothing while very many events pass: its backlog stays within its bound, the others are told of
//! every event, and when it wakes, what it is told leads from what it knew to what is (B19, B33).
//!
//! `cargo xtask soak` runs these at full size; otherwise they run at a tenth of it.

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
/// How many notifications the stuck subscriber took before it got stuck.
const TOLD: usize = 300;
const BACKLOG: usize = 64;
const EVENTS_PER_CHUNK: usize = 40;
const EVENTS_PER_CHECK: usize = 10_000;

/// What happens to the objects, beginning with those of the first list.
#[derive(Clone, Copy, Debug)]
enum Story {
    /// Each is updated in turn.
    Updates,
    /// One name is deleted and made anew, again and again.
    OneName,
    /// Names are made and deleted, each only once.
    DistinctNames,
}

impl Story {
    /// The events of one step.
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

    /// B19: at most two pending items for each object that is live or that the subscriber was told of. No name comes to
    /// those of the first list that is live at the end.
    fn bound() -> usize {
        BACKLOG.max(2 * OBJECTS)
    }
}

fn pod(number: usize, uid: usize, version: usize) -> String {
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p{number}","namespace":"ns","uid":"u{uid}","resourceVersion":"{version}"}},"spec":{{}}}}"#
    )
}

/// One list, and one watch whose body is made as it is read.
struct Teller {
    story: Story,
    steps: usize,
    /// The first event waits for this.
    begin: Arc<Notify>,
    told: Arc<Mutex<usize>>,
}

#[async_trait]
impl ListWatch for Teller {
    async fn list(&self, _: &ListParams) -> Result<ByteStream, Failure> {
        let items: Vec<_> = (0..OBJECTS).map(|number| pod(number, number, 1)).collect();
        let list = format!(r#"{{"metadata":{{"resourceVersion":"1"}},"items":[{}]}}"#, items.join(","));
        Ok(futures::stream::iter([Ok(Bytes::from(list))]).boxed())
    }

    async fn watch(&self, _: &WatchParams) -> Result<ByteStream, Failure> {
        let (story, steps, told) = (self.story, self.steps, Arc::clone(&self.told));
        let chunks = (0..steps).step_by(EVENTS_PER_CHUNK).map(move |first| {
            let events = (first..steps.min(first + EVENTS_PER_CHUNK)).flat_map(|step| story.events(step));
            let lines = events.map(|(kind, object)| {
                *told.lock() += 1;
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

async fn tell(story: Story, steps: usize) {
    let (begin, told) = (Arc::new(Notify::new()), Arc::new(Mutex::new(0)));
    let factory = {
        let (begin, told) = (Arc::clone(&begin), Arc::clone(&told));
        move |_: &InformerKey| -> Arc<dyn ListWatch> {
            Arc::new(Teller { story, steps, begin: Arc::clone(&begin), told: Arc::clone(&told) })
        }
    };
    // The test's only deadline is its end.
    let idle_timeout = Duration::from_secs(1_000_000);
    let options =
        InformerOptions { streaming_list: false, seed: Some(1), idle_timeout, ..InformerOptions::default() };
    let registry = InformerRegistry::new(factory, options);
    let pods = InformerKey::new(ResourceType {
        group: String::new(),
        version: "v1".into(),
        kind: "Pod".into(),
        plural: "pods".into(),
        namespaced: true,
    });
    let subscribe = |options| Replayer::new(registry.subscribe(pods.clone(), options).expect("open"));
    let mut stuck =
        subscribe(SubscribeOptions { backlog: BACKLOG, batch: TOLD, ..SubscribeOptions::default() });
    // The first list and what comes in the same turn: more than it can have taken yet.
    let mut lively = subscribe(SubscribeOptions { backlog: 2 * OBJECTS, ..SubscribeOptions::default() });

    // Told of some of the objects, then stuck.
    let first = stuck.subscription.next_batch().await.expect("the informer runs");
    assert_eq!(first.len(), TOLD);
    first.into_iter().for_each(|notification| stuck.replay(notification));
    begin.notify_one();

    let events = story.events(0).len() * steps;
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
            assert!(backlog <= Story::bound(), "{backlog} wait after {delivered} events");
            deepest = deepest.max(backlog);
        }
    }
    assert!(deepest >= OBJECTS - TOLD, "it was stuck: {deepest}");
    assert_eq!((delivered, *told.lock()), (OBJECTS + events, events), "the others are told of each event");
    assert!(lively.take_one_batch().is_none(), "and of nothing else");

    let waiting = registry.informers()[0].subscribers[0].backlog;
    let mut caught_up = 0;
    while let Some(count) = stuck.take_one_batch() {
        caught_up += count;
    }
    assert_eq!(caught_up, waiting, "what it is told when it wakes");
    let cached: Vec<Object> = stuck.subscription.store().list();
    assert_eq!(stuck.view.into_values().collect::<Vec<_>>(), cached, "leads to what is");
    assert_eq!(lively.view.into_values().collect::<Vec<_>>(), cached);
    println!("{story:?}: {events} events, at most {deepest} waited, {caught_up} when it woke");
    registry.stop().await;
}

/// In a task, as subscribers are: the future that a runtime blocks on gets its turn only once for many turns of a task.
async fn run(story: Story, steps: usize) {
    tokio::spawn(tell(story, steps)).await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn a_stuck_subscriber_is_bounded_while_objects_are_updated() {
    run(Story::Updates, FULL / 10).await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_subscriber_is_bounded_while_one_name_is_recreated() {
    run(Story::OneName, FULL / 10).await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_subscriber_is_bounded_while_names_come_and_go() {
    run(Story::DistinctNames, FULL / 10).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a million of each: `cargo xtask soak` runs it in release mode"]
async fn a_stuck_subscriber_is_bounded_over_a_million_events_of_each_kind() {
    for story in [Story::Updates, Story::OneName, Story::DistinctNames] {
        run(story, FULL).await;
    }
}
