use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{kinds, meta};
use crate::clock;
use crate::crd;
use crate::registry::Endpoint;
use crate::request::Query;
use crate::request::options::check_dry_run;
use crate::server::State;
use crate::status::Status;
use crate::storage::Stored;

/// The finalizer of an object whose dependents are deleted first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents are kept.
pub(crate) const ORPHAN: &str = "orphan";

/// What becomes of an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// `meta/v1 DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub dry_run: bool,
    pub propagation: Option<Propagation>,
    pub grace_period: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// The result of a deletion.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Arc<Stored>),
    /// It will be gone when its finalizers are, or its grace period is over.
    Pending(Arc<Stored>),
}

impl DeleteOptions {
    /// Reads the options from the body, and from the query where the body does not say.
    pub(crate) fn read(query: &Query, body: Option<&Value>) -> Result<Self, Status> {
        let nothing = Value::Null;
        let body = body.unwrap_or(&nothing);
        let bad = |what: &str, value: &Value| {
            Status::bad_request(format!("DeleteOptions: {what}: {value} is not valid"))
        };
        let in_body: Vec<&str> =
            body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let dry_run = check_dry_run(&in_body, "DeleteOptions")? || query.dry_run("DeleteOptions")?;
        let policy = body["propagationPolicy"].as_str().or_else(|| query.get("propagationPolicy"));
        let orphan = body["orphanDependents"].as_bool().or(query.optional_flag("orphanDependents")?);
        let propagation = match (policy, orphan) {
            (Some("Background"), _) => Some(Propagation::Background),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
            (None, Some(false)) => Some(Propagation::Background),
            (None, None) => None,
            (Some(other), _) => return Err(bad("propagationPolicy", &Value::from(other))),
        };
        let grace_period = match &body["gracePeriodSeconds"] {
            Value::Null => {
                query.number("gracePeriodSeconds")?.and_then(|seconds| i64::try_from(seconds).ok())
            }
            seconds => Some(seconds.as_i64().ok_or_else(|| bad("gracePeriodSeconds", seconds))?),
        };
        let precondition = |name: &str| body["preconditions"][name].as_str().map(str::to_owned);
        Ok(Self {
            dry_run,
            propagation,
            grace_period,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
        })
    }

    /// The options of a controller that deletes what it has seen.
    pub(crate) fn of_uid(uid: &str, propagation: Propagation) -> Self {
        Self { uid: Some(uid.to_owned()), propagation: Some(propagation), ..Self::default() }
    }
}

/// Deletes an object, or begins to.
pub(crate) fn delete(
    state: &State,
    endpoint: &Endpoint,
    (namespace, name): (&str, &str),
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    kinds::may_delete(endpoint, name)?;
    let table = &endpoint.resource.table;
    loop {
        let current = table.get(namespace, name).ok_or_else(|| Status::not_found(endpoint.about(), name))?;
        check_preconditions(endpoint, &current, options)?;
        let old = current.value();
        let mut new = old.clone();
        mark(state, endpoint, &mut new, options);
        let waits = !meta::finalizers(&new).is_empty()
            || grace(&new) > 0
            || (kinds::is_namespace(endpoint)
                && new["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty()));
        if waits && new == old {
            return Ok(Deleted::Pending(current));
        }
        let draft = endpoint.resource.draft(new);
        if options.dry_run {
            let result = Arc::new(Stored::unwritten(draft));
            return Ok(if waits { Deleted::Pending(result) } else { Deleted::Gone(result) });
        }
        // A write that came in between is no conflict: the deletion is judged again on the new state.
        let result = if waits { table.update(&current, draft) } else { table.delete(&current, draft) };
        let Ok(object) = result else { continue };
        crd::after_write(state, endpoint, name, false);
        if waits {
            return Ok(Deleted::Pending(object));
        }
        crd::after_delete(state, endpoint);
        return Ok(Deleted::Gone(object));
    }
}

fn check_preconditions(endpoint: &Endpoint, current: &Stored, options: &DeleteOptions) -> Result<(), Status> {
    let conflict = |problem: String| Err(Status::conflict(endpoint.about(), &current.name, &problem));
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != &*current.uid) {
        let found = &current.uid;
        return conflict(format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
        ));
    }
    let found = current.revision.to_string();
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != found) {
        return conflict(format!(
            "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {found}"
        ));
    }
    Ok(())
}

fn grace(value: &Value) -> i64 {
    value["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0)
}

/// Sets what a deletion sets: finalizers by propagation, the deletion's time and grace period.
fn mark(state: &State, endpoint: &Endpoint, value: &mut Value, options: &DeleteOptions) {
    let finalizers = finalizers_for(endpoint, value, options.propagation);
    meta::set_finalizers(value, finalizers);
    let asked = kinds::grace_period(endpoint, value, options.grace_period);
    let deleting = value["metadata"]["deletionTimestamp"].is_string();
    if deleting && asked >= grace(value) {
        return;
    }
    let generation = meta::generation(value);
    let due = state.clock.now().checked_add(SignedDuration::from_secs(asked)).unwrap_or(jiff::Timestamp::MAX);
    let metadata = meta::of(value);
    metadata.insert("deletionTimestamp".into(), clock::seconds(due).into());
    metadata.insert("deletionGracePeriodSeconds".into(), json!(asked));
    if generation > 0 && !deleting {
        metadata.insert("generation".into(), json!(generation + 1));
    }
    kinds::mark_deleting(state, endpoint, value);
}

/// The finalizers after the propagation policy put in and took out its own.
fn finalizers_for(endpoint: &Endpoint, value: &Value, propagation: Option<Propagation>) -> Vec<String> {
    let mut finalizers = meta::finalizers(value);
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    // Without a policy, one that an earlier request chose stays.
    let policy = propagation.unwrap_or(match (has(ORPHAN), has(FOREGROUND)) {
        (true, _) => Propagation::Orphan,
        (_, true) => Propagation::Foreground,
        _ if endpoint.resource.rules.orphans_by_default => Propagation::Orphan,
        _ => Propagation::Background,
    });
    finalizers.retain(|finalizer| finalizer != ORPHAN && finalizer != FOREGROUND);
    match policy {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.into()),
        Propagation::Orphan => finalizers.push(ORPHAN.into()),
    }
    finalizers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_wins_over_the_query() {
        let query = Query::parse("propagationPolicy=Orphan&gracePeriodSeconds=5").expect("a query");
        let options = DeleteOptions::read(&query, None).expect("options");
        assert_eq!((options.propagation, options.grace_period), (Some(Propagation::Orphan), Some(5)));
        let body = json!({"propagationPolicy": "Foreground", "preconditions": {"uid": "u"}});
        let options = DeleteOptions::read(&query, Some(&body)).expect("options");
        assert_eq!((options.propagation, options.uid.as_deref()), (Some(Propagation::Foreground), Some("u")));
        assert!(DeleteOptions::read(&Query::default(), Some(&json!({"propagationPolicy": "x"}))).is_err());
    }
}
