//! What a plugin may watch: what its descriptor watches, restricted by the operator's rules.

use super::rule_match::{covers, includes_all_namespaces, matches_any};
use super::sidecar::WatchRule;

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

#[cfg(test)]
mod tests {
    use super::*;

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
