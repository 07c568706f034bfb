//! What a plugin may do on the server: the descriptor's rules, restricted by the operator's.
//!
//! From a part of a rule to whole rules: `covers` and `matches_any` compare one pattern, and a list of them, with a name. `allows` and `may_allow`
//! compare rules with a request. `intersect` and `intersection` compute the rules that two lists, and two rules, have in common.

use crate::config::current_grants::CurrentGrants;
use crate::config::descriptor::Rule;
use crate::config::sidecar::WatchRule;
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

/// The attributes of one request that RBAC rules match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessRequest<'a> {
    /// The API group; "" for core.
    pub group: &'a str,
    /// The plural name, with `/status` or another subresource if there is one.
    pub resource: &'a str,
    /// The verb.
    pub verb: &'a str,
    /// The namespace; "" for cluster scope or all namespaces.
    pub namespace: &'a str,
    /// Whether the resource is namespaced. As in RBAC, a rule with namespaces grants nothing on
    /// cluster-scoped resources, whatever namespace a request names.
    pub namespaced: bool,
}

impl AccessRequest<'_> {
    fn is_within(&self, namespaces: &[String]) -> bool {
        let names_one_namespace = self.namespaced && !self.namespace.is_empty();
        includes_all_namespaces(namespaces)
            || (names_one_namespace && matches_any(namespaces, self.namespace))
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

/// Returns the requested namespaces that the grants cover. In the argument and in the result, an empty list means
/// all namespaces. `granted: None` means that the sidecar restricts nothing.
///
/// A watch of all namespaces is restricted to the granted ones. A watch that names namespaces needs each of
/// them.
///
/// # Errors
/// Returns the missing rule.
pub(crate) fn granted_namespaces(
    granted: Option<&[WatchRule]>,
    (group, plural, namespaced): (&str, &str, bool),
    requested: &[String],
) -> Result<Vec<String>, WatchRule> {
    let Some(granted) = granted else { return Ok(requested.to_vec()) };
    let covering = granted
        .iter()
        .filter(|rule| {
            matches_any(&rule.api_groups, group) && rule.resources.iter().any(|known| covers(known, plural))
        })
        // As in RBAC, where no Role grants cluster-scoped resources.
        .filter(|rule| namespaced || includes_all_namespaces(&rule.namespaces));
    let covers_all_namespaces = covering.clone().any(|rule| includes_all_namespaces(&rule.namespaces));
    let missing = |namespaces: Vec<String>| WatchRule {
        api_groups: vec![group.to_owned()],
        resources: vec![plural.to_owned()],
        namespaces,
    };
    if covers_all_namespaces {
        return Ok(requested.to_vec());
    }
    let mut available: Vec<String> = covering.flat_map(|rule| rule.namespaces.iter().cloned()).collect();
    available.sort();
    available.dedup();
    if requested.is_empty() {
        return if available.is_empty() { Err(missing(Vec::new())) } else { Ok(available) };
    }
    let absent: Vec<String> = requested.iter().filter(|name| !available.contains(name)).cloned().collect();
    if absent.is_empty() { Ok(requested.to_vec()) } else { Err(missing(absent)) }
}

/// Whether some rule has this API group, so that a watch of its kinds may be granted.
pub(crate) fn has_rule_for_group(granted: Option<&[WatchRule]>, group: &str) -> bool {
    granted.is_none_or(|granted| granted.iter().any(|rule| matches_any(&rule.api_groups, group)))
}

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

/// Whether a rule with these namespaces applies to all of them, and to cluster-scoped resources.
pub(crate) fn includes_all_namespaces(namespaces: &[String]) -> bool {
    namespaces.is_empty() || namespaces.iter().any(|namespace| namespace == "*")
}

fn matches_any(list: &[String], requested: &str) -> bool {
    list.iter().any(|item| item == "*" || item == requested)
}

fn allows(rules: &[Rule], access: AccessRequest<'_>) -> bool {
    rules.iter().any(|rule| {
        matches_any(&rule.api_groups, access.group)
            && rule.resources.iter().any(|pattern| covers(pattern, access.resource))
            && matches_any(&rule.verbs, access.verb)
            && access.is_within(&rule.namespaces)
    })
}

/// Whether one of these rules is about the resource, with any verb, and limited to namespaces.
fn limits_namespaces(rules: &[Rule], access: AccessRequest<'_>) -> bool {
    rules.iter().any(|rule| {
        matches_any(&rule.api_groups, access.group)
            && rule.resources.iter().any(|pattern| covers(pattern, access.resource))
            && !includes_all_namespaces(&rule.namespaces)
    })
}

/// Whether these rules would allow the request for some resource name.
fn may_allow(rules: &[Rule], access: AccessRequest<'_>) -> bool {
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

    fn grants(declared: Vec<Rule>, granted: Option<Vec<Rule>>) -> WriteGrants {
        WriteGrants::new(declared, CurrentGrants::granting_writes(granted))
    }

    fn rule(group: &str, resource: &str, verb: &str, namespace: &str) -> Rule {
        let namespaces = if namespace.is_empty() { Vec::new() } else { vec![namespace.to_owned()] };
        Rule {
            api_groups: vec![group.into()],
            resources: vec![resource.into()],
            verbs: vec![verb.into()],
            namespaces,
        }
    }

    fn access<'a>(resource: &'a str, verb: &'a str, namespace: &'a str) -> AccessRequest<'a> {
        AccessRequest { group: "apps", resource, verb, namespace, namespaced: true }
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
    fn wildcards_match_as_in_rbac() {
        let grants =
            super::tests::grants(vec![rule("*", "*/scale", "*", ""), rule("", "*", "get", "")], None);
        assert_eq!(grants.check(access("deployments/scale", "patch", "shop")), Ok(()));
        assert!(grants.check(access("deployments", "get", "shop")).is_err(), "another group");
        let core = AccessRequest { group: "", ..access("pods/log", "get", "shop") };
        assert_eq!(grants.check(core), Ok(()));
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

    fn rules(group: &str, resources: &[&str], verbs: &[&str], namespaces: &[&str]) -> Rule {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Rule {
            api_groups: vec![group.to_owned()],
            resources: owned(resources),
            verbs: owned(verbs),
            namespaces: owned(namespaces),
        }
    }

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
        // A request is granted exactly if the resulting rules allow it.
        let grants = super::tests::grants(vec![declared.clone()], Some(granted.to_vec()));
        assert_eq!(grants.check(access("deployments", "update", "bank")), Ok(()));
        assert!(grants.check(access("deployments", "update", "shop")).is_err());
        assert_eq!(grants.check(access("deployments", "get", "shop")), Ok(()));
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

    fn watch_rule(resource: &str, namespaces: &[&str]) -> WatchRule {
        let namespaces = namespaces.iter().map(|&text| text.to_owned()).collect();
        WatchRule { api_groups: vec!["apps".into()], resources: vec![resource.into()], namespaces }
    }

    #[test]
    fn a_watch_of_all_namespaces_is_restricted_and_one_of_named_namespaces_is_not() {
        let granted = |rules: &[WatchRule], requested: &[&str]| {
            let requested: Vec<_> = requested.iter().map(|&text| text.to_owned()).collect();
            granted_namespaces(Some(rules), ("apps", "deployments", true), &requested)
        };
        let two = [watch_rule("deployments", &["b"]), watch_rule("*", &["a", "b"])];
        assert_eq!(granted(&two, &[]), Ok(vec!["a".into(), "b".into()]));
        assert_eq!(granted(&two, &["b"]), Ok(vec!["b".into()]));
        assert_eq!(granted(&two, &["b", "c"]), Err(watch_rule("deployments", &["c"])));
        assert_eq!(granted(&[watch_rule("deployments", &[])], &["c"]), Ok(vec!["c".into()]));
        assert_eq!(granted(&[watch_rule("deployments", &["*"])], &[]), Ok(vec![]));
        assert_eq!(granted(&[watch_rule("pods", &[])], &[]), Err(watch_rule("deployments", &[])));
        assert_eq!(granted(&[], &["c"]), Err(watch_rule("deployments", &["c"])));
        assert_eq!(granted_namespaces(None, ("apps", "deployments", true), &[]), Ok(vec![]));
    }

    #[test]
    fn a_rule_with_namespaces_grants_no_cluster_scoped_watch() {
        let granted = [watch_rule("nodes", &["a"])];
        assert!(granted_namespaces(Some(&granted), ("apps", "nodes", false), &[]).is_err());
        let granted = [watch_rule("nodes", &[])];
        assert_eq!(granted_namespaces(Some(&granted), ("apps", "nodes", false), &[]), Ok(vec![]));
    }
}
