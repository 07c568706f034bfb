//! Calls of guests and their results, as data.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use pilothouse_model::{Notification, Object};
use serde_json::{Value, json};

use super::canonical;
use crate::{DescribeError, Failure, Fault, Observation, Outcome, Reason, Request};

/// A call of a guest with its arguments.
#[derive(Clone, Debug)]
pub enum GuestCall {
    /// The module's start code, which runs before any export.
    Instantiate,
    /// `plugin.describe`.
    Describe {
        /// The configuration as JSON text.
        config: String,
    },
    /// `reconcile.reconcile`.
    Reconcile(Arc<Request>),
    /// `observe.observe`.
    Observe(Vec<Observation>),
    /// `index.values`.
    IndexValues {
        /// The name of the index.
        index: String,
        /// The object whose values are computed.
        object: Object,
    },
}

/// The result of a call of a guest.
#[derive(Clone, Debug, PartialEq)]
pub enum GuestResult {
    /// The result of instantiation.
    Instantiate(Result<(), Fault>),
    /// The result of `describe`: the descriptor.
    Describe(Result<String, DescribeError>),
    /// The result of `reconcile`.
    Reconcile(Result<Outcome, Failure>),
    /// The result of `observe`.
    Observe(Result<(), Failure>),
    /// The result of `index.values`.
    IndexValues(Result<Vec<String>, Fault>),
}

impl GuestCall {
    /// Returns the name of the exported function, as [`Call::name`](crate::Call::name) does.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Instantiate => "instantiation",
            Self::Describe { .. } => "describe",
            Self::Reconcile(_) => "reconcile",
            Self::Observe(_) => "observe",
            Self::IndexValues { .. } => "index.values",
        }
    }

    /// Returns the arguments in a canonical form.
    #[must_use]
    pub fn arguments(&self) -> Value {
        match self {
            Self::Instantiate => json!({}),
            Self::Describe { config } => json!({"config": canonical::text_as_json(config)}),
            Self::Reconcile(request) => json!({
                "watch": &*request.watch,
                "key": request.key.as_str(),
                "reasons": request.reasons.iter().copied().map(Reason::name).collect::<Vec<_>>(),
                "attempt": request.attempt,
                "extra": request.extra,
            }),
            Self::Observe(batch) => json!({"batch": batch.iter().map(observation).collect::<Vec<_>>()}),
            Self::IndexValues { index, object } => json!({"index": index, "object": object.to_value()}),
        }
    }
}

/// Hashes the name of the function and what [`GuestCall::arguments`] returns, without creating it.
impl Hash for GuestCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
        match self {
            Self::Instantiate => {}
            Self::Describe { config } => config.hash(state),
            Self::Reconcile(request) => {
                request.watch.hash(state);
                request.key.hash(state);
                request.reasons.len().hash(state);
                request.reasons.iter().for_each(|reason| reason.name().hash(state));
                request.attempt.hash(state);
                request.extra.hash(state);
            }
            Self::Observe(batch) => {
                batch.len().hash(state);
                batch.iter().for_each(|observation| hash_observation(observation, state));
            }
            Self::IndexValues { index, object } => {
                index.hash(state);
                object.json().hash(state);
            }
        }
    }
}

fn hash_observation<H: Hasher>(observation: &Observation, state: &mut H) {
    observation.watch.hash(state);
    match &observation.notification {
        Notification::Added { object, initial } => {
            ("added", object.json(), initial).hash(state);
        }
        Notification::Updated { old, new } => ("updated", old.json(), new.json()).hash(state),
        Notification::Deleted { last, final_state_unknown } => {
            ("deleted", last.json(), final_state_unknown).hash(state);
        }
    }
}

fn observation(observation: &Observation) -> Value {
    let watch = &*observation.watch;
    match &observation.notification {
        Notification::Added { object, initial } => {
            json!({"watch": watch, "change": "added", "object": object.to_value(), "initial": initial})
        }
        Notification::Updated { old, new } => {
            json!({"watch": watch, "change": "updated", "old": old.to_value(), "new": new.to_value()})
        }
        Notification::Deleted { last, final_state_unknown } => json!({
            "watch": watch,
            "change": "deleted",
            "last": last.to_value(),
            "finalStateUnknown": final_state_unknown,
        }),
    }
}

