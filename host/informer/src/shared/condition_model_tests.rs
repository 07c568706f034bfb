//! Property tests of conditions in an informer: a subscriber with a condition receives what a plain one receives and the condition does not
//! refuse.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilothouse_model::{Deletion, Delta, LabelSelector, Notification, Object, ObjectKey, Replacement};
use proptest::prelude::*;

use super::informer::Informer;
use super::model_tests::{NAMES, World};
use super::subscriber::Subscriber;
use crate::condition::{Condition, ConditionValue, EventKind, FieldPath, MetadataPart};
use crate::key::InformerKey;
use crate::metrics::Counters;
use crate::options::InformerOptions;
use crate::scripted_server::{pod, pods_key};

#[derive(Clone, Debug)]
enum Op {
    Put {
        name: u8,
        app: u8,
    },
    Delete {
        name: u8,
    },
    Recreate {
        name: u8,
    },
    Relist,
    Process(u8),
    Subscribe {
        app: u8,
        backlog: usize,
        condition: Condition,
    },
    Unsubscribe(usize),
    /// Replaces a condition, as a reload of a plugin does.
    SetCondition {
        index: usize,
        condition: Condition,
    },
    Take {
        index: usize,
    },
}

fn condition() -> impl Strategy<Value = Condition> {
    let app = || FieldPath::label("app").expect("a short key");
    let term = prop_oneof![
        3 => (0..3_u8).prop_map(move |value| Condition::field_equals(app(), format!("app{value}"))),
        2 => (0..4_usize).prop_map(|kind| Condition::event(EventKind::ALL[kind])),
        2 => (0..3_usize).prop_map(|part| Condition::changed(MetadataPart::ALL[part])),
        1 => any::<bool>().prop_map(Condition::constant),
        1 => Just(Condition::unknown()),
    ];
    term.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(Condition::negated),
            proptest::collection::vec(inner.clone(), 2).prop_map(Condition::all),
            proptest::collection::vec(inner, 2).prop_map(Condition::any),
        ]
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..NAMES, 0..2_u8).prop_map(|(name, app)| Op::Put { name, app }),
        3 => (0..NAMES).prop_map(|name| Op::Delete { name }),
        2 => (0..NAMES).prop_map(|name| Op::Recreate { name }),
        1 => Just(Op::Relist),
        8 => (1..6_u8).prop_map(Op::Process),
        2 => (0..3_u8, 1..6_usize, condition())
            .prop_map(|(app, backlog, condition)| Op::Subscribe { app, backlog, condition }),
        1 => any::<usize>().prop_map(Op::Unsubscribe),
        1 => (any::<usize>(), condition()).prop_map(|(index, condition)| Op::SetCondition { index, condition }),
        3 => any::<usize>().prop_map(|index| Op::Take { index }),
    ]
}

/// A subscriber with a condition, and one without that takes every notification at once.
struct Twins {
    plain: Arc<Subscriber>,
    conditional: Arc<Subscriber>,
    condition: Condition,
    backlog: usize,
    /// What the subscriber with the condition would receive alone, since it last took everything.
    expected: Vec<Notification>,
    /// The objects that it was notified of, unless they were deleted since.
    known: BTreeSet<ObjectKey>,
    /// The objects that were deleted, or left the selector, since it last took everything.
    deleted: BTreeSet<ObjectKey>,
}

fn subscriber(informer: &Arc<Informer>, id: u64, key: InformerKey, backlog: usize) -> Arc<Subscriber> {
    let restriction = informer.key.restriction_for(&key).filter(|restriction| !restriction.is_empty());
    let view = informer.view(id, restriction.clone());
    let subscriber = Arc::new(Subscriber::new(id, key, usize::MAX, backlog, view, informer));
    informer.add_subscriber(&subscriber, restriction, None).expect("the informer runs");
    subscriber
}

impl Twins {
    fn subscribe(informer: &Arc<Informer>, id: u64, app: u8, backlog: usize, condition: Condition) -> Self {
        let key = (app < 2).then(|| LabelSelector::parse(&format!("app=app{app}")).expect("labels"));
        let key = key.map_or_else(pods_key, |labels| pods_key().with_labels(labels));
        let plain = subscriber(informer, id, key.clone(), 10_000);
        let conditional = subscriber(informer, id + 1, key, backlog);
        conditional.set_condition(condition.clone());
        let (expected, known, deleted) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        let mut twins = Self { plain, conditional, condition, backlog, expected, known, deleted };
        twins.observe();
        twins
    }

    /// Records what the plain subscriber receives.
    fn observe(&mut self) {
        for notification in self.plain.take_pending() {
            let is_initial = matches!(notification, Notification::Added { initial: true, .. });
            let is_refused = !is_initial && self.condition.evaluate(&notification) == ConditionValue::False;
            if let Notification::Deleted { last, .. } = &notification {
                self.deleted.insert(last.key().clone());
                if is_refused {
                    self.known.remove(last.key());
                }
            }
            if !is_refused {
                self.expected.push(notification);
            }
        }
    }

    /// Takes everything that the subscriber with the condition has received.
    fn take(&mut self, informer: &Informer) {
        let received = self.conditional.take_pending();
        let keys: BTreeSet<_> = received.iter().map(|notification| notification.key().clone()).collect();
        for owed in std::mem::take(&mut self.expected).iter().map(Notification::key) {
            // What is merged with the deletion of an object that was not delivered before leaves nothing.
            let may_be_merged_away = !self.known.contains(owed) && self.deleted.contains(owed);
            assert!(keys.contains(owed) || may_be_merged_away, "a change of {owed} is lost");
        }
        self.deleted.clear();
        for notification in received {
            let key = notification.key();
            // A deletion that was refused may have come after the notification.
            let is_current = |cached: Object| {
                cached.uid() == notification.object().uid()
                    && self.conditional.key.label_selector.matches_object(&cached)
            };
            match notification {
                Notification::Deleted { .. } => self.known.remove(key),
                _ if informer.store.get(key).is_some_and(is_current) => self.known.insert(key.clone()),
                _ => self.known.remove(key),
            };
        }
    }
}

