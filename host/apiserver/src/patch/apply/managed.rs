//! The managers of an object's fields: reads, changes and writes `metadata.managedFields`.

use serde_json::{Map, Value, json};

use super::Writer;
use super::conflict::Conflict;
use super::fieldset::FieldSet;
use super::versions::VersionedChanges;

/// The limit of update managers, that of kube-apiserver. The oldest ones beyond it share one entry.
const MAX_UPDATE_MANAGERS: usize = 10;
/// The name of the entry that the oldest update managers share.
const ANCIENT_CHANGES: &str = "ancient-changes";

/// The fields of `metadata` that the server sets and no manager owns.
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

/// The type of a manager's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Server-side apply. The manager owns the fields of the configuration that it applied last.
    Apply,
    /// Any other write. The manager owns the fields that it changed.
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
        // A manager that applies is the same whatever API version it applies in.
        let same_version = self.operation == Operation::Apply || self.api_version == other.api_version;
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && same_version
    }
}

impl Manager {
    pub(super) fn new(writer: &Writer<'_>, operation: Operation) -> Self {
        Self {
            name: writer.manager.to_owned(),
            operation,
            api_version: writer.api_version.to_owned(),
            subresource: writer.subresource.to_owned(),
        }
    }
}

/// An entry of `managedFields`.
#[derive(Clone, Debug)]
struct Entry {
    manager: Manager,
    time: String,
    fields: FieldSet,
}

/// The managers of one object.
#[derive(Clone, Debug, Default)]
pub(super) struct Managers {
    entries: Vec<Entry>,
}

impl Managers {
    /// Reads `metadata.managedFields` of an object. Entries of unknown form are dropped.
    pub(super) fn read(object: &Value) -> Self {
        let list = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        let mut entries: Vec<Entry> = Vec::new();
        for entry in list.into_iter().flatten().filter_map(read_entry) {
            // As in Kubernetes, the last entry of a manager counts.
            match entries.iter_mut().find(|known| known.manager == entry.manager) {
                Some(known) => *known = entry,
                None => entries.push(entry),
            }
        }
        Self { entries }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn fields(&self, manager: &Manager) -> Option<&FieldSet> {
        self.entries.iter().find(|entry| entry.manager == *manager).map(|entry| &entry.fields)
    }

    /// Returns the API version in which `manager` wrote, which is not that of `manager` itself if it applied in another one before.
    pub(super) fn api_version(&self, manager: &Manager) -> Option<&str> {
        let entry = self.entries.iter().find(|entry| entry.manager == *manager)?;
        Some(&entry.manager.api_version)
    }

    /// Returns all managers.
    pub(super) fn managers(&self) -> impl Iterator<Item = &Manager> {
        self.entries.iter().map(|entry| &entry.manager)
    }

    /// Forgets all managers but those for which `keeps` returns true.
    pub(super) fn retain(&mut self, keeps: impl Fn(&Manager) -> bool) {
        self.entries.retain(|entry| keeps(&entry.manager));
    }

    /// Sets the fields that `manager` owns, and the time of its write.
    pub(super) fn set(&mut self, manager: Manager, fields: FieldSet, time: &str) {
        match self.entries.iter_mut().find(|entry| entry.manager == manager) {
            Some(entry) => {
                time.clone_into(&mut entry.time);
                entry.manager = manager;
                entry.fields = fields;
            }
            None => self.entries.push(Entry { manager, time: time.to_owned(), fields }),
        }
        self.entries.retain(|entry| !entry.fields.is_empty());
    }

    /// Sets the time of a manager's entry to the one that it has in `live`, or removes it if the manager has none there.
    pub(super) fn keep_time(&mut self, manager: &Manager, live: &Value) {
        let before = Self::read(live).entries.into_iter().find(|entry| entry.manager == *manager);
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.manager == *manager) {
            entry.time = before.map(|entry| entry.time).unwrap_or_default();
        }
    }

    /// Returns the fields that any manager owns.
    pub(super) fn all_fields(&self) -> FieldSet {
        self.entries.iter().fold(FieldSet::default(), |all, entry| all.union(&entry.fields))
    }

    /// Returns the fields of managers other than `writer` that a write changes.
    pub(super) fn conflicts(&self, writer: &Manager, changes: &VersionedChanges<'_>) -> Vec<Conflict> {
        let others = self.entries.iter().filter(|entry| entry.manager != *writer);
        others
            .filter_map(|entry| {
                let written = changes.in_version(&entry.manager.api_version).written();
                let fields = entry.fields.intersection(&written);
                (!fields.is_empty()).then(|| Conflict {
                    manager: entry.manager.name.clone(),
                    subresource: entry.manager.subresource.clone(),
                    update_api_version: (entry.manager.operation == Operation::Update)
                        .then(|| entry.manager.api_version.clone()),
                    fields,
                })
            })
            .collect()
    }

