//! Compares the index with the plain evaluation for each subscriber.

use std::collections::BTreeMap;

use pilothouse_model::{FieldSelector, LabelSelector, Object};
use proptest::prelude::*;

use super::*;
use crate::condition::tests::{any_condition, any_object};
use crate::condition::{ConditionValue, EventKind, MetadataPart};
use crate::scripted_server::pods_key;

/// A subscriber of the plain evaluation.
#[derive(Clone, Debug)]
struct Plain {
    restriction: Option<Restriction>,
    condition: Condition,
    receives_all: bool,
}

impl Plain {
    /// Returns what the subscriber receives.
    fn notification(&self, change: &Change<'_>) -> Option<Notification> {
        let notification = change.notification_for(self.restriction.as_ref())?;
        let is_refused = self.condition.evaluate(&notification) == ConditionValue::False;
        (self.receives_all || !is_refused).then_some(notification)
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert { id: u64, restriction: Option<Restriction>, condition: Condition },
    Remove { id: u64 },
    SetCondition { id: u64, condition: Condition },
    SetLifted { id: u64, receives_all: bool },
    Deliver { old: Object, new: Object, kind: u8 },
}

/// The IDs are few, so that subscribers are replaced and removed.
const IDS: u64 = 12;

fn any_restriction() -> impl Strategy<Value = Option<Restriction>> {
    let key = prop_oneof![
        (0..3_u8).prop_map(|namespace| pods_key().in_namespace(format!("v{namespace}"))),
        (0..9_u8).prop_map(|selector| {
            let texts =
                ["l0=v0", "l0=v1", "l0 in (v0,v2)", "l1", "!l1", "l0!=v0", "l0=v0,l1=v1", "l1>1", "l2"];
            pods_key().with_labels(LabelSelector::parse(texts[usize::from(selector)]).expect("labels"))
        }),
        (0..4_u8).prop_map(|selector| {
            let texts = [
                "metadata.name=n0",
                "metadata.name!=n1",
                "metadata.namespace=v1",
                "metadata.name=n1,metadata.namespace=v0",
            ];
            pods_key().with_fields(FieldSelector::parse(texts[usize::from(selector)]).expect("fields"))
        }),
        (0..2_u8).prop_map(|app| {
            let labels = LabelSelector::parse(&format!("l0=v{app}")).expect("labels");
            pods_key().in_namespace("v1").with_labels(labels)
        }),
    ];
    let restriction = key.prop_map(|key| pods_key().restriction_for(&key).expect("a narrower key"));
    prop_oneof![1 => Just(None), 2 => restriction.prop_map(Some)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..IDS, any_restriction(), any_condition())
            .prop_map(|(id, restriction, condition)| Op::Insert { id, restriction, condition }),
        1 => (0..IDS).prop_map(|id| Op::Remove { id }),
        2 => (0..IDS, any_condition()).prop_map(|(id, condition)| Op::SetCondition { id, condition }),
        1 => (0..IDS, any::<bool>()).prop_map(|(id, receives_all)| Op::SetLifted { id, receives_all }),
        8 => (any_object(), any_object(), 0..4_u8).prop_map(|(old, new, kind)| Op::Deliver { old, new, kind }),
    ]
}

fn change<'a>(old: &'a Object, new: &'a Object, kind: u8) -> Change<'a> {
    match kind {
        0 => Change::Added { object: new, initial: false },
        1 => Change::Deleted { stored: old, last: new, final_state_unknown: false },
        2 => Change::Updated { old: new, new },
        _ => Change::Updated { old, new },
    }
}

fn text(notification: &Notification) -> String {
    match notification {
        Notification::Added { object, .. } => format!("+{}", object.json()),
        Notification::Updated { old, new } => format!("{}>{}", old.json(), new.json()),
        Notification::Deleted { last, .. } => format!("-{}", last.json()),
    }
}

fn run(ops: Vec<Op>) {
    let mut index = DispatchIndex::default();
    let mut plain: BTreeMap<u64, Plain> = BTreeMap::new();
    for op in ops {
        match op {
            Op::Insert { id, restriction, condition } => {
                index.insert(id, id, restriction.as_ref(), Arc::new(condition.clone()));
                plain.insert(id, Plain { restriction, condition, receives_all: false });
            }
            Op::Remove { id } => {
                index.remove(id);
                plain.remove(&id);
            }
            Op::SetCondition { id, condition } => {
                index.set_condition(id, Arc::new(condition.clone()));
                if let Some(plain) = plain.get_mut(&id) {
                    plain.condition = condition;
                }
            }
            Op::SetLifted { id, receives_all } => {
                index.set_receives_all(id, receives_all);
                if let Some(plain) = plain.get_mut(&id) {
                    plain.receives_all = receives_all;
                }
            }
            Op::Deliver { old, new, kind } => {
                let change = change(&old, &new, kind);
                let mut delivered = Vec::new();
                index.deliver(&change, |id, notification| delivered.push((*id, text(notification))));
                delivered.sort();
                let receives = |(id, plain): (&u64, &Plain)| Some((*id, text(&plain.notification(&change)?)));
                let expected: Vec<_> = plain.iter().filter_map(receives).collect();
                assert_eq!(delivered, expected);
            }
        }
    }
    (0..IDS).for_each(|id| index.remove(id));
    assert!(index.classes.iter().all(Option::is_none) && index.lists.is_empty() && index.entries.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_index_delivers_what_each_subscriber_would_receive_alone(ops in proptest::collection::vec(op(), 1..80)) {
        run(ops);
    }
}

#[test]
fn equal_conditions_are_one_group() {
    let mut index = DispatchIndex::default();
    let condition = || Arc::new(Condition::changed(MetadataPart::Generation));
    (0..1000).for_each(|id| index.insert(id, id, None, condition()));
    assert_eq!(index.groups(), 1);
    index.set_condition(7, Arc::new(Condition::event(EventKind::Deleted)));
    assert_eq!(index.groups(), 2);
    index.set_condition(7, condition());
    assert_eq!(index.groups(), 1, "the group without members is gone");
    let restriction = pods_key().restriction_for(&pods_key().in_namespace("a"));
    index.insert(7, 7, restriction.as_ref(), condition());
    assert_eq!(index.groups(), 2, "restricted subscribers may receive other notifications");
}

#[test]
fn a_subscriber_that_panics_leaves_the_index_usable() {
    let mut index = DispatchIndex::default();
    (0..3).for_each(|id| {
        index.insert(id, id, None, Arc::new(Condition::event(EventKind::ALL[id as usize % 2])));
    });
    let object = crate::scripted_server::pod("a", 1).object();
    let change = Change::Added { object: &object, initial: false };
    let deliver = std::panic::AssertUnwindSafe(|| index.deliver(&change, |_, _| panic!("a defect")));
    assert!(std::panic::catch_unwind(deliver).is_err());
    let mut delivered = Vec::new();
    index.deliver(&change, |id, _| delivered.push(*id));
    delivered.sort_unstable();
    assert_eq!(delivered, [0, 2]);
}
