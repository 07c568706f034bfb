//! Privilege escalation checks: users cannot grant rights that they do not hold. After
//! `k8s.io/kubernetes/pkg/registry/rbac`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::policy::{Decision, Policy, RoleRef, describe};
use super::rule::quoted;
use super::{Access, Attributes, GROUP, PolicyRule};
use crate::meta;
use crate::registry::Endpoint;
use crate::status::{ResourceRef, Status};
use crate::user::User;

impl Access {
    /// Errors with 403 if this write of a role or binding would grant rights that its author does not hold. The server's
    /// own writes have no author and are always allowed.
    pub(crate) fn check_escalation(
        &self,
        endpoint: &Endpoint,
        old: Option<&Value>,
        new: &Value,
        author: Option<&Arc<User>>,
    ) -> Result<(), Status> {
        let (Some(rbac), Some(user)) = (&self.rbac, author) else { return Ok(()) };
        if endpoint.group != GROUP
            || user.is_superuser()
            || old.is_some_and(|old| is_garbage_collector_update(old, new))
        {
            return Ok(());
        }
        let name = meta::text(new, "name");
        let write = RbacWrite { policy: &rbac.read(), user, namespace: meta::text(new, "namespace") };
        let checked = match endpoint.resource.names.plural.as_str() {
            plural @ ("roles" | "clusterroles") => write.check_role(plural, name, old, new),
            _ => write.check_binding(&RoleRef::parse(&new["roleRef"]))?,
        };
        checked.map_err(|problem| Status::forbidden(endpoint.resource_ref(), name, &problem))
    }
}

/// A write of a role or binding by a user; `namespace` is "" for cluster-scoped ones.
struct RbacWrite<'a> {
    policy: &'a Policy,
    user: &'a User,
    namespace: &'a str,
}

