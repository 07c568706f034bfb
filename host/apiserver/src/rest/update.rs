use std::sync::Arc;

use serde_json::{Value, json};

use super::{Written, admit, kinds, meta};
use crate::crd;
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::schema::field;
use crate::server::State;
use crate::status::{Cause, Status};
use crate::storage::{Stored, WriteError};

/// How often a write without a resourceVersion is tried again when another one came first.
const CONFLICT_ATTEMPTS: usize = 16;

/// Which part of an object a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything but the status, if that is a subresource.
    Main,
    /// The status alone.
    Status,
    /// A namespace's `spec.finalizers`.
    Finalize,
    /// What `/scale` writes; it is validated and counted like `Main`.
    Scale,
}

impl Part {
    /// The subresource of a path.
    pub(crate) fn of(subresource: Option<&str>) -> Self {
        match subresource {
            Some("status") => Self::Status,
            Some("finalize") => Self::Finalize,
            Some("scale") => Self::Scale,
            _ => Self::Main,
        }
    }

    fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::Scale => "scale",
        }
    }
}

/// What the caller makes of the present state.
pub(crate) struct Change {
    pub value: Value,
    /// Whether field managers are in it already, because it was applied.
    pub applied: bool,
    /// Whether to begin anew when another write came first, because the client named no resourceVersion.
    pub retry: bool,
}

/// Replaces an object by what `change` makes of its present state, in the served form. Called again when another write
/// came first and the new state names no resourceVersion.
pub(crate) fn update(
    state: &State,
    endpoint: &Endpoint,
    key: (&str, &str),
    part: Part,
    options: &WriteOptions,
    change: impl Fn(&Value) -> Result<Change, Status>,
) -> Result<Written, Status> {
    let (namespace, name) = key;
    let table = &endpoint.resource.table;
    for attempt in 1.. {
        let current = table.get(namespace, name).ok_or_else(|| Status::not_found(endpoint.about(), name))?;
        let old = endpoint.serve(&current);
        let Change { value: new, applied, retry } = change(&old)?;
        check_preconditions(endpoint, name, part, &old, &new)?;
        let (new, warnings) = prepare(state, endpoint, part, &old, new, options, applied)?;
        if same(&old, &new) {
            return Ok(Written { object: current, created: false, warnings });
        }
        match store(state, endpoint, &current, new, options.dry_run) {
            Ok(object) => {
                crd::after_write(state, endpoint, name, options.dry_run);
                return Ok(Written { object, created: false, warnings });
            }
            Err(_) if retry && attempt < CONFLICT_ATTEMPTS => {}
            Err(_) => return Err(Status::modified(endpoint.about(), name)),
        }
    }
    unreachable!("the last attempt returns")
}

fn check_preconditions(
    endpoint: &Endpoint,
    name: &str,
    part: Part,
    old: &Value,
    new: &Value,
) -> Result<(), Status> {
    let about = endpoint.about();
    let (before, after) = (meta::text(old, "resourceVersion"), meta::text(new, "resourceVersion"));
    if after.is_empty() {
        let conditional = endpoint.resource.rules.conditional_update || endpoint.resource.custom.is_some();
        if conditional && part != Part::Scale {
            let cause = Cause {
                field: "metadata.resourceVersion".into(),
                reason: "FieldValueInvalid".into(),
                message: "Invalid value: 0x0: must be specified for an update".into(),
            };
            return Err(Status::invalid(about, name, vec![cause]));
        }
    } else if before != after {
        return Err(Status::modified(about, name));
    }
    let (before, after) = (meta::text(old, "uid"), meta::text(new, "uid"));
    if !after.is_empty() && before != after {
        let problem =
            format!("Precondition failed: UID in precondition: {after}, UID in object meta: {before}");
        return Err(Status::conflict(about, name, &problem));
    }
    Ok(())
}

/// The new state as it would be stored, and warnings.
fn prepare(
    state: &State,
    endpoint: &Endpoint,
    part: Part,
    old: &Value,
    mut new: Value,
    options: &WriteOptions,
    applied: bool,
) -> Result<(Value, Vec<String>), Status> {
    let mut warnings = admit::decode(endpoint, &mut new, options.validation)?;
    let mut causes = new_finalizers(old, &new);
    meta::keep_server_fields(old, &mut new);
    restrict(endpoint, part, old, &mut new);
    if part == Part::Main || part == Part::Status {
        causes.extend(kinds::prepare_update(state, endpoint, part, old, &mut new));
    }
    if part != Part::Status && counts(endpoint, old, &new) {
        meta::of(&mut new).insert("generation".into(), json!(meta::generation(old) + 1));
    }
    admit::validate(endpoint, &new, Some(old), causes)?;
    state.access.refuse_escalation(endpoint, Some(old), &new, options.author.as_ref())?;
    if !applied {
        admit::track(endpoint, Some(old), &mut new, options, part.subresource(), &state.now());
    }
    warnings.dedup();
    Ok((new, warnings))
}