fn text(notification: &Notification) -> String {
    match notification {
        Notification::Added { object, initial } => format!("+{initial} {}", object.json()),
        Notification::Updated { old, new } => format!("{} > {}", old.json(), new.json()),
        Notification::Deleted { last, final_state_unknown } => {
            format!("-{final_state_unknown} {}", last.json())
        }
    }
}

/// With `merges`, the backlogs are as short as the operations say. Otherwise they keep every notification, and are compared after each
/// operation.
fn run(ops: Vec<Op>, merges: bool) {
    let informer =
        Arc::new(Informer::new(pods_key(), &InformerOptions::default(), Arc::new(Counters::new())));
    let mut world = World::default();
    let mut all: Vec<Twins> = Vec::new();
    let mut ids = (1..).step_by(2);
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
            Op::Relist => world.relist(&informer),
            Op::Process(count) => {
                for _ in 0..count {
                    informer.queue.try_pop(|delta| informer.apply(delta));
                }
            }
            Op::Subscribe { app, backlog, condition } => {
                let backlog = if merges { backlog } else { 10_000 };
                let id = ids.next().expect("more");
                all.push(Twins::subscribe(&informer, id, app, backlog, condition));
            }
            Op::Unsubscribe(index) if !all.is_empty() => {
                let removed = all.remove(index % all.len());
                informer.remove_subscriber(&removed.plain);
                informer.remove_subscriber(&removed.conditional);
            }
            Op::SetCondition { index, condition } if !all.is_empty() => {
                let index = index % all.len();
                all[index].conditional.set_condition(condition.clone());
                all[index].condition = condition;
            }
            Op::Take { index } if !all.is_empty() => {
                let index = index % all.len();
                all[index].take(&informer);
            }
            Op::Unsubscribe(_) | Op::SetCondition { .. } | Op::Take { .. } => {}
        }
        for twins in &mut all {
            twins.observe();
            let bound = twins.backlog + 2 * usize::from(NAMES);
            assert!(twins.conditional.backlog_len() <= bound, "more than {bound} are pending");
            if !merges {
                let received: Vec<_> = twins.conditional.take_pending().iter().map(text).collect();
                let expected: Vec<_> =
                    twins.expected.drain(..).map(|notification| text(&notification)).collect();
                assert_eq!(received, expected);
            }
        }
    }
    while informer.queue.try_pop(|delta| informer.apply(delta)).is_some() {}
    for twins in &mut all {
        twins.observe();
        twins.take(&informer);
        assert!(twins.conditional.has_synced());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_condition_leaves_out_exactly_what_it_refuses(ops in proptest::collection::vec(op(), 1..100)) {
        run(ops, false);
    }

    #[test]
    fn no_change_that_a_condition_accepts_is_lost_by_merging(ops in proptest::collection::vec(op(), 1..100)) {
        run(ops, true);
    }
}

/// Creates and deletes distinct names while nobody takes notifications.
#[test]
fn the_backlog_of_a_conditional_subscriber_stays_within_its_bound() {
    for kind in [EventKind::Added, EventKind::Deleted] {
        let counters = Arc::new(Counters::new());
        let informer = Arc::new(Informer::new(pods_key(), &InformerOptions::default(), counters));
        let items = vec![pod("live", 1).object()];
        informer.apply(Delta::Replaced(Replacement { items, resource_version: "1".into() }));
        let stuck = subscriber(&informer, 1, pods_key(), 16);
        stuck.set_condition(Condition::event(kind));
        for i in 0..1000_u64 {
            let object = pod(&format!("p{i}"), i + 2).object();
            informer.apply(Delta::Added(object.clone()));
            informer.apply(Delta::Deleted(Deletion::observed(object)));
            assert!(stuck.backlog_len() <= 17, "{} are pending", stuck.backlog_len());
        }
    }
}

#[test]
fn a_condition_applies_again_once_the_subscriber_has_caught_up() {
    let counters = Arc::new(Counters::new());
    let informer = Arc::new(Informer::new(pods_key(), &InformerOptions::default(), counters));
    informer.apply(Delta::Replaced(Replacement { items: Vec::new(), resource_version: "1".into() }));
    let subscriber = subscriber(&informer, 1, pods_key(), 2);
    subscriber.set_condition(Condition::event(EventKind::Added));
    let mut version = 1;
    let mut update = |name: &str| {
        version += 1;
        informer.apply(Delta::Updated(pod(name, version).object()));
        subscriber.backlog_len()
    };
    assert_eq!([update("a"), update("a"), update("b")], [1, 1, 2], "an update of a known object is refused");
    assert_eq!([update("c"), update("c"), update("a")], [3, 3, 3], "updates are merged into the additions");
    let pending = subscriber.take_pending();
    let versions: BTreeMap<_, _> =
        pending.iter().map(|n| (n.object().name(), n.object().resource_version())).collect();
    assert_eq!(versions, BTreeMap::from([("a", "7"), ("b", "4"), ("c", "6")]));
    assert_eq!(update("a"), 1, "the informer learns with this change that the subscriber has caught up");
    assert_eq!([update("a"), update("b")], [1, 1]);
}
