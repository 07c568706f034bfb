//! Equal indexes under several names: one copy, charged to each account.

use std::sync::Arc;

use super::Account;
use crate::scripted_server::pod;
use crate::store::{IndexFn, Store};

#[test]
fn equal_declared_indexes_are_shared_and_dropped_with_their_last_name() {
    let store = Store::new();
    store.update(pod("a", 1).object());
    store.add_scoped_index(1, "x", IndexFn::label("app")).expect("new");
    store.add_scoped_index(2, "y", IndexFn::label("app")).expect("new");
    assert_eq!(store.index_count(), 1);
    store.drop_scope(1);
    assert_eq!(store.index_names(1), [""; 0]);
    assert_eq!(store.with_index(2, "y", |state, id| state.objects_with_value(id, "web").count()), Ok(1));
    store.drop_scope(2);
    assert_eq!(store.index_count(), 0);
}

#[test]
fn an_index_is_charged_once_to_each_account_until_the_last_name_is_gone() {
    let (one, two) = (Arc::<Account>::default(), Arc::<Account>::default());
    let charged = |account: &Arc<Account>| IndexFn::label("app").charged_to(account.clone());
    let store = Store::new();
    store.update(pod("a", 1).object());
    store.add_scoped_index(1, "x", charged(&one)).expect("new");
    let bytes = one.bytes();
    assert!(bytes > 0);
    store.add_scoped_index(1, "same", charged(&one)).expect("new");
    store.add_scoped_index(2, "x", charged(&one)).expect("new");
    store.add_scoped_index(3, "y", charged(&two)).expect("new");
    store.add_scoped_index(4, "z", IndexFn::label("app")).expect("new");
    assert_eq!((store.index_count(), one.bytes(), two.bytes()), (1, bytes, bytes));
    assert!(store.add_scoped_index(3, "y", charged(&two)).is_err());
    assert_eq!(two.bytes(), bytes, "a refused name is not charged");
    store.drop_index(1, "x");
    store.drop_scope(2);
    assert_eq!(one.bytes(), bytes, "another name is left");
    store.drop_scope(1);
    assert_eq!((one.bytes(), two.bytes()), (0, bytes));
    store.update(pod("b", 1).app("other").object());
    assert!(two.bytes() > bytes && one.bytes() == 0);
    drop(store);
    assert_eq!(two.bytes(), 0);
}
