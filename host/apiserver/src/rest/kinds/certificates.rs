//! The rules of CertificateSigningRequests, after `k8s.io/kubernetes/pkg/registry/certificates` and
//! `k8s.io/kubernetes/pkg/apis/certificates/validation`.

use k8s_openapi::ByteString;
use pilothouse_model::hash::HashSet;
use serde_json::{Value, json};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;
use x509_parser::pem::{Pem, parse_x509_pem};
use x509_parser::prelude::FromDer;

use crate::access::Attributes;
use crate::meta;
use crate::registry::Endpoint;
use crate::rest::verbs::update::UpdateTarget;
use crate::schema::{field, label_errors};
use crate::state::State;
use crate::status::{Cause, Status};
use crate::user::{MASTERS, User};

/// The API group of CertificateSigningRequests.
pub(crate) const GROUP: &str = "certificates.k8s.io";

/// The signer of client certificates of the API server.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The signer name that v1beta1 allowed.
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
/// The shortest lifetime that a client may request, in seconds.
const MIN_EXPIRATION: i64 = 600;
/// The largest signer name in bytes: a domain, a slash and a path.
const MAX_SIGNER_NAME: u64 = 253 + 1 + 253 + 63 + 1;

/// The key usages of `certificates.k8s.io/v1`, sorted.
const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The condition types whose status can only be `True`, and which cannot be removed.
const PERMANENT_CONDITIONS: [&str; 3] = ["Approved", "Denied", "Failed"];
/// The condition types that only `/approval` changes.
const APPROVAL_CONDITIONS: [&str; 2] = ["Approved", "Denied"];

/// Whether the endpoint serves CertificateSigningRequests.
pub(crate) fn is_signing_request(endpoint: &Endpoint) -> bool {
    endpoint.group == GROUP && endpoint.resource.names.plural == "certificatesigningrequests"
}

/// Sets the fields of a new request that identify the user who created it.
pub(in crate::rest) fn set_requester(value: &mut Value, user: &User) {
    let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for name in ["username", "uid", "groups", "extra"] {
        spec.remove(name);
    }
    spec.insert("username".into(), user.name.as_str().into());
    if !user.uid.is_empty() {
        spec.insert("uid".into(), user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        spec.insert("groups".into(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        spec.insert("extra".into(), json!(user.extra));
    }
}

/// Restores the fields that an update of this target does not change, and completes the conditions. Returns what the update
/// may not change.
pub(super) fn prepare_update(target: UpdateTarget, old: &Value, new: &mut Value, now: &str) -> Vec<Cause> {
    if let (Some(object), Some(spec)) = (new.as_object_mut(), old.get("spec")) {
        object.insert("spec".into(), spec.clone());
    }
    if target == UpdateTarget::Approval {
        keep_certificate(old, new);
    }
    if matches!(target, UpdateTarget::Status | UpdateTarget::Approval) {
        complete_conditions(old, new, now);
    }
    let mut causes = request_causes(new);
    causes.extend(update_causes(target, old, new));
    causes
}

/// Restores the issued certificate, which `/approval` does not change.
fn keep_certificate(old: &Value, new: &mut Value) {
    if !new["status"].is_object() {
        new["status"] = json!({});
    }
    match old["status"].get("certificate") {
        Some(certificate) => new["status"]["certificate"] = certificate.clone(),
        None => drop(new["status"].as_object_mut().and_then(|status| status.remove("certificate"))),
    }
}

fn conditions(value: &Value) -> impl Iterator<Item = &Value> {
    value["status"]["conditions"].as_array().into_iter().flatten()
}

/// Sets the times of the conditions that lack them.
fn complete_conditions(old: &Value, new: &mut Value, now: &str) {
    let changed = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in changed.into_iter().flatten() {
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = now.into();
        }
        if condition["lastTransitionTime"].is_null() {
            let same = conditions(old).find(|before| {
                before["type"] == condition["type"]
                    && before["status"] == condition["status"]
                    && before["lastTransitionTime"].is_string()
            });
            let time = same.map_or_else(|| now.into(), |before| before["lastTransitionTime"].clone());
            condition["lastTransitionTime"] = time;
        }
    }
}

/// Returns what is invalid in a request, whatever its earlier state.
pub(super) fn request_causes(value: &Value) -> Vec<Cause> {
    let spec = &value["spec"];
    let mut causes = Vec::new();
    if let Err(problem) = check_request(&bytes(&spec["request"])) {
        causes.push(field::invalid("spec.request", &spec["request"], &problem));
    }
    causes.extend(usage_causes(&spec["usages"]));
    match spec["signerName"].as_str().unwrap_or_default() {
        LEGACY_SIGNER => causes.push(field::invalid(
            "spec.signerName",
            &LEGACY_SIGNER.into(),
            "the legacy signerName is not allowed via this API version",
        )),
        signer => causes.extend(signer_causes(signer)),
    }
    if spec["expirationSeconds"].as_i64().is_some_and(|seconds| seconds < MIN_EXPIRATION) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        causes.push(field::invalid("spec.expirationSeconds", &spec["expirationSeconds"], detail));
    }
    causes.extend(condition_causes(value));
    if let Err(problem) = check_certificate(&bytes(&value["status"]["certificate"])) {
        causes.push(field::invalid("status.certificate", &"<certificate data>".into(), &problem));
    }
    causes
}

/// Returns the PKCS#10 request in DER.
pub(crate) fn request_der(value: &Value) -> Option<Vec<u8>> {
    request_block(&bytes(&value["spec"]["request"])).ok().map(|block| block.contents)
}

/// Returns the issued certificate in PEM; `None` if none was issued.
pub(crate) fn issued_pem(value: &Value) -> Option<Vec<u8>> {
    Some(bytes(&value["status"]["certificate"])).filter(|pem| !pem.is_empty())
}

/// Decodes base64; empty if the value is absent.
fn bytes(value: &Value) -> Vec<u8> {
    serde_json::from_value::<ByteString>(value.clone()).map(|bytes| bytes.0).unwrap_or_default()
}

/// Parses PEM and checks that it is a PKCS#10 request, signed with the key in it.
fn check_request(pem: &[u8]) -> Result<(), String> {
    let block = request_block(pem)?;
    let (rest, request) =
        X509CertificationRequest::from_der(&block.contents).map_err(|error| format!("asn1: {error}"))?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data".into());
    }
    match request.verify_signature() {
        // A key whose algorithm this server cannot verify is accepted, because kube-apiserver may know it.
        Ok(()) | Err(X509Error::SignatureUnsupportedAlgorithm) => Ok(()),
        Err(error) => Err(format!("x509: the signature does not match the public key: {error}")),
    }
}

