//! Compares the policy with a simple model, and checks the texts of its decisions.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::attributes::ResourceAttributes;
use super::*;

type Key = (&'static str, &'static str);

/// A change of a stored role or binding; `None` deletes it.
#[derive(Clone, Debug)]
enum Change {
    Role(Key, Option<Value>),
    Binding(Key, Option<Value>),
}

/// The stored roles and bindings, evaluated as the Kubernetes documentation describes it.
#[derive(Debug, Default)]
struct Model {
    roles: BTreeMap<Key, Value>,
    bindings: BTreeMap<Key, Value>,
}

impl Model {
    fn allows(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        self.bindings.iter().any(|((namespace, _), binding)| {
            let here = match &attributes.kind {
                RequestKind::NonResource(_) => namespace.is_empty(),
                RequestKind::Resource(target) => namespace.is_empty() || *target.namespace == **namespace,
            };
            let subjects = binding["subjects"].as_array().expect("a list");
            here && subjects.iter().any(|subject| Self::is_subject(subject, namespace, user))
                && self.rules(namespace, binding).iter().any(|rule| Self::matches(rule, attributes))
        })
    }

    fn is_subject(subject: &Value, namespace: &str, user: &User) -> bool {
        let name = subject["name"].as_str().expect("a name");
        match subject["kind"].as_str().expect("a kind") {
            "User" => user.name == name,
            "Group" => user.groups.iter().any(|group| group == name),
            _ => {
                let of = subject["namespace"].as_str().unwrap_or(namespace);
                user.name == format!("system:serviceaccount:{of}:{name}")
            }
        }
    }

    fn rules(&self, namespace: &'static str, binding: &Value) -> Vec<Value> {
        let reference = &binding["roleRef"];
        let of = if reference["kind"] == "Role" { namespace } else { "" };
        if of.is_empty() && reference["kind"] == "Role" {
            return Vec::new();
        }
        let name = reference["name"].as_str().expect("a name");
        let found = self.roles.iter().find(|((namespace, role), _)| *namespace == of && *role == name);
        found.map(|(_, role)| role["rules"].as_array().expect("a list").clone()).unwrap_or_default()
    }

    fn matches(rule: &Value, attributes: &Attributes<'_>) -> bool {
        let one_of = |field: &str, fits: &dyn Fn(&str) -> bool| {
            let items = rule[field].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).any(fits)
        };
        let has = |field: &str, value: &str| one_of(field, &|item| item == "*" || item == value);
        if !has("verbs", &attributes.verb) {
            return false;
        }
        let target = match &attributes.kind {
            RequestKind::NonResource(path) => {
                return one_of("nonResourceURLs", &|url| match url.strip_suffix('*') {
                    Some(prefix) => path.starts_with(prefix),
                    None => *url == **path,
                });
            }
            RequestKind::Resource(target) => target,
        };
        let mut accepted = vec!["*".to_owned()];
        if target.subresource.is_empty() {
            accepted.push(target.resource.to_string());
        } else {
            accepted.push(format!("{}/{}", target.resource, target.subresource));
            accepted.push(format!("*/{}", target.subresource));
        }
        has("apiGroups", &target.group)
            && one_of("resources", &|resource| accepted.iter().any(|one| one == resource))
            && (rule["resourceNames"].is_null() || one_of("resourceNames", &|name| *name == *target.name))
    }
}

fn some<T: Clone + std::fmt::Debug + 'static>(of: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(of)
}

fn list(of: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(some(of), 1..3)
}

const VERBS: &[&str] = &["get", "list", "*"];
const GROUPS: &[&str] = &["", "apps", "*"];
const RESOURCES: &[&str] =
    &["pods", "pods/log", "deployments", "deployments/scale", "*/scale", "*", "pods/*"];
const NAMESPACES: &[&str] = &["", "n", "m"];
const ROLES: &[&str] = &["r", "s"];
const PATHS: &[&str] = &["/a", "/a/*", "/a*", "*", "/b"];

