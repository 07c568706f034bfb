//! The RBAC policy: the roles and bindings of a cluster, and what they allow.

use std::fmt;
use std::sync::Arc;

use pilothouse_model::hash::HashMap;
use serde_json::Value;

use super::attributes::{Attributes, RequestKind};
use super::{GROUP, PolicyRule};
use crate::user::{User, account_name};

/// The roles and bindings of a cluster, indexed by subject so that a decision for one user does not read the bindings of
/// others.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    /// By namespace; ClusterRoles are under "".
    roles: HashMap<Box<str>, Roles>,
    /// By namespace; ClusterRoleBindings are under "".
    bindings: HashMap<Box<str>, Bindings>,
}

/// The rules of roles, by name.
type Roles = HashMap<Box<str>, Arc<[PolicyRule]>>;

#[derive(Debug, Default)]
struct Bindings {
    by_name: HashMap<Box<str>, Arc<Binding>>,
    by_user: BindingsByPrincipal,
    by_group: BindingsByPrincipal,
}

/// The bindings of users or groups, by their name.
type BindingsByPrincipal = HashMap<Box<str>, Vec<Arc<Binding>>>;

/// A RoleBinding or a ClusterRoleBinding.
#[derive(Debug)]
struct Binding {
    name: Box<str>,
    /// "" for a ClusterRoleBinding.
    namespace: Box<str>,
    role: RoleRef,
    subjects: Vec<Subject>,
}

/// The role that a binding grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RoleRef {
    /// Whether it is a ClusterRole.
    pub cluster: bool,
    pub name: Box<str>,
}

#[derive(Debug)]
struct Subject {
    principal: Principal,
    /// The subject as reviews show it: `ServiceAccount "name/namespace"`.
    description: String,
}

/// The user or group that a subject refers to. A service account is a user with its account name.
#[derive(Debug)]
enum Principal {
    User(Box<str>),
    Group(Box<str>),
}

/// The decision on a request.
#[derive(Debug)]
pub(super) enum Decision<'a> {
    /// Allowed by a binding, or, with `None`, because the user may do everything.
    Allowed(Option<Grant<'a>>),
    /// No rule allows the request. Lists the roles that the user's bindings refer to but that do not exist.
    Denied(Vec<MissingRole>),
}

/// A binding that grants its role to a user.
#[derive(Debug)]
pub(super) struct Grant<'a> {
    binding: &'a Binding,
    subject: &'a Subject,
}

/// A role that a binding refers to but that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MissingRole(RoleRef);

impl Policy {
    /// Adds a role, or replaces the one of the same name.
    pub(super) fn put_role(&mut self, namespace: &str, name: &str, role: &Value) {
        let rules = PolicyRule::parse_all(&role["rules"]).into();
        self.roles.entry(namespace.into()).or_default().insert(name.into(), rules);
    }

    pub(super) fn remove_role(&mut self, namespace: &str, name: &str) {
        if let Some(roles) = self.roles.get_mut(namespace) {
            roles.remove(name);
            if roles.is_empty() {
                self.roles.remove(namespace);
            }
        }
    }

    /// Adds a binding, or replaces the one of the same name.
    pub(super) fn put_binding(&mut self, namespace: &str, name: &str, binding: &Value) {
        self.remove_binding(namespace, name);
        let binding = Arc::new(Binding::parse(namespace, name, binding));
        let bindings = self.bindings.entry(namespace.into()).or_default();
        for subject in &binding.subjects {
            let (index, principal) = bindings.index_of(&subject.principal);
            let held = index.entry(principal.into()).or_default();
            if !held.iter().any(|known| Arc::ptr_eq(known, &binding)) {
                held.push(Arc::clone(&binding));
            }
        }
        bindings.by_name.insert(name.into(), binding);
    }

    pub(super) fn remove_binding(&mut self, namespace: &str, name: &str) {
        let Some(bindings) = self.bindings.get_mut(namespace) else { return };
        let Some(removed) = bindings.by_name.remove(name) else { return };
        for subject in &removed.subjects {
            let (index, principal) = bindings.index_of(&subject.principal);
            if let Some(bindings) = index.get_mut(principal) {
                bindings.retain(|known| !Arc::ptr_eq(known, &removed));
                if bindings.is_empty() {
                    index.remove(principal);
                }
            }
        }
        if bindings.by_name.is_empty() {
            self.bindings.remove(namespace);
        }
    }

    /// Decides whether a user may make a request with these attributes.
    pub(super) fn decide<'a>(&'a self, user: &'a User, attributes: &'a Attributes<'_>) -> Decision<'a> {
        if user.is_superuser() {
            return Decision::Allowed(None);
        }
        let namespace = match &attributes.kind {
            RequestKind::Resource(target) => &*target.namespace,
            RequestKind::NonResource(_) => "",
        };
        let mut missing = Vec::new();
        for grant in self.grants(user, namespace) {
            match self.role(&grant.binding.role, &grant.binding.namespace) {
                Some(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    return Decision::Allowed(Some(grant));
                }
                Some(_) => {}
                None => add_missing(&mut missing, &grant.binding.role),
            }
        }
        Decision::Denied(missing)
    }

