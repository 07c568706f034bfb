//! The fake API server. `guest-sdk/testing/cases.json` specifies it. It follows kube-apiserver, without schemas, defaults, admission and
//! the garbage collector.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::patches::{self, PatchError};
use super::select::{LabelSelector, matches_fields};
use crate::ObjectKey;
use crate::bindings::pilothouse::controller::types as wit;

type Answer = Result<Value, wit::ApiError>;

/// The time of every creation and deletion.
const NOW: &str = "2026-01-01T00:00:00Z";
/// The field manager of the test's own writes.
const ANOTHER_CLIENT: &str = "another client";
/// The metadata that a client may leave out of an update, and cannot change.
const SERVER_FIELDS: [&str; 7] = [
    "uid",
    "creationTimestamp",
    "generation",
    "resourceVersion",
    "generateName",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Identifies an object in the cluster. Sorts by type, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) key: ObjectKey,
}

impl Id {
    /// The identity of a manifest. Its parts are empty where the manifest lacks them.
    pub(super) fn of(object: &Value) -> Self {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        Self { api_version: text("apiVersion"), kind: text("kind"), key: key_of(object) }
    }
}

/// Returns the key of a manifest.
pub(super) fn key_of(object: &Value) -> ObjectKey {
    ObjectKey::new(metadata(object, "namespace"), metadata(object, "name"))
}

/// Selects objects of one type.
pub(super) struct Selection<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    /// "" for all namespaces.
    pub(super) namespace: &'a str,
    pub(super) labels: LabelSelector,
    pub(super) fields: &'a str,
}

/// Which part of an object a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Object,
    Status,
}

/// The options of a server-side apply.
pub(super) struct Apply<'a> {
    pub(super) manager: &'a str,
    pub(super) force: bool,
}

/// An object, and the field managers of its values by JSON pointer: "NAME apply" for applies, "NAME" for other writes.
struct Stored {
    object: Value,
    owners: Owners,
}

type Owners = BTreeMap<String, BTreeSet<String>>;

/// The objects of a fake API server.
pub(super) struct Cluster {
    crds: Vec<Value>,
    objects: BTreeMap<Id, Stored>,
    version: u64,
}

impl Cluster {
    pub(super) fn new(crds: Vec<Value>) -> Self {
        Self { crds, objects: BTreeMap::new(), version: 0 }
    }

    pub(super) fn kind(&self, id: &Id) -> Kind {
        Kind::of(&self.crds, &id.api_version, &id.kind)
    }

    pub(super) fn find(&self, id: &Id) -> Option<&Value> {
        self.objects.get(id).map(|stored| &stored.object)
    }

    pub(super) fn require(&self, id: &Id, part: Part) -> Answer {
        let kind = self.kind(id);
        let found = self.find(id).filter(|_| part == Part::Object || kind.has_status);
        let missing = || wit::ApiError::NotFound(format!("{} {:?} not found", kind.resource(), id.key.name));
        found.cloned().ok_or_else(missing)
    }

    /// Returns the selected objects, sorted by namespace and name.
    pub(super) fn select(&self, selection: &Selection<'_>) -> Vec<Value> {
        let Selection { api_version, kind, namespace, labels, fields } = selection;
        let is_selected = |id: &Id, object: &Value| {
            id.api_version == *api_version
                && id.kind == *kind
                && (namespace.is_empty() || id.key.namespace == *namespace)
                && labels.matches(object)
                && matches_fields(fields, object)
        };
        let selected = self.objects.iter().filter(|(id, stored)| is_selected(id, &stored.object));
        selected.map(|(_, stored)| stored.object.clone()).collect()
    }

    /// Stores an object as another client's write. Keeps what the test gives, and adds the metadata that it leaves out.
    pub(super) fn put(&mut self, mut object: Value) -> Value {
        let id = Id::of(&object);
        let kind = self.kind(&id);
        let before = self.find(&id).cloned();
        let old = |field: &str| before.as_ref().and_then(|before| before["metadata"].get(field)).cloned();
        let (uid, created) = (old("uid"), old("creationTimestamp"));
        let new_uid = self.new_uid();
        let members = metadata_mut(&mut object);
        members.entry("uid").or_insert_with(|| uid.unwrap_or(new_uid));
        members.entry("creationTimestamp").or_insert_with(|| created.unwrap_or_else(|| NOW.into()));
        let is_same = |before: &&Value| before["metadata"]["uid"] == object["metadata"]["uid"];
        let generation = match before.as_ref().filter(is_same) {
            Some(before) => generation(&kind, before, &object),
            None => object["metadata"]["generation"].as_u64().unwrap_or(1),
        };
        if kind.has_generation {
            metadata_mut(&mut object).insert("generation".into(), generation.into());
        }
        let is_going = before.is_some_and(|before| is_set(&before, "deletionTimestamp"));
        if is_going && is_deleted(&object) {
            return self.take(&id, object);
        }
        self.store(&id, object, ANOTHER_CLIENT)
    }

