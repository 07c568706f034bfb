use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use rcgen::{CertificateParams, DnType, KeyPair, SanType};
use serde_json::json;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::{ParsedExtension, X509Certificate};

use super::super::action::Action;
use super::*;

const NOW: &str = "2026-05-01T12:00:00Z";
const CLIENT_USAGES: [&str; 2] = ["digital signature", "client auth"];

fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

/// Returns a request for a certificate with these organizations and alternative names, with a condition `Approved`.
fn request(signer: &str, name: &str, organizations: &[&str], hosts: &[SanType], usages: &[&str]) -> Value {
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // A distinguished name of rcgen has each type once, so the second organization is given by its identifier.
    let types = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    for (ty, organization) in types.into_iter().zip(organizations) {
        params.distinguished_name.push(ty, *organization);
    }
    params.subject_alt_names = hosts.to_vec();
    let pem = params.serialize_request(&KeyPair::generate().expect("a key")).expect("a request").pem();
    json!({
        "metadata": {"name": "r", "uid": "u", "creationTimestamp": "2026-05-01T11:00:00Z"},
        "spec": {"request": ByteString(pem.expect("PEM").into_bytes()), "signerName": signer, "usages": usages},
        "status": {"conditions": [{"type": "Approved", "status": "True", "lastUpdateTime": "2026-05-01T11:30:00Z"}]},
    })
}

fn sign(request: &Value, authority: &Authority) -> Vec<Action> {
    signing::plan(request, authority, || [7; 16], now()).actions
}

/// Returns the status that the only action sets.
#[track_caller]
fn status_of(actions: Vec<Action>) -> Value {
    match <[Action; 1]>::try_from(actions) {
        Ok([Action::SetStatus(status) | Action::SetApproval(status)]) => status,
        other => panic!("{other:?}"),
    }
}

/// Returns the message of the condition `Failed` that a request gets.
fn failure(request: &Value) -> String {
    let status = status_of(sign(request, &Authority::new().expect("an authority")));
    assert_eq!(status["certificate"], Value::Null);
    assert_eq!(status["conditions"][1]["type"], "Failed");
    status["conditions"][1]["message"].as_str().expect("a message").to_owned()
}

#[test]
fn approved_request_is_signed_with_its_subject_and_usages() {
    let authority = Authority::new().expect("an authority");
    let mut request = request(CLIENT_SIGNER, "jane", &["developers", "testers"], &[], &CLIENT_USAGES);
    request["spec"]["expirationSeconds"] = json!(86400);
    let status = status_of(sign(&request, &authority));
    let pem: ByteString = serde_json::from_value(status["certificate"].clone()).expect("base64");
    let (rest, block) = parse_x509_pem(&pem.0).expect("PEM");
    assert!(rest.is_empty() && pem.0.starts_with(b"-----BEGIN CERTIFICATE-----\n"));
    let certificate = block.parse_x509().expect("a certificate");
    assert_eq!(certificate.subject().to_string(), "CN=jane, O=developers, O=testers");
    assert_eq!(certificate.raw_serial(), [7; 16]);
    let (_, issuer) = X509Certificate::from_der(authority.der()).expect("DER");
    assert_eq!(certificate.issuer(), issuer.subject());
    certificate.verify_signature(Some(issuer.public_key())).expect("a signature");
    let validity = certificate.validity();
    assert_eq!(validity.not_before.timestamp(), now().as_second() - 300);
    assert_eq!(validity.not_after.timestamp(), now().as_second() + 86400 - 300);
    let usage = certificate.key_usage().expect("one").expect("an extension").value;
    assert!(usage.digital_signature() && !usage.key_encipherment());
    let purposes = certificate.extended_key_usage().expect("one").expect("an extension").value;
    assert!(purposes.client_auth && !purposes.server_auth);
    assert!(!certificate.is_ca());
}

#[test]
fn alternative_names_of_a_kubelet_are_kept() {
    let authority = Authority::new().expect("an authority");
    let host = SanType::DnsName("node-1".try_into().expect("a name"));
    let usages = ["digital signature", "server auth"];
    let request = request(KUBELET_SERVING_SIGNER, "system:node:node-1", &["system:nodes"], &[host], &usages);
    let status = status_of(sign(&request, &authority));
    let pem: ByteString = serde_json::from_value(status["certificate"].clone()).expect("base64");
    let (_, block) = parse_x509_pem(&pem.0).expect("PEM");
    let certificate = block.parse_x509().expect("a certificate");
    let mut extensions =
        certificate.iter_extensions().map(x509_parser::extensions::X509Extension::parsed_extension);
    assert!(extensions.any(|extension| matches!(
        extension,
        ParsedExtension::SubjectAlternativeName(names)
            if matches!(names.general_names[..], [GeneralName::DNSName("node-1")])
    )));
}

