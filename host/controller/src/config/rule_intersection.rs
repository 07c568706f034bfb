//! What two RBAC rules have in common.

use super::descriptor::Rule;
use super::rule_match::{covers, includes_all_namespaces};

/// Returns the rules that both the declared rule and the operator's rules allow.
pub(crate) fn intersect(declared: &Rule, granted: Option<&[Rule]>) -> Vec<Rule> {
    match granted {
        None => vec![declared.clone()],
        Some(granted) => granted.iter().filter_map(|granted| intersection(declared, granted)).collect(),
    }
}

/// Returns the granted rules that allow nothing that is declared; they are probably misspelled.
pub(crate) fn unused_rules<'a>(declared: &'a [Rule], granted: &'a [Rule]) -> impl Iterator<Item = &'a Rule> {
    granted
        .iter()
        .filter(|granted| !declared.iter().any(|declared| intersection(declared, granted).is_some()))
}

/// Returns the rule for what both rules allow.
fn intersection(one: &Rule, other: &Rule) -> Option<Rule> {
    let namespaces =
        match (includes_all_namespaces(&one.namespaces), includes_all_namespaces(&other.namespaces)) {
            (true, true) => Vec::new(),
            (true, false) => other.namespaces.clone(),
            (false, true) => one.namespaces.clone(),
            (false, false) => intersect_patterns(&one.namespaces, &other.namespaces)?,
        };
    Some(Rule {
        api_groups: intersect_patterns(&one.api_groups, &other.api_groups)?,
        resources: intersect_patterns(&one.resources, &other.resources)?,
        verbs: intersect_patterns(&one.verbs, &other.verbs)?,
        namespaces,
    })
}

/// Returns the narrower pattern of each pair in which one covers the other; `None` if there is no such pair.
fn intersect_patterns(one: &[String], other: &[String]) -> Option<Vec<String>> {
    let mut both: Vec<String> = Vec::new();
    for (left, right) in one.iter().flat_map(|left| other.iter().map(move |right| (left, right))) {
        let narrower = if covers(left, right) {
            right
        } else if covers(right, left) {
            left
        } else {
            continue;
        };
        if !both.contains(narrower) {
            both.push(narrower.clone());
        }
    }
    (!both.is_empty()).then_some(both)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::rule_match::allows;
    use crate::config::rule_match::tests::{access, rule, rules};

    #[test]
    fn overlapping_rules_are_intersected() {
        let declared = rules("apps", &["deployments", "*/status"], &["get", "update"], &["shop", "bank"]);
        let granted = [
            rules(
                "*",
                &["deployments", "deployments/status", "pods"],
                &["update", "delete"],
                &["bank", "zoo"],
            ),
            rules("apps", &["*"], &["get"], &[]),
            rules("apps", &["deployments"], &["update"], &["zoo"]),
        ];
        let left = intersect(&declared, Some(&granted));
        assert_eq!(
            left,
            [
                rules("apps", &["deployments", "deployments/status"], &["update"], &["bank"]),
                rules("apps", &["deployments", "*/status"], &["get"], &["shop", "bank"]),
            ]
        );
        for (verb, namespace, is_allowed) in
            [("update", "bank", true), ("update", "shop", false), ("get", "shop", true)]
        {
            let access = access("deployments", verb, namespace);
            let by_both = allows(std::slice::from_ref(&declared), access) && allows(&granted, access);
            assert_eq!((allows(&left, access), by_both), (is_allowed, is_allowed), "{verb} {namespace}");
        }
        assert_eq!(intersect(&declared, None), [declared]);
    }

    #[test]
    fn a_granted_rule_that_matches_no_declared_rule_is_unused() {
        let declared = [rule("apps", "deployments", "update", "shop")];
        let granted = [
            rule("apps", "deployments", "*", ""),
            rule("apps", "deployment", "*", ""),
            rule("apps", "deployments", "update", "bank"),
        ];
        assert_eq!(unused_rules(&declared, &granted).collect::<Vec<_>>(), [&granted[1], &granted[2]]);
    }
}