    pub(super) fn create(&mut self, mut object: Value, manager: &str) -> Answer {
        let kind = self.kind(&Id::of(&object));
        if !metadata(&object, "resourceVersion").is_empty() {
            return Err(other(500, "", "resourceVersion should not be set on objects to be created"));
        }
        if metadata(&object, "name").is_empty() {
            let prefix = metadata(&object, "generateName").to_owned();
            if prefix.is_empty() {
                let message = "Required value: name or generateName is required";
                return Err(invalid("metadata.name", "FieldValueRequired", message));
            }
            let name = format!("{prefix}{:05}", self.version + 1);
            metadata_mut(&mut object).insert("name".into(), name.into());
        }
        let id = Id::of(&object);
        check_new_name(&kind, &id.key.name)?;
        if self.objects.contains_key(&id) {
            let message = format!("{} {:?} already exists", kind.resource(), id.key.name);
            return Err(wit::ApiError::AlreadyExists(message));
        }
        let uid = self.new_uid();
        let members = metadata_mut(&mut object);
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            members.remove(field);
        }
        members.insert("uid".into(), uid);
        members.insert("creationTimestamp".into(), NOW.into());
        if kind.has_generation {
            members.insert("generation".into(), 1.into());
        }
        if kind.has_status {
            copy_member(&Value::Null, &mut object, "status");
        }
        Ok(self.store(&id, object, manager))
    }

    pub(super) fn update(&mut self, object: Value, part: Part, manager: &str) -> Answer {
        let id = Id::of(&object);
        let present = self.require(&id, part)?;
        if self.kind(&id).needs_version && metadata(&object, "resourceVersion").is_empty() {
            let message = "Invalid value: 0x0: must be specified for an update";
            return Err(invalid("metadata.resourceVersion", "FieldValueInvalid", message));
        }
        self.replace(&id, &present, object, part, manager)
    }

    pub(super) fn merge_patch(&mut self, id: &Id, patch: &Value, part: Part, manager: &str) -> Answer {
        let present = self.require(id, part)?;
        let mut result = present.clone();
        patches::merge(&mut result, patch);
        self.replace_patched(id, &present, result, part, manager)
    }

    pub(super) fn json_patch(&mut self, id: &Id, patch: &Value, part: Part, manager: &str) -> Answer {
        let present = self.require(id, part)?;
        let result = patches::json_patch(&present, patch).map_err(|error| match error {
            PatchError::Malformed(message) => other(400, "BadRequest", &message),
            PatchError::Failed(message) => invalid("", "Invalid", &message),
        })?;
        self.replace_patched(id, &present, result, part, manager)
    }

    fn replace_patched(
        &mut self,
        id: &Id,
        present: &Value,
        result: Value,
        part: Part,
        manager: &str,
    ) -> Answer {
        if !result.is_object() || Id::of(&result) != *id {
            let message = "a patch cannot change the type, the namespace or the name of an object";
            return Err(other(400, "BadRequest", message));
        }
        self.replace(id, present, result, part, manager)
    }

    pub(super) fn apply(&mut self, id: &Id, mut config: Value, part: Part, apply: &Apply<'_>) -> Answer {
        let members = metadata_mut(&mut config);
        members.insert("name".into(), id.key.name.clone().into());
        if !id.key.namespace.is_empty() {
            members.insert("namespace".into(), id.key.namespace.clone().into());
        }
        if Id::of(&config) != *id {
            return Err(other(400, "BadRequest", "the applied manifest has another type"));
        }
        if part == Part::Object && !self.objects.contains_key(id) {
            return self.create(config, apply.manager);
        }
        let present = self.require(id, part)?;
        let kind = self.kind(id);
        let is_applied = |pointer: &str| !kind.has_status || is_status(pointer) == (part == Part::Status);
        let mut wanted = tracked(&config);
        wanted.retain(|pointer, _| is_applied(pointer));
        let mut owners = self.objects.get(id).map(|stored| stored.owners.clone()).unwrap_or_default();
        let changed: BTreeSet<String> = wanted
            .iter()
            .filter(|(pointer, value)| present.pointer(pointer) != Some(*value))
            .map(|(pointer, _)| pointer.clone())
            .collect();
        let is_contested = |pointer: &&String| {
            owners.get(*pointer).is_some_and(|managers| managers.iter().any(|owner| owner != apply.manager))
        };
        let contested: Vec<_> = changed.iter().filter(is_contested).map(String::as_str).collect();
        if !contested.is_empty() && !apply.force {
            let fields = contested.join(", ");
            let message = format!(
                "Apply failed with {} conflicts with other field managers: {fields}",
                contested.len()
            );
            return Err(conflict(&message, metadata(&present, "resourceVersion")));
        }
        let mut result = present.clone();
        owners.retain(|pointer, managers| {
            let is_given_up = !wanted.contains_key(pointer) && is_applied(pointer);
            if !is_given_up || !managers.remove(apply.manager) || !managers.is_empty() {
                return true;
            }
            patches::remove(&mut result, pointer);
            false
        });
        for pointer in &changed {
            patches::put(&mut result, pointer, wanted[pointer].clone());
        }
        let written = self.replace(id, &present, result, part, apply.manager)?;
        if let Some(stored) = self.objects.get_mut(id) {
            for pointer in wanted.into_keys() {
                let is_changed = changed.contains(&pointer);
                let managers = owners.entry(pointer).or_default();
                if is_changed {
                    managers.clear();
                }
                managers.insert(apply.manager.to_owned());
            }
            stored.owners = owners;
        }
        Ok(written)
    }

    pub(super) fn delete(&mut self, id: &Id, uid: &str, version: &str) -> Result<(), wit::ApiError> {
        let present = self.require(id, Part::Object)?;
        let current = metadata(&present, "resourceVersion").to_owned();
        let is_other = |wanted: &str, found: &str| !wanted.is_empty() && wanted != found;
        if is_other(uid, metadata(&present, "uid")) || is_other(version, &current) {
            let message = "Precondition failed: the object has another UID or resource version";
            return Err(conflict(message, &current));
        }
        if finalizers(&present).is_empty() {
            self.take(id, present);
        } else if !is_set(&present, "deletionTimestamp") {
            let mut marked = present;
            let generation = marked["metadata"]["generation"].as_u64().unwrap_or(0);
            let members = metadata_mut(&mut marked);
            members.insert("deletionTimestamp".into(), NOW.into());
            members.insert("deletionGracePeriodSeconds".into(), 0.into());
            if generation > 0 {
                members.insert("generation".into(), (generation + 1).into());
            }
            self.store(id, marked, ANOTHER_CLIENT);
        }
        Ok(())
    }

    /// Replaces an object, or its status, by what a client proposes.
    fn replace(&mut self, id: &Id, present: &Value, proposed: Value, part: Part, manager: &str) -> Answer {
        let kind = self.kind(id);
        check_preconditions(present, &proposed)?;
        let is_going = is_set(present, "deletionTimestamp");
        let known = finalizers(present);
        if part == Part::Object && is_going && finalizers(&proposed).iter().any(|name| !known.contains(name))
        {
            let message = "Forbidden: no new finalizers can be added if the object is being deleted";
            return Err(invalid("metadata.finalizers", "FieldValueForbidden", message));
        }
        let mut result = match part {
            Part::Object => {
                let mut result = proposed;
                if kind.has_status {
                    copy_member(present, &mut result, "status");
                }
                result
            }
            Part::Status => {
                let mut result = present.clone();
                copy_member(&proposed, &mut result, "status");
                result
            }
        };
        let members = metadata_mut(&mut result);
        for field in SERVER_FIELDS {
            match present["metadata"].get(field) {
                Some(value) => members.insert(field.into(), value.clone()),
                None => members.remove(field),
            };
        }
        if part == Part::Object && kind.has_generation {
            let generation = generation(&kind, present, &result);
            metadata_mut(&mut result).insert("generation".into(), generation.into());
        }
        if result == *present {
            return Ok(result);
        }
        if is_going && is_deleted(&result) {
            return Ok(self.take(id, result));
        }
        Ok(self.store(id, result, manager))
    }

    fn new_uid(&self) -> Value {
        format!("uid-{}", self.version + 1).into()
    }

    fn next_version(&mut self) -> Value {
        self.version += 1;
        self.version.to_string().into()
    }

    fn store(&mut self, id: &Id, mut object: Value, manager: &str) -> Value {
        let version = self.next_version();
        metadata_mut(&mut object).insert("resourceVersion".into(), version);
        let present = self.objects.get(id);
        let before = present.map(|stored| tracked(&stored.object)).unwrap_or_default();
        let owners_of = |pointer: &str, value: &Value| {
            let is_unchanged = before.get(pointer) == Some(value);
            let known = present.and_then(|stored| stored.owners.get(pointer));
            match known.filter(|_| is_unchanged) {
                Some(known) => known.clone(),
                None => BTreeSet::from([manager.to_owned()]),
            }
        };
        let owners = tracked(&object)
            .into_iter()
            .map(|(pointer, value)| {
                let owners = owners_of(&pointer, &value);
                (pointer, owners)
            })
            .collect();
        self.objects.insert(id.clone(), Stored { object: object.clone(), owners });
        object
    }

    /// Removes an object, and returns its last state.
    fn take(&mut self, id: &Id, mut object: Value) -> Value {
        let version = self.next_version();
        self.objects.remove(id);
        metadata_mut(&mut object).insert("resourceVersion".into(), version);
        object
    }
}