fn rule() -> impl Strategy<Value = Value> {
    let names = prop::option::of(list(&["x", "y"]));
    let resources =
        (list(VERBS), list(GROUPS), list(RESOURCES), names).prop_map(|(verbs, groups, resources, names)| {
            let mut rule = json!({"verbs": verbs, "apiGroups": groups, "resources": resources});
            if let Some(names) = names {
                rule["resourceNames"] = json!(names);
            }
            rule
        });
    let paths = (list(VERBS), list(PATHS))
        .prop_map(|(verbs, paths)| json!({"verbs": verbs, "nonResourceURLs": paths}));
    prop_oneof![3 => resources, 1 => paths]
}

fn subject() -> impl Strategy<Value = Value> {
    prop_oneof![
        some(&["u", "v", "system:serviceaccount:n:u"]).prop_map(|name| json!({"kind": "User", "name": name})),
        some(&["g", "h"]).prop_map(|name| json!({"kind": "Group", "name": name})),
        (some(&["u", "v"]), some(&[None, Some("n"), Some("m")])).prop_map(|(name, namespace)| {
            let mut subject = json!({"kind": "ServiceAccount", "name": name});
            if let Some(namespace) = namespace {
                subject["namespace"] = namespace.into();
            }
            subject
        }),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let role = prop::collection::vec(rule(), 0..3).prop_map(|rules| json!({"rules": rules}));
    let role = (some(NAMESPACES), some(ROLES), prop::option::weighted(0.8, role))
        .prop_map(|(namespace, name, role)| Change::Role((namespace, name), role));
    let binding = (some(&["Role", "ClusterRole"]), some(ROLES), prop::collection::vec(subject(), 0..3))
        .prop_map(
            |(kind, role, subjects)| json!({"roleRef": {"kind": kind, "name": role}, "subjects": subjects}),
        );
    let binding = (some(NAMESPACES), some(&["b", "c"]), prop::option::weighted(0.8, binding))
        .prop_map(|(namespace, name, binding)| Change::Binding((namespace, name), binding));
    prop_oneof![role, binding]
}

fn user() -> impl Strategy<Value = User> {
    let names = some(&["u", "v", "system:serviceaccount:n:u", "system:serviceaccount:m:v"]);
    (names, prop::collection::vec(some(&["g", "h"]), 0..3))
        .prop_map(|(name, groups)| User::new(name, &groups))
}

fn attributes() -> impl Strategy<Value = Attributes<'static>> {
    let target = (
        some(&["", "apps", "batch"]),
        some(&["pods", "deployments"]),
        some(&["", "log", "scale", "*"]),
        some(NAMESPACES),
        some(&["", "x", "z"]),
    );
    let resource = (some(&["get", "list", "watch"]), target).prop_map(
        |(verb, (group, resource, subresource, namespace, name))| Attributes {
            verb: verb.into(),
            kind: RequestKind::Resource(ResourceAttributes {
                group: group.into(),
                resource: resource.into(),
                subresource: subresource.into(),
                namespace: namespace.into(),
                name: name.into(),
            }),
        },
    );
    let path = (some(&["get", "post"]), some(&["/a", "/a/b", "/ab", "/b", "/b/"]))
        .prop_map(|(verb, path)| Attributes::non_resource(verb, path));
    prop_oneof![4 => resource, 1 => path]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// After any sequence of changes, the policy decides like a model that evaluates everything stored.
    #[test]
    fn policy_decides_like_the_model(
        changes in prop::collection::vec(change(), 1..20),
        questions in prop::collection::vec((user(), attributes()), 8),
    ) {
        let (mut policy, mut model) = (Policy::default(), Model::default());
        for change in changes {
            match change {
                Change::Role(key, Some(role)) => {
                    policy.put_role(key.0, key.1, &role);
                    model.roles.insert(key, role);
                }
                Change::Role(key, None) => {
                    policy.remove_role(key.0, key.1);
                    model.roles.remove(&key);
                }
                Change::Binding(key, Some(binding)) => {
                    policy.put_binding(key.0, key.1, &binding);
                    model.bindings.insert(key, binding);
                }
                Change::Binding(key, None) => {
                    policy.remove_binding(key.0, key.1);
                    model.bindings.remove(&key);
                }
            }
            for (user, attributes) in &questions {
                let allowed = matches!(policy.decide(user, attributes), Decision::Allowed(_));
                prop_assert_eq!(allowed, model.allows(user, attributes), "{:?} {:?}", user, attributes);
                let namespace = match &attributes.kind {
                    RequestKind::Resource(target) => &*target.namespace,
                    RequestKind::NonResource(_) => "",
                };
                let (rules, _) = policy.rules(user, namespace);
                prop_assert_eq!(allowed, rules.iter().any(|rule| rule.allows(attributes)));
            }
        }
    }

    /// If held rules cover every part of a granted rule, they allow everything that the granted rule allows.
    #[test]
    fn covering_rules_allow_what_the_covered_rule_allows(
        held in prop::collection::vec(rule(), 0..3),
        granted in rule(),
        attributes in attributes(),
    ) {
        let held = PolicyRule::parse_all(&Value::from(held));
        let granted = PolicyRule::parse_all(&json!([granted])).remove(0);
        let covered = granted.split().iter().all(|part| held.iter().any(|rule| rule.covers(part)));
        if covered && granted.allows(&attributes) {
            prop_assert!(held.iter().any(|rule| rule.allows(&attributes)), "{held:?} {granted}");
        }
    }
}

