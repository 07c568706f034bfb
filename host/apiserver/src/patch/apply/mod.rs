//! Server-side apply and field ownership (`metadata.managedFields`).
//!
//! The design is that of `sigs.k8s.io/structured-merge-diff` and `k8s.io/apimachinery/pkg/util/managedfields`: a field
//! set per manager, a typed merge, a conflict where a manager changes a field that another one owns, and the removal of
//! fields that a manager no longer applies and nobody else owns.

mod configuration;
mod conflict;
mod diff;
mod fieldset;
mod identity;
mod last_applied;
mod managed;
mod merge;
mod prune;
mod typed;
mod versions;
mod zero_value;

#[cfg(test)]
mod tests;

pub use configuration::merge_configuration;
pub use conflict::Conflict;
pub use fieldset::FieldSet;
pub use last_applied::update_last_applied;
use managed::{Manager, Managers, Operation};
use serde_json::Value;
use thiserror::Error;
pub use typed::check_config;
use versions::VersionedChanges;
pub use versions::{CustomVersions, Versions};

use crate::schema::Schema;
use crate::status::Cause;

/// The field manager that makes a write, and the properties of that write.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The field manager's name.
    pub manager: &'a str,
    /// The API version of the written object, such as `apps/v1`.
    pub api_version: &'a str,
    /// The written subresource (`status`, `scale`); empty for the main resource.
    pub subresource: &'a str,
    /// Whether the resource has a status subresource. Writes to the main resource then leave `status` as it is.
    pub has_status: bool,
    /// The fields of the metadata that a write to the status leaves as they are, and so owns none of. `None` for all, as for a custom resource.
    pub kept_by_status: Option<&'a [&'a str]>,
    /// The versions of the kind, for managers that wrote in another one.
    pub versions: Versions<'a>,
    /// The time of the write: RFC 3339 in whole seconds.
    pub time: &'a str,
}

/// The reason why an apply fails.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ApplyError {
    /// Other managers own fields that the apply would change: 409.
    #[error("{message}")]
    Conflict {
        /// The message of kube-apiserver, with the managers and their fields.
        message: String,
        /// One cause per field.
        causes: Vec<Cause>,
    },
    /// The applied configuration sets managed fields: 400.
    #[error("{0}")]
    Malformed(String),
    /// The applied configuration does not match the schema, for example a list item lacks its key: 500, as in Kubernetes.
    #[error("{0}")]
    Untyped(String),
    /// The object cannot be converted to the API version in which a manager wrote: 500, as in Kubernetes.
    #[error("{0}")]
    Unconvertible(String),
}

const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Returns `live` with the configuration `config` applied, or a new object if there is no live one. The result has
/// updated `managedFields`. The caller defaults and validates it.
///
/// Several managers may own a field that they set to the same value. With `force`, the writer takes over the fields in
/// conflict.
///
/// # Errors
/// [`ApplyError::Conflict`] if there are conflicts and `force` is false; [`ApplyError::Malformed`] or
/// [`ApplyError::Untyped`] if [`check_config`] refuses `config`; [`ApplyError::Unconvertible`] if a manager wrote in another API version, which
/// does not have a field of the object.
pub fn apply(
    schema: &Schema,
    live: Option<&Value>,
    config: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    check_config(schema, config)?;
    let empty = Value::Object(serde_json::Map::new());
    let mut managers = live.map(Managers::read).unwrap_or_default();
    let live = live.unwrap_or(&empty);
    if managers.is_empty() && live.get("metadata").is_some() {
        // The object was last written without field tracking. As in Kubernetes, one manager gets all its fields.
        let all_fields = managed::ownable_fields(diff::fields_of(schema.root(), live), writer);
        let before_first_apply = Writer { manager: BEFORE_FIRST_APPLY, subresource: "", ..*writer };
        managers.set(Manager::new(&before_first_apply, Operation::Update), all_fields, writer.time);
    }
    versions::reconcile(&mut managers, live, writer)?;
    let config = managed::without_ignored_parts(config, writer);
    let manager = Manager::new(writer, Operation::Apply);
    let last_version = managers.api_version(&manager).map(str::to_owned);
    let last_applied = managers.fields(&manager).cloned().unwrap_or_default();
    let config_fields = diff::fields_of(schema.root(), &config);
    let applied = managed::ownable_fields(config_fields.clone(), writer);
    let mut merged = merge::merge(Some(schema.root()), live, &config);
    managers.set(manager.clone(), applied, writer.time);
    versions::check_merged(&managers, &merged, writer, last_version.as_deref())?;
    // Fields that cannot be owned count as well: `metadata` must stay for its name when its labels are removed.
    let retained = managers.all_fields().union(&config_fields);
    prune::prune(schema.root(), &mut merged, &last_applied, &retained);

    let changes = VersionedChanges::compare(schema, live, &merged, &managers, writer);
    if changes.own().all().is_empty() {
        // As in kube-apiserver, only a write that changes something sets the time of a new manager.
        managers.keep_time(&manager, live);
    }
    let mut conflicts = managers.conflicts(&manager, &changes);
    if !conflicts.is_empty() && !force {
        last_applied::remove_migrated(&mut conflicts, schema, live, writer);
        if !conflicts.is_empty() {
            return Err(conflict::conflict_error(&conflicts));
        }
    }
    managers.remove_from_others(&manager, &changes);
    managers.write(&mut merged);
    Ok(merged)
}

