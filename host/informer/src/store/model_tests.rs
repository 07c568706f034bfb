//! The store and its indexes against a naive model, with random changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_model::{Object, ObjectKey};
use proptest::prelude::*;

use super::tests::Account;
use super::{IndexFn, Store};
use crate::options::Compression;
use crate::scripted_server::pod;

#[derive(Clone, Debug)]
enum Op {
    Update(u8, u8),
    Delete(u8),
    Replace(Vec<(u8, u8)>),
    AddIndex(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (0..8_u8, 0..4_u8).prop_map(|(name, app)| Op::Update(name, app)),
        2 => (0..8_u8).prop_map(Op::Delete),
        1 => proptest::collection::vec((0..8_u8, 0..4_u8), 0..8).prop_map(Op::Replace),
        1 => (0..3_u8).prop_map(Op::AddIndex),
    ]
}

proptest! {
    /// The model is a plain map with indexes that are recomputed for each comparison.
    #[test]
    fn store_and_indexes_agree_with_a_naive_model(
        ops in proptest::collection::vec(op(), 1..60),
        compressed in any::<bool>(),
        training_bytes in 0..2000_usize,
    ) {
        let store = if compressed { Store::compressed(Compression { training_bytes }) } else { Store::new() };
        let mut model: BTreeMap<ObjectKey, Object> = BTreeMap::new();
        let functions = [IndexFn::label("app"), IndexFn::computed(|o| {
            let app = o.label("app").map(std::borrow::Cow::into_owned).unwrap_or_default();
            (0..app.len() % 3).map(|i| format!("{app}{i}")).chain([app.clone(), app.clone()]).collect()
        }), IndexFn::namespace()];
        let mut indexes: BTreeMap<String, (&IndexFn, Arc<Account>)> = BTreeMap::new();
        let make = |name: u8, app: u8, version: u64| {
            let namespace = if name.is_multiple_of(2) { "even" } else { "odd" };
            pod(&format!("p{name}"), version).namespace(namespace).app(&"x".repeat(app.into())).object()
        };
        for (version, op) in (1..).zip(ops) {
            match op {
                Op::Update(name, app) => {
                    let object = make(name, app, version);
                    prop_assert_eq!(store.update(object.clone()), model.insert(object.key().clone(), object));
                }
                Op::Delete(name) => {
                    let object = make(name, 0, version);
                    prop_assert_eq!(store.delete(object.key(), None), model.remove(object.key()));
                }
                Op::Replace(items) => {
                    let items: Vec<_> = items.into_iter().map(|(name, app)| make(name, app, version)).collect();
                    model = items.iter().map(|object| (object.key().clone(), object.clone())).collect();
                    store.replace_all(&items, "1");
                }
                Op::AddIndex(number) => {
                    let name = format!("i{number}");
                    let function = &functions[usize::from(number)];
                    let account = Arc::<Account>::default();
                    let charged = function.clone().charged_to(account.clone());
                    prop_assert_eq!(store.add_index(&name, charged).is_ok(), !indexes.contains_key(&name));
                    indexes.entry(name).or_insert((function, account));
                }
            }
            prop_assert_eq!(store.list(), model.values().cloned().collect::<Vec<_>>());
            prop_assert_eq!(store.list_keys(), model.keys().cloned().collect::<Vec<_>>());
            for (name, (function, account)) in &indexes {
                let fresh = Store::new();
                model.values().for_each(|object| drop(fresh.update(object.clone())));
                let counted = Arc::<Account>::default();
                fresh.add_index(name, (*function).clone().charged_to(counted.clone())).expect("new");
                prop_assert_eq!(account.bytes(), counted.bytes(), "the charge depends on the content only");
                let mut expected: BTreeMap<String, Vec<ObjectKey>> = BTreeMap::new();
                for object in model.values() {
                    for value in function.values(object) {
                        expected.entry(value).or_default().push(object.key().clone());
                    }
                }
                let values = store.index_values(name).expect("known");
                prop_assert_eq!(&values, &expected.keys().cloned().collect::<Vec<_>>());
                for value in values {
                    prop_assert_eq!(&store.index_keys(name, &value).expect("known"), &expected[&value]);
                }
            }
        }
    }
}
