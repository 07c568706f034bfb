//! The managers of an object's fields: `metadata.managedFields` read, changed and written.

use serde_json::{Map, Value, json};

use super::Writer;
use super::conflict::Conflict;
use super::diff::Changes;
use super::fieldset::FieldSet;

/// Update managers beyond this number share one entry, the oldest first.
const MAX_UPDATE_MANAGERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// Fields that the server sets: nobody owns them.
const SERVER_METADATA: [&str; 8] = [
    "f:name",
    "f:namespace",
    "f:creationTimestamp",
    "f:selfLink",
    "f:uid",
    "f:generation",
    "f:managedFields",
    "f:resourceVersion",
];

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Server-side apply: the set is what the last configuration said.
    Apply,
    /// Anything else: the set is what was changed.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The identity of an entry in `managedFields`.
#[derive(Clone, Debug)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl PartialEq for Manager {
    fn eq(&self, other: &Self) -> bool {
        // An applier stays the same when it moves to another version of the API.
        let same_version = self.operation == Operation::Apply || self.api_version == other.api_version;
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && same_version
    }
}

impl Manager {
    pub(super) fn of(writer: &Writer<'_>, operation: Operation) -> Self {
        Self {
            name: writer.manager.to_owned(),
            operation,
            api_version: writer.api_version.to_owned(),
            subresource: writer.subresource.to_owned(),
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    manager: Manager,
    time: String,
    fields: FieldSet,
}

/// All managers of one object.
#[derive(Clone, Debug, Default)]
pub(super) struct Managers {
    entries: Vec<Entry>,
}

impl Managers {
    /// Reads `metadata.managedFields` of an object. Entries of unknown form are dropped.
    pub(super) fn read(object: &Value) -> Self {
        let list = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        Self { entries: list.into_iter().flatten().filter_map(read_entry).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn fields(&self, manager: &Manager) -> Option<&FieldSet> {
        self.entries.iter().find(|entry| entry.manager == *manager).map(|entry| &entry.fields)
    }

    /// Sets what `manager` owns. The time moves only if that is something else than before.
    pub(super) fn set(&mut self, manager: Manager, fields: FieldSet, time: &str) {
        match self.entries.iter_mut().find(|entry| entry.manager == manager) {
            Some(entry) => {
                if entry.fields != fields {
                    time.clone_into(&mut entry.time);
                }
                entry.manager = manager;
                entry.fields = fields;
            }
            None => self.entries.push(Entry { manager, time: time.to_owned(), fields }),
        }
        self.entries.retain(|entry| !entry.fields.is_empty());
    }

    /// What all managers own together.
    pub(super) fn all(&self) -> FieldSet {
        self.entries.iter().fold(FieldSet::default(), |all, entry| all.union(&entry.fields))
    }

    /// The fields of managers other than `writer` that a write changed.
    pub(super) fn conflicts(&self, writer: &Manager, changes: &Changes) -> Vec<Conflict> {
        let written = changes.written();
        let others = self.entries.iter().filter(|entry| entry.manager != *writer);
        others
            .filter_map(|entry| {
                let fields = entry.fields.intersection(&written);
                (!fields.is_empty()).then(|| Conflict {
                    manager: entry.manager.name.clone(),
                    subresource: entry.manager.subresource.clone(),
                    updates: (entry.manager.operation == Operation::Update)
                        .then(|| entry.manager.api_version.clone()),
                    fields,
                })
            })
            .collect()
    }

    /// Takes from managers other than `writer` what a write changed or removed.
    pub(super) fn give_up(&mut self, writer: &Manager, changes: &Changes, time: &str) {
        let changed = changes.all();
        for entry in self.entries.iter_mut().filter(|entry| entry.manager != *writer) {
            let left = entry.fields.difference(&changed);
            if left != entry.fields {
                entry.fields = left;
                time.clone_into(&mut entry.time);
            }
        }
        self.entries.retain(|entry| !entry.fields.is_empty());
    }

    /// Joins the oldest update managers into one entry if there are too many, so that objects do not grow for ever.
    pub(super) fn cap(&mut self, writer: &Writer<'_>) {
        loop {
            let updates = self.entries.iter().enumerate();
            let mut updates: Vec<_> =
                updates.filter(|(_, entry)| entry.manager.operation == Operation::Update).collect();
            if updates.len() <= MAX_UPDATE_MANAGERS {
                return;
            }
            updates.sort_by(|(_, a), (_, b)| a.time.cmp(&b.time));
            let ancient = updates.iter().position(|(_, entry)| entry.manager.name == ANCIENT);
            let oldest = updates.iter().find(|(_, entry)| entry.manager.name != ANCIENT).map(|(at, _)| *at);
            let Some(oldest) = oldest else { return };
            let bucket = ancient.map(|at| updates[at].0);
            let mut gone = self.entries[oldest].clone();
            match bucket {
                Some(at) => {
                    self.entries[at].fields = self.entries[at].fields.union(&gone.fields);
                    self.entries.remove(oldest);
                }
                None => {
                    gone.manager = Manager::of(
                        &Writer { manager: ANCIENT, subresource: "", ..*writer },
                        Operation::Update,
                    );
                    self.entries[oldest] = gone;
                }
            }
        }
    }

    /// Writes `metadata.managedFields`: appliers first, then by time, as Kubernetes sorts them.
    pub(super) fn write(&self, object: &mut Value) {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        if self.entries.is_empty() {
            metadata.remove("managedFields");
            return;
        }
        let mut sorted: Vec<_> = self.entries.iter().collect();
        sorted.sort_by(|a, b| {
            let rank = |entry: &Entry| entry.manager.operation == Operation::Update;
            (rank(a), &a.time, &a.manager.name, &a.manager.api_version, &a.manager.subresource).cmp(&(
                rank(b),
                &b.time,
                &b.manager.name,
                &b.manager.api_version,
                &b.manager.subresource,
            ))
        });
        metadata.insert("managedFields".into(), sorted.into_iter().map(write_entry).collect());
    }
}

fn read_entry(value: &Value) -> Option<Entry> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let operation = match text("operation").as_str() {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    Some(Entry {
        manager: Manager {
            name: text("manager"),
            operation,
            api_version: text("apiVersion"),
            subresource: text("subresource"),
        },
        time: text("time"),
        fields: FieldSet::from_json(value.get("fieldsV1")?),
    })
}

fn write_entry(entry: &Entry) -> Value {
    let mut object = Map::new();
    object.insert("manager".into(), json!(entry.manager.name));
    object.insert("operation".into(), json!(entry.manager.operation.name()));
    object.insert("apiVersion".into(), json!(entry.manager.api_version));
    if !entry.time.is_empty() {
        object.insert("time".into(), json!(entry.time));
    }
    object.insert("fieldsType".into(), json!("FieldsV1"));
    object.insert("fieldsV1".into(), entry.fields.to_json());
    if !entry.manager.subresource.is_empty() {
        object.insert("subresource".into(), json!(entry.manager.subresource));
    }
    Value::Object(object)
}

/// `fields` without those that no manager can own by such a write.
pub(super) fn tracked(mut fields: FieldSet, writer: &Writer<'_>) -> FieldSet {
    fields.remove("f:apiVersion");
    fields.remove("f:kind");
    if let Some(metadata) = fields.child_mut("f:metadata") {
        for name in SERVER_METADATA {
            metadata.remove(name);
        }
    }
    fields.unmark("f:metadata");
    match writer.subresource {
        "status" => fields = fields.only("f:status"),
        "" if writer.has_status => fields.remove("f:status"),
        _ => {}
    }
    fields.without_empty()
}

/// An applied configuration without the parts that the write does not touch.
pub(super) fn without_untouched(config: &Value, writer: &Writer<'_>) -> Value {
    let mut config = config.clone();
    let Some(object) = config.as_object_mut() else { return config };
    match writer.subresource {
        "status" => object.retain(|name, _| ["apiVersion", "kind", "status"].contains(&name.as_str())),
        "" if writer.has_status => drop(object.remove("status")),
        _ => {}
    }
    config
}
