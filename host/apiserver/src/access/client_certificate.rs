//! The user of a client certificate.

use pilothouse_listen::ClientCertificate;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::user::User;

/// Returns the user whom a certificate names: its common name, in the groups that are its organizations. Returns `None` for a certificate
/// without a common name, which is no credential in Kubernetes either.
pub(super) fn user(certificate: &ClientCertificate) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(certificate.der()).ok()?;
    user_of(certificate.subject())
}

/// Returns the user of a certificate's subject.
fn user_of(subject: &X509Name<'_>) -> Option<User> {
    let text = |attribute: &AttributeTypeAndValue<'_>| attribute.as_str().ok().map(str::to_owned);
    // As in Go, the last common name counts.
    let name = subject.iter_common_name().filter_map(text).last().filter(|name| !name.is_empty())?;
    let groups: Vec<String> = subject.iter_organization().filter_map(text).collect();
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    Some(User::new(&name, &groups))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    /// Returns the user of a certificate with this subject.
    fn user_with(subject: &[(DnType, &str)]) -> Option<User> {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names");
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (part, value) in subject {
            params.distinguished_name.push(part.clone(), *value);
        }
        let certificate = params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate");
        let (_, certificate) = X509Certificate::from_der(certificate.der()).expect("DER");
        user_of(certificate.subject())
    }

    #[test]
    fn common_name_is_the_user_and_organization_the_group() {
        let user = user_with(&[(DnType::CommonName, "jane"), (DnType::OrganizationName, "system:masters")]);
        assert_eq!(user, Some(User::new("jane", &["system:masters"])));
    }

    #[test]
    fn certificate_without_a_common_name_is_no_credential() {
        assert_eq!(user_with(&[(DnType::OrganizationName, "system:masters")]), None);
        assert_eq!(user_with(&[(DnType::CommonName, "")]), None);
    }
}
