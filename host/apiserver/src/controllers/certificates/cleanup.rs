//! Decides when a request is deleted, after `k8s.io/kubernetes/pkg/controller/certificates/cleaner`.

use jiff::Timestamp;
use serde_json::Value;
use x509_parser::pem::Pem;

use super::super::action::{Action, Plan};
use super::super::kind::Kind;
use super::super::object::{after_seconds, is_deleting, items, time, until};
use super::{has_condition, is_issued};
use crate::rest::kinds::certificates;

/// How long a request stays that was denied, failed or issued, in seconds.
const DECIDED: i64 = 60 * 60;
/// How long a request stays that waits for an approval or for its certificate, in seconds.
const PENDING: i64 = 24 * 60 * 60;

/// Decides whether a request is deleted now or later.
pub(super) fn plan(request: &Value, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(due) = due(request).filter(|_| !is_deleting(request)) else { return plan };
    match until(due, now) {
        Some(delay) => plan.retry_after(delay),
        None => plan.actions.push(Action::delete(Kind::CertificateSigningRequest, request)),
    }
    plan
}

/// Returns the time at which a request is to be deleted.
fn due(request: &Value) -> Option<Timestamp> {
    let conditions = items(&request["status"]["conditions"]);
    if conditions.is_empty() {
        return time(&request["metadata"]["creationTimestamp"])
            .map(|created| after_seconds(created, PENDING));
    }
    let of_condition = conditions.iter().filter_map(|condition| {
        let seconds = match condition["type"].as_str()? {
            "Denied" | "Failed" => DECIDED,
            "Approved" if is_issued(request) => DECIDED,
            "Approved" => PENDING,
            _ => return None,
        };
        time(&condition["lastUpdateTime"]).map(|updated| after_seconds(updated, seconds))
    });
    of_condition.chain(expiry(request)).min()
}

/// Returns the time at which the issued certificate of an approved request expires.
fn expiry(request: &Value) -> Option<Timestamp> {
    let pem = certificates::issued_pem(request).filter(|_| has_condition(request, "Approved"))?;
    let block = Pem::iter_from_buffer(&pem).next()?.ok()?;
    let certificate = block.parse_x509().ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}