#[test]
fn requests_that_are_not_to_be_signed_are_left_alone() {
    let authority = Authority::new().expect("an authority");
    let approved = request(CLIENT_SIGNER, "jane", &[], &[], &CLIENT_USAGES);
    assert_eq!(sign(&approved, &authority).len(), 1);
    for change in [
        json!({"conditions": []}),
        json!({"conditions": [{"type": "Denied", "status": "True"}]}),
        json!({"conditions": [{"type": "Approved", "status": "True"}, {"type": "Failed", "status": "True"}]}),
        json!({"conditions": [{"type": "Approved", "status": "True"}], "certificate": "Y2VydA=="}),
    ] {
        let mut request = approved.clone();
        request["status"] = change;
        assert_eq!(sign(&request, &authority), [], "{}", request["status"]);
    }
    let other = request("example.com/signer", "jane", &[], &[], &CLIENT_USAGES);
    assert_eq!(sign(&other, &authority), []);
}

#[test]
fn signers_refuse_what_they_do_not_sign() {
    let client = |usages: &[&str]| failure(&request(CLIENT_SIGNER, "jane", &[], &[], usages));
    assert_eq!(client(&["server auth"]), "invalid usage for client certificate: server auth");
    assert_eq!(client(&["digital signature"]), "missing required usage for client certificate: client auth");
    let kubelet = |signer: &str, name: &str, organization: &str, hosts: &[SanType], purpose: &str| {
        failure(&request(signer, name, &[organization], hosts, &["digital signature", purpose]))
    };
    let (node, group) = ("system:node:a", "system:nodes");
    let host = [SanType::DnsName("a".try_into().expect("a name"))];
    let client =
        |name, organization, hosts| kubelet(KUBELET_CLIENT_SIGNER, name, organization, hosts, "client auth");
    assert_eq!(client(node, "others", &[]), "subject organization is not system:nodes");
    assert_eq!(client("a", group, &[]), "subject common name does not begin with system:node:");
    assert_eq!(client(node, group, &host), "DNS subjectAltNames are not allowed");
    let serving = |hosts, purpose| kubelet(KUBELET_SERVING_SIGNER, node, group, hosts, purpose);
    assert_eq!(serving(&[], "server auth"), "DNS or IP subjectAltName is required");
    assert_eq!(
        serving(&host, "client auth"),
        "usages did not match [digital signature key encipherment server auth]"
    );
}

#[test]
fn kubelet_is_approved_only_if_its_requester_may_create_it() {
    let mut request = request(KUBELET_CLIENT_SIGNER, "system:node:a", &["system:nodes"], &[], &CLIENT_USAGES);
    request["status"] = json!({});
    request["spec"]["username"] = "system:node:a".into();
    request["spec"]["groups"] = json!(["system:nodes"]);
    let plan = |allowed: &'static str| {
        approval::plan(&request, move |user, attributes| {
            assert_eq!(
                (user.name.as_str(), user.groups.as_slice()),
                ("system:node:a", &["system:nodes".to_owned()][..])
            );
            format!("{attributes:?}").contains(&format!("{allowed:?}"))
        })
        .actions
    };
    let approved = status_of(plan("selfnodeclient"));
    let message = "Auto approving self kubelet client certificate after SubjectAccessReview.";
    assert_eq!(
        approved["conditions"],
        json!([{"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message}])
    );
    let approved = status_of(plan("nodeclient"));
    assert_eq!(
        approved["conditions"][0]["message"],
        "Auto approving kubelet client certificate after SubjectAccessReview."
    );
    assert_eq!(plan("other"), []);
    let client = self::request(CLIENT_SIGNER, "system:node:a", &["system:nodes"], &[], &CLIENT_USAGES);
    let pending = json!({"metadata": {"name": "r"}, "spec": client["spec"]});
    assert_eq!(approval::plan(&pending, |_, _| true).actions, []);
}

#[test]
fn old_requests_are_deleted() {
    let deleted = |request: &Value, at: &str| {
        let plan = cleanup::plan(request, at.parse().expect("a time"));
        (!plan.actions.is_empty(), plan.retry_after)
    };
    let approved = request(CLIENT_SIGNER, "jane", &[], &[], &CLIENT_USAGES);
    let hours = |hours: u64| Some(Duration::from_secs(hours * 3600));
    assert_eq!(deleted(&approved, "2026-05-01T11:30:00Z"), (false, hours(24)));
    let mut issued = approved.clone();
    let status = status_of(sign(&approved, &Authority::new().expect("an authority")));
    issued["status"] = status;
    assert_eq!(deleted(&issued, "2026-05-01T11:30:00Z"), (false, hours(1)));
    assert_eq!(deleted(&issued, "2026-05-01T12:30:00Z"), (true, None));
    let mut pending = approved.clone();
    pending["status"] = json!({});
    assert_eq!(deleted(&pending, "2026-05-01T11:00:00Z"), (false, hours(24)));
    assert_eq!(deleted(&pending, "2026-05-02T11:00:00Z"), (true, None));
}
