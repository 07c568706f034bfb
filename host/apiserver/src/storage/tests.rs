//! Tests of tables and their history.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::status::Status;

fn draft(name: &str, data: u32) -> ObjectDraft {
    ObjectDraft {
        value: json!({"metadata": {"name": name, "namespace": "n"}, "data": data}),
        fields: Box::default(),
        schema: 0,
    }
}

fn storage(events: usize) -> Storage {
    Storage::new(HistoryLimits { events, bytes: usize::MAX }, 1)
}

#[test]
fn tables_share_one_increasing_revision() {
    let storage = storage(10);
    let (pods, nodes) = (storage.table("", "pods"), storage.table("", "nodes"));
    let first = pods.create(draft("a", 1)).expect("created");
    let second = nodes.create(draft("b", 1)).expect("created");
    assert_eq!((first.revision, second.revision, storage.revision()), (2, 3, 3));
    assert_eq!(pods.list(None).1, 3, "a list is as new as the last write to any table");
}

#[test]
fn write_with_a_stale_state_fails() {
    let table = storage(10).table("", "pods");
    let first = table.create(draft("a", 1)).expect("created");
    assert_eq!(table.create(draft("a", 2)).expect_err("taken"), WriteError::Exists);
    let second = table.update(&first, draft("a", 2)).expect("updated");
    assert_eq!(table.update(&first, draft("a", 3)).expect_err("stale"), WriteError::Changed);
    assert_eq!(table.delete(&first, draft("a", 3)).expect_err("stale"), WriteError::Changed);
    table.delete(&second, draft("a", 2)).expect("deleted");
    assert!(table.get("n", "a").is_none());
    let again = table.create(draft("a", 1)).expect("created again");
    assert_eq!(table.update(&second, draft("a", 3)).expect_err("another object"), WriteError::Changed);
    assert_eq!(table.get("n", "a").map(|object| object.revision), Some(again.revision));
}

#[test]
fn history_discards_the_oldest_events_by_count_and_by_size() {
    let table = storage(2).table("", "pods");
    for name in ["a", "b", "c"] {
        table.create(draft(name, 1)).expect("created");
    }
    assert_eq!(table.events_after(1, 10).expect_err("discarded"), table::RevisionTooOld { oldest: 2 });
    assert_eq!(table.events_after(2, 10).expect("retained").events.len(), 2);
    let small = Storage::new(HistoryLimits { events: 100, bytes: 1 }, 1).table("", "pods");
    small.create(draft("a", 1)).expect("created");
    small.create(draft("b", 1)).expect("created");
    assert_eq!(small.events_after(2, 10).expect("the newest is retained").events.len(), 1);
    assert!(small.events_after(1, 10).is_err());
}

#[test]
fn batch_reports_the_revision_it_is_complete_to() {
    let storage = storage(10);
    let table = storage.table("", "pods");
    for name in ["a", "b", "c"] {
        table.create(draft(name, 1)).expect("created");
    }
    storage.table("", "nodes").create(draft("x", 1)).expect("created");
    assert_eq!(table.events_after(1, 2).expect("events").complete_to, 3);
    assert_eq!(
        table.events_after(3, 2).expect("events").complete_to,
        5,
        "writes to other tables are skipped"
    );
}

#[test]
fn stored_json_has_no_type_and_the_new_resource_version() {
    let table = storage(10).table("", "pods");
    let mut with_type = draft("a", 1);
    with_type.value["kind"] = json!("Pod");
    with_type.value["apiVersion"] = json!("v1");
    let object = table.create(with_type).expect("created");
    let value: Value = serde_json::from_slice(object.body()).expect("JSON");
    assert_eq!((value.get("kind"), value.get("apiVersion")), (None, None));
    assert_eq!(value["metadata"]["resourceVersion"], object.revision.to_string());
}

#[test]
fn state_contains_all_tables_at_one_revision() {
    let storage = storage(10);
    let (pods, nodes) = (storage.table("", "pods"), storage.table("", "nodes"));
    let first = pods.create(draft("a", 1)).expect("created");
    nodes.create(draft("x", 1)).expect("created");
    storage.table("", "events");
    let state = storage.state().expect("a state");
    pods.update(&first, draft("a", 2)).expect("updated");
    assert_eq!((state.revision, state.count()), (3, 2));
    assert_eq!(state.objects(pods.name())[0].revision, 2, "the later update is not part of it");
    assert!(state.objects(&(String::new(), "events".into())).is_empty());
}

