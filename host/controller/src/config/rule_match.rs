//! Compares RBAC rules with requests.

use super::descriptor::Rule;

/// The attributes of one request that RBAC rules match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessRequest<'a> {
    /// The API group; "" for core.
    pub(crate) group: &'a str,
    /// The plural name, with `/status` or another subresource if there is one.
    pub(crate) resource: &'a str,
    /// The verb.
    pub(crate) verb: &'a str,
    /// The namespace; "" for cluster scope or all namespaces.
    pub(crate) namespace: &'a str,
    /// Whether the resource is namespaced. As in RBAC, a rule with namespaces grants nothing on
    /// cluster-scoped resources, whatever namespace a request names.
    pub(crate) namespaced: bool,
}

impl AccessRequest<'_> {
    fn is_within(&self, namespaces: &[String]) -> bool {
        let names_one_namespace = self.namespaced && !self.namespace.is_empty();
        includes_all_namespaces(namespaces)
            || (names_one_namespace && matches_any(namespaces, self.namespace))
    }
}

/// Whether a rule with these namespaces applies to all of them, and to cluster-scoped resources.
pub(crate) fn includes_all_namespaces(namespaces: &[String]) -> bool {
    namespaces.is_empty() || namespaces.iter().any(|namespace| namespace == "*")
}

/// Whether the list has the name, or `*`.
pub(crate) fn matches_any(list: &[String], requested: &str) -> bool {
    list.iter().any(|item| item == "*" || item == requested)
}

/// Whether one of these rules allows the request.
pub(crate) fn allows(rules: &[Rule], access: AccessRequest<'_>) -> bool {
    rules.iter().any(|rule| {
        matches_any(&rule.api_groups, access.group)
            && rule.resources.iter().any(|pattern| covers(pattern, access.resource))
            && matches_any(&rule.verbs, access.verb)
            && access.is_within(&rule.namespaces)
    })
}

/// Whether one of these rules is about the resource, with any verb, and limited to namespaces.
pub(crate) fn limits_namespaces(rules: &[Rule], access: AccessRequest<'_>) -> bool {
    rules.iter().any(|rule| {
        matches_any(&rule.api_groups, access.group)
            && rule.resources.iter().any(|pattern| covers(pattern, access.resource))
            && !includes_all_namespaces(&rule.namespaces)
    })
}

/// Whether these rules would allow the request for some resource name.
pub(crate) fn may_allow(rules: &[Rule], access: AccessRequest<'_>) -> bool {
    let subresource = |name: &str| name.split_once('/').map_or("", |(_, subresource)| subresource).to_owned();
    let requested = subresource(access.resource);
    rules.iter().any(|rule| {
        matches_any(&rule.api_groups, access.group)
            && rule.resources.iter().any(|pattern| pattern == "*" || subresource(pattern) == requested)
            && matches_any(&rule.verbs, access.verb)
            && access.is_within(&rule.namespaces)
    })
}

/// Whether a resource pattern matches, as in RBAC: `*` matches everything, `*/status` that subresource of
/// everything.
pub(crate) fn covers(pattern: &str, resource: &str) -> bool {
    pattern == "*"
        || pattern == resource
        || pattern.strip_prefix("*/").is_some_and(|subresource| {
            resource.split_once('/').is_some_and(|(_, found)| found == subresource)
        })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn rule(group: &str, resource: &str, verb: &str, namespace: &str) -> Rule {
        let namespaces = if namespace.is_empty() { Vec::new() } else { vec![namespace.to_owned()] };
        Rule {
            api_groups: vec![group.into()],
            resources: vec![resource.into()],
            verbs: vec![verb.into()],
            namespaces,
        }
    }

    pub(crate) fn access<'a>(resource: &'a str, verb: &'a str, namespace: &'a str) -> AccessRequest<'a> {
        AccessRequest { group: "apps", resource, verb, namespace, namespaced: true }
    }

    pub(crate) fn rules(group: &str, resources: &[&str], verbs: &[&str], namespaces: &[&str]) -> Rule {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Rule {
            api_groups: vec![group.to_owned()],
            resources: owned(resources),
            verbs: owned(verbs),
            namespaces: owned(namespaces),
        }
    }

    #[test]
    fn wildcards_match_as_in_rbac() {
        let rules = [rule("*", "*/scale", "*", ""), rule("", "*", "get", "")];
        assert!(allows(&rules, access("deployments/scale", "patch", "shop")));
        assert!(!allows(&rules, access("deployments", "get", "shop")), "another group");
        assert!(allows(&rules, AccessRequest { group: "", ..access("pods/log", "get", "shop") }));
    }
}
