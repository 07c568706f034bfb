//! Which requests a plugin may send to the API server: those that its descriptor declares, restricted by the operator's rules.

use crate::config::current_grants::CurrentGrants;
use crate::config::descriptor::Rule;
use crate::config::rule_match::{AccessRequest, allows, limits_namespaces, may_allow};
use crate::config::sidecar_location::SidecarLocation;

/// The rules that a request must satisfy: those of the descriptor, and those of the current sidecar, if it
/// has any.
#[derive(Clone)]
pub(crate) struct WriteGrants {
    declared: Vec<Rule>,
    current_grants: CurrentGrants,
}

/// A rule that a request needs and does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingGrant {
    /// The rule that would allow the request.
    pub(crate) rule: Rule,
    /// The rule to add. Like `rule`, but for all namespaces if the descriptor lacks it and limits no other rule of the resource to namespaces:
    /// the author means a verb, and not the namespace of the object that came first.
    pub(crate) suggestion: Box<Rule>,
    /// Whether the descriptor's `writes` lack the rule.
    pub(crate) is_undeclared: bool,
    /// Whether the operator's `grants.writes` lack the rule.
    pub(crate) is_withheld: bool,
    /// Where the operator writes `grants.writes`.
    pub(crate) place: SidecarLocation,
}

impl MissingGrant {
    /// Says where the rule is missing, and where to add it.
    pub(crate) fn describe(&self, plugin: &str) -> (String, String) {
        // The rule is JSON, and so also YAML that can be pasted.
        let mut rule = serde_json::to_value(&self.suggestion).unwrap_or_default();
        if let (true, Some(members)) = (self.suggestion.namespaces.is_empty(), rule.as_object_mut()) {
            members.remove("namespaces");
        }
        let granted = format!("grants.writes of {}", self.place.of(plugin));
        match (self.is_undeclared, self.is_withheld) {
            (true, true) => (
                format!("neither the descriptor's writes nor {granted} has the rule {rule}"),
                "add it to both".to_owned(),
            ),
            (true, false) => (
                format!("the descriptor's writes lack the rule {rule}"),
                "add it to the descriptor, and build the plugin again".to_owned(),
            ),
            (false, _) => (format!("{granted} lacks the rule {rule}"), "add it there".to_owned()),
        }
    }
}

impl WriteGrants {
    /// The grants of a descriptor, restricted by what the operator allows at the time of each request.
    #[must_use]
    pub(crate) fn new(declared: Vec<Rule>, current_grants: CurrentGrants) -> Self {
        Self { declared, current_grants }
    }

    /// Checks whether some rule could allow the request, before discovery resolves the kind. The host must not query
    /// the server on behalf of a plugin that no rule allows. Only the subresource of `access.resource` is compared,
    /// because the plural is a guess; `access.namespaced` must be true.
    ///
    /// # Errors
    /// Returns the rule that would allow the request.
    pub(crate) fn check_before_discovery(&self, access: AccessRequest<'_>) -> Result<(), MissingGrant> {
        self.check_by(access, may_allow)
    }

    /// Whether the request is granted.
    ///
    /// # Errors
    /// Returns the missing rule.
    pub(crate) fn check(&self, access: AccessRequest<'_>) -> Result<(), MissingGrant> {
        self.check_by(access, allows)
    }