#[test]
fn state_shares_the_objects_that_did_not_change() {
    let storage = storage(10);
    let pods = storage.table("", "pods");
    let same = pods.create(draft("a", 1)).expect("created");
    let other = pods.create(draft("b", 1)).expect("created");
    pods.create(draft("c", 1)).expect("created");
    let copy = |object: &Arc<StoredObject>, data: u32| {
        Arc::new(StoredObject::new(draft(&object.name, data), object.revision))
    };
    let tables = BTreeMap::from([(pods.name().clone(), vec![copy(&same, 1), copy(&other, 2)])]);
    let mut state = StoredState { revision: 1, tables };
    state.share_unchanged(&storage);
    let objects = state.objects(pods.name());
    assert!(Arc::ptr_eq(&objects[0], &same) && !Arc::ptr_eq(&objects[1], &other));
}

#[test]
fn replaced_objects_keep_their_versions_and_the_history_begins_anew() {
    let storage = storage(10);
    let pods = storage.table("", "pods");
    let first = pods.create(draft("a", 1)).expect("created");
    let state = storage.state().expect("a state");
    pods.update(&first, draft("a", 2)).expect("updated");
    pods.create(draft("b", 1)).expect("created");
    let before = storage.revision();
    storage.replace_all(&state, None);
    assert!(storage.revision() > before && pods.last_change() == storage.revision());
    assert!(pods.events_after(before, 10).is_err(), "watches from earlier revisions are too old");
    assert_eq!(pods.list(None).0.iter().map(|object| object.revision).collect::<Vec<_>>(), [first.revision]);
}

#[test]
fn replaced_state_covers_all_tables_and_ends_their_watches() {
    let storage = storage(10);
    let (pods, nodes) = (storage.table("", "pods"), storage.table("", "nodes"));
    pods.create(draft("a", 1)).expect("created");
    let state = storage.state().expect("a state");
    nodes.create(draft("x", 1)).expect("created");
    storage.drop_table("", "pods");
    let cut = nodes.cut();
    let before = storage.revision();
    storage.replace_all(&state, Some(&Status::expired("replaced")));
    assert_eq!(storage.table("", "pods").count(None), 1, "the table is created again");
    assert_eq!(nodes.count(None), 0);
    assert_eq!(storage.revision(), before + 1, "one step");
    assert_eq!(cut.error.get().map(|error| error.code), Some(410));
    assert!(cut.token.is_cancelled() && !nodes.cut().token.is_cancelled());
}

#[test]
fn every_log_receives_the_writes_until_the_table_is_dropped() {
    let journals: [Arc<Journal>; 2] = Default::default();
    let logs = journals.iter().map(|journal| Arc::clone(journal) as Arc<dyn ChangeLog>).collect();
    let storage = Storage::new(HistoryLimits { events: 10, bytes: usize::MAX }, 1).logged_to(logs);
    let pods = storage.table("", "pods");
    let first = pods.create(draft("a", 1)).expect("created");
    let second = pods.update(&first, draft("a", 2)).expect("updated");
    pods.delete(&second, draft("a", 2)).expect("deleted");
    storage.replace_all(&StoredState::default(), None);
    storage.drop_table("", "pods");
    pods.create(draft("b", 1)).expect("created");
    for journal in journals {
        let kinds: Vec<_> =
            journal.take().iter().map(|(table, event)| (table.1.clone(), event.kind)).collect();
        let expected = [EventKind::Added, EventKind::Modified, EventKind::Deleted];
        assert_eq!(kinds, expected.map(|kind| ("pods".to_owned(), kind)));
        assert!(journal.take().is_empty());
    }
}

proptest! {
    /// Any state within the history can be listed.
    #[test]
    fn past_states_can_be_listed(writes in prop::collection::vec((0..5_u8, 0..3_u8), 1..60), keep in 1..80_usize) {
        let storage = storage(keep);
        let table = storage.table("", "pods");
        let mut model: BTreeMap<String, u64> = BTreeMap::new();
        let mut past: Vec<(u64, BTreeMap<String, u64>)> = vec![(storage.revision(), model.clone())];
        for (name, action) in writes {
            let name = format!("p{name}");
            let written = match (table.get("n", &name), action) {
                (Some(current), 0) => {
                    model.remove(&name);
                    table.delete(&current, draft(&name, 0))
                }
                (Some(current), _) => table.update(&current, draft(&name, 0)),
                (None, _) => table.create(draft(&name, 0)),
            };
            let written: Arc<StoredObject> = written.expect("nobody else writes");
            if table.get("n", &name).is_some() {
                model.insert(name, written.revision);
            }
            past.push((written.revision, model.clone()));
        }
        let forgotten = past.len().saturating_sub(keep + 1);
        for (index, (revision, expected)) in past.iter().enumerate() {
            let listed = table.list_at(None, *revision);
            prop_assert_eq!(listed.is_err(), index < forgotten);
            if let Ok(objects) = listed {
                let found: BTreeMap<String, u64> =
                    objects.iter().map(|object| (object.name.to_string(), object.revision)).collect();
                prop_assert_eq!(&found, expected);
            }
        }
    }
}
