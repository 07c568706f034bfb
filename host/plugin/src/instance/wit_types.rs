//! Converts arguments and results of guests to and from the types of the contract.

use pilothouse_model::Notification;

use crate::bindings::exports::pilothouse::controller as exports;
use crate::bindings::pilothouse::controller::types;
use crate::{Failure, Observation, Reason, Request};

/// Maximum length of a guest's error message, in bytes.
const MAX_MESSAGE: usize = 4 << 10;

/// Returns an argument of `reconcile` to write over.
pub(super) fn empty_request() -> types::Request {
    types::Request {
        watch: String::new(),
        key: types::ObjectKey { namespace: String::new(), name: String::new() },
        reasons: Vec::new(),
        attempt: 0,
        extra: Vec::new(),
    }
}

/// Writes `request` over `argument`, reusing its allocations.
pub(super) fn write_request(argument: &mut types::Request, request: &Request) {
    let write = |text: &mut String, from: &str| {
        text.clear();
        text.push_str(from);
    };
    write(&mut argument.watch, &request.watch);
    write(&mut argument.key.namespace, request.key.namespace());
    write(&mut argument.key.name, request.key.name());
    argument.reasons.clear();
    argument.reasons.extend(request.reasons.iter().copied().map(types::Reason::from));
    argument.attempt = request.attempt;
    argument.extra.clear();
    argument.extra.extend(
        request.extra.iter().map(|(key, value)| types::Pair { key: key.clone(), value: value.clone() }),
    );
}

impl From<Reason> for types::Reason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Created => Self::Created,
            Reason::Updated => Self::Updated,
            Reason::Deleted => Self::Deleted,
            Reason::Resync => Self::Resync,
            Reason::Requeue => Self::Requeue,
            Reason::Retry => Self::Retry,
            Reason::Startup => Self::Startup,
            Reason::Other => Self::Other,
        }
    }
}

impl From<types::Failure> for Failure {
    fn from(failure: types::Failure) -> Self {
        match failure {
            types::Failure::Retry(message) => Self::Retry(truncated(message)),
            types::Failure::Terminal(message) => Self::Terminal(truncated(message)),
        }
    }
}

/// Cuts a guest's error message to [`MAX_MESSAGE`], because it goes to logs, status and Events.
pub(super) fn truncated(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MAX_MESSAGE));
    message
}

pub(super) fn wit_notification(observation: &Observation) -> exports::observe::Notification {
    let notification = &observation.notification;
    let (change, initial, final_state_unknown) = match notification {
        Notification::Added { initial, .. } => (types::Change::Added, *initial, false),
        Notification::Updated { .. } if notification.is_resync() => (types::Change::Resync, false, false),
        Notification::Updated { .. } => (types::Change::Updated, false, false),
        Notification::Deleted { final_state_unknown, .. } => {
            (types::Change::Deleted, false, *final_state_unknown)
        }
    };
    exports::observe::Notification {
        watch: (*observation.watch).to_owned(),
        change,
        key: notification.key().into(),
        initial,
        final_state_unknown,
    }
}