    /// Removes the fields that a write changed or removed from all managers other than `writer`. Their times stay.
    pub(super) fn remove_from_others(&mut self, writer: &Manager, changes: &VersionedChanges<'_>) {
        for entry in self.entries.iter_mut().filter(|entry| entry.manager != *writer) {
            let changed = changes.in_version(&entry.manager.api_version).all();
            entry.fields = entry.fields.difference(&changed);
        }
        self.entries.retain(|entry| !entry.fields.is_empty());
    }

    /// Removes fields from a manager. The time of its entry stays.
    pub(super) fn remove_fields(&mut self, manager: &Manager, fields: &FieldSet) {
        for entry in self.entries.iter_mut().filter(|entry| entry.manager == *manager) {
            entry.fields = entry.fields.difference(fields);
        }
        self.entries.retain(|entry| !entry.fields.is_empty());
    }

    /// Removes fields from all managers. Their times stay.
    pub(super) fn remove_from_all(&mut self, fields: &FieldSet) {
        for entry in &mut self.entries {
            entry.fields = entry.fields.difference(fields);
        }
        self.entries.retain(|entry| !entry.fields.is_empty());
    }

    /// Gives each manager that updated `fields` an entry for them alone, without a time, as a write to a subresource with another API version does
    /// in Kubernetes.
    pub(super) fn split_updates(&mut self, fields: &FieldSet) {
        let mut split = Vec::new();
        for entry in self.entries.iter_mut().filter(|entry| entry.manager.operation == Operation::Update) {
            let part = entry.fields.intersection(fields);
            if part.is_empty() {
                continue;
            }
            entry.fields = entry.fields.difference(fields);
            split.push(Entry { manager: entry.manager.clone(), time: String::new(), fields: part });
        }
        self.entries.retain(|entry| !entry.fields.is_empty());
        self.entries.append(&mut split);
    }

    /// Merges the oldest update managers into one entry while there are more than [`MAX_UPDATE_MANAGERS`], so that
    /// objects do not grow without bound.
    pub(super) fn cap_update_managers(&mut self, writer: &Writer<'_>) {
        loop {
            let updates = self.entries.iter().enumerate();
            let mut updates: Vec<_> =
                updates.filter(|(_, entry)| entry.manager.operation == Operation::Update).collect();
            if updates.len() <= MAX_UPDATE_MANAGERS {
                return;
            }
            updates.sort_by(|(_, a), (_, b)| a.time.cmp(&b.time));
            let is_ancient = |entry: &Entry| entry.manager.name == ANCIENT_CHANGES;
            let ancient = updates.iter().find(|(_, entry)| is_ancient(entry)).map(|(index, _)| *index);
            let oldest = updates.iter().find(|(_, entry)| !is_ancient(entry)).map(|(index, _)| *index);
            let Some(oldest) = oldest else { return };
            let mut entry = self.entries[oldest].clone();
            match ancient {
                Some(ancient) => {
                    self.entries[ancient].fields = self.entries[ancient].fields.union(&entry.fields);
                    self.entries.remove(oldest);
                }
                None => {
                    entry.manager = Manager::new(
                        &Writer { manager: ANCIENT_CHANGES, subresource: "", ..*writer },
                        Operation::Update,
                    );
                    self.entries[oldest] = entry;
                }
            }
        }
    }

    /// Writes `metadata.managedFields` in the order of Kubernetes: applies before updates, each sorted by time.
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

/// Returns `fields` without those that no manager can own by such a write.
pub(super) fn ownable_fields(mut fields: FieldSet, writer: &Writer<'_>) -> FieldSet {
    fields.remove("f:apiVersion");
    fields.remove("f:kind");
    if let Some(metadata) = fields.child_mut("f:metadata") {
        for name in SERVER_METADATA {
            metadata.remove(name);
        }
    }
    fields.remove_member("f:metadata");
    match writer.subresource {
        "status" => match writer.kept_by_status {
            None => fields = fields.only("f:status"),
            Some(kept) => {
                fields.remove("f:spec");
                if let Some(metadata) = fields.child_mut("f:metadata") {
                    kept.iter().for_each(|name| metadata.remove(&format!("f:{name}")));
                }
            }
        },
        "" if writer.has_status => fields.remove("f:status"),
        _ => {}
    }
    fields.without_empty()
}

/// Returns an applied configuration without the parts that the write ignores: `status` in a write to the main resource
/// (if status is a subresource), the specification and what the status keeps of the metadata in a write to `status`.
pub(super) fn without_ignored_parts(config: &Value, writer: &Writer<'_>) -> Value {
    let mut config = config.clone();
    let Some(object) = config.as_object_mut() else { return config };
    match writer.subresource {
        "status" => match writer.kept_by_status {
            None => object.retain(|name, _| ["apiVersion", "kind", "status"].contains(&name.as_str())),
            Some(kept) => {
                object.remove("spec");
                if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                    kept.iter().for_each(|name| drop(metadata.remove(*name)));
                }
            }
        },
        "" if writer.has_status => drop(object.remove("status")),
        _ => {}
    }
    config
}
