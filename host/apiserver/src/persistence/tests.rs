//! Tests of data directories.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::storage::{HistoryLimits, ObjectDraft, Storage, StoredObject};

const LIMITS: HistoryLimits = HistoryLimits { events: 100, bytes: usize::MAX };

fn draft(name: &str, data: u32) -> ObjectDraft {
    ObjectDraft {
        value: json!({"metadata": {"name": name, "namespace": "n", "uid": format!("uid-{name}")}, "data": data}),
        fields: Box::default(),
        schema: 0,
    }
}

/// Opens a directory and fills tables from it.
fn open(directory: &Path) -> Result<(DataDirectory, Storage), DataError> {
    let data = DataDirectory::open(directory)?;
    let storage = Storage::new(LIMITS, data.first_revision()?).logged_to(vec![data.log()]);
    data.load(&mut |loaded| {
        let object = StoredObject::new(loaded.object, loaded.revision);
        storage.table(&loaded.table.0, &loaded.table.1).load(object);
    })?;
    Ok((data, storage))
}

/// Returns the revision and text of each object of a table.
fn contents(storage: &Storage, plural: &str) -> BTreeMap<String, (u64, String)> {
    let (objects, _) = storage.table("", plural).list(None);
    let text = |object: &StoredObject| String::from_utf8(object.body().to_vec()).expect("text");
    objects.iter().map(|object| (object.name.to_string(), (object.revision, text(object)))).collect()
}

fn file(directory: &Path) -> PathBuf {
    directory.join("objects.redb")
}

#[tokio::test]
async fn objects_survive_and_versions_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, storage) = open(folder.path()).expect("a new directory");
    let pods = storage.table("", "pods");
    let first = pods.create(draft("a", 1)).expect("created");
    pods.update(&first, draft("a", 2)).expect("updated");
    let gone = pods.create(draft("b", 1)).expect("created");
    pods.delete(&gone, draft("b", 1)).expect("deleted");
    storage.table("g", "widgets").create(draft("w", 1)).expect("created");
    storage.drop_table("g", "widgets");
    pods.create(draft("c", 1)).expect("created");
    data.flush().await.expect("on disk");
    let (before, revision) = (contents(&storage, "pods"), storage.revision());
    drop((data, storage));

    let (_data, storage) = open(folder.path()).expect("the same directory");
    assert_eq!(contents(&storage, "pods"), before);
    assert!(storage.table("g", "widgets").list(None).0.is_empty(), "the table was dropped");
    assert!(storage.revision() > revision);
    let pods = storage.table("", "pods");
    assert!(pods.events_after(revision, 10).is_err(), "the history begins anew");
    let (_, current) = pods.list(None);
    assert!(pods.events_after(current, 10).is_ok());
}

#[tokio::test]
async fn dropping_the_handle_writes_what_is_pending() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, storage) = open(folder.path()).expect("a new directory");
    storage.table("", "pods").create(draft("a", 1)).expect("created");
    drop((data, storage));
    let (_data, storage) = open(folder.path()).expect("the same directory");
    assert_eq!(contents(&storage, "pods").len(), 1);
}

#[tokio::test]
async fn replaced_tables_and_named_states_survive() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, storage) = open(folder.path()).expect("a new directory");
    let pods = storage.table("", "pods");
    pods.create(draft("a", 1)).expect("created");
    let state = Arc::new(storage.state().expect("a state"));
    for name in ["s", "s-2", "other"] {
        let saved = data.save_state(name.into(), format!("about {name}"), Arc::clone(&state), || {});
        saved.await.expect("saved");
    }
    data.remove_state("s".into(), || {}).await.expect("removed");
    pods.create(draft("b", 1)).expect("created");
    storage.replace_all(&state, None);
    let before = contents(&storage, "pods");
    assert_eq!(before.len(), 1);
    drop((data, storage));

    let (data, storage) = open(folder.path()).expect("the same directory");
    assert_eq!(contents(&storage, "pods"), before);
    let states = data.states().expect("states");
    let names: Vec<_> = states.iter().map(|(name, text, _)| (name.as_str(), text.as_str())).collect();
    assert_eq!(names, [("other", "about other"), ("s-2", "about s-2")]);
    let restored = states[0].2.objects(storage.table("", "pods").name());
    assert_eq!(restored[0].body(), state.objects(storage.table("", "pods").name())[0].body());
}

#[test]
fn second_process_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let _first = DataDirectory::open(folder.path()).expect("a new directory");
    let error = DataDirectory::open(folder.path()).expect_err("locked");
    assert!(matches!(error, DataError::InUse { .. }), "{error}");
}

