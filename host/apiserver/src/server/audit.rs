//! The audit log: a line of JSON for each answered request, in the format and with the members that kube-apiserver writes at the level
//! `Metadata`.
//!
//! A request whose credentials are refused, and one whose client does not wait for the answer, have no line.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::StatusCode;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::access::{Attributes, ReviewStatus};
use crate::admission::AuditAnnotations;
use crate::identifiers::Identifiers;
use crate::request::{ObjectPath, Request, Target, Verb};
use crate::state::State;
use crate::user::User;

const DECISION: &str = "authorization.k8s.io/decision";
const REASON: &str = "authorization.k8s.io/reason";

/// A file that receives the audit events.
pub(super) struct AuditLog {
    file: Mutex<File>,
    /// Not those of the server: with a seed, the log must not change the identifiers of objects.
    identifiers: Identifiers,
    /// Whether a write has failed, which is logged once.
    has_failed: AtomicBool,
}

impl AuditLog {
    /// Opens the file, which only its owner may read if it is created. Lines are appended to those that it has.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = Mutex::new(options.open(path)?);
        Ok(Self { file, identifiers: Identifiers::default(), has_failed: AtomicBool::new(false) })
    }

    /// Begins the event of a request. Must be called before the request changes roles or bindings, because the event contains the decision.
    pub(super) fn begin(&self, state: &State, request: &Request) -> AuditEvent {
        let path = object_path(request);
        let verb = path.and_then(|path| request.verb(path).ok());
        let sender = &request.sender;
        // As for the request itself: a server that allows everything does not look at impersonation.
        let user = match state.access.is_enforced() {
            true => state.access.effective_user(request),
            false => Ok(Arc::clone(sender)),
        };
        let decision = match &user {
            Ok(user) => {
                attributes(request, path, verb).map(|attributes| state.access.review(user, &attributes))
            }
            Err(refusal) => Some(ReviewStatus { allowed: false, reason: refusal.message.clone() }),
        };
        let impersonated = user.ok().filter(|user| !Arc::ptr_eq(user, sender));
        let verb = match verb {
            Some(verb) => Cow::Borrowed(verb.as_str()),
            None => Cow::Owned(request.method.as_str().to_lowercase()),
        };
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": self.identifiers.new_uid(),
            "stage": if verb == Verb::Watch.as_str() { "ResponseStarted" } else { "ResponseComplete" },
            "requestURI": request.uri.to_string(),
            "verb": verb,
            "user": sender.to_value(),
            "requestReceivedTimestamp": micro_time(state.clock.now()),
            "annotations": annotations(decision),
        });
        if let Some(user) = impersonated.as_deref().map(User::to_value) {
            event["impersonatedUser"] = user;
        }
        let user_agent = request.header("user-agent");
        if !user_agent.is_empty() {
            event["userAgent"] = user_agent.into();
        }
        if let Some(path) = path {
            event["objectRef"] = reference(path);
        }
        AuditEvent(event)
    }

    /// Appends the event of a request that was answered at this time.
    pub(super) fn append(&self, event: AuditEvent, code: StatusCode, time: Timestamp) {
        let AuditEvent(mut event) = event;
        event["responseStatus"] = json!({"metadata": {}, "code": code.as_u16()});
        event["stageTimestamp"] = micro_time(time).into();
        // One write for the whole line, so that the lines of several servers in one file stay whole.
        let written = self.file.lock().write_all(format!("{event}\n").as_bytes());
        if let Err(error) = written
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            tracing::error!("cannot write the audit log: {error}; it is incomplete from now on");
        }
    }
}

/// The event of a request that was not answered yet.
pub(super) struct AuditEvent(Value);

impl AuditEvent {
    /// Adds annotations.
    pub(super) fn annotate(&mut self, annotations: AuditAnnotations) {
        for (key, value) in annotations {
            self.0["annotations"][key] = value.into();
        }
    }
}

fn object_path(request: &Request) -> Option<&ObjectPath> {
    match &request.target {
        Target::Object(path) => Some(path),
        _ => None,
    }
}

/// Returns what authorization depends on; `None` for a method that the API does not have, which is refused without authorization.
fn attributes<'a>(
    request: &'a Request,
    path: Option<&'a ObjectPath>,
    verb: Option<Verb>,
) -> Option<Attributes<'a>> {
    match (path, verb) {
        (Some(path), Some(verb)) => Some(Attributes::for_request(path, verb, request)),
        (Some(_), None) => None,
        (None, _) => {
            Some(Attributes::non_resource(request.method.as_str().to_lowercase(), request.uri.path()))
        }
    }
}

fn annotations(decision: Option<ReviewStatus>) -> Value {
    decision.map_or_else(|| json!({}), |ReviewStatus { allowed, reason }| {
        json!({DECISION: if allowed { "allow" } else { "forbid" }, REASON: reason})
    })
}

/// Returns the `objectRef`, without members that are empty.
fn reference(path: &ObjectPath) -> Value {
    let members = [
        ("resource", Some(&path.plural)),
        ("namespace", path.namespace.as_ref()),
        ("name", path.name.as_ref()),
        ("apiGroup", Some(&path.group)),
        ("apiVersion", Some(&path.version)),
        ("subresource", path.subresource.as_ref()),
    ];
    let members = members.into_iter().filter_map(|(name, text)| Some((name, text?)));
    let present = members.filter(|(_, text)| !text.is_empty());
    Value::Object(present.map(|(name, text)| (name.to_owned(), text.as_str().into())).collect::<Map<_, _>>())
}

/// Formats a time like `metav1.MicroTime`.
fn micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_has_no_empty_members() {
        let path = ObjectPath {
            version: "v1".into(),
            plural: "pods".into(),
            namespace: Some("shop".into()),
            name: Some("a".into()),
            subresource: Some("log".into()),
            ..ObjectPath::default()
        };
        let expected = json!({"resource": "pods", "namespace": "shop", "name": "a", "apiVersion": "v1", "subresource": "log"});
        assert_eq!(reference(&path), expected);
    }

    #[test]
    fn times_have_six_decimal_places() {
        let time = |text: &str| micro_time(text.parse().expect("a time"));
        assert_eq!(time("2026-01-02T03:04:05.6789Z"), "2026-01-02T03:04:05.678900Z");
        assert_eq!(time("2026-01-02T03:04:05Z"), "2026-01-02T03:04:05.000000Z");
    }
}
