//! Property tests of delta queue, store and distribution together: subscribers replay their notifications, and their views must
//! match a model of the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_model::{Deletion, Delta, LabelSelector, Notification, Object, ObjectKey, Replacement};
use proptest::prelude::*;

use super::informer::Informer;
use super::subscriber::Subscriber;
use crate::metrics::Counters;
use crate::options::{Compression, InformerOptions};
use crate::scripted_server::{pod, pods_key};

pub(super) const NAMES: u8 = 5;

#[derive(Clone, Debug)]
enum Op {
    /// Creates or changes an object; `app` decides which subscribers see it.
    Put {
        name: u8,
        app: u8,
    },
    Delete {
        name: u8,
    },
    /// Deletes and recreates an object, so that the name has another UID.
    Recreate {
        name: u8,
    },
    /// Repeats the last event.
    Repeat,
    /// Loses this many events, as a cut watch does; only a list can follow.
    Lose(u8),
    Relist,
    Resync,
    /// Applies this many deltas.
    Process(u8),
    Subscribe {
        app: u8,
        backlog: usize,
    },
    Unsubscribe(usize),
    Take {
        index: usize,
        count: usize,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..NAMES, 0..2_u8).prop_map(|(name, app)| Op::Put { name, app }),
        4 => (0..NAMES).prop_map(|name| Op::Delete { name }),
        2 => (0..NAMES).prop_map(|name| Op::Recreate { name }),
        1 => Just(Op::Repeat),
        1 => (1..5_u8).prop_map(Op::Lose),
        1 => Just(Op::Relist),
        1 => Just(Op::Resync),
        8 => (1..6_u8).prop_map(Op::Process),
        1 => (0..3_u8, 1..8_usize).prop_map(|(app, backlog)| Op::Subscribe { app, backlog }),
        1 => any::<usize>().prop_map(Op::Unsubscribe),
        4 => (any::<usize>(), 1..6_usize).prop_map(|(index, count)| Op::Take { index, count }),
    ]
}

/// The server's state, and which events have been sent to the informer.
#[derive(Default)]
pub(super) struct World {
    pub(super) objects: BTreeMap<u8, (Object, u8)>,
    version: u64,
    uids: u64,
    losing: u8,
    lost_any: bool,
    last_event: Option<Delta>,
}

struct Replayer {
    subscriber: Arc<Subscriber>,
    app: Option<u8>,
    backlog: usize,
    /// The objects according to the replayed notifications.
    view: BTreeMap<ObjectKey, Object>,
}

impl World {
    fn make(&mut self, name: u8, app: u8, uid: u64) -> Object {
        self.version += 1;
        let object = pod(&format!("p{name}"), self.version)
            .uid(&format!("uid-{uid}"))
            .app(&format!("app{app}"))
            .object();
        self.objects.insert(name, (object.clone(), app));
        object
    }

    pub(super) fn put(&mut self, name: u8, app: u8) -> Delta {
        match self
            .objects
            .get(&name)
            .map(|(object, _)| object.uid()["uid-".len()..].parse().expect("a number"))
        {
            Some(uid) => Delta::Updated(self.make(name, app, uid)),
            None => {
                self.uids += 1;
                Delta::Added(self.make(name, app, self.uids))
            }
        }
    }

    pub(super) fn delete(&mut self, name: u8) -> Option<Delta> {
        let (object, app) = self.objects.remove(&name)?;
        self.version += 1;
        let last =
            pod(&format!("p{name}"), self.version).uid(object.uid()).app(&format!("app{app}")).object();
        Some(Delta::Deleted(Deletion::observed(last)))
    }

    pub(super) fn emit(&mut self, informer: &Informer, delta: Option<Delta>) {
        let Some(delta) = delta else { return };
        if self.losing > 0 {
            self.losing -= 1;
            self.lost_any = true;
        }
        if !self.lost_any {
            informer.queue.push(delta.clone());
            self.last_event = Some(delta);
        }
    }

    pub(super) fn relist(&mut self, informer: &Informer) {
        self.losing = 0;
        self.lost_any = false;
        self.last_event = None;
        let items = self.objects.values().map(|(object, _)| object.clone()).collect();
        let resource_version = self.version.to_string();
        informer.queue.push(Delta::Replaced(Replacement { items, resource_version }));
    }
}