fn request_block(pem: &[u8]) -> Result<Pem, String> {
    let block = parse_x509_pem(pem).ok().map(|(_, block)| block);
    block
        .filter(|block| block.label == "CERTIFICATE REQUEST")
        .ok_or_else(|| "PEM block type must be CERTIFICATE REQUEST".to_owned())
}

/// Checks that a signer wrote nothing but certificates in PEM.
fn check_certificate(pem: &[u8]) -> Result<(), String> {
    if pem.is_empty() {
        return Ok(());
    }
    let mut blocks = 0;
    for block in Pem::iter_from_buffer(pem) {
        let block = block.map_err(|error| error.to_string())?;
        if block.label != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", block.label));
        }
        block.parse_x509().map_err(|error| format!("x509: {error}"))?;
        blocks += 1;
    }
    if blocks == 0 { Err("must contain at least one CERTIFICATE PEM block".into()) } else { Ok(()) }
}

fn usage_causes(usages: &Value) -> Vec<Cause> {
    let usages: Vec<&Value> = usages.as_array().into_iter().flatten().collect();
    if usages.is_empty() {
        return vec![field::required("spec.usages", "")];
    }
    let at = |index| field::index("spec.usages", index);
    let unknown = usages
        .iter()
        .enumerate()
        .filter(|(_, usage)| usage.as_str().is_none_or(|usage| !USAGES.contains(&usage)));
    let mut causes: Vec<Cause> =
        unknown.map(|(index, usage)| field::not_supported(&at(index), usage, USAGES)).collect();
    let mut known = HashSet::default();
    let repeated = usages.iter().enumerate().filter(|(_, usage)| !known.insert(*usage));
    causes.extend(repeated.map(|(index, usage)| field::duplicate(&at(index), usage)));
    causes
}

/// Returns what is wrong with a signer name, which has the form `DOMAIN/PATH`.
fn signer_causes(signer: &str) -> Vec<Cause> {
    let path = "spec.signerName";
    if signer.is_empty() {
        return vec![field::required(path, "")];
    }
    let Some((domain, rest)) = signer.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return vec![field::invalid(path, &signer.into(), detail)];
    };
    let mut causes = Vec::new();
    if domain.len() > 253 {
        causes.push(field::too_long(path, 253));
    }
    causes.extend(segment_causes(path, domain));
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        causes.push(field::invalid(path, &domain.into(), detail));
    }
    causes.extend(segment_causes(path, rest));
    if signer.len() as u64 > MAX_SIGNER_NAME {
        causes.push(field::too_long(path, MAX_SIGNER_NAME));
    }
    causes
}

