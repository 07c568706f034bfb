//! Finalizers: cleanup that must happen before an object is deleted, in the style of kube-rs' `finalizer` module.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::client::{Client, Patch};
use crate::{ApiError, Error, ObjectKey, Outcome, Resource};

/// What a reconciler that holds a finalizer has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The object exists and has the finalizer: bring the world to the desired state.
    Apply,
    /// The object is being deleted: undo what was done. After a success the finalizer is removed.
    Cleanup,
}

/// Runs `work` in the phase that the object is in, and maintains the finalizer `name`: it is added before the first
/// [`Phase::Apply`] and removed after a successful [`Phase::Cleanup`]. `name` has the form of a qualified label key:
/// `example.com/cleanup`.
///
/// `work` receives the object, with the finalizer. Use this one from then on: adding the finalizer changes the resource version, so an
/// update of the argument itself would conflict.
///
/// The plugin must be allowed to patch the object.
///
/// # Errors
/// Errors of `work`, and failed writes. A conflict means that the object changed in the meantime; the retry sees the change.
pub fn run<K: Resource>(
    object: &K,
    name: &str,
    work: impl FnOnce(Phase, &K) -> Result<Outcome, Error>,
) -> Result<Outcome, Error> {
    let failed = |error: ApiError| {
        Error::from(error).context(format!("change the finalizers of {}", ObjectKey::of(object)))
    };
    match next(object.meta(), name) {
        Next::Add => {
            let held = patch(object, &added(object.meta(), name)).map_err(failed)?;
            work(Phase::Apply, &held)
        }
        Next::Apply => work(Phase::Apply, object),
        Next::Cleanup => {
            let outcome = work(Phase::Cleanup, object)?;
            match patch(object, &removed(object.meta(), name)) {
                // Another client removed the last finalizer, and the object is gone, as intended.
                Err(error) if error.is_not_found() => {}
                result => drop(result.map_err(failed)?),
            }
            Ok(outcome)
        }
        Next::Nothing => Ok(Outcome::Done),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Add,
    Apply,
    Cleanup,
    /// The object is being deleted without this finalizer: no new work may be started.
    Nothing,
}

fn next(meta: &ObjectMeta, name: &str) -> Next {
    let has_finalizer = names(meta).iter().any(|present| present == name);
    match (meta.deletion_timestamp.is_some(), has_finalizer) {
        (false, false) => Next::Add,
        (false, true) => Next::Apply,
        (true, true) => Next::Cleanup,
        (true, false) => Next::Nothing,
    }
}

fn names(meta: &ObjectMeta) -> &[String] {
    meta.finalizers.as_deref().unwrap_or_default()
}

fn added(meta: &ObjectMeta, name: &str) -> Value {
    let mut finalizers = names(meta).to_vec();
    finalizers.push(name.to_owned());
    merge_patch(meta, &finalizers)
}

fn removed(meta: &ObjectMeta, name: &str) -> Value {
    let finalizers: Vec<_> = names(meta).iter().filter(|present| *present != name).cloned().collect();
    merge_patch(meta, &finalizers)
}

/// A merge patch replaces the whole list. It includes the resource version that the list was read at, so that a concurrent change
/// causes a conflict instead of being lost.
fn merge_patch(meta: &ObjectMeta, finalizers: &[String]) -> Value {
    json!({"metadata": {"finalizers": finalizers, "resourceVersion": meta.resource_version}})
}

fn patch<K: Resource>(object: &K, body: &Value) -> Result<K, ApiError> {
    Client::without_context().patch(&ObjectKey::of(object), &Patch::Merge(body))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    const NAME: &str = "example.com/cleanup";

    fn mk_meta(finalizers: &[&str], deleted: bool) -> ObjectMeta {
        ObjectMeta {
            resource_version: Some("7".into()),
            finalizers: Some(finalizers.iter().map(|name| (*name).to_owned()).collect()),
            deletion_timestamp: deleted.then_some(Time(Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn the_phase_depends_on_deletion_and_finalizer() {
        assert_eq!(next(&ObjectMeta::default(), NAME), Next::Add);
        assert_eq!(next(&mk_meta(&["other"], false), NAME), Next::Add);
        assert_eq!(next(&mk_meta(&["other", NAME], false), NAME), Next::Apply);
        assert_eq!(next(&mk_meta(&[NAME], true), NAME), Next::Cleanup);
        assert_eq!(next(&mk_meta(&["other"], true), NAME), Next::Nothing);
    }

    #[test]
    fn other_finalizers_are_kept_and_protected_by_the_resource_version() {
        assert_eq!(
            added(&mk_meta(&["other"], false), NAME),
            json!({"metadata": {"finalizers": ["other", NAME], "resourceVersion": "7"}})
        );
        assert_eq!(
            removed(&mk_meta(&[NAME, "other"], true), NAME),
            json!({"metadata": {"finalizers": ["other"], "resourceVersion": "7"}})
        );
    }
}