impl Replayer {
    fn subscribe(informer: &Arc<Informer>, id: u64, app: u8, backlog: usize) -> Self {
        let app = (app < 2).then_some(app);
        let key = app.map_or_else(pods_key, |app| {
            pods_key().with_labels(LabelSelector::parse(&format!("app=app{app}")).expect("labels"))
        });
        let restriction = informer.key.restriction_for(&key).filter(|restriction| !restriction.is_empty());
        let view = informer.view(id, restriction.clone());
        let subscriber = Arc::new(Subscriber::new(id, key, 3, backlog, view, informer));
        informer.add_subscriber(&subscriber, restriction, None).expect("the informer runs");
        Self { subscriber, app, backlog, view: BTreeMap::new() }
    }

    fn matches(&self, object: &Object) -> bool {
        self.app.is_none_or(|app| object.label("app").as_deref() == Some(&format!("app{app}")))
    }

    /// Replays a notification and checks that it is consistent with the view and with the cache.
    fn replay(&mut self, informer: &Informer, notification: &Notification) {
        let key = notification.key().clone();
        let known = self.view.get(&key).cloned();
        match notification {
            Notification::Added { object, .. } => {
                assert!(known.is_none(), "added twice: {object:?}");
                assert!(self.matches(object));
                self.view.insert(key.clone(), object.clone());
            }
            Notification::Updated { old, new } => {
                let known = known.unwrap_or_else(|| panic!("an update of what was never added: {new:?}"));
                assert_eq!(known.json(), old.json(), "the old state is what the subscriber knew");
                assert_eq!(known.uid(), new.uid(), "another UID is another object");
                assert!(self.matches(new));
                self.view.insert(key.clone(), new.clone());
            }
            Notification::Deleted { last, .. } => {
                let known = known.unwrap_or_else(|| panic!("a deletion of what was never added: {last:?}"));
                assert_eq!(known.uid(), last.uid(), "the deletion is that of the delivered object");
                self.view.remove(&key);
            }
        }
        if let Some(cached) = informer.store.get(&key) {
            let notified = self.view.get(&key).map_or(0, version);
            assert!(version(&cached) >= notified, "the cache is behind the notification");
        }
    }

    fn take(&mut self, informer: &Informer, count: usize) {
        for _ in 0..count {
            let mut next = tokio_test::task::spawn(self.subscriber.next_batch());
            let std::task::Poll::Ready(batch) = next.poll() else { return };
            drop(next);
            for notification in batch.expect("the informer runs") {
                self.replay(informer, &notification);
            }
        }
    }

    fn check_bound(&self, informer: &Informer) {
        let live =
            informer.store.list().into_iter().filter(|object| self.matches(object)).map(|o| o.key().clone());
        let keys: std::collections::BTreeSet<_> = live.chain(self.view.keys().cloned()).collect();
        let bound = self.backlog.max(2 * keys.len());
        assert!(
            self.subscriber.backlog_len() <= bound,
            "{} waiting, bound {bound}",
            self.subscriber.backlog_len()
        );
    }
}

fn version(object: &Object) -> u64 {
    object.resource_version().parse().expect("a number")
}

