//! Creates, updates, patches and deletes.

use serde_json::Value;

use super::super::kinds::Kind;
use super::super::patches::{self, PatchError};
use super::errors::{conflict, invalid, other};
use super::metadata::{SERVER_FIELDS, finalizers, is_deleted, is_set, metadata, metadata_mut};
use super::{ANOTHER_CLIENT, Answer, Cluster, Id, NOW, Part};
use crate::bindings::pilothouse::controller::types as wit;

impl Cluster {
    /// Stores an object as another client's write. Keeps what the test gives, and adds the metadata that it leaves out.
    pub(in crate::testing) fn put(&mut self, mut object: Value) -> Value {
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

    pub(in crate::testing) fn create(&mut self, mut object: Value, manager: &str) -> Answer {
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

    pub(in crate::testing) fn update(&mut self, object: Value, part: Part, manager: &str) -> Answer {
        let id = Id::of(&object);
        let present = self.require(&id, part)?;
        if self.kind(&id).needs_version && metadata(&object, "resourceVersion").is_empty() {
            let message = "Invalid value: 0x0: must be specified for an update";
            return Err(invalid("metadata.resourceVersion", "FieldValueInvalid", message));
        }
        self.replace(&id, &present, object, part, manager)
    }

    pub(in crate::testing) fn merge_patch(
        &mut self,
        id: &Id,
        patch: &Value,
        part: Part,
        manager: &str,
    ) -> Answer {
        let present = self.require(id, part)?;
        let mut result = present.clone();
        patches::merge(&mut result, patch);
        self.replace_patched(id, &present, result, part, manager)
    }

    pub(in crate::testing) fn json_patch(
        &mut self,
        id: &Id,
        patch: &Value,
        part: Part,
        manager: &str,
    ) -> Answer {
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

    pub(in crate::testing) fn delete(
        &mut self,
        id: &Id,
        uid: &str,
        version: &str,
    ) -> Result<(), wit::ApiError> {
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
    pub(super) fn replace(
        &mut self,
        id: &Id,
        present: &Value,
        proposed: Value,
        part: Part,
        manager: &str,
    ) -> Answer {
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
