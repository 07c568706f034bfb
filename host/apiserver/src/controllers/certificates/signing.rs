//! Decides what to do with an approved request, after `k8s.io/kubernetes/pkg/controller/certificates/signer`.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use pilothouse_listen::Authority;
use serde_json::{Value, json};

use super::super::action::{Action, Plan};
use super::super::object::is_true;
use super::certificate::{self, Contents};
use super::{
    CLIENT_SIGNER, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER, RequestedCertificate, is_approved,
    is_issued, usages,
};

/// How long a certificate is valid at most, and by default.
const MAX_VALIDITY: SignedDuration = SignedDuration::from_hours(365 * 24);
/// How long a certificate is valid at least.
const MIN_VALIDITY: SignedDuration = SignedDuration::from_mins(10);
/// A certificate is valid from this time before its signature, because clocks differ.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// A certificate that is valid for less is not shortened by [`BACKDATE`].
const SHORT_VALIDITY: SignedDuration = SignedDuration::from_hours(8);

/// Decides whether a request is signed. One that its signer does not accept gets the condition `Failed`.
pub(super) fn plan(
    request: &Value,
    authority: &Authority,
    serial: impl FnOnce() -> [u8; 16],
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    let signer = request["spec"]["signerName"].as_str().unwrap_or_default();
    let is_known = [CLIENT_SIGNER, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER].contains(&signer);
    if !is_known || !is_approved(request) || is_issued(request) || is_true(&request["status"], "Failed") {
        return plan;
    }
    let Some(requested) = RequestedCertificate::of(request) else { return plan };
    let mut status = request["status"].clone();
    match refusal(signer, &requested, &usages(request)) {
        Some(problem) => {
            let failed = json!({
                "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": problem,
            });
            if let Some(conditions) = status["conditions"].as_array_mut() {
                conditions.push(failed);
            }
        }
        None => {
            let contents = contents(request, &requested, now);
            match certificate::issue(&contents, authority, &serial()) {
                Ok(pem) => status["certificate"] = json!(ByteString(pem.into_bytes())),
                Err(error) => {
                    tracing::warn!(%error, signer, "cannot sign a certificate");
                    return plan;
                }
            }
        }
    }
    plan.actions.push(Action::SetStatus(status));
    plan
}

/// Returns what is to be signed.
fn contents<'a>(request: &'a Value, requested: &'a RequestedCertificate, now: Timestamp) -> Contents<'a> {
    let wanted = request["spec"]["expirationSeconds"].as_i64().map(SignedDuration::from_secs);
    let validity = wanted.map_or(MAX_VALIDITY, |wanted| wanted.clamp(MIN_VALIDITY, MAX_VALIDITY));
    let end = if validity < SHORT_VALIDITY { validity } else { validity - BACKDATE };
    let at = |offset: SignedDuration| now.checked_add(offset).unwrap_or(now);
    Contents { requested, usages: usages(request), not_before: at(-BACKDATE), not_after: at(end) }
}

/// Returns why a signer refuses a request; `None` if it signs it.
pub(super) fn refusal(signer: &str, requested: &RequestedCertificate, usages: &[&str]) -> Option<String> {
    match signer {
        KUBELET_SERVING_SIGNER => kubelet_serving_refusal(requested, usages),
        KUBELET_CLIENT_SIGNER => kubelet_client_refusal(requested, usages),
        _ => client_refusal(usages),
    }
}

fn client_refusal(usages: &[&str]) -> Option<String> {
    let allowed = ["digital signature", "key encipherment", "client auth"];
    if let Some(usage) = usages.iter().find(|usage| !allowed.contains(usage)) {
        return Some(format!("invalid usage for client certificate: {usage}"));
    }
    let is_for_clients = usages.contains(&"client auth");
    (!is_for_clients).then(|| "missing required usage for client certificate: client auth".to_owned())
}

fn kubelet_serving_refusal(requested: &RequestedCertificate, usages: &[&str]) -> Option<String> {
    if requested.organizations != ["system:nodes"] {
        return Some("subject organization is not system:nodes".to_owned());
    }
    if requested.dns_names == 0 && requested.ip_addresses == 0 {
        return Some("DNS or IP subjectAltName is required".to_owned());
    }
    let forbidden = [(requested.email_addresses, "Email"), (requested.uris, "URI")];
    alternative_name_refusal(&forbidden)
        .or_else(|| usage_refusal(usages, "server auth"))
        .or_else(|| node_name_refusal(requested))
}

fn kubelet_client_refusal(requested: &RequestedCertificate, usages: &[&str]) -> Option<String> {
    if requested.organizations != ["system:nodes"] {
        return Some("subject organization is not system:nodes".to_owned());
    }
    let forbidden = [
        (requested.dns_names, "DNS"),
        (requested.email_addresses, "Email"),
        (requested.ip_addresses, "IP"),
        (requested.uris, "URI"),
    ];
    alternative_name_refusal(&forbidden)
        .or_else(|| node_name_refusal(requested))
        .or_else(|| usage_refusal(usages, "client auth"))
}

fn alternative_name_refusal(counts: &[(usize, &str)]) -> Option<String> {
    let (_, kind) = counts.iter().find(|(count, _)| *count > 0)?;
    Some(format!("{kind} subjectAltNames are not allowed"))
}

fn node_name_refusal(requested: &RequestedCertificate) -> Option<String> {
    let is_node = requested.common_name.starts_with("system:node:");
    (!is_node).then(|| "subject common name does not begin with system:node:".to_owned())
}

/// The usages of a kubelet's certificate are the signature, `purpose`, and for RSA keys the encipherment.
fn usage_refusal(usages: &[&str], purpose: &str) -> Option<String> {
    let found: BTreeSet<&str> = usages.iter().copied().collect();
    let rsa = BTreeSet::from(["digital signature", "key encipherment", purpose]);
    let others = BTreeSet::from(["digital signature", purpose]);
    if found == rsa || found == others {
        return None;
    }
    let expected: Vec<&str> = rsa.into_iter().collect();
    Some(format!("usages did not match [{}]", expected.join(" ")))
}