fn run(ops: Vec<Op>, delta_capacity: usize, compression: Option<Compression>) {
    let options = InformerOptions { delta_capacity, compression, ..InformerOptions::default() };
    let informer = Arc::new(Informer::new(pods_key(), &options, Arc::new(Counters::new())));
    let mut world = World::default();
    let mut replayers = vec![Replayer::subscribe(&informer, 1, 2, 4)];
    let mut ids = 2..;
    world.relist(&informer);
    for op in ops {
        match op {
            Op::Put { name, app } => {
                let delta = world.put(name, app);
                world.emit(&informer, Some(delta));
            }
            Op::Delete { name } => {
                let delta = world.delete(name);
                world.emit(&informer, delta);
            }
            Op::Recreate { name } => {
                let deletion = world.delete(name);
                world.emit(&informer, deletion);
                let addition = world.put(name, 0);
                world.emit(&informer, Some(addition));
            }
            Op::Repeat => {
                if let Some(delta) = world.last_event.clone() {
                    informer.queue.push(delta);
                }
            }
            Op::Lose(count) => world.losing = count,
            Op::Relist => world.relist(&informer),
            Op::Resync => informer.queue.resync(),
            Op::Process(count) => {
                for _ in 0..count {
                    informer.queue.try_pop(|delta| informer.apply(delta));
                }
            }
            Op::Subscribe { app, backlog } => {
                replayers.push(Replayer::subscribe(&informer, ids.next().expect("more"), app, backlog));
            }
            Op::Unsubscribe(index) if replayers.len() > 1 => {
                let removed = replayers.remove(index % replayers.len());
                informer.remove_subscriber(&removed.subscriber);
            }
            Op::Unsubscribe(_) => {}
            Op::Take { index, count } => {
                let index = index % replayers.len();
                replayers[index].take(&informer, count);
            }
        }
        replayers.iter().for_each(|replayer| replayer.check_bound(&informer));
    }
    if world.lost_any || world.losing > 0 {
        world.relist(&informer);
    }
    while informer.queue.try_pop(|delta| informer.apply(delta)).is_some() {}
    let expected: Vec<_> = world.objects.values().map(|(object, _)| object.clone()).collect();
    assert_eq!(informer.store.list(), expected, "the store is the server's state");
    for replayer in &mut replayers {
        replayer.take(&informer, 1000);
        let expected: Vec<_> = expected.iter().filter(|object| replayer.matches(object)).cloned().collect();
        assert_eq!(
            replayer.view.values().cloned().collect::<Vec<_>>(),
            expected,
            "the replayed view is the store"
        );
        assert!(replayer.subscriber.has_synced());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_subscriber_replays_to_the_servers_state(ops in proptest::collection::vec(op(), 1..120)) {
        run(ops, 1000, None);
    }

    #[test]
    fn merging_in_the_delta_queue_preserves_the_final_state(ops in proptest::collection::vec(op(), 1..120)) {
        run(ops, 2, None);
    }

    #[test]
    fn a_compressed_cache_delivers_the_same_notifications(
        ops in proptest::collection::vec(op(), 1..120),
        delta_capacity in 2..20_usize,
        training_bytes in 0..1000_usize,
    ) {
        run(ops, delta_capacity, Some(Compression { training_bytes }));
    }
}

/// How many events the stuck subscriber misses. Fewer in debug builds, where a million take half a minute.
const EVENTS: u32 = if cfg!(debug_assertions) { 50_000 } else { 1_000_000 };

/// Sends updates of a thousand objects, then creates and deletes one name repeatedly, then distinct names.
#[test]
fn a_stuck_subscribers_backlog_stays_within_its_bound() {
    let counters = Arc::new(Counters::new());
    let informer = Arc::new(Informer::new(pods_key(), &InformerOptions::default(), counters));
    let stuck = Replayer::subscribe(&informer, 1, 2, 256);
    let mut lively = Replayer::subscribe(&informer, 2, 2, 256);
    let templates: Vec<_> = (0..1000_u64).map(|i| pod(&format!("p{i}"), i + 1).object()).collect();
    let items = templates.clone();
    informer.apply(Delta::Replaced(Replacement { items, resource_version: "1".into() }));
    for round in 0..EVENTS / 1000 {
        for object in &templates {
            informer.apply(Delta::Updated(object.clone()));
        }
        lively.take(&informer, 1000);
        if round % 10 == 0 {
            stuck.check_bound(&informer);
        }
    }
    assert_eq!(stuck.subscriber.backlog_len(), 1000, "one addition for each object");
    let pair = |object: &Object| {
        informer.apply(Delta::Added(object.clone()));
        informer.apply(Delta::Deleted(Deletion::observed(object.clone())));
    };
    let one = pod("one", 5000).object();
    for i in 0..EVENTS {
        pair(&one);
        if i % 200 == 0 {
            lively.take(&informer, 1000);
        }
    }
    assert_eq!(stuck.subscriber.backlog_len(), 1000);
    for i in 0..EVENTS {
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"d{i}","uid":"u{i}","resourceVersion":"9"}}}}"#
        );
        pair(&Object::from_json(text).expect("a pod"));
        if i % 200 == 0 {
            lively.take(&informer, 1000);
        }
    }
    assert_eq!(stuck.subscriber.backlog_len(), 1000);
    assert_eq!(lively.view.len(), 1000);
}
