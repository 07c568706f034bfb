use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Whoever may do everything, whatever the roles say.
pub(super) const MASTERS: &str = "system:masters";
pub(super) const AUTHENTICATED: &str = "system:authenticated";
pub(super) const UNAUTHENTICATED: &str = "system:unauthenticated";
pub(super) const ANONYMOUS: &str = "system:anonymous";
const ADMIN: &str = "system:admin";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// Whom a request comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name that bindings have.
    pub name: String,
    /// What tells users of the same name apart; may be empty.
    pub uid: String,
    /// The groups, complete: nothing is added to them.
    pub groups: Vec<String>,
    /// What an authenticator says beyond that.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// An authenticated user: in these groups, and in `system:authenticated`.
    #[must_use]
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().chain(&[AUTHENTICATED]).map(|group| (*group).to_owned()).collect();
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// A service account, in the groups that all of them are in.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let user = Self::new(&account_name(namespace, name), &[]);
        let mut groups = account_groups(namespace);
        groups.extend(user.groups);
        Self { groups, ..user }
    }

    /// The administrator, who may do everything.
    #[must_use]
    pub fn admin() -> Self {
        Self::new(ADMIN, &[MASTERS])
    }

    /// Nobody in particular.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Self::default() }
    }

    /// Whether no role is needed.
    pub(super) fn is_superuser(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    /// `authentication.k8s.io/v1 UserInfo`.
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

/// The user name of a service account.
pub(super) fn account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT}{namespace}:{name}")
}

/// The groups of a service account, without `system:authenticated`.
pub(super) fn account_groups(namespace: &str) -> Vec<String> {
    vec![SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// The namespace and name of the service account that has this user name.
pub(super) fn account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_is_known_by_its_user_name() {
        let user = User::service_account("a", "b");
        assert_eq!(account_of(&user.name), Some(("a", "b")));
        assert_eq!(
            user.groups,
            ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]
        );
        for other in
            ["a", "system:serviceaccount:a", "system:serviceaccount::b", "system:serviceaccount:a:b:c"]
        {
            assert_eq!(account_of(other), None, "{other}");
        }
    }
}