impl RbacWrite<'_> {
    /// Checks a new or updated role.
    fn check_role(&self, plural: &str, name: &str, old: Option<&Value>, new: &Value) -> Result<(), String> {
        if self.is_allowed("escalate", plural, name) {
            return Ok(());
        }
        self.check_holds(&PolicyRule::parse_all(&new["rules"]))?;
        let aggregation = &new["aggregationRule"];
        // An aggregation rule can select roles with any rules.
        if !aggregation.is_null()
            && old.is_none_or(|old| old["aggregationRule"] != *aggregation)
            && self.check_holds(&PolicyRule::cluster_admin()).is_err()
        {
            return Err("must have cluster-admin privileges to use the aggregationRule".into());
        }
        Ok(())
    }

    /// Checks a new or updated binding. The outer error is for a role that does not exist.
    fn check_binding(&self, role: &RoleRef) -> Result<Result<(), String>, Status> {
        let plural = if role.cluster { "clusterroles" } else { "roles" };
        if self.is_allowed("bind", plural, &role.name) {
            return Ok(Ok(()));
        }
        let rules = self.policy.role(role, self.namespace).ok_or_else(|| {
            let kind = plural.trim_end_matches('s');
            Status::not_found(ResourceRef { group: GROUP, plural: kind, kind }, &role.name)
        })?;
        Ok(self.check_holds(rules))
    }

    fn is_allowed(&self, verb: &str, plural: &str, name: &str) -> bool {
        let attributes = Attributes::resource(verb, GROUP, plural).in_namespace(self.namespace).named(name);
        matches!(self.policy.decide(self.user, &attributes), Decision::Allowed(_))
    }

    /// Checks that the user holds everything that these rules grant; the error lists what is missing.
    fn check_holds(&self, rules: &[PolicyRule]) -> Result<(), String> {
        let (held, missing) = self.policy.rules(self.user, self.namespace);
        let missing_rules: Vec<PolicyRule> = rules
            .iter()
            .flat_map(PolicyRule::split)
            .filter(|part| !held.iter().any(|rule| rule.covers(part)))
            .collect();
        if missing_rules.is_empty() {
            return Ok(());
        }
        let lines: BTreeSet<String> = compact(missing_rules).iter().map(ToString::to_string).collect();
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

/// Merges rules for resources that differ only in their verbs.
fn compact(rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut merged: Vec<PolicyRule> = Vec::new();
    for rule in rules {
        let same = |known: &&mut PolicyRule| {
            known.paths.is_empty()
                && (&known.groups, &known.resources, &known.names, &known.paths)
                    == (&rule.groups, &rule.resources, &rule.names, &rule.paths)
        };
        match merged.iter_mut().find(same) {
            Some(known) => {
                for verb in rule.verbs {
                    if !known.verbs.contains(&verb) {
                        known.verbs.push(verb);
                    }
                }
            }
            None => merged.push(rule),
        }
    }
    merged
}

/// Whether an update changes only what the garbage collector changes.
fn is_garbage_collector_update(old: &Value, new: &Value) -> bool {
    let rest = |value: &Value| {
        let mut value = value.clone();
        let metadata = meta::metadata_mut(&mut value);
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

    /// Returns a policy in which `x` holds these rules in the namespace `n`.
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
    fn error_lists_missing_rights_rule_by_rule() {
        let policy = policy(&json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]));
        let user = User::new("x", &[]);
        let write_in = |namespace| RbacWrite { policy: &policy, user: &user, namespace };
        let rules = json!([
            {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["get"], "nonResourceURLs": ["/x"]},
        ]);
        let rules = PolicyRule::parse_all(&rules);
        assert_eq!(write_in("n").check_holds(&rules[..0]), Ok(()));
        assert_eq!(
            write_in("n").check_holds(&rules),
            Err("user \"x\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
                 held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\" \"watch\"]}\n{NonResourceURLs:[\"/x\"], \
                 Verbs:[\"get\"]}"
                .to_owned())
        );
        let held =
            PolicyRule::parse_all(&json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]));
        assert_eq!(
            (write_in("n").check_holds(&held).is_ok(), write_in("m").check_holds(&held).is_ok()),
            (true, false)
        );
    }

    #[test]
    fn escalate_and_bind_verbs_allow_granting_more() {
        let role = json!({"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
        let with = |verb: &str, resource: &str| {
            let rule = json!([{"verbs": [verb], "apiGroups": [GROUP], "resources": [resource]}]);
            let mut policy = policy(&rule);
            policy.put_role("n", "all", &role);
            policy
        };
        let user = User::new("x", &[]);
        for (verb, role_allowed, binding_allowed) in
            [("escalate", true, false), ("bind", false, true), ("update", false, false)]
        {
            let policy = with(verb, "roles");
            let write = RbacWrite { policy: &policy, user: &user, namespace: "n" };
            assert_eq!(write.check_role("roles", "new", None, &role).is_ok(), role_allowed, "{verb}");
            let all = RoleRef { cluster: false, name: "all".into() };
            assert_eq!(
                write.check_binding(&all).is_ok_and(|checked| checked.is_ok()),
                binding_allowed,
                "{verb}"
            );
            let absent = RoleRef { cluster: true, name: "absent".into() };
            assert_eq!(write.check_binding(&absent).err().map(|status| status.code), Some(404));
        }
    }

    #[test]
    fn garbage_collector_updates_are_recognized() {
        let old = json!({"metadata": {"name": "r", "finalizers": ["a/b"]}, "rules": []});
        assert!(is_garbage_collector_update(&old, &json!({"metadata": {"name": "r"}, "rules": []})));
        let other = json!({"metadata": {"name": "r"}, "rules": [{"verbs": ["get"]}]});
        assert!(!is_garbage_collector_update(&old, &other));
        let labelled = json!({"metadata": {"name": "r", "labels": {"a": "b"}}, "rules": []});
        assert!(!is_garbage_collector_update(&old, &labelled));
    }
}
