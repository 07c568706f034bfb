//! The name of a Kubernetes service account.

use std::fmt;

use pilothouse_model::names::{is_dns_label, is_dns_subdomain};
use serde::Deserialize;

/// A Kubernetes service account, written `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct ServiceAccount {
    namespace: String,
    name: String,
}

/// Error for a text that does not name a service account.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a service account; write it as NAMESPACE/NAME, such as shop/robot")]
pub struct AccountError(String);

impl ServiceAccount {
    /// Parses `NAMESPACE/NAME`.
    ///
    /// # Errors
    /// Errors if the text does not have exactly two parts, or if one of them is not a valid name of a
    /// Kubernetes object.
    pub fn parse(text: &str) -> Result<Self, AccountError> {
        let parts = text
            .split_once('/')
            .filter(|(namespace, name)| is_dns_label(namespace) && is_dns_subdomain(name));
        let (namespace, name) = parts.ok_or_else(|| AccountError(text.to_owned()))?;
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// The namespace of the service account.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name of the service account in its namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The user name under which the API server knows the account.
    pub(crate) fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// The groups of every service account in its namespace. Roles are mostly bound to accounts, but also to
    /// these groups.
    pub(crate) fn groups(&self) -> [String; 3] {
        [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
            "system:authenticated".to_owned(),
        ]
    }
}

impl fmt::Display for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl TryFrom<String> for ServiceAccount {
    type Error = AccountError;

    fn try_from(text: String) -> Result<Self, AccountError> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_a_namespace_and_a_name() {
        let account = ServiceAccount::parse("shop/robot.v2").expect("an account");
        assert_eq!((account.namespace(), account.name()), ("shop", "robot.v2"));
        assert_eq!(account.to_string(), "shop/robot.v2");
        assert_eq!(account.user(), "system:serviceaccount:shop:robot.v2");
        assert_eq!(
            account.groups(),
            ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"]
        );
    }

    /// With a line break or a colon, the name would become another user or another header.
    #[test]
    fn other_texts_are_not_accounts() {
        for bad in
            ["", "robot", "/robot", "shop/", "a/b/c", "Shop/robot", "shop/a:b", "a.b/c", "shop/-a", "s/a\n"]
        {
            let error = ServiceAccount::parse(bad).expect_err(bad).to_string();
            assert!(error.contains("NAMESPACE/NAME"), "{error}");
        }
    }
}
