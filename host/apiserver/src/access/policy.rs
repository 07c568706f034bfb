use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::question::{Question, Topic};
use super::user::{User, account_name};
use super::{GROUP, Rule};

/// The roles and bindings of a cluster, so that what holds for one user is found without looking at the others'.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    /// By namespace and name; cluster roles are under "".
    roles: HashMap<Box<str>, Roles>,
    /// By namespace; cluster role bindings are under "".
    bindings: HashMap<Box<str>, Bindings>,
}

/// The rules of roles, by name.
type Roles = HashMap<Box<str>, Arc<[Rule]>>;

#[derive(Debug, Default)]
struct Bindings {
    by_name: HashMap<Box<str>, Arc<Binding>>,
    by_user: Held,
    by_group: Held,
}

/// The bindings whose subjects somebody is among, by the name of the user or group.
type Held = HashMap<Box<str>, Vec<Arc<Binding>>>;

/// A RoleBinding or a ClusterRoleBinding.
#[derive(Debug)]
struct Binding {
    name: Box<str>,
    /// "" for a ClusterRoleBinding.
    namespace: Box<str>,
    role: RoleRef,
    subjects: Vec<Subject>,
}

/// Which role a binding grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RoleRef {
    /// Whether it is a ClusterRole.
    pub cluster: bool,
    pub name: Box<str>,
}

#[derive(Debug)]
struct Subject {
    holder: Holder,
    /// As reviews show it: `ServiceAccount "name/namespace"`.
    shown: String,
}

/// Who a subject is, as users are compared with it. A service account is the user of its name.
#[derive(Debug)]
enum Holder {
    User(Box<str>),
    Group(Box<str>),
}

/// The answer to a question.
#[derive(Debug)]
pub(super) enum Decision<'a> {
    /// By a binding, or because the user may do everything.
    Allowed(Option<Grant<'a>>),
    /// Nothing allows it. Roles that the user's bindings name and that are not there may be why.
    Denied(Vec<MissingRole>),
}

/// A binding that grants its role to a user.
#[derive(Debug)]
pub(super) struct Grant<'a> {
    binding: &'a Binding,
    subject: &'a Subject,
}

/// A binding's role that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MissingRole(RoleRef);

impl Policy {
    /// Puts a role in place of one of the same name.
    pub(super) fn put_role(&mut self, namespace: &str, name: &str, role: &Value) {
        let rules = Rule::read_all(&role["rules"]).into();
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

    /// Puts a binding in place of one of the same name.
    pub(super) fn put_binding(&mut self, namespace: &str, name: &str, binding: &Value) {
        self.remove_binding(namespace, name);
        let binding = Arc::new(Binding::read(namespace, name, binding));
        let bindings = self.bindings.entry(namespace.into()).or_default();
        for subject in &binding.subjects {
            let (held, holder) = bindings.held(&subject.holder);
            let held = held.entry(holder.into()).or_default();
            if !held.iter().any(|known| Arc::ptr_eq(known, &binding)) {
                held.push(Arc::clone(&binding));
            }
        }
        bindings.by_name.insert(name.into(), binding);
    }

    pub(super) fn remove_binding(&mut self, namespace: &str, name: &str) {
        let Some(bindings) = self.bindings.get_mut(namespace) else { return };
        let Some(gone) = bindings.by_name.remove(name) else { return };
        for subject in &gone.subjects {
            let (held, holder) = bindings.held(&subject.holder);
            if let Some(bindings) = held.get_mut(holder) {
                bindings.retain(|known| !Arc::ptr_eq(known, &gone));
                if bindings.is_empty() {
                    held.remove(holder);
                }
            }
        }
        if bindings.by_name.is_empty() {
            self.bindings.remove(namespace);
        }
    }

    /// Whether a user may do what the question asks for.
    pub(super) fn decide<'a>(&'a self, user: &'a User, question: &'a Question<'_>) -> Decision<'a> {
        if user.is_superuser() {
            return Decision::Allowed(None);
        }
        let namespace = match &question.topic {
            Topic::Resource(target) => &*target.namespace,
            Topic::Path(_) => "",
        };
        let mut missing = Vec::new();
        for grant in self.grants(user, namespace) {
            match self.role(&grant.binding.role, &grant.binding.namespace) {
                Some(rules) if rules.iter().any(|rule| rule.allows(question)) => {
                    return Decision::Allowed(Some(grant));
                }
                Some(_) => {}
                None => note(&mut missing, &grant.binding.role),
            }
        }
        Decision::Denied(missing)
    }

    /// All rules that hold for a user in a namespace ("" for none) and in the cluster, each binding's once.
    pub(super) fn rules(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<MissingRole>) {
        let mut seen: Vec<*const Binding> = Vec::new();
        let (mut rules, mut missing) = (Vec::new(), Vec::new());
        for grant in self.grants(user, namespace) {
            let identity = std::ptr::from_ref(grant.binding);
            if seen.contains(&identity) {
                continue;
            }
            seen.push(identity);
            match self.role(&grant.binding.role, &grant.binding.namespace) {
                Some(found) => rules.extend(found.iter().cloned()),
                None => note(&mut missing, &grant.binding.role),
            }
        }
        (rules, missing)
    }

    /// The rules of the role that a binding in a namespace refers to.
    pub(super) fn role(&self, role: &RoleRef, namespace: &str) -> Option<&[Rule]> {
        if !role.cluster && namespace.is_empty() {
            return None;
        }
        let place = if role.cluster { "" } else { namespace };
        self.roles.get(place)?.get(&role.name).map(|rules| &**rules)
    }

    /// The bindings of the cluster, and then those of the namespace, whose subjects the user is among.
    fn grants<'a>(&'a self, user: &'a User, namespace: &'a str) -> impl Iterator<Item = Grant<'a>> {
        let places = [Some(""), (!namespace.is_empty()).then_some(namespace)];
        places.into_iter().flatten().filter_map(|place| self.bindings.get(place)).flat_map(|bindings| {
            let own = bindings.by_user.get(&*user.name).into_iter().flatten();
            let own = own.filter_map(|binding| Grant::of(binding, |holder| holder.is_user(&user.name)));
            let groups = user.groups.iter().flat_map(|group| {
                let held = bindings.by_group.get(&**group).into_iter().flatten();
                held.filter_map(|binding| Grant::of(binding, |holder| holder.is_group(group)))
            });
            own.chain(groups)
        })
    }
}

