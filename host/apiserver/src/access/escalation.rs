//! Nobody gives away a right that they do not hold, after `k8s.io/kubernetes/pkg/registry/rbac`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::policy::{Decision, Policy, RoleRef, describe};
use super::rule::quoted;
use super::{Access, GROUP, Question, Rule, User};
use crate::registry::Endpoint;
use crate::rest::meta;
use crate::status::{About, Status};

impl Access {
    /// 403 when this write of a role or binding would grant what its author does not hold. The server's own writes have
    /// no author.
    pub(crate) fn refuse_escalation(
        &self,
        endpoint: &Endpoint,
        old: Option<&Value>,
        new: &Value,
        author: Option<&Arc<User>>,
    ) -> Result<(), Status> {
        let (Some(live), Some(user)) = (&self.rbac, author) else { return Ok(()) };
        if endpoint.group != GROUP
            || user.is_superuser()
            || old.is_some_and(|old| only_for_collection(old, new))
        {
            return Ok(());
        }
        let name = meta::text(new, "name");
        let attempt = Attempt { policy: &live.read(), user, namespace: meta::text(new, "namespace") };
        let judged = match endpoint.resource.names.plural.as_str() {
            plural @ ("roles" | "clusterroles") => attempt.role(plural, name, old, new),
            _ => attempt.binding(&RoleRef::read(&new["roleRef"]))?,
        };
        judged.map_err(|problem| Status::forbidden(endpoint.about(), name, &problem))
    }
}

/// Somebody's write to a namespace, or to the cluster.
struct Attempt<'a> {
    policy: &'a Policy,
    user: &'a User,
    namespace: &'a str,
}

impl Attempt<'_> {
    /// A role that is made or changed.
    fn role(&self, plural: &str, name: &str, old: Option<&Value>, new: &Value) -> Result<(), String> {
        if self.may("escalate", plural, name) {
            return Ok(());
        }
        self.holds(&Rule::read_all(&new["rules"]))?;
        let aggregation = &new["aggregationRule"];
        // It may gather any rules.
        if !aggregation.is_null()
            && old.is_none_or(|old| old["aggregationRule"] != *aggregation)
            && self.holds(&Rule::everything()).is_err()
        {
            return Err("must have cluster-admin privileges to use the aggregationRule".into());
        }
        Ok(())
    }

    /// A binding that is made or changed; the outer error is for a role that is not there.
    fn binding(&self, role: &RoleRef) -> Result<Result<(), String>, Status> {
        let plural = if role.cluster { "clusterroles" } else { "roles" };
        if self.may("bind", plural, &role.name) {
            return Ok(Ok(()));
        }
        let rules = self.policy.role(role, self.namespace).ok_or_else(|| {
            let kind = plural.trim_end_matches('s');
            Status::not_found(About { group: GROUP, plural: kind, kind }, &role.name)
        })?;
        Ok(self.holds(rules))
    }

    fn may(&self, verb: &str, plural: &str, name: &str) -> bool {
        let question = Question::resource(verb, GROUP, plural).within(self.namespace).named(name);
        matches!(self.policy.decide(self.user, &question), Decision::Allowed(_))
    }

    /// Whether the user holds all that these rules grant; the error says what not.
    fn holds(&self, rules: &[Rule]) -> Result<(), String> {
        let (held, missing) = self.policy.rules(self.user, self.namespace);
        let lacking: Vec<Rule> = rules
            .iter()
            .flat_map(Rule::pieces)
            .filter(|piece| !held.iter().any(|rule| rule.covers(piece)))
            .collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let lines: BTreeSet<String> = compact(lacking).iter().map(ToString::to_string).collect();
        let lines: Vec<String> = lines.into_iter().collect();
        let mut problem = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            self.user.name,
            quoted(&self.user.groups),
            lines.join("\n")
        );
        if !missing.is_empty() {
            problem.push_str("; resolution errors: ");
            problem.push_str(&describe(&missing));
        }
        Err(problem)
    }
}

