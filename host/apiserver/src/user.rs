//! Users, and the names and groups of service accounts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The group whose members may do everything, regardless of roles.
pub(crate) const MASTERS: &str = "system:masters";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
pub(crate) const ANONYMOUS: &str = "system:anonymous";
const ADMIN: &str = "system:admin";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// The user that a request acts as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name that the subjects of bindings refer to.
    pub name: String,
    /// An identifier that distinguishes users of the same name over time; may be empty.
    pub uid: String,
    /// All groups of the user; the server adds none.
    pub groups: Vec<String>,
    /// Further attributes from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Returns an authenticated user in these groups and in `system:authenticated`.
    #[must_use]
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().chain(&[AUTHENTICATED]).map(|group| (*group).to_owned()).collect();
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// Returns a service account, in the groups of all service accounts and of those in its namespace.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let user = Self::new(&account_name(namespace, name), &[]);
        let mut groups = account_groups(namespace);
        groups.extend(user.groups);
        Self { groups, ..user }
    }

    /// Returns the administrator, who may do everything.
    #[must_use]
    pub fn admin() -> Self {
        Self::new(ADMIN, &[MASTERS])
    }

    /// Returns `system:anonymous`, the user of requests without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Self::default() }
    }

    /// Whether the user may do everything without any role.
    pub(crate) fn is_superuser(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    /// Returns the user as `authentication.k8s.io/v1 UserInfo`.
    pub(crate) fn to_value(&self) -> Value {
        let mut user = json!({"username": self.name});
        if !self.uid.is_empty() {
            user["uid"] = self.uid.as_str().into();
        }
        if !self.groups.is_empty() {
            user["groups"] = self.groups.clone().into();
        }
        if !self.extra.is_empty() {
            user["extra"] = json!(self.extra);
        }
        user
    }
}

/// Returns the user name of a service account.
pub(crate) fn account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT}{namespace}:{name}")
}

/// Returns the groups of a service account, without `system:authenticated`.
pub(crate) fn account_groups(namespace: &str) -> Vec<String> {
    vec![SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// Returns the namespace and name of the service account with this user name, or `None` for any other user.
pub(crate) fn parse_account_name(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_account_is_recognized_by_its_user_name() {
        let user = User::service_account("a", "b");
        assert_eq!(parse_account_name(&user.name), Some(("a", "b")));
        assert_eq!(
            user.groups,
            ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]
        );
        for other in
            ["a", "system:serviceaccount:a", "system:serviceaccount::b", "system:serviceaccount:a:b:c"]
        {
            assert_eq!(parse_account_name(other), None, "{other}");
        }
    }
}