#[test]
fn decision_text_names_the_binding_or_the_missing_role() {
    let mut policy = Policy::default();
    let rules = json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
    policy.put_role("", "reader", &rules);
    let account = json!([{"kind": "ServiceAccount", "name": "a"}]);
    policy.put_binding(
        "n",
        "b",
        &json!({"roleRef": {"kind": "ClusterRole", "name": "reader"}, "subjects": account}),
    );
    policy.put_binding("n", "c", &json!({"roleRef": {"kind": "Role", "name": "gone"}, "subjects": account}));
    let user = User::service_account("n", "a");
    let pods = |verb: &'static str| Attributes::resource(verb, "", "pods").in_namespace("n");
    let attributes = pods("get");
    let Decision::Allowed(Some(grant)) = policy.decide(&user, &attributes) else { panic!("a grant") };
    assert_eq!(grant.to_string(), r#"RoleBinding "b/n" of ClusterRole "reader" to ServiceAccount "a/n""#);
    let attributes = pods("list");
    let Decision::Denied(missing) = policy.decide(&user, &attributes) else { panic!("a refusal") };
    assert_eq!(describe(&missing), r#"RBAC: role.rbac.authorization.k8s.io "gone" not found"#);
}

#[test]
fn without_roles_only_system_masters_is_allowed() {
    let policy = Policy::default();
    let attributes = Attributes::resource("delete", "", "nodes");
    assert!(matches!(policy.decide(&User::admin(), &attributes), Decision::Allowed(None)));
    assert!(
        matches!(policy.decide(&User::new("u", &[]), &attributes), Decision::Denied(missing) if missing.is_empty())
    );
}

/// Validation rejects a ClusterRoleBinding to a Role; one that is stored nevertheless grants nothing.
#[test]
fn cluster_role_binding_to_a_role_grants_nothing() {
    let mut policy = Policy::default();
    policy.put_role("", "r", &json!({"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}));
    let subjects = json!([{"kind": "User", "name": "u"}]);
    policy.put_binding("", "b", &json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects}));
    let attributes = Attributes::resource("get", "", "pods");
    assert!(matches!(policy.decide(&User::new("u", &[]), &attributes), Decision::Denied(_)));
}