/// Joins rules for resources that differ in their verbs alone.
fn compact(pieces: Vec<Rule>) -> Vec<Rule> {
    let mut joined: Vec<Rule> = Vec::new();
    for piece in pieces {
        let same = |known: &&mut Rule| {
            known.paths.is_empty()
                && (&known.groups, &known.resources, &known.names, &known.paths)
                    == (&piece.groups, &piece.resources, &piece.names, &piece.paths)
        };
        match joined.iter_mut().find(same) {
            Some(known) => {
                for verb in piece.verbs {
                    if !known.verbs.contains(&verb) {
                        known.verbs.push(verb);
                    }
                }
            }
            None => joined.push(piece),
        }
    }
    joined
}

/// Whether a write changes only what the garbage collector changes.
fn only_for_collection(old: &Value, new: &Value) -> bool {
    let rest = |value: &Value| {
        let mut value = value.clone();
        let metadata = meta::of(&mut value);
        for field in ["finalizers", "ownerReferences", "managedFields", "resourceVersion"] {
            metadata.remove(field);
        }
        value
    };
    rest(old) == rest(new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A policy in which `x` holds these rules in the namespace `n`.
    fn policy(rules: &Value) -> Policy {
        let mut policy = Policy::default();
        policy.put_role("n", "held", &json!({"rules": rules}));
        let subjects = json!([{"kind": "User", "name": "x"}]);
        policy.put_binding(
            "n",
            "b",
            &json!({"roleRef": {"kind": "Role", "name": "held"}, "subjects": subjects}),
        );
        policy
    }

    #[test]
    fn what_is_lacking_is_said_rule_by_rule() {
        let policy = policy(&json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]));
        let user = User::new("x", &[]);
        let attempt = |namespace| Attempt { policy: &policy, user: &user, namespace };
        let wanted = json!([
            {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["get"], "nonResourceURLs": ["/x"]},
        ]);
        let wanted = Rule::read_all(&wanted);
        assert_eq!(attempt("n").holds(&wanted[..0]), Ok(()));
        assert_eq!(
            attempt("n").holds(&wanted),
            Err("user \"x\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
                 held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\" \"watch\"]}\n{NonResourceURLs:[\"/x\"], \
                 Verbs:[\"get\"]}"
                .to_owned())
        );
        let held = Rule::read_all(&json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]));
        assert_eq!((attempt("n").holds(&held).is_ok(), attempt("m").holds(&held).is_ok()), (true, false));
    }

    #[test]
    fn escalate_and_bind_are_rights_of_their_own() {
        let role = json!({"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
        let with = |verb: &str, resource: &str| {
            let rule = json!([{"verbs": [verb], "apiGroups": [GROUP], "resources": [resource]}]);
            let mut policy = policy(&rule);
            policy.put_role("n", "all", &role);
            policy
        };
        let user = User::new("x", &[]);
        for (verb, role_passes, binding_passes) in
            [("escalate", true, false), ("bind", false, true), ("update", false, false)]
        {
            let policy = with(verb, "roles");
            let attempt = Attempt { policy: &policy, user: &user, namespace: "n" };
            assert_eq!(attempt.role("roles", "new", None, &role).is_ok(), role_passes, "{verb}");
            let all = RoleRef { cluster: false, name: "all".into() };
            assert_eq!(attempt.binding(&all).is_ok_and(|judged| judged.is_ok()), binding_passes, "{verb}");
            let absent = RoleRef { cluster: true, name: "absent".into() };
            assert_eq!(attempt.binding(&absent).err().map(|status| status.code), Some(404));
        }
    }

    #[test]
    fn what_the_garbage_collector_writes_grants_nothing() {
        let old = json!({"metadata": {"name": "r", "finalizers": ["a/b"]}, "rules": []});
        assert!(only_for_collection(&old, &json!({"metadata": {"name": "r"}, "rules": []})));
        let other = json!({"metadata": {"name": "r"}, "rules": [{"verbs": ["get"]}]});
        assert!(!only_for_collection(&old, &other));
        let labelled = json!({"metadata": {"name": "r", "labels": {"a": "b"}}, "rules": []});
        assert!(!only_for_collection(&old, &labelled));
    }
}
