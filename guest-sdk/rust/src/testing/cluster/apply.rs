//! Server-side apply, and the field managers of values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::patches;
use super::errors::{conflict, other};
use super::metadata::{SERVER_FIELDS, metadata, metadata_mut};
use super::{Answer, Cluster, Id, Part};

/// The options of a server-side apply.
pub(in crate::testing) struct Apply<'a> {
    pub(in crate::testing) manager: &'a str,
    pub(in crate::testing) force: bool,
}

impl Cluster {
    pub(in crate::testing) fn apply(
        &mut self,
        id: &Id,
        mut config: Value,
        part: Part,
        apply: &Apply<'_>,
    ) -> Answer {
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
}

fn is_status(pointer: &str) -> bool {
    pointer == "/status" || pointer.starts_with("/status/")
}

/// Returns the values that have field managers, by JSON pointer.
pub(super) fn tracked(object: &Value) -> BTreeMap<String, Value> {
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