impl GuestResult {
    /// Returns the result in a canonical form. A fault has the text that the log has.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Instantiate(Ok(())) | Self::Observe(Ok(())) => json!("ok"),
            Self::Describe(Ok(descriptor)) => json!({"descriptor": canonical::text_as_json(descriptor)}),
            Self::Describe(Err(DescribeError::Refused(message))) => json!({"refused": message}),
            Self::Reconcile(Ok(Outcome::Done)) => json!("done"),
            Self::Reconcile(Ok(Outcome::RequeueAfter(delay))) => {
                json!({"requeueAfterMs": canonical::milliseconds(*delay)})
            }
            Self::IndexValues(Ok(values)) => json!({"values": values}),
            Self::Reconcile(Err(failure)) | Self::Observe(Err(failure)) => match failure {
                Failure::Retry(message) => json!({"retry": message}),
                Failure::Terminal(message) => json!({"terminal": message}),
                Failure::Fault(fault) => json!({"fault": fault.to_string()}),
            },
            Self::Instantiate(Err(fault))
            | Self::Describe(Err(DescribeError::Fault(fault)))
            | Self::IndexValues(Err(fault)) => json!({"fault": fault.to_string()}),
        }
    }
}

impl Reason {
    /// All reasons.
    const ALL: [Self; 8] = [
        Self::Created,
        Self::Updated,
        Self::Deleted,
        Self::Resync,
        Self::Requeue,
        Self::Retry,
        Self::Startup,
        Self::Other,
    ];

    /// Returns the reason in the notation of the contract.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Resync => "resync",
            Self::Requeue => "requeue",
            Self::Retry => "retry",
            Self::Startup => "startup",
            Self::Other => "other",
        }
    }

    /// Returns the reason with this name; `None` if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pilothouse_model::ObjectKey;

    use super::*;

    #[test]
    fn the_arguments_of_a_reconcile_name_its_key_and_reasons() {
        let request = Request {
            watch: "foos".into(),
            key: ObjectKey::new("n", "a"),
            reasons: vec![Reason::Created, Reason::Retry],
            attempt: 2,
            extra: Vec::new(),
            event_at: None,
            host_context: None,
        };
        let call = GuestCall::Reconcile(Arc::new(request));
        assert_eq!(call.name(), "reconcile");
        let expected = json!({"watch": "foos", "key": "n/a", "reasons": ["created", "retry"], "attempt": 2, "extra": []});
        assert_eq!(call.arguments(), expected);
    }

    #[test]
    fn the_hash_depends_on_each_argument() {
        let hash = |call: &GuestCall| {
            let mut hasher = std::hash::DefaultHasher::new();
            call.hash(&mut hasher);
            hasher.finish()
        };
        let object = |label: &str| {
            let value = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": "n", "labels": {"x": label}}});
            Object::from_json(value.to_string()).expect("an object")
        };
        let request = |extra: Vec<(String, String)>, attempt| Request {
            watch: "foos".into(),
            key: ObjectKey::new("n", "a"),
            reasons: vec![Reason::Created],
            attempt,
            extra,
            event_at: None,
            host_context: None,
        };
        let observed =
            |notification| GuestCall::Observe(vec![Observation { watch: "foos".into(), notification }]);
        let index = |index: &str, label: &str| GuestCall::IndexValues {
            index: index.to_owned(),
            object: object(label),
        };
        let calls = [
            GuestCall::Instantiate,
            GuestCall::Describe { config: "{}".to_owned() },
            GuestCall::Describe { config: "[]".to_owned() },
            GuestCall::Reconcile(Arc::new(request(Vec::new(), 1))),
            GuestCall::Reconcile(Arc::new(request(Vec::new(), 2))),
            GuestCall::Reconcile(Arc::new(request(vec![("a".to_owned(), "b".to_owned())], 1))),
            GuestCall::Observe(Vec::new()),
            observed(Notification::Added { object: object("1"), initial: true }),
            observed(Notification::Added { object: object("1"), initial: false }),
            observed(Notification::Updated { old: object("1"), new: object("2") }),
            observed(Notification::Updated { old: object("2"), new: object("2") }),
            observed(Notification::Deleted { last: object("1"), final_state_unknown: false }),
            index("by", "1"),
            index("by", "2"),
            index("with", "1"),
        ];
        let hashes: std::collections::BTreeSet<_> = calls.iter().map(hash).collect();
        assert_eq!(hashes.len(), calls.len());
        assert_eq!(hash(&index("by", "1")), hash(&calls[12]));
    }

    #[test]
    fn results_differ_by_what_the_guest_asked_for() {
        let results = [
            (Ok(Outcome::Done), json!("done")),
            (Ok(Outcome::RequeueAfter(Duration::from_millis(5))), json!({"requeueAfterMs": 5})),
            (Err(Failure::Retry("later".to_owned())), json!({"retry": "later"})),
            (Err(Failure::Terminal("never".to_owned())), json!({"terminal": "never"})),
        ];
        for (result, expected) in results {
            assert_eq!(GuestResult::Reconcile(result).to_json(), expected);
        }
    }

    #[test]
    fn every_reason_has_a_name_of_its_own() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_name(reason.name()), Some(reason));
        }
        assert_eq!(Reason::from_name("bored"), None);
    }
}