/// Returns the errors of the first label of a segment that is invalid.
fn segment_causes(path: &str, segment: &str) -> Vec<Cause> {
    let first =
        segment.split('.').map(|label| (label, label_errors(label))).find(|(_, errors)| !errors.is_empty());
    let causes = first.into_iter().flat_map(|(label, errors)| {
        errors.into_iter().map(move |error| format!("validating label {label:?}: {error}"))
    });
    causes.map(|detail| field::invalid(path, &segment.into(), &detail)).collect()
}

fn condition_causes(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut seen = HashSet::default();
    for (index, condition) in conditions(value).enumerate() {
        let at = field::index("status.conditions", index);
        let (type_path, status_path) = (field::child(&at, "type"), field::child(&at, "status"));
        let ty = condition["type"].as_str().unwrap_or_default();
        if ty.is_empty() {
            causes.push(field::required(&type_path, ""));
        }
        let allowed: &[&str] =
            if PERMANENT_CONDITIONS.contains(&ty) { &["True"] } else { &["False", "True", "Unknown"] };
        match condition["status"].as_str().unwrap_or_default() {
            "" => causes.push(field::required(&status_path, "")),
            status if !allowed.contains(&status) => {
                causes.push(field::not_supported(&status_path, &condition["status"], allowed));
            }
            _ => {}
        }
        let excluded = match ty {
            "Approved" => seen.contains("Denied"),
            "Denied" => seen.contains("Approved"),
            _ => false,
        };
        if excluded {
            let detail = "Approved and Denied conditions are mutually exclusive";
            causes.push(field::invalid(&type_path, &ty.into(), detail));
        }
        if !seen.insert(ty) {
            causes.push(field::duplicate(&type_path, &ty.into()));
        }
    }
    causes
}

/// Returns what an update of this target may not change.
fn update_causes(target: UpdateTarget, old: &Value, new: &Value) -> Vec<Cause> {
    let path = "status.conditions";
    let mut causes = Vec::new();
    for ty in PERMANENT_CONDITIONS {
        let [before, after]: [Vec<&Value>; 2] =
            [old, new].map(|value| conditions(value).filter(|condition| condition["type"] == ty).collect());
        let forbidden = |verb: &str| {
            field::forbidden(path, &format!("updates may not {verb} a condition of type {ty:?}"))
        };
        if after.len() < before.len() {
            causes.push(forbidden("remove"));
        } else if target != UpdateTarget::Approval && APPROVAL_CONDITIONS.contains(&ty) {
            if after.len() > before.len() {
                causes.push(forbidden("add"));
            } else if after != before {
                causes.push(forbidden("modify"));
            }
        }
    }
    let [before, after] = [old, new].map(|value| value["status"]["certificate"].as_str().unwrap_or_default());
    if target == UpdateTarget::Status && !before.is_empty() && before != after {
        causes.push(field::forbidden(
            "status.certificate",
            "updates may not modify a certificate that was issued",
        ));
    }
    causes
}

/// Errors with 403 if the user may not create this request, or may not approve or sign requests for its signer, as the
/// admission plugins of kube-apiserver do. `old` is `None` for a new request.
pub(in crate::rest) fn check_signer(
    state: &State,
    endpoint: &Endpoint,
    target: UpdateTarget,
    (old, new): (Option<&Value>, &Value),
    user: Option<&User>,
) -> Result<(), Status> {
    if !is_signing_request(endpoint) {
        return Ok(());
    }
    let signer = new["spec"]["signerName"].as_str().unwrap_or_default();
    let forbidden =
        |problem: String| Status::forbidden(endpoint.resource_ref(), meta::text(new, "name"), &problem);
    let Some(old) = old else {
        if signer == CLIENT_SIGNER && requests_masters(new) {
            let problem = format!("use of {signer} signer with system:masters group is not allowed");
            return Err(forbidden(problem));
        }
        return Ok(());
    };
    let verb = match target {
        UpdateTarget::Approval => "approve",
        UpdateTarget::Status if old["status"] != new["status"] => "sign",
        _ => return Ok(()),
    };
    let Some(user) = user else { return Ok(()) };
    let domain = signer.split('/').next().unwrap_or_default();
    let is_allowed = [signer.to_owned(), format!("{domain}/*")].into_iter().any(|name| {
        let attributes = Attributes::resource(verb, GROUP, "signers").named(name);
        state.access.authorize(user, &attributes).is_ok()
    });
    if is_allowed {
        return Ok(());
    }
    Err(forbidden(format!("user not permitted to {verb} requests with signerName {signer:?}")))
}