#[test]
fn foreign_files_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "These are the voyages. ".repeat(1000);
    std::fs::write(file(folder.path()), &text).expect("written");
    let error = DataDirectory::open(folder.path()).expect_err("not a database");
    assert!(matches!(error, DataError::Foreign { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(file(folder.path())).expect("read"), text);

    let folder = tempfile::tempdir().expect("a folder");
    let other = redb::Database::create(file(folder.path())).expect("a database");
    let writing = other.begin_write().expect("a transaction");
    let definition: redb::TableDefinition<'_, u64, u64> = redb::TableDefinition::new("numbers");
    writing.open_table(definition).expect("a table").insert(1_u64, 2_u64).expect("inserted");
    writing.commit().expect("committed");
    drop(other);
    let error = DataDirectory::open(folder.path()).expect_err("of another program");
    assert!(matches!(error, DataError::Foreign { .. }), "{error}");
}

#[tokio::test]
async fn damaged_objects_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, storage) = open(folder.path()).expect("a new directory");
    let pods = storage.table("", "pods");
    let marker = "find-this-text-in-the-file";
    let mut value = draft("a", 1);
    value.value["data"] = marker.repeat(20).into();
    pods.create(value).expect("created");
    drop((data, storage));

    let path = file(folder.path());
    let mut bytes = Vec::new();
    let mut database = std::fs::File::options().read(true).write(true).open(&path).expect("a database file");
    database.read_to_end(&mut bytes).expect("read");
    let matches = bytes.windows(marker.len()).enumerate().filter(|(_, window)| *window == marker.as_bytes());
    let offsets: Vec<usize> = matches.map(|(offset, _)| offset).collect();
    assert!(!offsets.is_empty());
    for offset in offsets {
        database.seek(SeekFrom::Start(offset as u64)).expect("a position");
        database.write_all(b"X").expect("written");
    }
    drop(database);
    let error = open(folder.path()).map(drop).expect_err("damaged");
    assert!(matches!(error, DataError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("objects.redb"), "{error}");
}

#[tokio::test]
async fn writes_wait_for_one_flush_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, storage) = open(folder.path()).expect("a new directory");
    let pods = storage.table("", "pods");
    for number in 0..50 {
        pods.create(draft(&format!("p{number}"), number)).expect("created");
    }
    let flushes = (0..50).map(|_| data.flush());
    let results = futures::future::join_all(flushes).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(data.failure(), None);
}

#[tokio::test]
async fn saving_a_state_continues_when_nobody_waits_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, storage) = open(folder.path()).expect("a new directory");
    let state = Arc::new(storage.state().expect("a state"));
    let (saved, was_saved) = tokio::sync::oneshot::channel();
    {
        let on_success = move || saved.send(()).expect("a receiver");
        let mut saving = std::pin::pin!(data.save_state("s".into(), String::new(), state, on_success));
        let _ = futures::poll!(&mut saving);
    }
    was_saved.await.expect("saved");
    assert_eq!(data.states().expect("states").len(), 1);
}

/// One step of a property test: which object, and whether it is written, deleted, or all are replaced by an earlier state.
#[derive(Clone, Debug)]
enum Step {
    Write(u8, u32),
    Delete(u8),
    Remember,
    Restore,
    Clear,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6_u8, any::<u32>()).prop_map(|(name, data)| Step::Write(name, data)),
        3 => (0..6_u8).prop_map(Step::Delete),
        1 => Just(Step::Remember),
        1 => Just(Step::Restore),
        1 => Just(Step::Clear),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// After any writes and restarts, the directory contains the objects of the tables.
    #[test]
    fn directory_follows_the_tables(steps in prop::collection::vec(step(), 1..40)) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut opened = open(folder.path()).expect("a new directory");
        let mut remembered = StoredState::default();
        let mut highest = 0;
        for step in steps {
            let table = opened.1.table("", "pods");
            match step {
                Step::Write(name, data) => {
                    let name = format!("p{name}");
                    let written = match table.get("n", &name) {
                        Some(current) => table.update(&current, draft(&name, data)),
                        None => table.create(draft(&name, data)),
                    };
                    let revision = written.expect("nobody else writes").revision;
                    prop_assert!(revision > highest, "a revision is used once");
                    highest = revision;
                }
                Step::Delete(name) => {
                    if let Some(current) = table.get("n", &format!("p{name}")) {
                        highest = table.delete(&current, draft(&current.name, 0)).expect("there").revision;
                    }
                }
                Step::Remember => remembered = opened.1.state().expect("a state"),
                Step::Restore => opened.1.replace_all(&remembered, None),
                Step::Clear => opened.1.drop_table("", "pods"),
                Step::Reopen => {
                    let before = contents(&opened.1, "pods");
                    drop(table);
                    drop(opened);
                    opened = open(folder.path()).expect("the same directory");
                    prop_assert_eq!(contents(&opened.1, "pods"), before);
                }
            }
        }
        let before = contents(&opened.1, "pods");
        drop(opened);
        let (_data, storage) = open(folder.path()).expect("the same directory");
        prop_assert_eq!(contents(&storage, "pods"), before);
    }
}