/// Updates `managedFields` of `new` after a create, an update or a patch other than an apply: `writer` becomes the only
/// owner of the fields that it changed. A write without changes leaves all entries and their times as they are.
///
/// As in kube-apiserver, `managedFields` in `new` replace those of `old`, unless a subresource is written. `[]` and `[{}]` clear them, and so
/// does an object that cannot be converted to the API version in which a manager wrote. An object without managed fields gets none before the next apply.
pub fn track_update(schema: &Schema, old: Option<&Value>, new: &mut Value, writer: &Writer<'_>) {
    let given = new.pointer("/metadata/managedFields").filter(|_| writer.subresource.is_empty());
    let clears = given
        .and_then(Value::as_array)
        .is_some_and(|list| list.is_empty() || *list == [serde_json::json!({})]);
    let mut managers = given.map(|_| Managers::read(new)).unwrap_or_default();
    if managers.is_empty() && !clears {
        managers = old.map(Managers::read).unwrap_or_default();
    }
    if managers.is_empty() && old.is_some() {
        managers.write(new);
        return;
    }
    // As in Go, a new object of a built-in kind has an empty specification that no manager owns.
    let empty = if schema.is_built_in() { serde_json::json!({"spec": {}}) } else { serde_json::json!({}) };
    let old = old.unwrap_or(&empty);
    let is_convertible = versions::reconcile(&mut managers, old, writer).is_ok()
        && versions::check_merged(&managers, new, writer, None).is_ok();
    if !is_convertible {
        // As in kube-apiserver, the write succeeds without managed fields.
        Managers::default().write(new);
        return;
    }
    let changes = VersionedChanges::compare(schema, old, new, &managers, writer);
    let manager = Manager::new(writer, Operation::Update);
    managers.remove_from_others(&manager, &changes);
    let changes = changes.own();
    let before = managers.fields(&manager).cloned().unwrap_or_default();
    let changed = managed::ownable_fields(changes.written(), writer);
    if changed.is_empty() {
        managers.remove_fields(&manager, &changes.removed);
    } else {
        let after = before.difference(&changes.removed).union(&changed);
        managers.set(manager, after, writer.time);
    }
    managers.cap_update_managers(writer);
    managers.write(new);
}

/// Updates `managedFields` of `new` after an update or a patch of `/scale`, as [`track_update`] does for the object itself. `path` is that of the
/// replicas in the object.
///
/// As in kube-apiserver, only the managers of the replicas take part, nobody becomes a manager if there is none, and nobody owns 0 replicas, which a
/// Scale leaves out.
pub fn track_scale_update(old: &Value, new: &mut Value, writer: &Writer<'_>, path: &str) {
    let mut managers = Managers::read(old);
    let fields = replicas_fields(path);
    if !managers.all_fields().intersection(&fields).is_empty() {
        let replicas = |object: &Value| {
            path.split('.')
                .try_fold(object, |value, part| value.get(part))
                .and_then(Value::as_i64)
                .unwrap_or(0)
        };
        let number = replicas(new);
        if number != replicas(old) {
            managers.remove_from_all(&fields);
            if number != 0 {
                let manager = Manager::new(writer, Operation::Update);
                managers.set(manager, fields, writer.time);
            }
        }
        managers.cap_update_managers(writer);
    }
    managers.write(new);
}

/// Completes `managedFields` of an object that was written through `/scale`, whose replicas are at `path`.
pub fn finish_scale(new: &mut Value, path: &str) {
    let mut managers = Managers::read(new);
    managers.split_updates(&replicas_fields(path));
    managers.write(new);
}

/// Returns the set with the replicas at a path such as `spec.replicas`.
fn replicas_fields(path: &str) -> FieldSet {
    let leaf = serde_json::json!({});
    let nested =
        path.split('.').rev().fold(leaf, |inner, part| serde_json::json!({format!("f:{part}"): inner}));
    FieldSet::from_json(&nested)
}