/// Whether the certificate would make its holder a member of `system:masters`.
fn requests_masters(value: &Value) -> bool {
    let Ok(block) = request_block(&bytes(&value["spec"]["request"])) else { return false };
    let Ok((_, request)) = X509CertificationRequest::from_der(&block.contents) else { return false };
    let subject = &request.certification_request_info.subject;
    subject.iter_organization().any(|name| name.as_str().is_ok_and(|name| name == MASTERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a request for a certificate of `organization`, in the encoding of `spec.request`.
    fn pem(organization: &str) -> Value {
        let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).expect("no names");
        params.distinguished_name.push(rcgen::DnType::OrganizationName, organization);
        let key = rcgen::KeyPair::generate().expect("a key");
        let pem = params.serialize_request(&key).expect("a request").pem().expect("PEM");
        serde_json::to_value(ByteString(pem.into_bytes())).expect("base64")
    }

    fn request(signer: &str, conditions: &[&str]) -> Value {
        let conditions: Vec<Value> =
            conditions.iter().map(|ty| json!({"type": ty, "status": "True"})).collect();
        json!({
            "metadata": {"name": "r"},
            "spec": {"request": pem("developers"), "signerName": signer, "usages": ["client auth"]},
            "status": {"conditions": conditions},
        })
    }

    fn fields(causes: &[Cause]) -> Vec<&str> {
        causes.iter().map(|cause| cause.field.as_str()).collect()
    }

    #[test]
    fn valid_request_has_no_causes() {
        assert!(request_causes(&request(CLIENT_SIGNER, &["Approved"])).is_empty());
    }

    #[test]
    fn malformed_fields_are_reported_with_their_paths() {
        let mut bad = request("signer", &["Approved", "Denied"]);
        bad["spec"]["usages"] = json!(["client auth", "client auth", "flying"]);
        bad["spec"]["request"] = "bm9uc2Vuc2U=".into();
        bad["spec"]["expirationSeconds"] = json!(10);
        assert_eq!(
            fields(&request_causes(&bad)),
            [
                "spec.request",
                "spec.usages[2]",
                "spec.usages[1]",
                "spec.signerName",
                "spec.expirationSeconds",
                "status.conditions[1].type",
            ]
        );
    }

    #[test]
    fn request_with_a_changed_signature_is_refused() {
        let encoded = bytes(&pem("developers"));
        let (_, mut block) = parse_x509_pem(&encoded).expect("PEM");
        let last = block.contents.len() - 1;
        block.contents[last] ^= 1;
        let (_, request) = X509CertificationRequest::from_der(&block.contents).expect("a request");
        assert!(request.verify_signature().is_err());
    }

    #[test]
    fn only_approval_adds_approved_and_nothing_removes_it() {
        let (pending, approved) = (request(CLIENT_SIGNER, &[]), request(CLIENT_SIGNER, &["Approved"]));
        assert!(update_causes(UpdateTarget::Approval, &pending, &approved).is_empty());
        assert_eq!(fields(&update_causes(UpdateTarget::Status, &pending, &approved)), ["status.conditions"]);
        assert_eq!(
            fields(&update_causes(UpdateTarget::Approval, &approved, &pending)),
            ["status.conditions"]
        );
    }

    #[test]
    fn approval_keeps_the_spec_and_the_certificate() {
        let mut old = request(CLIENT_SIGNER, &[]);
        old["status"]["certificate"] = "Y2VydA==".into();
        let mut new = old.clone();
        new["spec"]["usages"] = json!(["server auth"]);
        new["status"] = json!({"conditions": [{"type": "Approved", "status": "True"}]});
        let _ = prepare_update(UpdateTarget::Approval, &old, &mut new, "2026-01-01T00:00:00Z");
        assert_eq!((&new["spec"], &new["status"]["certificate"]), (&old["spec"], &json!("Y2VydA==")));
        assert_eq!(new["status"]["conditions"][0]["lastUpdateTime"], "2026-01-01T00:00:00Z");
    }

    #[test]
    fn membership_in_masters_is_recognized() {
        let of = |organization: &str| json!({"spec": {"request": pem(organization)}});
        assert!(requests_masters(&of("system:masters")));
        assert!(!requests_masters(&of("developers")));
    }
}
