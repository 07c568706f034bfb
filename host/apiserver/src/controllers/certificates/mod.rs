//! The controllers of CertificateSigningRequests, after `k8s.io/kubernetes/pkg/controller/certificates`: one signs approved requests, one
//! approves those of kubelets, and one deletes old ones.

mod approval;
mod certificate;
mod cleanup;
mod signing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use pilothouse_listen::Authority;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::x509::AttributeTypeAndValue;

use super::action::Plan;
use super::kind::Kind;
use super::kind_controller::KindController;
use super::object::{is_true, items};
use crate::rest::kinds::certificates;

/// The signer of client certificates of the API server.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The signer of client certificates of kubelets.
const KUBELET_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of serving certificates of kubelets.
const KUBELET_SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";

/// Returns the controller that signs. Without an authority, it signs nothing.
pub(super) fn signing_controller(authority: Option<Arc<Authority>>) -> KindController {
    KindController::new(Kind::CertificateSigningRequest, move |cluster, request| match &authority {
        Some(authority) => {
            signing::plan(request, authority, || cluster.state.identifiers.serial(), cluster.now)
        }
        None => Plan::default(),
    })
}

/// Returns the controller that approves the requests of kubelets for client certificates.
pub(super) fn approving_controller() -> KindController {
    KindController::new(Kind::CertificateSigningRequest, |cluster, request| {
        approval::plan(request, |user, attributes| cluster.state.access.review(user, attributes).allowed)
    })
}

/// Returns the controller that deletes old requests.
pub(super) fn cleaner_controller() -> KindController {
    KindController::new(Kind::CertificateSigningRequest, |cluster, request| {
        cleanup::plan(request, cluster.now)
    })
}

/// Whether a request was approved and not denied.
fn is_approved(request: &Value) -> bool {
    is_true(&request["status"], "Approved") && !has_condition(request, "Denied")
}

/// Whether a request has a condition of this type.
fn has_condition(request: &Value, kind: &str) -> bool {
    items(&request["status"]["conditions"]).iter().any(|condition| condition["type"] == kind)
}

/// Whether a certificate was issued.
fn is_issued(request: &Value) -> bool {
    request["status"]["certificate"].as_str().is_some_and(|text| !text.is_empty())
}

/// Returns the usages of a request.
fn usages(request: &Value) -> Vec<&str> {
    items(&request["spec"]["usages"]).iter().filter_map(Value::as_str).collect()
}

/// What a request for a certificate contains.
#[derive(Debug)]
struct RequestedCertificate {
    /// The subject in DER.
    subject: Vec<u8>,
    common_name: String,
    organizations: Vec<String>,
    /// The public key with its algorithm, in DER.
    public_key: Vec<u8>,
    /// The value of the extension `subjectAltName`, in DER.
    alternative_names: Option<Vec<u8>>,
    dns_names: usize,
    email_addresses: usize,
    ip_addresses: usize,
    uris: usize,
}

impl RequestedCertificate {
    /// Reads the PKCS#10 request in an object. Returns `None` if it is malformed, which the API server refuses.
    fn of(request: &Value) -> Option<Self> {
        let der = certificates::request_der(request)?;
        let (_, parsed) = X509CertificationRequest::from_der(&der).ok()?;
        let info = &parsed.certification_request_info;
        let mut requested = Self {
            subject: info.subject.as_raw().to_vec(),
            common_name: info.subject.iter_common_name().filter_map(text).last().unwrap_or_default(),
            organizations: info.subject.iter_organization().filter_map(text).collect(),
            public_key: info.subject_pki.raw.to_vec(),
            alternative_names: None,
            dns_names: 0,
            email_addresses: 0,
            ip_addresses: 0,
            uris: 0,
        };
        for attribute in info.iter_attributes() {
            let ParsedCriAttribute::ExtensionRequest(extensions) = attribute.parsed_attribute() else {
                continue;
            };
            for extension in &extensions.extensions {
                if let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() {
                    requested.alternative_names = Some(extension.value.to_vec());
                    names.general_names.iter().for_each(|name| requested.count(name));
                }
            }
        }
        Some(requested)
    }

    fn count(&mut self, name: &GeneralName<'_>) {
        match name {
            GeneralName::DNSName(_) => self.dns_names += 1,
            GeneralName::RFC822Name(_) => self.email_addresses += 1,
            GeneralName::IPAddress(_) => self.ip_addresses += 1,
            GeneralName::URI(_) => self.uris += 1,
            _ => {}
        }
    }
}

/// Returns the text of a part of a subject; `None` if it is no text.
fn text(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    attribute.as_str().ok().map(str::to_owned)
}
