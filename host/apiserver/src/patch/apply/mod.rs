//! Server-side apply and the ownership of fields (`metadata.managedFields`).
//!
//! The ideas are those of `sigs.k8s.io/structured-merge-diff` and `k8s.io/apimachinery/pkg/util/managedfields`: a set of
//! fields per manager, a typed merge, conflicts where one manager changes what another owns, and removal of what a
//! manager no longer applies and nobody else owns.

mod conflict;
mod diff;
mod fieldset;
mod identity;
mod managed;
mod merge;
mod prune;

#[cfg(test)]
mod tests;

pub use conflict::Conflict;
pub use fieldset::FieldSet;
use managed::{Manager, Managers, Operation};
use serde_json::Value;
use thiserror::Error;

use crate::schema::Schema;
use crate::status::Cause;

/// Who writes, and how.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The field manager's name.
    pub manager: &'a str,
    /// The version that the write is in (`apps/v1`).
    pub api_version: &'a str,
    /// The subresource written to (`status`, `scale`); empty for the object itself.
    pub subresource: &'a str,
    /// Whether the resource has a status subresource: then a write to the object itself does not touch `status`.
    pub has_status: bool,
    /// The time, as RFC 3339 in whole seconds.
    pub time: &'a str,
}

/// An apply that cannot be done.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ApplyError {
    /// Other managers own fields that the apply would change: 409.
    #[error("{message}")]
    Conflict {
        /// Kubernetes' text, with the managers and fields.
        message: String,
        /// One per field.
        causes: Vec<Cause>,
    },
    /// The applied configuration does not fit the schema, for example a list item without its key: 400.
    #[error("{0}")]
    Malformed(String),
}

const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Applies `config` to `live`, or creates it. The result has new `managedFields`; defaulting and validation are the
/// caller's.
///
/// Equal values may be owned by several managers. With `force`, fields in conflict are taken from their owners.
///
/// # Errors
/// [`ApplyError::Conflict`] without `force`; [`ApplyError::Malformed`] if `config` has managed fields of its own or
/// items without keys.
pub fn apply(
    schema: &Schema,
    live: Option<&Value>,
    config: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    if config
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty())
    {
        return Err(ApplyError::Malformed("metadata.managedFields must be nil".into()));
    }
    identity::check_keys(schema.root(), config, "").map_err(ApplyError::Malformed)?;
    let empty = Value::Object(serde_json::Map::new());
    let mut managers = live.map(Managers::read).unwrap_or_default();
    let live = live.unwrap_or(&empty);
    if managers.is_empty() && live.get("metadata").is_some() {
        // The object was written before fields were tracked: somebody must own what it has.
        let everything = managed::tracked(diff::fields_of(schema.root(), live), writer);
        let before = Writer { manager: BEFORE_FIRST_APPLY, subresource: "", ..*writer };
        managers.set(Manager::of(&before, Operation::Update), everything, writer.time);
    }
    let mut config = managed::without_untouched(config, writer);
    schema.canonicalize(&mut config);
    let manager = Manager::of(writer, Operation::Apply);
    let last = managers.fields(&manager).cloned().unwrap_or_default();
    let said = diff::fields_of(schema.root(), &config);
    let applied = managed::tracked(said.clone(), writer);
    let mut merged = merge::merge(Some(schema.root()), live, &config);
    managers.set(manager.clone(), applied, writer.time);
    // What nobody can own counts here, too: `metadata` stays for its name when the labels in it go.
    prune::prune(schema.root(), &mut merged, &last, &managers.all().union(&said));

    let changes = diff::compare(schema.root(), live, &merged);
    let conflicts = managers.conflicts(&manager, &changes);
    if !conflicts.is_empty() && !force && !only_last_applied(schema, live, &conflicts, writer) {
        return Err(conflict::error(&conflicts));
    }
    managers.give_up(&manager, &changes, writer.time);
    managers.write(&mut merged);
    Ok(merged)
}

/// Records in `new` who owns what after an ordinary write (create, update or patch) by `writer`: the writer owns what
/// it changed, and whoever owned that before no longer does. Without a change nothing is recorded, times included.
///
/// As on a real server, `managedFields` in `new` replace those of `old`, and `[{}]` clears them.
pub fn track_update(schema: &Schema, old: Option<&Value>, new: &mut Value, writer: &Writer<'_>) {
    let reset = new.pointer("/metadata/managedFields") == Some(&serde_json::json!([{}]));
    if reset {
        Managers::default().write(new);
        return;
    }
    let mut managers = Managers::read(new);
    if managers.is_empty() {
        managers = old.map(Managers::read).unwrap_or_default();
    }
    let empty = Value::Object(serde_json::Map::new());
    let changes = diff::compare(schema.root(), old.unwrap_or(&empty), new);
    let manager = Manager::of(writer, Operation::Update);
    managers.give_up(&manager, &changes, writer.time);
    let before = managers.fields(&manager).cloned().unwrap_or_default();
    let changed = managed::tracked(changes.written(), writer);
    let after = before.difference(&changes.removed).union(&changed);
    if after != before {
        managers.set(manager, after, writer.time);
    }
    managers.cap(writer);
    managers.write(new);
}

/// Whether all conflicts are fields that kubectl itself had applied on the client side: moving from client-side to
/// server-side apply is no conflict.
fn only_last_applied(schema: &Schema, live: &Value, conflicts: &[Conflict], writer: &Writer<'_>) -> bool {
    if writer.manager != KUBECTL {
        return false;
    }
    let Some(text) = live.pointer(LAST_APPLIED).and_then(Value::as_str) else { return false };
    let Ok(applied) = serde_json::from_str::<Value>(text) else { return false };
    let allowed = diff::fields_of(schema.root(), &applied);
    conflicts.iter().all(|conflict| conflict.fields.difference(&allowed).is_empty())
}
