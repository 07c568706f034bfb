//! Autoscalers that scale the same Pods.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_model::LabelSelector;

/// The labels of a Pod.
type Labels = BTreeMap<Box<str>, Box<str>>;

/// Returns the problem that several autoscalers select the Pods that `selector` selects, or `None`. `pods` are the labels of the namespace's Pods,
/// `autoscalers` the names and selectors of all its autoscalers, this one included.
pub(super) fn problem<'a>(
    namespace: &str,
    selector: &str,
    pods: impl Iterator<Item = &'a Labels>,
    autoscalers: &[(String, String)],
) -> Option<String> {
    let parsed = LabelSelector::parse(selector).ok()?;
    let selects = |selector: &LabelSelector, labels: &Labels| selector.matches(|key| labels.get(key));
    // The Pods of a workload have the same labels.
    let pods: BTreeSet<&Labels> = pods.filter(|labels| selects(&parsed, labels)).collect();
    let is_rival = |other: &str| {
        LabelSelector::parse(other).is_ok_and(|other| pods.iter().any(|labels| selects(&other, labels)))
    };
    let mut names: Vec<&str> = autoscalers
        .iter()
        .filter(|(_, other)| !other.is_empty() && is_rival(other))
        .map(|(name, _)| name.as_str())
        .collect();
    names.sort_unstable();
    let shown: Vec<String> = names.iter().map(|name| format!("{{{name} {namespace}}}")).collect();
    (names.len() > 1).then(|| {
        format!("pods by selector {selector} are controlled by multiple HPAs: [{}]", shown.join(" "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    fn check(pods: &[Labels], autoscalers: &[(&str, &str)]) -> Option<String> {
        let autoscalers: Vec<_> =
            autoscalers.iter().map(|(name, selector)| ((*name).to_owned(), (*selector).to_owned())).collect();
        problem("n", "app=web", pods.iter(), &autoscalers)
    }

    #[test]
    fn autoscalers_of_the_same_pods_are_ambiguous() {
        let pods = [labels(&[("app", "web"), ("tier", "a")]), labels(&[("app", "db"), ("tier", "b")])];
        assert_eq!(check(&pods, &[("one", "app=web")]), None);
        assert_eq!(check(&pods, &[("one", "app=web"), ("two", "app=db")]), None);
        assert_eq!(check(&pods, &[("one", "app=web"), ("two", "")]), None);
        let message = "pods by selector app=web are controlled by multiple HPAs: [{one n} {two n}]";
        for other in ["app=web", "tier=a", "tier"] {
            assert_eq!(
                check(&pods, &[("two", other), ("one", "app=web")]).as_deref(),
                Some(message),
                "{other}"
            );
        }
        assert_eq!(check(&pods[1..], &[("one", "app=web"), ("two", "app=web")]), None, "no Pod is selected");
    }
}
