//! What a plugin may do on the server: the descriptor's rules, narrowed by the operator's.

use crate::descriptor::Rule;

/// The rules that a call is held against: all of the descriptor's, and all of the sidecar's where it has any.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Grants {
    declared: Vec<Rule>,
    granted: Option<Vec<Rule>>,
}

/// One request, as RBAC sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access<'a> {
    /// The API group, "" for core.
    pub group: &'a str,
    /// The plural name, with `/status` or another subresource where there is one.
    pub resource: &'a str,
    /// The verb.
    pub verb: &'a str,
    /// The namespace, "" for cluster scope or all namespaces.
    pub namespace: &'a str,
}

impl Grants {
    /// The grants of a descriptor under a sidecar.
    #[must_use]
    pub(crate) fn new(declared: Vec<Rule>, granted: Option<Vec<Rule>>) -> Self {
        Self { declared, granted }
    }

    /// Whether the access is granted.
    ///
    /// # Errors
    /// The rule that is missing.
    pub(crate) fn check(&self, access: Access<'_>) -> Result<(), Rule> {
        let declared = allows(&self.declared, access);
        let granted = self.granted.as_ref().is_none_or(|granted| allows(granted, access));
        if declared && granted {
            return Ok(());
        }
        let namespaces =
            if access.namespace.is_empty() { Vec::new() } else { vec![access.namespace.to_owned()] };
        Err(Rule {
            api_groups: vec![access.group.to_owned()],
            resources: vec![access.resource.to_owned()],
            verbs: vec![access.verb.to_owned()],
            namespaces,
        })
    }
}

fn allows(rules: &[Rule], access: Access<'_>) -> bool {
    let has = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
    rules.iter().any(|rule| {
        has(&rule.api_groups, access.group)
            && rule.resources.iter().any(|pattern| covers(pattern, access.resource))
            && has(&rule.verbs, access.verb)
            && (rule.namespaces.is_empty() || has(&rule.namespaces, access.namespace))
    })
}

/// As RBAC has it: `*` covers everything, `*/status` that subresource of everything, all else itself.
fn covers(pattern: &str, resource: &str) -> bool {
    pattern == "*"
        || pattern == resource
        || pattern.strip_prefix("*/").is_some_and(|subresource| {
            resource.split_once('/').is_some_and(|(_, found)| found == subresource)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(group: &str, resource: &str, verb: &str, namespace: &str) -> Rule {
        let namespaces = if namespace.is_empty() { Vec::new() } else { vec![namespace.to_owned()] };
        Rule {
            api_groups: vec![group.into()],
            resources: vec![resource.into()],
            verbs: vec![verb.into()],
            namespaces,
        }
    }

    fn access<'a>(resource: &'a str, verb: &'a str, namespace: &'a str) -> Access<'a> {
        Access { group: "apps", resource, verb, namespace }
    }

    #[test]
    fn a_rule_covers_what_it_names() {
        let grants = Grants::new(vec![rule("apps", "deployments", "update", "shop")], None);
        assert_eq!(grants.check(access("deployments", "update", "shop")), Ok(()));
        for (resource, verb, namespace) in [
            ("deployments/status", "update", "shop"),
            ("replicasets", "update", "shop"),
            ("deployments", "delete", "shop"),
            ("deployments", "update", "other"),
            ("deployments", "update", ""),
        ] {
            let missing = grants.check(access(resource, verb, namespace)).expect_err("not granted");
            assert_eq!(missing, rule("apps", resource, verb, namespace));
        }
    }

    #[test]
    fn stars_cover_as_in_rbac() {
        let grants = Grants::new(vec![rule("*", "*/scale", "*", ""), rule("", "*", "get", "")], None);
        assert_eq!(grants.check(access("deployments/scale", "patch", "shop")), Ok(()));
        assert!(grants.check(access("deployments", "get", "shop")).is_err(), "another group");
        let core = Access { group: "", ..access("pods/log", "get", "shop") };
        assert_eq!(grants.check(core), Ok(()));
    }

    #[test]
    fn the_operator_narrows_and_never_widens() {
        let declared = vec![rule("apps", "*", "*", "")];
        let narrowed = Grants::new(declared.clone(), Some(vec![rule("*", "*", "get", "")]));
        assert_eq!(narrowed.check(access("deployments", "get", "shop")), Ok(()));
        assert!(narrowed.check(access("deployments", "delete", "shop")).is_err());
        let wider = Grants::new(vec![], Some(vec![rule("*", "*", "*", "")]));
        assert!(wider.check(access("deployments", "get", "shop")).is_err());
    }
}