/// Returns a text of the metadata, "" for none.
fn metadata<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn is_set(object: &Value, field: &str) -> bool {
    object["metadata"][field].is_string()
}

/// Returns the metadata of an object, which is added if it is missing.
fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"].as_object_mut().expect("it was made an object")
}

fn finalizers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

/// Returns whether nothing delays the removal of an object that is being deleted.
fn is_deleted(object: &Value) -> bool {
    let grace_period = object["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
    finalizers(object).is_empty() && grace_period == 0
}

/// Returns the generation, which counts the changes of everything but the metadata and the status.
fn generation(kind: &Kind, before: &Value, after: &Value) -> u64 {
    let is_ignored = |name: &str| name == "metadata" || (kind.has_status && name == "status");
    let differs = |one: &Value, other: &Value| {
        let mut members = one.as_object().into_iter().flatten();
        members.any(|(name, value)| !is_ignored(name) && other.get(name) != Some(value))
    };
    let changes = u64::from(differs(before, after) || differs(after, before));
    before["metadata"]["generation"].as_u64().unwrap_or(0) + changes
}

/// Copies a member, or removes it if the source does not have it.
fn copy_member(source: &Value, target: &mut Value, name: &str) {
    let Some(members) = target.as_object_mut() else { return };
    match source.get(name) {
        Some(value) => members.insert(name.to_owned(), value.clone()),
        None => members.remove(name),
    };
}

fn is_status(pointer: &str) -> bool {
    pointer == "/status" || pointer.starts_with("/status/")
}

/// Returns the values that have field managers, by JSON pointer.
fn tracked(object: &Value) -> BTreeMap<String, Value> {
    let mut found = patches::leaves(object);
    found.retain(|pointer, _| match pointer.strip_prefix("/metadata") {
        Some(field) => {
            let field = field.trim_start_matches('/');
            !(["", "name", "namespace"].contains(&field)
                || SERVER_FIELDS.contains(&field)
                || field.starts_with("managedFields"))
        }
        None => !["", "/apiVersion", "/kind"].contains(&pointer.as_str()),
    });
    found
}

fn check_preconditions(present: &Value, proposed: &Value) -> Result<(), wit::ApiError> {
    let current = metadata(present, "resourceVersion");
    let given = metadata(proposed, "resourceVersion");
    if !given.is_empty() && given != current {
        let message =
            "the object has been modified; please apply your changes to the latest version and try again";
        return Err(conflict(message, current));
    }
    let (uid, given) = (metadata(present, "uid"), metadata(proposed, "uid"));
    if !given.is_empty() && given != uid {
        let message = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {uid}");
        return Err(conflict(&message, current));
    }
    Ok(())
}

fn check_new_name(kind: &Kind, name: &str) -> Result<(), wit::ApiError> {
    let is_edge = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(is_edge)
            && label.ends_with(is_edge)
            && label.chars().all(|char| is_edge(char) || char == '-')
    };
    if kind.group == "rbac.authorization.k8s.io" || (name.len() <= 253 && name.split('.').all(is_label)) {
        return Ok(());
    }
    let rule = "a lowercase RFC 1123 subdomain consists of lower case letters, digits, '-' and '.'";
    Err(invalid("metadata.name", "FieldValueInvalid", &format!("Invalid value: {name:?}: {rule}")))
}

pub(super) fn conflict(message: &str, version: &str) -> wit::ApiError {
    let (message, resource_version) = (message.to_owned(), version.to_owned());
    wit::ApiError::Conflict(wit::ConflictInfo { message, resource_version })
}

pub(super) fn invalid(field: &str, reason: &str, message: &str) -> wit::ApiError {
    let [field, reason, message] = [field, reason, message].map(str::to_owned);
    wit::ApiError::Invalid(vec![wit::Cause { field, reason, message }])
}

pub(super) fn other(code: u16, reason: &str, message: &str) -> wit::ApiError {
    let [reason, message] = [reason, message].map(str::to_owned);
    wit::ApiError::Other(wit::HttpStatus { code, reason, message })
}