impl Bindings {
    /// Where the bindings of a holder are, and under which name.
    fn held<'a>(&mut self, holder: &'a Holder) -> (&mut Held, &'a str) {
        match holder {
            Holder::User(name) => (&mut self.by_user, name),
            Holder::Group(name) => (&mut self.by_group, name),
        }
    }
}

impl Holder {
    fn is_user(&self, user: &str) -> bool {
        matches!(self, Self::User(name) if **name == *user)
    }

    fn is_group(&self, group: &str) -> bool {
        matches!(self, Self::Group(name) if **name == *group)
    }
}

impl<'a> Grant<'a> {
    /// The binding, by the subject that makes it apply.
    fn of(binding: &'a Binding, applies: impl Fn(&Holder) -> bool) -> Option<Self> {
        let subject = binding.subjects.iter().find(|subject| applies(&subject.holder))?;
        Some(Self { binding, subject })
    }
}

fn note(missing: &mut Vec<MissingRole>, role: &RoleRef) {
    if !missing.iter().any(|known| known.0 == *role) {
        missing.push(MissingRole(role.clone()));
    }
}

impl Binding {
    fn read(namespace: &str, name: &str, binding: &Value) -> Self {
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        Self {
            name: name.into(),
            namespace: namespace.into(),
            role: RoleRef::read(&binding["roleRef"]),
            subjects: subjects.filter_map(|subject| Subject::read(subject, namespace)).collect(),
        }
    }
}

impl RoleRef {
    pub(super) fn read(reference: &Value) -> Self {
        Self {
            cluster: reference["kind"] != "Role",
            name: reference["name"].as_str().unwrap_or_default().into(),
        }
    }
}

impl Subject {
    fn read(subject: &Value, binding_namespace: &str) -> Option<Self> {
        let name = subject["name"].as_str()?;
        Some(match subject["kind"].as_str()? {
            "User" => Self { holder: Holder::User(name.into()), shown: format!("User {name:?}") },
            "Group" => Self { holder: Holder::Group(name.into()), shown: format!("Group {name:?}") },
            "ServiceAccount" => {
                let own = subject["namespace"].as_str().filter(|namespace| !namespace.is_empty());
                let namespace = own.unwrap_or(binding_namespace);
                Self {
                    holder: Holder::User(account_name(namespace, name).into()),
                    shown: format!("ServiceAccount {:?}", format!("{name}/{namespace}")),
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
        write!(f, " of {kind} {:?} to {}", role.name, self.subject.shown)
    }
}

impl fmt::Display for MissingRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.0.cluster { "clusterrole" } else { "role" };
        write!(f, "{kind}.{GROUP} {:?} not found", self.0.name)
    }
}

/// What is missing, as a refusal says it; "" if nothing is.
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
