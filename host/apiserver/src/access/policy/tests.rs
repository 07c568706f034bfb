//! The policy against a model that looks at everything, and what it says of its reasons.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::question::Target;
use super::*;

type Key = (&'static str, &'static str);

/// A change of the stored roles and bindings; without an object it is gone.
#[derive(Clone, Debug)]
enum Change {
    Role(Key, Option<Value>),
    Binding(Key, Option<Value>),
}

/// What is stored, and how Kubernetes' documentation says that it counts.
#[derive(Debug, Default)]
struct Model {
    roles: BTreeMap<Key, Value>,
    bindings: BTreeMap<Key, Value>,
}

impl Model {
    fn allows(&self, user: &User, question: &Question<'_>) -> bool {
        self.bindings.iter().any(|((namespace, _), binding)| {
            let here = match &question.topic {
                Topic::Path(_) => namespace.is_empty(),
                Topic::Resource(target) => namespace.is_empty() || *target.namespace == **namespace,
            };
            let subjects = binding["subjects"].as_array().expect("a list");
            here && subjects.iter().any(|subject| Self::is(subject, namespace, user))
                && self.rules(namespace, binding).iter().any(|rule| Self::matches(rule, question))
        })
    }

    fn is(subject: &Value, namespace: &str, user: &User) -> bool {
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
        let found = self.roles.iter().find(|((place, role), _)| *place == of && *role == name);
        found.map(|(_, role)| role["rules"].as_array().expect("a list").clone()).unwrap_or_default()
    }

    fn matches(rule: &Value, question: &Question<'_>) -> bool {
        let one_of = |field: &str, fits: &dyn Fn(&str) -> bool| {
            let items = rule[field].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).any(fits)
        };
        let has = |field: &str, wanted: &str| one_of(field, &|item| item == "*" || item == wanted);
        if !has("verbs", &question.verb) {
            return false;
        }
        let target = match &question.topic {
            Topic::Path(path) => {
                return one_of("nonResourceURLs", &|url| match url.strip_suffix('*') {
                    Some(prefix) => path.starts_with(prefix),
                    None => *url == **path,
                });
            }
            Topic::Resource(target) => target,
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

fn question() -> impl Strategy<Value = Question<'static>> {
    let target = (
        some(&["", "apps", "batch"]),
        some(&["pods", "deployments"]),
        some(&["", "log", "scale", "*"]),
        some(NAMESPACES),
        some(&["", "x", "z"]),
    );
    let resource = (some(&["get", "list", "watch"]), target).prop_map(
        |(verb, (group, resource, subresource, namespace, name))| Question {
            verb: verb.into(),
            topic: Topic::Resource(Target {
                group: group.into(),
                resource: resource.into(),
                subresource: subresource.into(),
                namespace: namespace.into(),
                name: name.into(),
            }),
        },
    );
    let path = (some(&["get", "post"]), some(&["/a", "/a/b", "/ab", "/b", "/b/"]))
        .prop_map(|(verb, path)| Question::path(verb, path));
    prop_oneof![4 => resource, 1 => path]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Whatever came and went before, the policy answers as one that looks at all that is stored.
    #[test]
    fn the_policy_decides_as_the_model(
        changes in prop::collection::vec(change(), 1..20),
        questions in prop::collection::vec((user(), question()), 8),
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
            for (user, question) in &questions {
                let allowed = matches!(policy.decide(user, question), Decision::Allowed(_));
                prop_assert_eq!(allowed, model.allows(user, question), "{:?} {:?}", user, question);
                let namespace = match &question.topic {
                    Topic::Resource(target) => &*target.namespace,
                    Topic::Path(_) => "",
                };
                let (rules, _) = policy.rules(user, namespace);
                prop_assert_eq!(allowed, rules.iter().any(|rule| rule.allows(question)));
            }
        }
    }

    /// What is covered piece by piece is allowed, and the other way round for what somebody may ask.
    #[test]
    fn who_covers_a_rule_may_do_what_it_allows(
        held in prop::collection::vec(rule(), 0..3),
        granted in rule(),
        question in question(),
    ) {
        let held = Rule::read_all(&Value::from(held));
        let granted = Rule::read_all(&json!([granted])).remove(0);
        let covered = granted.pieces().iter().all(|piece| held.iter().any(|rule| rule.covers(piece)));
        if covered && granted.allows(&question) {
            prop_assert!(held.iter().any(|rule| rule.allows(&question)), "{held:?} {granted}");
        }
    }
}

#[test]
fn a_grant_says_where_it_comes_from_and_a_refusal_which_role_is_missing() {
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
    let pods = |verb: &'static str| Question::resource(verb, "", "pods").within("n");
    let question = pods("get");
    let Decision::Allowed(Some(grant)) = policy.decide(&user, &question) else { panic!("a grant") };
    assert_eq!(grant.to_string(), r#"RoleBinding "b/n" of ClusterRole "reader" to ServiceAccount "a/n""#);
    let question = pods("list");
    let Decision::Denied(missing) = policy.decide(&user, &question) else { panic!("a refusal") };
    assert_eq!(describe(&missing), r#"RBAC: role.rbac.authorization.k8s.io "gone" not found"#);
}

#[test]
fn masters_need_no_role_and_nobody_else_has_any() {
    let policy = Policy::default();
    let question = Question::resource("delete", "", "nodes");
    assert!(matches!(policy.decide(&User::admin(), &question), Decision::Allowed(None)));
    assert!(
        matches!(policy.decide(&User::new("u", &[]), &question), Decision::Denied(missing) if missing.is_empty())
    );
}

/// A ClusterRoleBinding to a Role is refused when it is written; one that is there all the same grants nothing.
#[test]
fn a_cluster_binding_to_a_role_grants_nothing() {
    let mut policy = Policy::default();
    policy.put_role("", "r", &json!({"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}));
    let subjects = json!([{"kind": "User", "name": "u"}]);
    policy.put_binding("", "b", &json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects}));
    let question = Question::resource("get", "", "pods");
    assert!(matches!(policy.decide(&User::new("u", &[]), &question), Decision::Denied(_)));
}