/// Takes from the old state what this kind of write does not change.
fn restrict(endpoint: &Endpoint, part: Part, old: &Value, new: &mut Value) {
    match part {
        Part::Main | Part::Scale => {
            if endpoint.status {
                keep(old, new, "status");
            }
        }
        Part::Status | Part::Finalize => {
            let managed = new["metadata"]["managedFields"].take();
            let mut kept = old.clone();
            if part == Part::Status {
                keep(new, &mut kept, "status");
            } else {
                kept["spec"] = new["spec"].take();
            }
            if !managed.is_null() {
                meta::of(&mut kept).insert("managedFields".into(), managed);
            }
            *new = kept;
        }
    }
}

fn keep(from: &Value, to: &mut Value, field: &str) {
    let Some(target) = to.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => drop(target.insert(field.into(), value.clone())),
        None => drop(target.remove(field)),
    }
}

/// Whether a change advances `metadata.generation`.
fn counts(endpoint: &Endpoint, old: &Value, new: &Value) -> bool {
    let custom = endpoint.resource.custom.is_some();
    if !custom && !endpoint.resource.rules.generation {
        return false;
    }
    let ignored = |name: &str| name == "metadata" || (name == "status" && (endpoint.status || !custom));
    let differs = |a: &Value, b: &Value| {
        a.as_object().into_iter().flatten().any(|(name, value)| !ignored(name) && b.get(name) != Some(value))
    };
    differs(old, new) || differs(new, old)
}

/// An object that is being deleted gets no new finalizers.
fn new_finalizers(old: &Value, new: &Value) -> Vec<Cause> {
    if old["metadata"].get("deletionTimestamp").is_none() {
        return Vec::new();
    }
    let before = meta::finalizers(old);
    let added: Vec<String> =
        meta::finalizers(new).into_iter().filter(|finalizer| !before.contains(finalizer)).collect();
    if added.is_empty() {
        return Vec::new();
    }
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.iter().map(|finalizer| format!("{finalizer:?}")).collect::<Vec<_>>().join(", ")
    );
    vec![field::forbidden("metadata.finalizers", &detail)]
}

/// Whether nothing changed, so that nothing is written. Field managers' times alone are no change.
fn same(old: &Value, new: &Value) -> bool {
    fn without_times(value: &Value) -> Value {
        let mut value = value.clone();
        for entry in value["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
            entry.as_object_mut().map(|entry| entry.remove("time"));
        }
        value
    }
    old == new || (old["spec"] == new["spec"] && without_times(old) == without_times(new))
}

/// Stores the new state, or, where it is the end of a deletion, removes the object.
fn store(
    state: &State,
    endpoint: &Endpoint,
    current: &Arc<Stored>,
    new: Value,
    dry_run: bool,
) -> Result<Arc<Stored>, WriteError> {
    let table = &endpoint.resource.table;
    let finished = is_finished(endpoint, &new);
    let draft = endpoint.resource.draft(endpoint.stored(new));
    if dry_run {
        return Ok(Arc::new(Stored::unwritten(draft)));
    }
    if finished {
        let gone = table.delete(current, draft)?;
        crd::after_delete(state, endpoint);
        return Ok(gone);
    }
    table.update(current, draft)
}

/// Whether an object that is being deleted has nothing left to wait for.
fn is_finished(endpoint: &Endpoint, value: &Value) -> bool {
    let metadata = &value["metadata"];
    metadata["deletionTimestamp"].is_string()
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && meta::finalizers(value).is_empty()
        && (!kinds::is_namespace(endpoint)
            || value["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_managers_alone_are_no_change() {
        let with = |time: &str, labels: Value| json!({"metadata": {"labels": labels, "managedFields": [{"time": time}]}});
        assert!(same(&with("a", json!({})), &with("b", json!({}))));
        assert!(!same(&with("a", json!({})), &with("b", json!({"x": "y"}))));
    }

    #[test]
    fn finalizers_may_go_but_not_come_while_an_object_is_deleted() {
        let old = json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["a/b", "c/d"]}});
        assert!(new_finalizers(&old, &json!({"metadata": {"finalizers": ["c/d"]}})).is_empty());
        assert_eq!(new_finalizers(&old, &json!({"metadata": {"finalizers": ["e/f"]}})).len(), 1);
    }
}