    fn check_by(
        &self,
        access: AccessRequest<'_>,
        allows: fn(&[Rule], AccessRequest<'_>) -> bool,
    ) -> Result<(), MissingGrant> {
        let declared = allows(&self.declared, access);
        let sidecar_grants = self.current_grants.sidecar_grants();
        let place = sidecar_grants.as_ref().map(|sidecar_grants| sidecar_grants.place).unwrap_or_default();
        let granted = sidecar_grants.is_some_and(|sidecar_grants| {
            sidecar_grants.writes.as_ref().is_none_or(|granted| allows(granted, access))
        });
        if declared && granted {
            return Ok(());
        }
        let names_one_namespace = access.namespaced && !access.namespace.is_empty();
        let namespaces = if names_one_namespace { vec![access.namespace.to_owned()] } else { Vec::new() };
        let rule = Rule {
            api_groups: vec![access.group.to_owned()],
            resources: vec![access.resource.to_owned()],
            verbs: vec![access.verb.to_owned()],
            namespaces,
        };
        let suggestion = match declared || limits_namespaces(&self.declared, access) {
            true => rule.clone(),
            false => Rule { namespaces: Vec::new(), ..rule.clone() },
        };
        Err(MissingGrant {
            rule,
            suggestion: Box::new(suggestion),
            is_undeclared: !declared,
            is_withheld: !granted,
            place,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::rule_match::tests::{access, rule, rules};

    fn grants(declared: Vec<Rule>, granted: Option<Vec<Rule>>) -> WriteGrants {
        WriteGrants::new(declared, CurrentGrants::granting_writes(granted))
    }

    /// As in RBAC: otherwise `namespaces: [shop]` would allow deleting the Namespace, and every Node.
    #[test]
    fn a_rule_with_namespaces_grants_no_cluster_scoped_write() {
        let all = |namespaces: &[&str]| rules("*", &["*"], &["*"], namespaces);
        let node = |namespace| AccessRequest { namespaced: false, ..access("nodes", "delete", namespace) };
        for (declared, granted) in [
            (all(&["shop"]), None),
            (all(&[]), Some(vec![all(&["shop"])])),
            (all(&["shop", ""]), None),
            (all(&[]), Some(vec![all(&[""])])),
        ] {
            let grants = super::tests::grants(vec![declared], granted);
            for namespace in ["shop", "", "other"] {
                let missing = grants.check(node(namespace)).expect_err("cluster-scoped").rule;
                assert_eq!(
                    missing,
                    rule("apps", "nodes", "delete", ""),
                    "the missing rule names no namespace"
                );
            }
            assert!(grants.check(access("deployments", "list", "")).is_err(), "all namespaces");
        }
        assert_eq!(grants(vec![all(&[])], None).check(node("")), Ok(()));
        assert_eq!(grants(vec![all(&["*"])], None).check(node("")), Ok(()));
    }

    #[test]
    fn a_rule_grants_only_what_it_names() {
        let grants = super::tests::grants(vec![rule("apps", "deployments", "update", "shop")], None);
        assert_eq!(grants.check(access("deployments", "update", "shop")), Ok(()));
        for (resource, verb, namespace) in [
            ("deployments/status", "update", "shop"),
            ("replicasets", "update", "shop"),
            ("deployments", "delete", "shop"),
            ("deployments", "update", "other"),
            ("deployments", "update", ""),
        ] {
            let missing = grants.check(access(resource, verb, namespace)).expect_err("not granted").rule;
            assert_eq!(missing, rule("apps", resource, verb, namespace));
        }
    }

    #[test]
    fn a_missing_grant_names_the_list_that_lacks_the_rule() {
        let all = || vec![rule("*", "*", "*", "")];
        for (declared, granted, problem, remedy) in [
            (vec![], None, "the descriptor's writes lack the rule {", "build the plugin again"),
            (all(), Some(vec![]), "grants.writes of shop.yaml lacks the rule {", "add it there"),
            (vec![], Some(vec![]), "neither the descriptor's writes nor grants.writes of", "add it to both"),
        ] {
            let missing = grants(declared, granted).check(access("deployments", "update", "shop"));
            let (text, action) = missing.expect_err("not granted").describe("shop");
            assert!(text.starts_with(problem) && action.contains(remedy), "{text}; {action}");
            assert!(text.contains("\"resources\":[\"deployments\"]"), "{text}");
        }
    }

    #[test]
    fn a_suggested_rule_of_a_descriptor_is_limited_only_if_other_rules_of_the_resource_are() {
        let get = |namespace| rule("apps", "deployments", "get", namespace);
        let other = rule("apps", "replicasets", "get", "shop");
        let all = || vec![rule("*", "*", "*", "")];
        for (declared, granted, namespace) in [
            (vec![], None, ""),
            (vec![get("")], None, ""),
            (vec![other], None, ""),
            (vec![], Some(vec![]), ""),
            (vec![get("bank")], None, "shop"),
            (all(), Some(vec![]), "shop"),
        ] {
            let missing = grants(declared, granted).check(access("deployments", "update", "shop"));
            let missing = missing.expect_err("not granted");
            assert_eq!(*missing.suggestion, rule("apps", "deployments", "update", namespace));
            assert_eq!(
                missing.rule,
                rule("apps", "deployments", "update", "shop"),
                "what the plugin is told"
            );
            let (text, _) = missing.describe("live");
            assert_eq!(text.contains("\"namespaces\":[\"shop\"]"), !namespace.is_empty(), "{text}");
            assert_eq!(text.contains("namespaces"), !namespace.is_empty(), "{text}");
        }
    }

    #[test]
    fn the_operator_restricts_and_never_extends() {
        let declared = vec![rule("apps", "*", "*", "")];
        let restricted = grants(declared.clone(), Some(vec![rule("*", "*", "get", "")]));
        assert_eq!(restricted.check(access("deployments", "get", "shop")), Ok(()));
        assert!(restricted.check(access("deployments", "delete", "shop")).is_err());
        let wider = grants(vec![], Some(vec![rule("*", "*", "*", "")]));
        assert!(wider.check(access("deployments", "get", "shop")).is_err());
    }
}