    /// Returns the rules that apply to a user in a namespace ("" for none) and in the cluster. A binding with several
    /// matching subjects counts once.
    pub(super) fn rules(&self, user: &User, namespace: &str) -> (Vec<PolicyRule>, Vec<MissingRole>) {
        let mut visited: Vec<*const Binding> = Vec::new();
        let (mut rules, mut missing) = (Vec::new(), Vec::new());
        for grant in self.grants(user, namespace) {
            let identity = std::ptr::from_ref(grant.binding);
            if visited.contains(&identity) {
                continue;
            }
            visited.push(identity);
            match self.role(&grant.binding.role, &grant.binding.namespace) {
                Some(found) => rules.extend(found.iter().cloned()),
                None => add_missing(&mut missing, &grant.binding.role),
            }
        }
        (rules, missing)
    }

    /// Returns the rules of the role that a binding in a namespace refers to.
    pub(super) fn role(&self, role: &RoleRef, namespace: &str) -> Option<&[PolicyRule]> {
        if !role.cluster && namespace.is_empty() {
            return None;
        }
        let namespace = if role.cluster { "" } else { namespace };
        self.roles.get(namespace)?.get(&role.name).map(|rules| &**rules)
    }

    /// Returns the bindings of the cluster, and then those of the namespace, that apply to a user.
    fn grants<'a>(&'a self, user: &'a User, namespace: &'a str) -> impl Iterator<Item = Grant<'a>> {
        let scopes = [Some(""), (!namespace.is_empty()).then_some(namespace)];
        scopes.into_iter().flatten().filter_map(|scope| self.bindings.get(scope)).flat_map(|bindings| {
            let own = bindings.by_user.get(&*user.name).into_iter().flatten();
            let own = own.filter_map(|binding| {
                Grant::from_binding(binding, |principal| principal.is_user(&user.name))
            });
            let groups = user.groups.iter().flat_map(|group| {
                let held = bindings.by_group.get(&**group).into_iter().flatten();
                held.filter_map(|binding| Grant::from_binding(binding, |principal| principal.is_group(group)))
            });
            own.chain(groups)
        })
    }
}

impl Bindings {
    /// Returns the index that contains the bindings of a principal, and the principal's name.
    fn index_of<'a>(&mut self, principal: &'a Principal) -> (&mut BindingsByPrincipal, &'a str) {
        match principal {
            Principal::User(name) => (&mut self.by_user, name),
            Principal::Group(name) => (&mut self.by_group, name),
        }
    }
}

impl Principal {
    fn is_user(&self, user: &str) -> bool {
        matches!(self, Self::User(name) if **name == *user)
    }

    fn is_group(&self, group: &str) -> bool {
        matches!(self, Self::Group(name) if **name == *group)
    }
}

impl<'a> Grant<'a> {
    /// Returns the grant of a binding by its first subject that applies.
    fn from_binding(binding: &'a Binding, applies: impl Fn(&Principal) -> bool) -> Option<Self> {
        let subject = binding.subjects.iter().find(|subject| applies(&subject.principal))?;
        Some(Self { binding, subject })
    }
}

/// Adds a role to `missing` unless it is there.
fn add_missing(missing: &mut Vec<MissingRole>, role: &RoleRef) {
    if !missing.iter().any(|known| known.0 == *role) {
        missing.push(MissingRole(role.clone()));
    }
}

impl Binding {
    fn parse(namespace: &str, name: &str, binding: &Value) -> Self {
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        Self {
            name: name.into(),
            namespace: namespace.into(),
            role: RoleRef::parse(&binding["roleRef"]),
            subjects: subjects.filter_map(|subject| Subject::parse(subject, namespace)).collect(),
        }
    }
}

impl RoleRef {
    pub(super) fn parse(reference: &Value) -> Self {
        Self {
            cluster: reference["kind"] != "Role",
            name: reference["name"].as_str().unwrap_or_default().into(),
        }
    }
}

impl Subject {
    fn parse(subject: &Value, binding_namespace: &str) -> Option<Self> {
        let name = subject["name"].as_str()?;
        Some(match subject["kind"].as_str()? {
            "User" => Self { principal: Principal::User(name.into()), description: format!("User {name:?}") },
            "Group" => {
                Self { principal: Principal::Group(name.into()), description: format!("Group {name:?}") }
            }
            "ServiceAccount" => {
                let own = subject["namespace"].as_str().filter(|namespace| !namespace.is_empty());
                let namespace = own.unwrap_or(binding_namespace);
                Self {
                    principal: Principal::User(account_name(namespace, name).into()),
                    description: format!("ServiceAccount {:?}", format!("{name}/{namespace}")),
                }
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Grant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Binding { name, namespace, role, .. } = self.binding;
        let kind = if role.cluster { "ClusterRole" } else { "Role" };
        if namespace.is_empty() {
            write!(f, "ClusterRoleBinding {name:?}")?;
        } else {
            write!(f, "RoleBinding {:?}", format!("{name}/{namespace}"))?;
        }
        write!(f, " of {kind} {:?} to {}", role.name, self.subject.description)
    }
}

impl fmt::Display for MissingRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.0.cluster { "clusterrole" } else { "role" };
        write!(f, "{kind}.{GROUP} {:?} not found", self.0.name)
    }
}

/// Describes missing roles for a denial; "" if there are none.
pub(super) fn describe(missing: &[MissingRole]) -> String {
    match missing {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        many => {
            let texts: Vec<String> = many.iter().map(ToString::to_string).collect();
            format!("RBAC: [{}]", texts.join(", "))
        }
    }
}

#[cfg(test)]
mod tests;
